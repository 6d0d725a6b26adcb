"""Panels answered in this process: columns of Arrow, asked by DuckDB. No JVM."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from datetime import timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.sql import database
from spark_queue.delta.sql.file_rows import (
    having,
    item_files,
    log_of,
    renewal_files,
    rows_of,
    settings_files,
)
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.commits import LogFile, removals
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.log import APP_ID, Log
from spark_queue.delta.tables.schema import CONFIG, ITEM, REFUSED, RENEWAL
from spark_queue.delta.views.ends import Ends
from spark_queue.report import view_texts
from spark_queue.report.engine import COMMITS, Answer, Engine, Engines, Question, Removal
from spark_queue.report.entry import ENTERED
from spark_queue.report.view_texts import QUEUE_COLUMNS, STATUS_COLUMNS
from spark_queue.waiting.processes import Owner

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

#: Settings by which it compares and sorts as Spark does.
_AS_SPARK = (
    "SET GLOBAL TimeZone = 'UTC'",
    "SET GLOBAL default_null_order = 'nulls_first_on_asc_last_on_desc'",
)

#: Rows of a log, by the path of the file that has them.
_Rows = dict[str, pa.Table]

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

    def __init__(self, queue_log: pa.Table, status_log: pa.Table, asked: Question) -> None:
        super().__init__()
        self._connection = _ONE.connect()
        owner = Owner("a report")
        self._closing = weakref.finalize(self, _close, self._connection, owner)
        self._show(queue_log, status_log)
        self.ask(asked)

    def ask(self, asked: Question) -> None:
        """Ask for another instant; the rest is as it was."""
        self._connection.register("sq_asked", pa.Table.from_pylist([asdict(asked)], _ASKED))
        for name in self._views.intersection(view_texts.OF_NOW):
            self._connection.execute(f"DROP TABLE sq_{name}")
            self._views.remove(name)

    def renew(self, queue_log: pa.Table, status_log: pa.Table, seqs: pa.Array) -> None:
        """Answer over logs that have more rows now, all of them about these items.

        Of what is kept, their rows are worked out again; :meth:`ask` comes first.
        """
        self._show(queue_log, status_log)
        queue_log, status_log = (_about(seqs, log) for log in (queue_log, status_log))
        self._show(queue_log, status_log, prefix="sq_new_")
        self._connection.execute("CREATE OR REPLACE TEMP VIEW sq_new_asked AS FROM sq_asked")
        for name in self._views.intersection(view_texts.BY_ITEMS):
            self._replace(name, view_texts.BY_ITEMS[name])

    def _replace(self, name: str, key: str) -> None:
        text = view_texts.with_views(f"SELECT * FROM sq_{name}", ())  # noqa: S608 - our own
        new = view_texts.replace_prefix(text, "sq_new_")
        rows = self._connection.sql(new).to_arrow_table()
        if not rows.num_rows:
            return
        self._connection.register("sq_rows", rows)
        former = f"{key} IN (SELECT {key} FROM sq_rows)"  # noqa: S608 - our own
        self._connection.execute(f"DELETE FROM sq_{name} WHERE {former}")  # noqa: S608 - as above
        self._connection.execute(f"INSERT INTO sq_{name} FROM sq_rows")

    def _show(self, queue_log: pa.Table, status_log: pa.Table, prefix: str = "sq_") -> None:
        self._connection.register(f"{prefix}queue_log", queue_log)
        self._connection.register(f"{prefix}status_log", status_log)

    def _define(self, name: str, text: str, *, is_kept: bool) -> None:
        # The others are part of each question: to make a view takes as long as to ask it.
        if is_kept:
            made = f"FROM (\n{text})"
            self._connection.execute(f"CREATE TEMP TABLE sq_{name} AS {self._whole(made)}")

    def _ask(self, text: str) -> list[Answer]:
        return rows_in_utc(self._connection.sql(self._whole(text)).to_arrow_table())

    def _ask_each(self, texts: Sequence[str]) -> list[list[Answer]]:
        # As one query, which works out once what they have in common; each in a column of its own.
        lists = (f"SELECT list(r) AS n{at} FROM ({text}) r" for at, text in enumerate(texts))  # noqa: S608 - our own
        whole = self._whole(" UNION ALL BY NAME ".join(lists))
        answer = self._connection.sql(whole).to_arrow_table()
        rows = (column.combine_chunks().flatten() for column in answer.columns)
        return [rows_in_utc(pa.Table.from_struct_array(one)) for one in rows]

    def _whole(self, text: str) -> str:
        return view_texts.with_views(text, self._views.intersection(view_texts.SHARED))

    def close(self) -> None:
        """See :class:`Engine`."""
        self._closing()


def _close(connection: DuckDBPyConnection, owner: Owner) -> None:
    if not owner.is_here():
        # A child of a fork: the threads that the end of a connection waits for are the parent's.
        # So here it never ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
        return
    connection.close()


def connect(spilled: str) -> DuckDBPyConnection:
    """Return an empty database that knows the words of the texts; what does not fit is spilled."""
    words = [f"CREATE MACRO {word}" for word in _WORDS]
    return database.connect(spilled, [*_AS_SPARK, *words])


_ONE = database.OneDatabase(connect)


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
        files: Callable[[Log[Any]], list[LogFile]],
    ) -> None:
        self._which: LogName = which
        self._columns = list(columns)
        self._kinds = pa.array(kinds)
        self._files = files
        self._kept: dict[str, pa.Table] = {}

    def rows(self, store: Store) -> dict[str, pa.Table]:
        """Return the rows that there are now, by the path of their file; an empty table among them.

        Raises
        ------
        SparkNeededError
            When only Spark reads the log.
        """
        log = log_of(store, self._which)
        try:
            return self._look(log)
        except OSError:
            # Merged meanwhile: the rows are in other files.
            return self._look(log)

    def _look(self, log: Log[Any]) -> dict[str, pa.Table]:
        files = {file.path: file for file in self._files(log)}
        kept = {path: rows for path, rows in self._kept.items() if path in files}
        for path, file in files.items():
            if path not in kept:
                rows = log.rows_of([file], self._columns)
                wanted = pc.is_in(rows["_kind"], self._kinds)
                # What is left out costs a copy of the rest: of most files nothing is.
                kept[path] = rows if pc.all(wanted).as_py() else rows.filter(wanted)
        self._kept = kept
        return {"": log.rows_of([], self._columns), **kept}


class KeptEngine:
    """An engine that is kept from one look at a reader's logs to the next.

    Parameters
    ----------
    items, log : dict
        The rows of both logs, by the path of their file.
    asked : Asked
        What is asked.
    """

    def __init__(self, items: _Rows, log: _Rows, asked: Question) -> None:
        self._items, self._log, self._asked = items, log, asked
        self._left = sum(rows.num_rows for rows in items.values()) // 2
        """Items that may be renewed before it takes less to begin afresh."""
        self.engine = DuckEngine(_whole(items), _whole(log), asked)

    def goes_on(self, items: _Rows, log: _Rows, asked: Question) -> bool:
        """Answer over what the logs have now; False where it takes another engine."""
        if replace(asked, now=self._asked.now, since=self._asked.since) != self._asked:
            return False
        if not (self._items.keys() <= items.keys() and self._log.keys() <= log.keys()):
            return False
        moved = _unlike(log, self._log)
        seqs = _seqs_of([*_unlike(items, self._items), *moved, *_renewed(log, moved)])
        self._left -= sum(map(len, seqs))
        if self._left < 0:
            return False
        self.engine.ask(asked)
        if seqs:
            self.engine.renew(_whole(items), _whole(log), pa.chunked_array(seqs).unique())
        self._items, self._log = items, log
        return True


class ArrowLogs(Engines):
    """The logs of a queue on this machine's disk, of which each file is read once.

    They are for all its readers, and for any number of threads, one after the other.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._engines: dict[int, KeptEngine] = {}
        self._items = KeptRows("queue", QUEUE_COLUMNS, (ITEM, REFUSED), item_files)
        self._moves: dict[int, KeptRows] = {}
        self._settings: dict[int, KeptRows] = {}

    def find_entry(self, store: Store, seq: int) -> Answer | None:
        """See :class:`Engines`."""
        one = pa.chunked_array([pa.array([seq], pa.int64())])
        columns = [*store.user_columns(), *ENTERED]
        for kind in (ITEM, REFUSED):
            rows = rows_of(store, "queue", ["_seq", *columns], having(one), kind=kind)
            found = rows.filter(pc.equal(rows["_seq"], seq)).select(columns)
            if found.num_rows:
                return dict(found.to_pylist()[0])
        return None

    def removals(self, store: Store) -> list[Removal]:
        """See :class:`Engines`."""
        directory = store.queue.find_directory()
        found = [] if directory is None else removals(directory, APP_ID, COMMITS)
        return [Removal(at=at) for at in found]

    @contextmanager
    def over(self, store: Store, ends: Ends, asked: Question) -> Iterator[Engine]:
        """See :class:`Engines`; others wait until the present user of the logs is done.

        Raises
        ------
        SparkNeededError
            When only Spark reads the logs.
        """
        with self._lock:
            self._keep_only(store.queue_head().readers)
            moves, settings = self._of(store.reader)
            log = {**moves.rows(store), **settings.rows(store)}
            # Read last: all items that a transition names have entered by then.
            items = self._items.rows(store)
            if ends.queue_step is None:
                yield self._keep_engine(store.reader, items, log, asked)
                return
            cut = _up_to(items, ends.queue_step), _up_to(log, ends.head.step)
            with closing(DuckEngine(*cut, asked)) as engine:
                yield engine

    def _keep_only(self, readers: Collection[int]) -> None:
        """Drop what is of no reader any more."""
        for kept in (self._moves, self._settings, self._engines):
            for gone in kept.keys() - readers:
                del kept[gone]

    def _keep_engine(self, reader: int, items: _Rows, log: _Rows, asked: Question) -> DuckEngine:
        known = self._engines.pop(reader, None)
        if known is None or not known.goes_on(items, log, asked):
            known = KeptEngine(items, log, asked)
        # Not before it has gone on: one that failed half way is no longer asked.
        self._engines[reader] = known
        return known.engine

    def _of(self, reader: int) -> tuple[KeptRows, KeptRows]:
        if reader not in self._moves:
            self._moves[reader] = KeptRows("status", STATUS_COLUMNS, (ITEM, RENEWAL), _move_files)
            self._settings[reader] = KeptRows("status", STATUS_COLUMNS, (CONFIG,), settings_files)
        return self._moves[reader], self._settings[reader]


def _move_files(log: Log[Any]) -> list[LogFile]:
    return [*item_files(log), *renewal_files(log)]


def _about(seqs: pa.Array, rows: pa.Table) -> pa.Table:
    """Return the rows of some items, and those that are of no item."""
    return rows.filter(pc.or_(pc.is_in(rows["_seq"], seqs), pc.is_null(rows["_seq"])))


def _whole(rows: _Rows) -> pa.Table:
    return pa.concat_tables(rows.values())


def _unlike(rows: _Rows, known: _Rows) -> list[pa.Table]:
    """Return the rows of the files that were not known."""
    return [rows[path] for path in rows.keys() - known]


def _seqs_of(parts: Sequence[pa.Table]) -> list[pa.Array]:
    return [chunk for rows in parts for chunk in rows["_seq"].chunks]


def _renewed(log: _Rows, moved: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Return the rows of items that had a lease which new rows renew."""
    renewals = [rows.filter(pc.equal(rows["_kind"], RENEWAL)) for rows in moved]
    leases = [lease for rows in renewals for lease in rows["_lease"].to_pylist()]
    if leases:
        yield from (
            rows.filter(pc.is_in(rows["_lease"], pa.array(leases))) for rows in log.values()
        )


def _up_to(rows: _Rows, step: int) -> pa.Table:
    whole = _whole(rows)
    return whole.filter(pc.less_equal(whole["_step"], step))


def engines() -> Engines:
    """Return who answers here."""
    return ArrowLogs()
