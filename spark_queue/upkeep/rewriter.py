"""Engines of upkeep: finished rows in the logs of a queue, found and removed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.commands import asking, readers
from spark_queue.log import maintenance
from spark_queue.log.delta.commits import LogFile
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import write_lock
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.maintenance import Tidied
from spark_queue.log.schema import OPEN_LANE, user_names
from spark_queue.log.session_options import PlainSession
from spark_queue.log.step_events import LogName
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.file_rows import log_of, rows_of
from spark_queue.sql.look import QueueLook
from spark_queue.state.store import PATIENCE, Store

#: Keeps the items of a generation, by its number, in another table; twice is as once.
Archive: TypeAlias = Callable[[int], None]

#: An archive's columns besides the user's and the queue's name.
ARCHIVED = ("_seq", "_enqueued_at", "_origin")


class Rewriter:
    """The steps of upkeep: by this process, file by file, or by an engine that overrides them.

    Frames of items have ``_seq`` and ``_gen``, and may have more.
    """

    look: type[QueueLook[Any]] = ArrowLook

    def among(self, found: Any, others: Any, *, is_in: bool) -> Any:
        """Return the items that are among others, or that are not."""
        there = pc.is_in(found["_seq"], others["_seq"].combine_chunks())
        return found.filter(there if is_in else pc.invert(there))

    def generations_of(self, found: Any) -> set[int]:
        """Return the generations of items."""
        return set(pc.unique(found["_gen"]).to_pylist())

    def evaluate(self, found: Any) -> tuple[Any, int]:
        """Return items computed once, and their number."""
        return found, found.num_rows

    def remove(self, reader: Store, which: LogName, found: Any) -> None:
        """Take items out of a log."""
        seqs = found["_seq"].combine_chunks()
        first, last = pc.min(seqs).as_py(), pc.max(seqs).as_py()
        _rewrite(
            reader,
            which,
            lambda file: file.gen >= 0 and file.may_have("_seq", first, last),
            lambda rows: pc.is_in(rows["_seq"], seqs),
        )

    def drop(self, reader: Store, which: LogName, gen: int, before: int | None = None) -> None:
        """Take a partition out of a log, or its rows of the steps before one."""
        most = math.inf if before is None else before
        _rewrite(reader, which, _of(gen), lambda rows: pc.less(rows["_step"], most))

    def open_archive(self, store: Store, path: str) -> Archive:
        """Return the archive that gets generations before they are dropped.

        Raises
        ------
        SchemaMismatchError
            With the column that does not fit the table that is there.
        """
        table = asking.output(store, path, "archive", "the queue")
        columns = _archive_rows(store, OPEN_LANE).schema
        if not table.exists():
            table.make(columns)
        table.require(columns)
        name = archive_name(store)

        def keep(gen: int) -> None:
            table.append(_archive_rows(store, gen), name, gen + 1)

        return keep

    def tidy(self, store: Store) -> Tidied:
        """Merge small files of all logs, and remove replaced ones without readers."""
        # A stream may be far behind, and reads files that were merged since.
        streams = any(facts.streams for facts in store.queue_head().readers.values())
        done = [_tidy(store, "queue", Ages() if streams else Ages(most=math.inf))]
        done += [_tidy(reader, "status", Ages(most=math.inf)) for reader in readers.every(store)]
        return Tidied(sum(log.merged for log in done), sum(log.removed for log in done))


def archive_name(store: Store) -> str:
    """Return the name under which an archive records a queue's generations.

    A queue that is made in the place of another one has its own.
    """
    return f"archive of {store.handle.place.identity()}"


def rewriter_of(store: Store, *, reads_files: bool = False) -> Rewriter:
    """Return the engine of a store; Spark is imported only if needed.

    With ``reads_files`` it is the one of this process wherever that reads the item log.
    """
    is_here = isinstance(store.session, PlainSession)
    if is_here or (reads_files and store.native("queue") is not None):
        return REWRITER
    by_spark = import_module("spark_queue.upkeep.spark_upkeep")
    found: Rewriter = by_spark.OF_OBJECTS if store.queue.is_remote else by_spark.REWRITER
    return found


REWRITER = Rewriter()


def _tidy(store: Store, which: LogName, ages: Ages) -> Tidied:
    log = log_of(store, which)
    return maintenance.tidy(log, ages) if isinstance(log, DeltaLog) else Tidied()


def _rewrite(
    store: Store,
    which: LogName,
    may_have: Callable[[LogFile], bool],
    is_gone: Callable[[pa.Table], pa.ChunkedArray],
) -> None:
    """Take rows out of a log."""
    with store.writing(which):
        if maintenance.remove(log_of(store, which), may_have, is_gone):
            store.log(which).force()


def _archive_rows(store: Store, gen: int) -> pa.Table:
    """Return the items of a generation with the columns that an archive has."""
    columns = (*user_names(store.columns()), *ARCHIVED)
    rows = rows_of(store, "queue", ("_gen", *columns), _of(gen))
    rows = rows.filter(pc.equal(rows["_gen"], gen)).select(columns)
    return rows.append_column("_queue", pa.repeat(store.name, rows.num_rows))


def _of(gen: int) -> Callable[[LogFile], bool]:
    """Tell of a file whether it is of a partition."""
    return lambda file: file.gen == gen


@contextmanager
def rewriting(store: Store, which: LogName) -> Iterator[None]:
    """Hold the right to rewrite files of a log; on a local disk steps wait for it."""
    with rewrites(store):
        if not store.is_local():
            yield
            return
        with store.writing(which):
            try:
                yield
            finally:
                store.cache().drop_replicas()


def rewrites(store: Store) -> AbstractContextManager[object]:
    """Return the lock of this process's threads that rewrite files of a queue."""
    name = f"{store.handle.place.name()}/rewrites"
    return write_lock.holding(name, None, timeout=PATIENCE)
