"""Panels answered in this process: columns of Arrow, asked by DuckDB. No JVM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timezone
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import rows_of, settings_rows
from spark_queue.delta.store.store import Store
from spark_queue.delta.views.ends import Ends
from spark_queue.report.engine import Answer, Asked, Engine, Engines
from spark_queue.report.texts import QUEUE_COLUMNS, STATUS_COLUMNS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: What the texts call by its name in Spark, and DuckDB otherwise.
_WORDS = (
    "unix_micros(moment) AS epoch_us(moment)",
    "timestamp_micros(us) AS make_timestamptz(cast(us AS bigint))",
    """regexp_replace(text, pattern, put) AS
    system.main.regexp_replace(text, pattern, replace(put, '$1', '\\1'), 'g')""",
    "get_json_object(text, path) AS json_extract_string(text, path)",
)

#: Bytes that a report may take before DuckDB goes on by files.
_MEMORY = "1GB"

_INSTANT = pa.timestamp("us", "UTC")
_ASKED = pa.schema(
    [
        ("now", _INSTANT),
        ("since", _INSTANT),
        ("since_step", pa.int64()),
        ("paused", pa.bool_()),
        ("blocking", pa.bool_()),
        ("group_limit", pa.int32()),
        ("max_in_flight", pa.int32()),
        ("max_losses", pa.int32()),
        ("max_age_us", pa.int64()),
    ]
)


class DuckEngine(Engine):
    """Answers panels over columns of Arrow.

    Parameters
    ----------
    queue_log, status_log : pyarrow.Table
        The rows of both logs, with the columns that the texts read.
    asked : Asked
        What is asked.
    """

    def __init__(self, queue_log: pa.Table, status_log: pa.Table, asked: Asked) -> None:
        super().__init__()
        self._connection = connected()
        self._connection.register("sq_queue_log", queue_log)
        self._connection.register("sq_status_log", status_log)
        self._connection.register("sq_asked", pa.Table.from_pylist([asdict(asked)], _ASKED))

    def _define(self, name: str, text: str, *, is_kept: bool) -> None:
        kind = "TABLE" if is_kept else "VIEW"
        self._connection.execute(f"CREATE TEMP {kind} sq_{name} AS {text}")

    def _asked(self, text: str) -> list[Answer]:
        return rows_in_utc(self._connection.sql(text).to_arrow_table())

    def close(self) -> None:
        """See :class:`Engine`."""
        self._connection.close()


def connected() -> DuckDBPyConnection:
    """Return an empty database in memory that knows the words of the texts."""
    import duckdb  # noqa: PLC0415 - takes a while

    connection = duckdb.connect(config={"memory_limit": _MEMORY})
    connection.execute("SET TimeZone = 'UTC'")
    for word in _WORDS:
        connection.execute(f"CREATE MACRO {word}")
    return connection


def rows_in_utc(table: pa.Table) -> list[Answer]:
    """Return rows with their times as instants in UTC."""
    found: list[Answer] = table.to_pylist()
    instants = [one.name for one in table.schema if pa.types.is_timestamp(one.type)]
    for row in found:
        for name in instants:
            row[name] = row[name] and row[name].astimezone(timezone.utc)
    return found


class ArrowLogs(Engines):
    """The logs of a queue on this machine's disk, each read once."""

    def __init__(self) -> None:
        self._items: pa.Table | None = None

    @contextmanager
    def over(self, store: Store, ends: Ends, asked: Asked) -> Iterator[Engine]:
        """See :class:`Engines`.

        Raises
        ------
        SparkNeededError
            When only Spark reads the logs.
        """
        last = None if ends.queue_step is None else ends.head.step
        moves = _up_to(rows_of(store, "status", STATUS_COLUMNS), last)
        settings = _up_to(settings_rows(store, STATUS_COLUMNS), last)
        # Read last: whatever a transition names has entered by then.
        if self._items is None:
            self._items = rows_of(store, "queue", QUEUE_COLUMNS, kind=None)
        items = _up_to(self._items, ends.queue_step)
        engine = DuckEngine(items, pa.concat_tables([moves, settings]), asked)
        try:
            yield engine
        finally:
            engine.close()


def _up_to(rows: pa.Table, step: int | None) -> pa.Table:
    return rows if step is None else rows.filter(pc.less_equal(rows["_step"], step))


def engines() -> Engines:
    """Return who answers here."""
    return ArrowLogs()
