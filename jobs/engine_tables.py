"""The tables that ``engines.py`` asks engines about, and what is asked.

``python jobs/engine_tables.py PLACE`` makes those of Spark in a folder, or on a store that the
environment tells of, in a process that ends with its JVM.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from engine_list import Where
from spark_queue import DeltaQueue, LocalQueue, QueueConfig, journaled_queue, local_session
from spark_queue.spark import spark_enqueue

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


_SCHEMA = ", ".join(_COLUMNS)

#: Their types in Arrow.
_ARROW = {
    "timestamp": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "double": pa.float64(),
    "decimal(38,18)": pa.decimal128(38, 18),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "string": pa.string(),
    "boolean": pa.bool_(),
}


#: What ends the name of a question that has a condition on a column.
FILTERED = " filtered"


class Question(NamedTuple):
    """What is asked: of which table, about what, which columns, under which condition."""

    making: str
    table: str
    about: str
    columns: list[str]
    where: Where | None


def _rows(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the values of columns as rows, and a row of nulls."""
    names = [column.split()[0] for column in columns]
    rows = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [*rows, dict.fromkeys(names)]


#: How tables are made, and the folder in which they then are.
MAKINGS = {
    "without Spark": "alone",
    "by Spark": "spark",
    "on an object store": "store",
    "there, by Spark": "spark-store",
}

#: The folders that are on a store, too.
STORED = ("store", "spark-store")

#: Where a table of each kind is; Spark has no journal.
KINDS = {
    "items": "jobs/queue",
    "status": "jobs/status",
    "output": "output",
    "journal": "log/queue",
    "archive": "archive",
}

BUCKET = "s3://bucket"


class Engine(Protocol):
    """What makes the queues of a place: without Spark, or by a session."""

    def create(self, path: str, config: QueueConfig) -> Any:
        """Make a queue."""

    def frame(self, rows: list[dict[str, Any]]) -> Any:
        """Return rows in the form that the queue takes."""


class Alone(NamedTuple):
    """Queues without Spark, on a disk or on a store."""

    storage: Mapping[str, Any] | None = None

    def create(self, path: str, config: QueueConfig) -> LocalQueue:
        """Make a queue."""
        return LocalQueue.create(path, _SCHEMA, config, storage=self.storage)

    def frame(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows as they are."""
        return rows


class BySpark(NamedTuple):
    """Queues of a session, each step planned by Spark, on a disk or on a store."""

    spark: Any
    storage: Mapping[str, Any] | None = None

    def create(self, path: str, config: QueueConfig) -> DeltaQueue:
        """Make a queue."""
        return DeltaQueue.create(self.spark, path, _SCHEMA, config, storage=self.storage)

    def frame(self, rows: list[dict[str, Any]]) -> Any:
        """Return the rows as a frame."""
        names = {column.split()[0]: _ARROW[column.split()[1]] for column in _COLUMNS}
        return self.spark.createDataFrame(pa.Table.from_pylist(rows, pa.schema([*names.items()])))


def make_tables(place: str, engine: Engine) -> None:
    """Make a table of each kind that the engine has."""
    rows, results = _rows(_COLUMNS), {row["text"]: row for row in _rows(_OUTPUT)}
    jobs, log, done, output, archive = (
        f"{place}/{name}" for name in ("jobs", "log", "done", "output", "archive")
    )
    queue = engine.create(jobs, QueueConfig(fair_key="text"))
    queue.enqueue(engine.frame(rows))
    returns = ", ".join(_OUTPUT)
    queue.process(lambda item: results[item["text"]], returns=returns, output=output, limit=3)
    if isinstance(engine, Alone):
        with journaled_queue(engine.create(log, QueueConfig())) as journal:
            journal.put_many(rows)
    old = engine.create(done, QueueConfig())
    old.enqueue(engine.frame(rows))
    old.process(lambda _: None)
    old.maintain(retention=timedelta(milliseconds=1), archive_to=archive)


def main(place: str) -> None:
    """Make the tables of Spark."""
    spark_enqueue._MANY = 2  # noqa: SLF001 - rows of this number are planned by Spark
    if place.startswith("s3a://"):
        sys.path.append(str(Path(__file__).parent / "bench"))
        from object_store_spark import session  # noqa: PLC0415 - it lies beside the benchmarks

        spark = session(int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2]))
        make_tables(place, BySpark(spark, {}))
    else:
        spark = local_session("engines")
        make_tables(place, BySpark(spark))
    spark.stop()


def questions(making: str, tables: Collection[str]) -> Iterator[Question]:
    """Yield what is asked of each table."""
    of = partial(Question, making)
    status = ["_step", "_seq", "_kind"]
    yield of("status", "rows", status, None)
    yield of("status", "states", status, ("_state", "=", "acked"))
    yield of("status", "states", status, ("_lease", "IS NULL", None))
    yield of("status", "instants", [*status, "_at"], ("_at", ">", _NOON))
    for table in sorted({*tables} - {"status"}):
        yield of(table, "rows", ["_seq"], None)
        for column, values in (_OUTPUT if table == "output" else _COLUMNS).items():
            name = column.split()[0]
            yield of(table, f"`{name}`", ["_seq", name], None)
            yield of(table, f"`{name}`{FILTERED}", ["_seq"], (name, "IS NULL", None))
            # NaN equals itself in some engines, and nothing in others: both are right.
            for value in values if column in _COLUMNS else ():
                if value == value:  # noqa: PLR0124
                    yield of(table, f"`{name}`{FILTERED}", ["_seq"], (name, "=", value))
        for word in "<", ">":
            yield of(table, f"`at`{FILTERED}", ["_seq"], ("at", word, _NOON))


if __name__ == "__main__":
    main(sys.argv[1])
