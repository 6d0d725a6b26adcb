"""Which engines read the tables of queues that were made without Spark, and what each gets wrong.

``python jobs/engines.py --place DIR [--only duckdb ...]`` makes an environment for each engine,
asks it about a table of each kind, holds the rows against those that pyarrow finds in their files,
keeps what is not right in ``engines.json``, and prints the table of ``docs/engines.md``. With
``--all`` it prints each answer that is not right.
"""

from __future__ import annotations

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from environments import make_environment

from spark_queue import LocalQueue, QueueConfig, journaled_queue

RESULTS = Path(__file__).with_suffix(".json")

Where = tuple[str, str, Any]
#: What is not right, by table and by what was asked about it: ``wrong`` or ``refused``.
Faults = dict[str, dict[str, str]]


class Engine(NamedTuple):
    """An engine: what is installed (itself first), and what is run there.

    The program has a function of a path and a condition that returns rows as Arrow has them. The
    condition is SQL where there are forms for literals, else the column, the word and the value.
    """

    packages: Sequence[str]
    program: str
    forms: Mapping[type, str] | None = None


_ARROW_FORMS = {
    datetime: "arrow_cast('{}', 'Timestamp(Microsecond, Some(\"UTC\"))')",
    date: "DATE '{}'",
    Decimal: "arrow_cast('{}', 'Decimal128(38, 18)')",
    float: "arrow_cast('{}', 'Float64')",
    bytes: "X'{}'",
}
_DUCKDB_FORMS = {
    datetime: "TIMESTAMPTZ '{}+00'",
    date: "DATE '{}'",
    Decimal: "'{}'::DECIMAL(38, 18)",
    float: "'{}'::DOUBLE",
    bytes: "from_hex('{}')",
}
_CLICKHOUSE_FORMS = {
    datetime: "toDateTime64('{}', 6, 'UTC')",
    date: "toDate32('{}')",
    Decimal: "toDecimal128('{}', 18)",
    float: "toFloat64('{}')",
    bytes: "unhex('{}')",
}

#: A column compared with a value, for engines that have expressions.
_COMPARED = """
def compared(column, word, value):
    if word == "IS NULL":
        return column.is_null()
    return column == value if word == "=" else column < value if word == "<" else column > value
"""

ENGINES: Mapping[str, Engine] = {
    "deltalake": Engine(
        ("deltalake==1.6.6", "pyarrow==26.0.1"),
        """
from deltalake import DeltaTable, QueryBuilder
def rows(path, where):
    asked = QueryBuilder().register("t", DeltaTable(path))
    return asked.execute(f"SELECT * FROM t WHERE {where}").read_all()
""",
        _ARROW_FORMS,
    ),
    "arrow": Engine(
        ("pyarrow==26.0.1", "deltalake==1.6.6"),
        _COMPARED
        + """
import pyarrow.dataset as ds
from deltalake import DeltaTable
def rows(path, where):
    met = where and compared(ds.field(where[0]), *where[1:])
    return DeltaTable(path).to_pyarrow_dataset().to_table(filter=met)
""",
    ),
    "datafusion": Engine(
        ("datafusion==55.0.0", "deltalake==1.6.6", "pyarrow==26.0.1"),
        """
from datafusion import SessionContext
from deltalake import DeltaTable
def rows(path, where):
    context = SessionContext()
    context.register_table("t", DeltaTable(path))
    return context.sql(f"SELECT * FROM t WHERE {where}").to_arrow_table()
""",
        _ARROW_FORMS,
    ),
    "polars": Engine(
        ("polars==2.1.0", "deltalake==1.6.6", "pyarrow==26.0.1"),
        _COMPARED
        + """
import polars as pl
def rows(path, where):
    frame = pl.scan_delta(path)
    if where is not None:
        frame = frame.filter(compared(pl.col(where[0]), *where[1:]))
    return frame.collect().to_arrow()
""",
    ),
    "daft": Engine(
        ("daft==0.7.26", "deltalake==1.6.6", "pyarrow==23.0.1"),
        _COMPARED
        + """
import daft
def rows(path, where):
    frame = daft.read_deltalake(path)
    if where is not None:
        frame = frame.where(compared(daft.col(where[0]), *where[1:]))
    return frame.to_arrow()
""",
    ),
    "duckdb": Engine(
        ("duckdb==1.5.5", "duckdb-extension-delta==1.5.5", "pyarrow==26.0.1"),
        """
import duckdb
from importlib.metadata import files
# INSTALL delta would ask DuckDB's own server.
packed = next(f for f in files("duckdb-extension-delta") if ".duckdb_ext" in f.name)
connection = duckdb.connect()
connection.execute(f"LOAD '{packed.locate()}'")
def rows(path, where):
    return connection.execute(f"SELECT * FROM delta_scan('{path}') WHERE {where}").to_arrow_table()
""",
        _DUCKDB_FORMS,
    ),
    "chdb": Engine(
        ("chdb==4.4.0", "pyarrow==26.0.1"),
        """
import chdb
def rows(path, where):
    return chdb.query(f"SELECT * FROM deltaLakeLocal('{path}') WHERE {where}", "ArrowTable")
""",
        _CLICKHOUSE_FORMS,
    ),
}

#: Runs a program: pickled pairs of a path and a condition come in, rows as IPC or errors go out.
_RUN = """
import pickle, sys
import pyarrow as pa
def told(path, where):
    try:
        table = pa.table(rows(path, where))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        return sink.getvalue().to_pybytes()
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
answers = [told(*one) for one in pickle.load(sys.stdin.buffer)]
sys.stdout.buffer.write(pickle.dumps(answers))
"""

_NOON = datetime(2026, 3, 1, 12, 0, 0, 123456, timezone.utc)

#: The columns of a user, and their values at the edges of their types.
_COLUMNS: Mapping[str, Sequence[Any]] = {
    "at timestamp": (
        datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc),
        datetime(1, 1, 1, tzinfo=timezone.utc),
        _NOON,
    ),
    "day date": (date(9999, 12, 31), date(1, 1, 1), date(2026, 3, 1)),
    "ratio double": (float("nan"), -0.0, 0.0),
    "amount decimal(38,18)": (
        Decimal("9" * 20 + "." + "9" * 18),
        Decimal("-1e-18"),
        Decimal("0e-18"),
    ),
    "large bigint": (2**63 - 1, -(2**63), 2**53 + 1),
    "raw binary": (b"\x00\xff", b"", b"a"),
    "text string": ("a", "", "b%"),
    "flag boolean": (True, False, True),
}

#: An output may have lists and structs, too.
_OUTPUT: Mapping[str, Sequence[Any]] = {
    **_COLUMNS,
    "tags array<string>": (["a", None], [], ["b"]),
    "point struct<x: bigint, y: double>": ({"x": 1, "y": None}, {"x": None, "y": None}, None),
}


class Question(NamedTuple):
    """What is asked: of which table, about what, for which columns, under which condition."""

    table: str
    about: str
    columns: list[str]
    where: Where | None


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the values of columns as rows, and a row of nulls."""
    names = [column.split()[0] for column in columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [*rows, dict.fromkeys(names)]


def make_tables(place: Path) -> dict[str, Path]:
    """Make a table of each kind by what needs no Spark; return their places."""
    schema, rows = ", ".join(_COLUMNS), _rows(_COLUMNS)
    results = {row["text"]: row for row in _rows(_OUTPUT)}
    jobs, log, done = (str(place / name) for name in ("jobs", "log", "done"))
    output, archive = str(place / "output"), str(place / "archive")
    queue = LocalQueue.create(jobs, schema, QueueConfig(fair_key="text"))
    queue.enqueue(rows)
    returns = ", ".join(_OUTPUT)
    queue.process(lambda item: results[item["text"]], returns=returns, output=output, limit=3)
    with journaled_queue(LocalQueue.create(log, schema)) as journal:
        journal.put_many(rows)
    old = LocalQueue.create(done, schema)
    old.enqueue(rows)
    old.process(lambda _: None)
    old.maintain(retention=timedelta(milliseconds=1), archive_to=archive)
    places = {"items": f"{jobs}/queue", "status": f"{jobs}/status", "output": output}
    places |= {"journal": f"{log}/queue", "archive": archive}
    return {name: Path(path) for name, path in places.items()}


def questions(tables: Mapping[str, Path]) -> Iterator[Question]:
    """Yield what is asked of each table."""
    status = ["_step", "_seq", "_kind"]
    yield Question("status", "rows", status, None)
    yield Question("status", "states", status, ("_state", "=", "acked"))
    yield Question("status", "states", status, ("_lease", "IS NULL", None))
    yield Question("status", "instants", [*status, "_at"], ("_at", ">", _NOON))
    for table in tables.keys() - {"status"}:
        yield Question(table, "rows", ["_seq"], None)
        for column, values in (_OUTPUT if table == "output" else _COLUMNS).items():
            name = column.split()[0]
            yield Question(table, f"`{name}`", ["_seq", name], None)
            yield Question(table, f"`{name}` filtered", ["_seq"], (name, "IS NULL", None))
            # NaN equals itself in some engines, and nothing in others: both are right.
            for value in values if column in _COLUMNS else ():
                if value == value:  # noqa: PLR0124
                    yield Question(table, f"`{name}` filtered", ["_seq"], (name, "=", value))
        for word in "<", ">":
            yield Question(table, "`at` filtered", ["_seq"], ("at", word, _NOON))


def rows_of(path: Path) -> pa.Table:
    """Return the rows of a table's files, in memory."""
    files = [pq.read_table(file, partitioning=None) for file in DeltaTable(path).file_uris()]
    return pa.concat_tables(files, promote_options="default")


def right_rows(rows: pa.Table, asked: Question) -> pa.Table:
    """Return what pyarrow has for a question."""
    if asked.where is not None:
        name, word, value = asked.where
        column = rows[name]
        compare = {"=": pc.equal, "<": pc.less, ">": pc.greater}
        met = (
            pc.is_null(column)
            if word == "IS NULL"
            else compare[word](column, pa.scalar(value, column.type))
        )
        rows = rows.filter(met)
    return rows.select(asked.columns)


def judge(right: pa.Table, answer: bytes | str) -> str | None:
    """Return ``None`` for the right rows, in any order; or ``wrong`` or ``refused``."""
    if isinstance(answer, str):
        return "refused"
    try:
        rows = pa.ipc.open_stream(answer).read_all().select(right.column_names).cast(right.schema)
    except pa.ArrowInvalid:
        return "wrong"
    # The text of a value tells -0.0 from 0.0, and has NaN equal to itself.
    same = sorted(map(repr, rows.to_pylist())) == sorted(map(repr, right.to_pylist()))
    return None if same else "wrong"


def ask(
    place: Path, engine: str, tables: Mapping[str, Path], asked: Sequence[Question]
) -> list[Any]:
    """Return the answers of an engine, in an environment of its own; errors are texts."""
    packages, program, forms = ENGINES[engine]
    try:
        python = make_environment(place / engine, packages)
    except subprocess.CalledProcessError:
        return ["it does not install"] * len(asked)
    told = [
        (str(tables[one.table]), one.where if forms is None else _sql(one.where, forms))
        for one in asked
    ]
    # ClickHouse reads only what is below the folder that it runs in.
    below = next(iter(tables.values())).parents[1]
    command = [str(python), "-c", program + _RUN]
    done = subprocess.run(  # noqa: S603
        command, input=pickle.dumps(told), stdout=subprocess.PIPE, cwd=below, check=False
    )
    if done.returncode:
        return ["the process ended"] * len(asked)
    answers: list[Any] = pickle.loads(done.stdout)  # noqa: S301 - of our own child
    return answers


def _sql(where: Where | None, forms: Mapping[type, str]) -> str:
    if where is None:
        return "true"
    name, word, value = where
    if value is None:
        return f'"{name}" IS NULL'
    if isinstance(value, bytes):
        text = value.hex()
    elif isinstance(value, Decimal):
        text = f"{value:f}"
    else:
        text = str(value).removesuffix("+00:00")
    form = forms.get(type(value), "'{}'" if isinstance(value, str) else "{}")
    return f'"{name}" {word} {form.format(text)}'


def table(results: Mapping[str, Faults]) -> str:
    """Return what is kept as a table of Markdown."""
    kinds = list(next(iter(results.values())))
    lines = [("engine", *kinds), ("---",) * (len(kinds) + 1)]
    for engine, faults in results.items():
        name = ENGINES[engine].packages[0].replace("==", " ")
        lines.append((name, *(_cell(faults[kind]) for kind in kinds)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(faults: Mapping[str, str]) -> str:
    told = [
        f"{word}: {', '.join(sorted(about for about, said in faults.items() if said == word))}"
        for word in sorted(set(faults.values()))
    ]
    return "; ".join(told) or "right"


def kept() -> dict[str, Faults]:
    """Return what came of the last run."""
    found: dict[str, Faults] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    return found


def main(argv: Sequence[str]) -> None:
    """Ask the engines, keep what is not right, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, default=Path("/tmp/spark-queue-engines"))  # noqa: S108
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--all", action="store_true", help="print each answer that is not right")
    given = parser.parse_args(argv)
    results = kept()
    with tempfile.TemporaryDirectory() as place:
        tables = make_tables(Path(place))
        asked = list(questions(tables))
        rows = {name: rows_of(path) for name, path in tables.items()}
        for engine in given.only:
            faults: Faults = {name: {} for name in tables}
            answers = ask(given.place, engine, tables, asked)
            for one, answer in zip(asked, answers, strict=True):
                fault = judge(right_rows(rows[one.table], one), answer)
                if fault is not None:
                    # Wrong is worse than refused.
                    faults[one.table][one.about] = max(fault, faults[one.table].get(one.about, ""))
                    if given.all:
                        print(engine, one, fault, answer if fault == "refused" else "")  # noqa: T201
            results[engine] = faults
    ordered = {name: results[name] for name in ENGINES if name in results}
    RESULTS.write_text(f"{json.dumps(ordered, indent=2)}\n", "utf-8")
    print(table(ordered))  # noqa: T201 - it is what was asked for


if __name__ == "__main__":
    main(sys.argv[1:])
