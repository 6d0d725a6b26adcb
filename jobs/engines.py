"""Which engines read the tables of queues, and what each gets wrong.

``python jobs/engines.py --place DIR [--only duckdb ...]`` makes tables without Spark and by Spark,
on a disk and on a store (``gofakes3`` on the loopback), and an environment for each engine. It asks
each about a table of each kind, holds the rows against those that pyarrow finds in their files,
keeps what is not right in ``engines.json``, and prints the table of ``docs/engines.md``. With
``--all`` it prints each answer that is not right. What is in ``DIR`` is used again: environments,
and the tables of Spark. One JVM runs at a time; that of Trino is the Java that ``JAVA25_HOME``
names.
"""

from __future__ import annotations

import argparse
import os
import pickle
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable
from obstore.store import S3Store

from engine_list import ENGINES
from engine_tables import (
    BUCKET,
    FILTERED,
    KINDS,
    MAKINGS,
    STORED,
    Alone,
    Question,
    make_tables,
    questions,
)
from environments import keep, kept, make_environment

HERE = Path(__file__).parent
RESULTS = Path(__file__).with_suffix(".json")

#: What is not right, by table and by what was asked about it: ``wrong`` or ``refused``.
Faults = dict[str, dict[str, str]]
#: What came of an engine, by how tables were made; or why nothing was asked.
Outcome = dict[str, Faults | str]

_EVERYTHING = "everything"


class Tables:
    """Tables of each making and kind below a folder, and on a store."""

    def __init__(self, place: Path, port: int) -> None:
        self.place = place
        self._endpoint = f"http://127.0.0.1:{port}"
        for folder in "alone", "store":
            shutil.rmtree(place / folder, ignore_errors=True)
        make_tables(f"{place}/alone", Alone())
        options: dict[str, Any] = {
            "endpoint": self._endpoint,
            "access_key_id": "test",
            "secret_access_key": "test",
            "region": "us-east-1",
            "virtual_hosted_style_request": False,
            "client_options": {"allow_http": True},
        }
        make_tables(f"{BUCKET}/store", Alone(options))
        self._store = S3Store("bucket", **options)
        self._bring("store")
        self._make_by_spark("spark", str(place / "spark"))
        self._make_by_spark("spark-store", "s3a://bucket/spark-store")
        self.asked = [
            one
            for making in MAKINGS
            for one in questions(
                making, [kind for kind in KINDS if self._of(making, kind).exists()]
            )
        ]
        there = {(one.making, one.table) for one in self.asked}
        self.rows = {one: rows_of(self._of(*one)) for one in there}

    @property
    def environment(self) -> dict[str, str]:
        """How a process reaches the store, by the names that most engines know."""
        return {
            "AWS_ENDPOINT_URL": self._endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }

    def path(self, asked: Question) -> str:
        """Return where an engine finds the table of a question."""
        there = self._of(asked.making, asked.table)
        is_stored = MAKINGS[asked.making] in STORED
        return f"{BUCKET}/{there.relative_to(self.place)}" if is_stored else str(there)

    def _make_by_spark(self, folder: str, where: str) -> None:
        """Make tables of Spark, unless they are there; its JVM ends before engines are asked."""
        here = self.place / folder
        if (here / "made").exists():
            self._send(folder)
            return
        shutil.rmtree(here, ignore_errors=True)
        subprocess.run(  # noqa: S603 - our own
            [sys.executable, str(HERE / "engine_tables.py"), where],
            env=os.environ | self.environment,
            check=True,
        )
        self._bring(folder)
        (here / "made").touch()

    def _bring(self, folder: str) -> None:
        """Copy the objects of a folder from the store."""
        for listed in self._store.list(f"{folder}/"):
            # Spark puts objects of nothing where a disk has folders.
            for one in (one for one in listed if one["size"]):
                file = self.place / one["path"]
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(self._store.get(one["path"]).bytes())

    def _send(self, folder: str) -> None:
        """Copy the files of a folder to the store, if they are to be there."""
        for file in (self.place / folder).rglob("*") if folder in STORED else ():
            if file.is_file():
                self._store.put(str(file.relative_to(self.place)), file.read_bytes())

    def _of(self, making: str, kind: str) -> Path:
        return self.place / MAKINGS[making] / KINDS[kind]

    def right(self, asked: Question) -> pa.Table:
        """Return what pyarrow has for a question."""
        return right_rows(self.rows[asked.making, asked.table], asked)


@contextmanager
def made_tables(place: Path) -> Iterator[Tables]:
    """Make the tables in a folder, and a store that lives as long as they are asked about."""
    sys.path.append(str(HERE / "bench"))
    from object_store import served, shaken  # noqa: PLC0415 - it lies beside the benchmarks

    place.mkdir(parents=True, exist_ok=True)
    # The proxy answers a range of more last bytes than there are as S3 does; the store refuses it.
    with served(str(place)) as store, shaken(store, lost=0, refused=0, delay=0, seed=0) as port:
        yield Tables(place, port)


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
        told = rows.to_pylist()
    except (pa.ArrowInvalid, OverflowError):
        # Python has no such value: an instant of the year 10000.
        return "wrong"
    # The text of a value tells -0.0 from 0.0, and has NaN equal to itself.
    same = sorted(map(repr, told)) == sorted(map(repr, right.to_pylist()))
    return None if same else "wrong"


def ask(
    place: Path, engine: str, tables: Tables, asked: Sequence[Question]
) -> list[bytes | str] | str:
    """Return the answers of an engine, in an environment of its own; or why there are none."""
    known = ENGINES[engine]
    try:
        python = make_environment(place / engine, known.packages)
    except subprocess.CalledProcessError as exc:
        return f"does not install: {_last_line(exc.stderr)}"
    written = (lambda where: where) if known.dialect is None else known.dialect.sql
    command = [str(python), str(HERE / "readers" / f"with_{known.program or engine}.py")]
    around = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # Columns are taken from the same rows.
    told = [(tables.path(one), written(one.where)) for one in asked]
    once = list(dict.fromkeys(told))
    # ClickHouse reads only what is below the folder that it runs in.
    done = subprocess.run(  # noqa: S603 - our own program
        command,
        input=pickle.dumps(once),
        capture_output=True,
        cwd=tables.place,
        env=around | (tables.environment if known.is_on_stores else {}) | {**known.environment},
        check=False,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace")
        print(said, file=sys.stderr)  # noqa: T201
        return f"does not start: {_last_line(said)}"
    answers: dict[Any, bytes | str] = dict(
        zip(once, pickle.loads(done.stdout), strict=True)  # noqa: S301 - of our own child
    )
    return [answers[one] for one in told]


def _last_line(said: str) -> str:
    return (said.strip().splitlines() or ["it said nothing"])[-1]


def outcome_of(place: Path, engine: str, tables: Tables, *, is_told: bool) -> Outcome:
    """Ask an engine what it can be asked, and return what came of it."""
    is_on_stores = ENGINES[engine].is_on_stores
    asked = [one for one in tables.asked if is_on_stores or MAKINGS[one.making] not in STORED]
    answers = ask(place, engine, tables, asked)
    if isinstance(answers, str):
        return dict.fromkeys(MAKINGS, answers)
    return judged(tables, asked, answers, is_told=is_told)


def judged(
    tables: Tables, asked: Sequence[Question], answers: Sequence[bytes | str], *, is_told: bool
) -> Outcome:
    """Return what is not right, and print it where that is asked for."""
    found: dict[str, Faults] = {}
    abouts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for one, answer in zip(asked, answers, strict=True):
        faults = found.setdefault(one.making, {}).setdefault(one.table, {})
        abouts[one.making, one.table].add(one.about)
        fault = judge(tables.right(one), answer)
        if fault is None:
            continue
        # Wrong is worse than refused.
        faults[one.about] = max(fault, faults.get(one.about, ""))
        if is_told:
            print(one, fault, answer if fault == "refused" else "")  # noqa: T201
    for (making, kind), all_of_it in abouts.items():
        faults = found[making][kind]
        if faults.keys() == all_of_it and len({*faults.values()}) == 1:
            found[making][kind] = {_EVERYTHING: next(iter(faults.values()))}
    return {**found}


def table(results: Mapping[str, Outcome]) -> str:
    """Return what is kept as a table of Markdown."""
    lines = [("engine", *MAKINGS), ("---",) * (len(MAKINGS) + 1)]
    for engine, outcome in results.items():
        known = ENGINES[engine]
        name = known.name or known.packages[0].replace("==", " ")
        lines.append((name, *(_cell(outcome.get(making, "not asked")) for making in MAKINGS)))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(faults: Faults | str) -> str:
    if isinstance(faults, str):
        return faults.replace("|", "\\|")
    told = []
    for word in ("wrong", "refused"):
        found: dict[str, list[str]] = defaultdict(list)
        for kind, abouts in faults.items():
            for about in (about for about, said in abouts.items() if said == word):
                found[about].append(kind)
        same: dict[str, list[str]] = defaultdict(list)
        for about, kinds in found.items():
            same[", ".join(kinds)].append(about)
        said = ", ".join(f"{_abouts(abouts)} ({kinds})" for kinds, abouts in same.items())
        told += [f"{word}: {said}"] if said else []
    return "; ".join(told) or "right"


def _abouts(abouts: Sequence[str]) -> str:
    """Return what was asked about, filters together."""
    filters = [one.removesuffix(FILTERED) for one in abouts if one.endswith(FILTERED)]
    plain = [one for one in abouts if not one.endswith(FILTERED)]
    return ", ".join([*plain, *([f"filters on {', '.join(filters)}"] if filters else [])])


def main(argv: Sequence[str]) -> None:
    """Ask the engines, keep what is not right, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", type=Path, default=Path("/tmp/spark-queue-engines"))  # noqa: S108
    parser.add_argument("--only", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--all", action="store_true", help="print each answer that is not right")
    given = parser.parse_args(argv)
    with made_tables(given.place / "tables") as tables:
        for engine in given.only:
            outcome = outcome_of(given.place, engine, tables, is_told=given.all)
            keep(RESULTS, engine, outcome, ENGINES)
    print(table(kept(RESULTS)))  # noqa: T201 - it is what was asked for


if __name__ == "__main__":
    main(sys.argv[1:])
