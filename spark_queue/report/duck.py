"""Panels answered in this process: columns of Arrow, asked by DuckDB. No JVM."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timezone
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import item_files, log_of, settings_files
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.commits import removals
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.files import LogFile
from spark_queue.delta.tables.log import APP_ID
from spark_queue.delta.tables.schema import CONFIG, ITEM, REFUSED
from spark_queue.delta.tables.step_log import StepLog
from spark_queue.delta.views.ends import Ends
from spark_queue.report.engine import COMMITS, Answer, Asked, Engine, Engines, Removal
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

    # What does not fit goes there, and not beside whatever the user works on.
    spilled = Path(tempfile.gettempdir()) / f"spark-queue-{os.getpid()}"
    connection = duckdb.connect(config={"memory_limit": _MEMORY, "temp_directory": str(spilled)})
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


class KeptRows:
    """Rows of some kinds in a log; what was read once is kept for the next look.

    A file is never changed, so that only those are read that were not there before.

    Parameters
    ----------
    which : "queue" or "status"
        The log.
    columns : sequence of str
        What is read of a row.
    kinds : sequence of str
        The kinds of the rows.
    files : callable
        Returns the files of the log that may have such rows.
    """

    def __init__(
        self,
        which: LogName,
        columns: Sequence[str],
        kinds: Sequence[str],
        files: Callable[[StepLog], list[LogFile]],
    ) -> None:
        self._which: LogName = which
        self._columns = list(columns)
        self._kinds = pa.array(kinds)
        self._files = files
        self._kept: dict[str, pa.Table] = {}

    def rows(self, store: Store) -> pa.Table:
        """Return the rows that there are now.

        Raises
        ------
        SparkNeededError
            When only Spark reads the log.
        """
        log = log_of(store, self._which)
        try:
            return self._looked(log)
        except OSError:
            # Merged meanwhile: the rows are in other files.
            return self._looked(log)

    def _looked(self, log: StepLog) -> pa.Table:
        files = {file.path: file for file in self._files(log)}
        kept = {path: rows for path, rows in self._kept.items() if path in files}
        for path, file in files.items():
            if path not in kept:
                rows = log.rows_of([file], self._columns)
                wanted = pc.is_in(rows["_kind"], self._kinds)
                # What is left out costs a copy of the rest: of most files nothing is.
                kept[path] = rows if pc.all(wanted).as_py() else rows.filter(wanted)
        self._kept = kept
        return pa.concat_tables([log.rows_of([], self._columns), *kept.values()])


class ArrowLogs(Engines):
    """The logs of a queue on this machine's disk, of which each file is read once."""

    def __init__(self) -> None:
        self._items = KeptRows("queue", QUEUE_COLUMNS, (ITEM, REFUSED), item_files)
        self._moves: dict[int, KeptRows] = {}
        self._settings: dict[int, KeptRows] = {}

    def removals(self, store: Store) -> list[Removal]:
        """See :class:`Engines`."""
        directory = store.queue.directory()
        found = [] if directory is None else removals(directory, APP_ID, COMMITS)
        return [Removal(at=at) for at in found]

    @contextmanager
    def over(self, store: Store, ends: Ends, asked: Asked) -> Iterator[Engine]:
        """See :class:`Engines`.

        Raises
        ------
        SparkNeededError
            When only Spark reads the logs.
        """
        moves, settings = self._of(store.reader)
        log = pa.concat_tables([moves.rows(store), settings.rows(store)])
        # Read last: whatever a transition names has entered by then.
        items = _up_to(self._items.rows(store), ends.queue_step)
        last = None if ends.queue_step is None else ends.head.step
        engine = DuckEngine(items, _up_to(log, last), asked)
        try:
            yield engine
        finally:
            engine.close()

    def _of(self, reader: int) -> tuple[KeptRows, KeptRows]:
        if reader not in self._moves:
            self._moves[reader] = KeptRows("status", STATUS_COLUMNS, (ITEM,), item_files)
            self._settings[reader] = KeptRows("status", STATUS_COLUMNS, (CONFIG,), settings_files)
        return self._moves[reader], self._settings[reader]


def _up_to(rows: pa.Table, step: int | None) -> pa.Table:
    return rows if step is None else rows.filter(pc.less_equal(rows["_step"], step))


def engines() -> Engines:
    """Return who answers here."""
    return ArrowLogs()
