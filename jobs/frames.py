"""Which frames of other engines a queue takes, and which of their tables take its results.

``python jobs/frames.py --place DIR [--only polars ...]`` makes the environments of ``engines.py``,
with what this library needs, and some more. It enqueues a frame of each with values at the edges of
all types, has ``process`` append such values to a Delta table that it wrote, keeps what came
of it in ``frames.json``, and prints the table of ``docs/engines.md``. What is not right is asked
again for each column alone.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from importlib import import_module
from importlib.metadata import requires
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any, NamedTuple

from engine_list import ENGINES
from environments import ROOT, keep, kept, make_environment, play

RESULTS = Path(__file__).with_suffix(".json")

#: A path of a table, in an error.
_PLACE = re.escape(tempfile.gettempdir()) + r"[\w/]*"

#: Columns of a queue, and the edges of their types.
ITEMS: Mapping[str, Sequence[Any]] = {
    "at timestamp": (
        datetime(9999, 12, 31, 23, 59, 59, 999999, timezone.utc),
        datetime(1, 1, 1, tzinfo=timezone.utc),
    ),
    "day date": (date(9999, 12, 31), date(1, 1, 1)),
    "ratio double": (float("nan"), -0.0),
    "less float": (float("inf"), -0.0),
    "amount decimal(38,18)": (Decimal("9" * 20 + "." + "9" * 18), Decimal("-1e-18")),
    "large bigint": (2**63 - 1, -(2**63)),
    "whole int": (2**31 - 1, -(2**31)),
    "small smallint": (2**15 - 1, -(2**15)),
    "tiny tinyint": (2**7 - 1, -(2**7)),
    "raw binary": (b"\x00\xff", b""),
    "text string": ("a", ""),
    "flag boolean": (True, False),
}

#: An output may have times without a zone, lists and structs, too.
OUTPUT: Mapping[str, Sequence[Any]] = {
    **ITEMS,
    "there timestamp_ntz": (datetime(9999, 12, 31, 23, 59, 59, 999999), datetime(1, 1, 1)),  # noqa: DTZ001
    "tags array<string>": (["a", None], []),
    "point struct<x: bigint, y: double>": ({"x": 1, "y": None}, {"x": None, "y": None}),
}


class Library(NamedTuple):
    """What a library makes of rows of Arrow, by the module that is imported for it."""

    given: str
    """What is enqueued, in the table."""
    frame: Callable[[Any, Any], Any]
    write: Callable[[Any, Any, str], object] | None = None
    """Makes a Delta table of rows at a path, or fills one."""
    module: str = ""
    """What is imported, where it is not called as the library is."""
    packages: Sequence[str] = ()
    """What is installed, itself first, where it is none of the engines that are asked."""
    is_sparks: bool = False
    """Whether its frames go into a queue of a session, which the module gives."""


def _new_path() -> str:
    return tempfile.mkdtemp() + "/table"


def _asked(deltalake: Any, rows: Any) -> Any:
    path = _new_path()
    deltalake.write_deltalake(path, rows)
    asked = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return asked.execute("SELECT * FROM t")


LIBRARIES: Mapping[str, Library] = {
    "arrow": Library("a reader", lambda _, rows: rows.to_reader(), module="pyarrow"),
    "deltalake": Library(
        "rows of `QueryBuilder`",
        _asked,
        lambda its, rows, path: its.write_deltalake(path, rows),
    ),
    "datafusion": Library("a frame", lambda its, rows: its.SessionContext().from_arrow(rows)),
    "polars": Library(
        "a frame",
        lambda its, rows: its.from_arrow(rows),
        lambda its, rows, path: its.from_arrow(rows).write_delta(path),
    ),
    "daft": Library(
        "a frame",
        lambda its, rows: its.from_arrow(rows),
        lambda its, rows, path: its.from_arrow(rows).write_deltalake(path),
    ),
    "duckdb": Library(
        "a relation",
        lambda its, rows: its.connection.from_arrow(rows),
        lambda its, rows, path: _insert_by_duckdb(its.connection, rows, path),
        module="with_duckdb",
    ),
    "chdb": Library(
        '`query(…, "ArrowTable")`',
        # It finds the rows by their name.
        lambda its, rows: its.query("SELECT * FROM Python(rows)", "ArrowTable"),  # noqa: ARG005
    ),
    "sail": Library(
        "`frame.toArrow()`",
        lambda its, rows: its.spark.createDataFrame(rows).toArrow(),
        lambda its, rows, path: _save_by_spark(its.spark, rows, path),
        module="with_sail",
    ),
    "dask": Library(
        "`frame.compute()`, with types of Arrow",
        lambda its, rows: _dask_frame(its, rows).compute(),
        lambda its, rows, path: import_module("dask_deltatable").to_deltalake(
            path, _dask_frame(its, rows)
        ),
        module="dask.dataframe",
    ),
    "ray": Library(
        "each of `ray.get(data.to_arrow_refs())`",
        lambda its, rows: its.ray.get(its.ray.data.from_arrow(rows).to_arrow_refs())[0],
        lambda its, rows, path: its.ray.data.from_arrow(rows).write_delta(path),
        module="with_ray",
    ),
    "spark-4.2": Library(
        "a frame, into a `DeltaQueue`",
        lambda its, rows: its.session().createDataFrame(rows),
        lambda its, rows, path: _save_by_spark(its.session(), rows, path),
        module="with_spark",
        is_sparks=True,
    ),
    "pandas": Library(
        "a frame with types of Arrow",
        lambda its, rows: rows.to_pandas(types_mapper=its.ArrowDtype),
        packages=("pandas==2.3.3",),
    ),
    "narwhals": Library(
        "a frame",
        lambda its, rows: its.from_native(import_module("polars").from_arrow(rows)),
        packages=("narwhals==2.29.0", "polars==2.1.0"),
    ),
    "nanoarrow": Library(
        "a stream",
        lambda its, rows: its.c_array_stream(rows),
        packages=("nanoarrow==0.9.0",),
    ),
    "arro3": Library(
        "a table",
        lambda its, rows: its.Table.from_arrow(rows),
        module="arro3.core",
        packages=("arro3-core==0.9.1",),
    ),
    "ibis": Library(
        "a table",
        lambda its, rows: its.memtable(rows),
        lambda its, rows, path: its.memtable(rows).to_delta(path),
        packages=("ibis-framework[duckdb]==12.0.0",),
    ),
}


def _insert_by_duckdb(connection: Any, rows: Any, path: str) -> None:
    """Fill a table of deltalake's: DuckDB makes none."""
    import_module("deltalake").DeltaTable.create(path, rows.schema)
    connection.register("given", rows)
    connection.execute(f"ATTACH '{path}' AS lake (TYPE delta); INSERT INTO lake FROM given")
    connection.execute("DETACH lake")


def _save_by_spark(spark: Any, rows: Any, path: str) -> None:
    # Else times without a zone are those of the session's.
    spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    spark.createDataFrame(rows).write.format("delta").save(path)


def _dask_frame(dask: Any, rows: Any) -> Any:
    arrows = import_module("pandas").ArrowDtype
    return dask.from_pandas(rows.to_pandas(types_mapper=arrows), npartitions=1)


def play_library(name: str) -> None:
    """Play both parts with a library that is installed; print a line of JSON for each."""
    library = LIBRARIES[name]
    sys.path[:0] = [str(ROOT), str(ROOT / "jobs" / "readers")]
    module = import_module(library.module or name)

    def enqueue(columns: Mapping[str, Sequence[Any]]) -> bool:
        path, rows = _new_path(), _rows(columns)
        _queue(library, module, path, ", ".join(columns)).enqueue(library.frame(module, rows))
        claim = import_module("spark_queue").LocalQueue.open(path).claim(rows.num_rows)
        return _texts(claim.rows, rows) == _texts(rows.to_pylist(), rows)

    def append(columns: Mapping[str, Sequence[Any]]) -> bool:
        place, rows, results = _new_path(), _rows(columns), _rows(columns).to_pylist()
        marks: Mapping[str, Sequence[Any]] = {
            "_seq": [-1] * len(rows),
            "_claim_id": ["theirs"] * len(rows),
        }
        assert library.write is not None  # noqa: S101 - or it is not played
        library.write(module, _with(rows, marks), place)
        queue = import_module("spark_queue").LocalQueue.create(_new_path(), "n int")
        queue.enqueue([{"n": n} for n in range(len(rows))])
        queue.process(lambda item: results[item["n"]], returns=", ".join(columns), output=place)
        found = (
            import_module("deltalake").DeltaTable(place).to_pyarrow_table(filesystem=_disk(place))
        )
        return sorted(_texts(found.to_pylist(), rows)) == sorted(2 * _texts(results, rows))

    _tell("frame", enqueue, ITEMS)
    if library.write is not None:
        _tell("table", append, OUTPUT)


def _disk(place: str) -> Any:
    """Return the files of a table: a process that ends after it read deltalake's own may abort."""
    files = import_module("pyarrow.fs")
    return files.SubTreeFileSystem(place, files.LocalFileSystem())


def _queue(library: Library, module: Any, path: str, schema: str) -> Any:
    spark_queue = import_module("spark_queue")
    if library.is_sparks:
        return spark_queue.DeltaQueue.create(module.session(), path, schema)
    return spark_queue.LocalQueue.create(path, schema)


def _rows(columns: Mapping[str, Sequence[Any]]) -> Any:
    """Return the values of columns, and a row of nulls, as a table of Arrow."""
    schema = ", ".join(columns)
    types = import_module("spark_queue.columns.arrow.arrow_types")
    values = [[*given, None] for given in columns.values()]
    return import_module("pyarrow").table(
        values, schema=types.schema_of(types.parse_fields(schema))
    )


def _with(rows: Any, marks: Mapping[str, Sequence[Any]]) -> Any:
    for name, values in marks.items():
        rows = rows.append_column(name, [values])
    return rows


def _texts(found: Sequence[Mapping[str, Any]], rows: Any) -> list[str]:
    """Return the columns of rows as texts, which tell -0.0 from 0.0 and have NaN equal to itself.

    Zones have different names.
    """
    return [
        repr([one.isoformat() if isinstance(one, datetime) else one for one in named])
        for named in ([row[name] for name in rows.column_names] for row in found)
    ]


def _tell(
    part: str,
    is_right: Callable[[Mapping[str, Sequence[Any]]], bool],
    columns: Mapping[str, Sequence[Any]],
) -> None:
    outcome = together(
        lambda names: _said(is_right, {name: columns[name] for name in names}), [*columns]
    )
    print(json.dumps({"part": part, "outcome": outcome}))  # noqa: T201 - is read by the job


def _said(is_right: Callable[[Any], bool], columns: Mapping[str, Sequence[Any]]) -> str:
    try:
        return "right" if is_right(columns) else "wrong"
    except Exception as exc:  # noqa: BLE001 - it is what is asked for
        words = f"{type(exc).__name__}: {(str(exc).splitlines() or [''])[0]}"
        return f"refused: {re.sub(_PLACE, '…', words)[:200]}"


def together(said: Callable[[Sequence[str]], str], names: Sequence[str]) -> str:
    """Return what is said of all columns, or else of which alone."""
    whole = said(names)
    if whole == "right":
        return whole
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found[said([name])].append(f"`{name.split()[0]}`")
    if len(found) == 1:
        return next(iter(found)) if "right" not in found else whole
    found.pop("right", None)
    return "; ".join(f"{', '.join(columns)} {word}" for word, columns in found.items())


def table(results: Mapping[str, Mapping[str, str]]) -> str:
    """Return what came of a run as a table of Markdown."""
    lines: list[Sequence[str]] = [
        ("library", "given to `enqueue`", "came through", "its table, as an output")
    ]
    lines.append(("---",) * 4)
    for name, outcomes in results.items():
        shown = _packages(name)[0].replace("==", " ").replace("[duckdb]", "")
        found = (outcomes.get(part, "not asked") for part in ("frame", "table"))
        lines.append((shown, LIBRARIES[name].given, *found))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _packages(name: str) -> Sequence[str]:
    return LIBRARIES[name].packages or ENGINES[name].packages


def main(argv: Sequence[str]) -> None:
    """Play the libraries, keep what came of it, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, default=Path("/tmp/spark-queue-engines"))  # noqa: S108
    parser.add_argument("--only", nargs="+", choices=LIBRARIES, default=list(LIBRARIES))
    parser.add_argument("--play", choices=LIBRARIES, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.play is not None:
        play_library(given.play)
        return
    needed = [one for one in requires("spark-queue") or () if "extra ==" not in one]
    for name in given.only:
        try:
            python = make_environment(given.place / name, (*_packages(name), *needed))
        except CalledProcessError:
            outcome = {"frame": "does not install"}
        else:
            outcome = play(python, Path(__file__), "--play", name)
        keep(RESULTS, name, outcome, LIBRARIES)
    print(table(kept(RESULTS)))  # noqa: T201 - it is what was asked for


if __name__ == "__main__":
    main(sys.argv[1:])
