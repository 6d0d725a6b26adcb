"""What every operation of one queue works with: its logs, locks, clock and configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_queue.clock import Clock
from spark_queue.delta.replica.state import ENTERED, FOLLOWED, Replica, Row
from spark_queue.delta.store import fencing, memory
from spark_queue.delta.store.memory import Cache, Position, Tail
from spark_queue.delta.tables import glance, lock, native, paths, recent, traces, whole
from spark_queue.delta.tables.address import QueueAddress
from spark_queue.delta.tables.facts import Listener, LogName
from spark_queue.delta.tables.glance import Glance
from spark_queue.delta.tables.heads import (
    QueueHead,
    Registered,
    StatusHead,
    queue_head,
    status_head,
)
from spark_queue.delta.tables.log import STALENESS, Log, is_fresh
from spark_queue.delta.tables.native import NativeLog, Natives
from spark_queue.delta.tables.schema import CONFIG, META_LANE, QUEUE_COLUMNS
from spark_queue.delta.tables.settings import Settings
from spark_queue.errors import (
    FencedError,
    LogDamagedError,
    QueueNotFoundError,
    ReaderNotFoundError,
    UnsafeSessionError,
)
from spark_queue.reader_config import ReaderConfig
from spark_queue.session import SMALL_STEPS

_Head = TypeVar("_Head", QueueHead, StatusHead)
_Seen = TypeVar("_Seen")

#: Called between the staging of a step and its commit; tests put another party's step there.
Hook = Callable[[str], None]


class Store:
    """The two logs of one queue, as one of its readers sees them, and what belongs to them.

    All readers share the log of items; each has a status log of its own.

    Parameters
    ----------
    spark : SparkSession
        The caller's session.
    address : QueueAddress
        The queue's name or path.
    clock : Clock
        Asked once by each operation.
    listener : callable, optional
        Called with :class:`StepFacts` after every step.
    reader : int
        The number of the reader; 0, the first, by default.
    """

    def __init__(
        self,
        spark: SparkSession,
        address: QueueAddress,
        clock: Clock,
        listener: Listener | None = None,
        *,
        reader: int = 0,
    ) -> None:
        self.spark = spark
        self.address = address
        self.clock = clock
        self.listener = listener
        self.reader = reader
        self.hook: Hook | None = None
        self.holder = ""
        self.natives: Natives | None = None
        self.queue: Log[QueueHead] = Log(spark, address.queue, queue_head)
        self.status: Log[StatusHead] = Log(spark, address.status_of(reader), status_head)
        self._location: str | None = None
        self._key: str | None = None
        self._birth: tuple[int, int] | None = None

    @property
    def name(self) -> str:
        """The queue's name or path."""
        return self.address.name

    def of_reader(self, reader: int) -> Store:
        """Return the same queue as another reader sees it."""
        if reader == self.reader:
            return self
        store = Store(self.spark, self.address, self.clock, self.listener, reader=reader)
        store.hook = self.hook
        store.holder = self.holder
        store.natives = self.natives
        store._location = self._location
        store._key = self._key
        store._birth = self._birth
        return store

    def in_session(self, spark: SparkSession) -> Store:
        """Return the same store with frames of another session."""
        return Store(spark, self.address, self.clock, self.listener, reader=self.reader)

    def registered(self) -> Registered:
        """Return what the queue knows of this reader, as of the head that was seen last.

        Raises
        ------
        ReaderNotFoundError
            When it was dropped.
        """
        seen = self.cache().queue
        readers = seen.readers if seen is not None else {}
        if self.reader not in readers:
            readers = self.queue_head().readers
        if self.reader not in readers:
            raise ReaderNotFoundError(self.name, f"#{self.reader}", names_of(readers))
        return readers[self.reader]

    def limits(self) -> ReaderConfig:
        """Return what this reader allows."""
        return ReaderConfig.from_dict(self.registered().config)

    def is_prepared(self) -> bool:
        """Tell whether this reader's status log is there, with its first step."""
        seen = self.position().head
        return (seen is not None and seen.step > 0) or self.exists()

    def items(self) -> DataFrame:
        """Return the rows of the item log that this reader sees."""
        since = self.registered().since_step
        rows = self.queue.read()
        return rows.where(F.col("_step") > since) if since else rows

    def outstanding(self, head: StatusHead) -> int:
        """Return how many items are not over yet for this reader, as of a step of its log."""
        return self.queue_head().items - self.registered().since_items - sum(head.finished.values())

    def exists(self) -> bool:
        """Tell whether the queue was created, completely."""
        if self._columns() is None:
            return False
        return (self._seen(self.status) or self.status.head()) is not None

    def require_exists(self) -> StatusHead:
        """Return the newest head of the status log.

        Raises
        ------
        QueueNotFoundError
            When there is no queue under the name.
        """
        columns = self._columns()
        if columns is None:
            raise QueueNotFoundError(self.name)
        if "_lease" not in columns or not (head := self.status_head()).step:
            raise QueueNotFoundError(self.name, "what is there is not a queue of this library")
        return head

    def _columns(self) -> Collection[str] | None:
        """Return the columns of the status log; ``None`` where there is no table."""
        directory = paths.directory_of(self.spark, self.status.address)
        if directory is not None and not paths.has_log(directory):
            return None
        seen = glance.at(directory)
        if seen is not None:
            return seen.columns
        return self.status.read().columns if self.status.exists() else None

    def user_schema(self) -> StructType:
        """Return the user's columns, in their order."""
        ours = set(QUEUE_COLUMNS.names)
        log = self.native("queue")
        columns = self.queue.read().schema if log is None else log.schema()
        return StructType([f for f in columns if f.name not in ours])

    def location(self) -> str:
        """Return where the queue is, as its catalog or path says."""
        if self._location is None:
            first = Log(self.spark, self.address.status, status_head)
            self._location, self._key = first.detail()
            self._birth = traces.birth(lock.local_directory(self._location))
        return self._location

    def forget(self) -> None:
        """Drop what this process remembers of the queue, and its writer lock.

        Nothing is dropped while a front of this process holds the queue: it answers from memory,
        in the belief that nobody else writes.
        """
        if lock.unlock(self._local_directory()):
            memory.forget(self._identity())

    def pin(self) -> None:
        """Keep the writer lock for a front, until it unpins it."""
        lock.pin(self._local_directory())

    def unpin(self) -> None:
        """Let the writer lock be given up again."""
        lock.unpin(self._local_directory())

    def queue_head(self) -> QueueHead:
        """Return the newest head of the item log.

        Raises
        ------
        LogDamagedError
            When the log has not all the steps that something names.
        """
        cache = self.cache()
        if cache.queue is None or not self.is_only_writer():
            cache.queue = self._newest("queue", self.queue, cache.queue) or QueueHead()
        return cache.queue

    def status_head(self) -> StatusHead:
        """Return the newest head of the status log; the errors are those of :meth:`queue_head`."""
        at = self.position()
        if at.head is None or not self.is_only_writer():
            is_first = at.head is None
            head = self._newest("status", self.status, at.head) or StatusHead()
            if is_first and head.step:
                self._require_agreement(head)
            at.head = head
        return at.head

    def _newest(self, which: LogName, log: Log[_Head], known: _Head | None) -> _Head | None:
        """Return the newest head of a log, if it is all that is known of it."""
        newest = self._seen(log) or log.head(since=known.step if known else 0)
        if known is not None and known.step:
            return whole.seen_again(self.name, which, known, newest)
        if newest is None:
            return known
        return whole.seen_first(self.name, which, log, self._directory_of(log), newest)

    def _seen(self, log: Log[_Head]) -> _Head | None:
        """Return the newest head without a query; ``None`` where that takes one."""
        return self._glanced(log, lambda glance: log.parsed(glance.head()))

    def _glanced(self, log: Log[_Head], look: Callable[[Glance], _Seen | None]) -> _Seen | None:
        """Look at a log on this machine's disk; ``None`` where only a query can tell."""
        seen = glance.at(self._directory_of(log)) if self._may_glance() else None
        if seen is None:
            return None
        try:
            return look(seen)
        except Exception:  # noqa: BLE001 - files that are gone, or cannot be read: Spark says so
            return None

    def _may_glance(self) -> bool:
        wanted = self.spark.conf.get(SMALL_STEPS, "memory") != "spark"
        return wanted and self.is_local() and is_fresh(self.spark)

    def _require_agreement(self, head: StatusHead) -> None:
        """Raise where the item log and this status log cannot both be whole."""
        items = self.queue_head()
        last = self._glanced(self.status, Glance.last_seq)
        if last is None or last > items.last_seq:
            whole.require_known_seqs(self.name, self.status, head, items)
        if self.reader == 0:
            whole.require_known_steps(self.name, self.status, head, items)

    def require_whole(self) -> None:
        """Check that the item log on this machine's disk is all that this process knows of it.

        Raises
        ------
        LogDamagedError
            When it is not.
        """
        seen = self.cache().queue
        last = seen.step if seen else 0
        whole.require_end(self.name, "queue", self.queue, self._directory_of(self.queue), last)

    def recent(self, head: StatusHead) -> DataFrame:
        """Return what a fold to a step reads (:func:`recent.since_checkpoint`).

        It is staged, unless it is long: then to read it twice, a few columns each time, costs less.
        """
        remembered = self.remembered(head)
        if remembered is not None:
            return remembered
        rows = recent.since_checkpoint(self.status.read(), head)
        if is_long(head):
            return rows
        rows = rows.localCheckpoint()
        if self.is_only_writer():
            self.position().tail = Tail(head, rows, rows.count())
        return rows

    def remembered(self, head: StatusHead) -> DataFrame | None:
        """Return the same where it is at hand without a read of the log."""
        tail = self.position().tail
        if tail is None or tail.head.step != head.step or not self._fits(tail):
            return None
        self.position().tail = tail = tail.staged()
        return tail.rows

    def position(self) -> Position:
        """Return what this process knows of the reader's log."""
        return self.cache().position(self.reader)

    def cache(self) -> Cache:
        """Return what this process knows of the queue."""
        return memory.cache_of(self._identity())

    def native(self, which: LogName) -> NativeLog | None:
        """Return a log that can be read and written without Spark; ``None`` where it cannot."""
        if not self.is_only_writer() or not is_fresh(self.spark):
            return None
        directory = self._directory_of(self.queue if which == "queue" else self.status)
        return None if directory is None else self.cache().natives.plain(directory)

    def rewritten(self) -> None:
        """Drop the rows that this process remembers, after some were deleted from the log."""
        self.position().tail = None

    def begin(self, settings: Settings) -> None:
        """Note what a queue is that this process has just made: empty, with its first settings."""
        self.remember(1, settings)
        cache = self.cache()
        with cache.lock:
            # Whoever found the queue meanwhile may have enqueued.
            if cache.queue is None and self.is_only_writer():
                cache.queue = QueueHead()

    def remember(self, step: int, settings: Settings) -> None:
        """Keep the settings that a step of ours has put in force."""
        self.position().settings[step] = settings

    def settings(self, head: StatusHead) -> Settings:
        """Return the configuration in force at a step of the status log."""
        known = self.position().settings
        if head.config_step not in known:
            known[head.config_step] = self._read_settings(head.config_step)
        return known[head.config_step]

    def is_only_writer(self) -> bool:
        """Tell whether nobody but this process can write: the queue is on its disk, and locked."""
        return lock.is_held(self._local_directory())

    @contextmanager
    def writing(self, which: LogName) -> Iterator[None]:
        """Hold the right to write a log, against threads here and processes on this disk."""
        lock.lock_for_writing(self.name, self._local_directory())
        log = which if which == "queue" else f"{which} of {self.reader}"
        with lock.log_lock(f"{self._place()}/{log}"):
            yield

    @contextmanager
    def rewriting(self, which: LogName) -> Iterator[None]:
        """Hold the right to rewrite files of a log: steps wait where they are written natively."""
        with self._rewrites():
            if not self.is_local() and not native.is_written_natively(self._place()):
                yield
                return
            with self.writing(which):
                try:
                    yield
                finally:
                    self.cache().drop_replicas()

    def write_natively(self) -> None:
        """Commit steps without Spark from now on, where it is not Spark that has their rows.

        Raises
        ------
        InvalidArgumentError
            When the queue is not on this machine's disk, or ``deltalake`` is not installed.
        UnsafeSessionError
            When the session may read a table as it was some time ago.
        """
        _require_fresh_snapshots(self.spark)
        with self.writing("queue"):
            natives = Natives()
            natives.of(self.queue)
        with self._rewrites():
            native.begin(self._place())
        self.natives = natives

    def stop_writing_natively(self) -> None:
        """Commit all steps by Spark again."""
        if self.natives is not None:
            self.natives = None
            native.end(self._place())

    def _rewrites(self) -> AbstractContextManager[object]:
        """Return the lock of those who rewrite: natives may begin only when nobody does."""
        return lock.log_lock(f"{self._place()}/rewrites")

    def commit_queue(
        self, head: QueueHead, rows: DataFrame | pa.Table | None, *, small: bool = True
    ) -> bool:
        """Append a step to the item log; False where it was lost to another writer.

        Raises
        ------
        FencedError
            When a front holds the queue, and it is not the one that writes.
        """
        self.require_not_held(head)
        head = replace(head, at=self.clock.now().isoformat())
        before = self.cache().queue
        ours = self._committed("queue", lambda: self._append(self.queue, head, rows, small=small))
        newest = head if ours else self._winner("queue", self.queue, head)
        cache = self.cache()
        with cache.lock:
            cache.queue = newest
            if ours and before is not None:
                self._enter(before, head, rows)
        return ours

    def commit_status(
        self, head: StatusHead, rows: DataFrame | pa.Table | None, *, small: bool = True
    ) -> bool:
        """Append a step to the status log; False where it was lost to another writer.

        Raises
        ------
        FencedError
            When a front holds the queue, and it is not the one that writes.
        """
        self.require_not_held(head)
        head = replace(head, at=self.clock.now().isoformat())
        at = self.position()
        before, tail = at.head, at.tail
        staged = rows
        if small and isinstance(rows, DataFrame) and self.native("status") is not None:
            # The columns of that log are our own, and its rows are states, not items.
            staged = rows.toArrow()
        ours = self._committed(
            "status", lambda: self._append(self.status, head, staged, small=small)
        )
        newest = head if ours else self._winner("status", self.status, head)
        cache = self.cache()
        with cache.lock:
            at.head, replica = newest, at.replica
            if ours and replica and before is not None and replica.status == before.token:
                at.replica = _followed(replica, head, staged)
        known = ours and tail is not None and self._fits(tail)
        # What came as a table is not for a fold: who wrote it has it in memory.
        frame = None if isinstance(rows, pa.Table) else rows
        known = known and frame is rows
        at.tail = tail.followed_by(head, frame) if tail and known else None
        return ours

    def _enter(self, before: QueueHead, head: QueueHead, rows: DataFrame | pa.Table | None) -> None:
        """Let the replicas of all readers follow a step; those that cannot are dropped."""
        known = None if isinstance(rows, DataFrame) else _rows(rows, ENTERED)
        for number, position in self.cache().positions.items():
            replica = position.replica
            if replica is None or known is None or replica.queue != before.token:
                position.replica = None
            elif number in head.readers:
                replica.enter(head.token, known)

    def _append(
        self,
        log: Log[_Head],
        head: _Head,
        rows: DataFrame | pa.Table | None,
        *,
        small: bool,
    ) -> bool:
        """Commit a step the way this store commits."""
        if self.natives is not None and (rows is None or isinstance(rows, pa.Table)):
            return self.natives.of(log).commit(head, rows)
        which: LogName = "queue" if log is self.queue else "status"
        whole.require_end(self.name, which, log, self._directory_of(log), head.step - 1)
        is_table = rows is None or isinstance(rows, pa.Table)
        native_log = self.native(which) if small and is_table else None
        if native_log is not None:
            log.require_own_transactions()
            return native_log.commit(head, rows)
        if isinstance(rows, pa.Table):
            rows = self.spark.createDataFrame(rows)
        return log.commit(head, rows, small=small)

    def require_not_held(self, head: QueueHead | StatusHead) -> None:
        """Raise where a step would follow upon one of a front that still holds the queue."""
        if head.hold.by in ("", self.holder):
            return
        # A status log only names its holder; the item log says until when, or that it has left.
        hold = self.queue_head().hold
        if not fencing.is_over(hold, self.clock.now(), only_writer=self.is_only_writer()):
            raise FencedError(f"queue {self.name!r}", f"the front {hold.by}")

    def _winner(self, which: LogName, log: Log[_Head], lost: _Head) -> _Head:
        """Return the newest head after a step was lost to it, or to one before it.

        Raises
        ------
        LogDamagedError
            When nobody has the step: the table knows it from a later time than its rows are of.
        """
        newest = log.head(since=lost.step)
        if newest is None:
            raise LogDamagedError(self.name, which, lost.step)
        return newest

    def _fits(self, tail: Tail) -> bool:
        """Tell whether a tail is all there is to know, and in frames of this session."""
        return self.is_only_writer() and tail.rows.sparkSession is self.spark

    def _committed(self, point: str, commit: Callable[[], bool]) -> bool:
        if self.hook is not None:
            self.hook(point)
        return commit()

    def _read_settings(self, step: int) -> Settings:
        text = self._glanced(self.status, lambda seen: seen.text(CONFIG, step))
        if text is not None:
            return Settings.from_json(self.name, text)
        rows = self.status.read().where(
            (F.col("_gen") == META_LANE) & (F.col("_kind") == CONFIG) & (F.col("_step") == step)
        )
        row: Any = rows.select("_body").head()
        if row is None:
            why = f"the configuration that it names, a row of step {step}, is gone"
            raise LogDamagedError(self.name, "status", step, why)
        return Settings.from_json(self.name, row[0])

    def _identity(self) -> str:
        """Return what names the queue in this process, for what is remembered of it.

        Beside its place that is the id of its first status log: what is made anew there is another
        queue. On this machine's disk it is noticed by whoever had the old one in hand, too.
        """
        birth = traces.birth(self._local_directory())
        if birth is not None and birth != self._birth:
            self._location = None
            self.location()
        return f"{self._place()} {self._key}"

    def _place(self) -> str:
        """Return where the queue is, as one of many ways to spell that, for the locks on it."""
        directory = self._local_directory()
        return self.location() if directory is None else str(directory.resolve())

    def _directory_of(self, log: Log[Any]) -> Path | None:
        """Return the directory of a log on this machine's disk."""
        first = self._local_directory()
        if first is None or not self.address.is_path:
            return None if first is None else log.directory()
        return first.parent / log.address.target.rpartition("/")[2]

    def is_local(self) -> bool:
        """Tell whether the queue is on this machine's disk."""
        return self._local_directory() is not None

    def _local_directory(self) -> Path | None:
        return lock.local_directory(self.location())


def _require_fresh_snapshots(spark: SparkSession) -> None:
    """Raise where a read may miss commits that Spark did not make itself."""
    if not is_fresh(spark):
        raise UnsafeSessionError(STALENESS, "native commits would be read late; unset it")


def _rows(table: pa.Table | None, columns: Sequence[str]) -> list[Row]:
    """Return some columns of what a step wrote; those that it left out are null."""
    if table is None:
        return []
    known = table.select([name for name in table.column_names if name in columns])
    return [{**dict.fromkeys(columns), **row} for row in known.to_pylist()]


def _followed(
    replica: Replica, head: StatusHead, rows: DataFrame | pa.Table | None
) -> Replica | None:
    """Return a replica after a step; ``None`` where it is not at hand what that wrote."""
    if isinstance(rows, DataFrame):
        return None
    replica.follow(head.token, head.step, _rows(rows, FOLLOWED))
    return replica


def names_of(readers: Mapping[int, Registered]) -> list[str]:
    """Return the names of readers; the default one has none."""
    return [reader.name for reader in readers.values() if reader.name]


def is_long(head: StatusHead) -> bool:
    """Tell whether more was written since the checkpoint than a process keeps at hand."""
    return head.log_rows > memory.MAX_TAIL
