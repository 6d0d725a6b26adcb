"""The two logs of a queue for one of its readers, and this process's view of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from spark_queue.checks import optional, require_callable, require_methods
from spark_queue.clock import Clock, require_clock
from spark_queue.errors import (
    FormatVersionError,
    LogDamagedError,
    QueueNotFoundError,
    ReaderNotFoundError,
    SparkQueueError,
)
from spark_queue.extras import require_delta
from spark_queue.log import addresses
from spark_queue.log.addresses import QueueAddress
from spark_queue.log.delta import completeness
from spark_queue.log.delta.log import Log
from spark_queue.log.disk import write_lock
from spark_queue.log.disk.redo_file import restore_below
from spark_queue.log.heads import (
    QueueHead,
    Registered,
    StatusHead,
    UnknownHeadError,
    names_of,
    queue_head,
    status_head,
)
from spark_queue.log.log_kinds import TableSource
from spark_queue.log.schema import CONFIG, FORMAT_VERSION
from spark_queue.log.session_options import PlainSession, Session, spark_of
from spark_queue.log.settings import Settings, format_of
from spark_queue.log.step_events import Listener, LogName
from spark_queue.reader_config import ReaderConfig
from spark_queue.state import catch_up
from spark_queue.state.catch_up import Cache, Position
from spark_queue.state.handle import Handle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


#: Seconds to wait for the right to write: a step of millions of rows takes minutes.
PATIENCE = 600.0


class Store:
    """The two logs of one queue, for one of its readers.

    All readers share the log of items; each has a status log of its own.

    Parameters
    ----------
    handle : Handle
        What all readers share.
    reader : int
        The number of the reader; 0, the first, by default.
    """

    def __init__(self, handle: Handle, reader: int = 0) -> None:
        self._handle = handle
        self.reader = reader
        place, address = handle.place, handle.address
        self.queue: Log[QueueHead] = place.log(address.queue, queue_head)
        self.status: Log[StatusHead] = place.log(address.status_of(reader), status_head)

    @classmethod
    def of(
        cls,
        session: Session,
        address: QueueAddress,
        clock: Clock | None = None,
        listener: Listener | None = None,
        tables: TableSource | None = None,
    ) -> Store:
        """Return a queue's store for its first reader, by default with the system's clock.

        Raises
        ------
        InvalidArgumentError
            When there is no session, a clock tells no time, or a listener is no function.
        SetupError
            When the library does not run on the session's version of Spark, or Delta does not.
        """
        if not isinstance(session, PlainSession):
            require_methods("spark", session, "sql")
        optional(require_callable, "listener", listener)
        handle = Handle(session, address, require_clock(clock), listener, tables=tables)
        if not isinstance(session, PlainSession):
            require_delta(session.version)
        directory = addresses.directory_of(session, address.queue)
        if directory is not None:
            restore_below(directory.parent)
        return cls(handle)

    @property
    def handle(self) -> Handle:
        """The part that all readers share.

        Raises
        ------
        SetupError
            In a child of a fork, whose parent uses the session of Spark.
        """
        if self._handle.owner is not None:
            self._handle.owner.require()
        return self._handle

    @property
    def spark(self) -> SparkSession:
        """The caller's session of Spark."""
        return spark_of(self.session, f"queue {self.name!r}")

    @property
    def session(self) -> Session:
        """The session that opened the queue."""
        return self.handle.session

    @property
    def clock(self) -> Clock:
        """The clock that each operation asks once."""
        return self.handle.clock

    @property
    def listener(self) -> Listener | None:
        """The listener to every step."""
        return self.handle.listener

    @property
    def name(self) -> str:
        """The queue's name or path."""
        return self.handle.address.name

    def of_reader(self, reader: int) -> Store:
        """Return the same queue as another reader sees it."""
        return self if reader == self.reader else Store(self.handle, reader)

    def in_session(self, spark: SparkSession) -> Store:
        """Return the same queue with frames of another session."""
        mine = self.handle
        handle = Handle(spark, mine.address, mine.clock, mine.listener, tables=mine.tables)
        return Store(handle, self.reader)

    def log(self, which: LogName) -> Log[Any]:
        """Return one of the two logs by its name."""
        return self.queue if which == "queue" else self.status

    def registered(self, cache: Cache | None = None) -> Registered:
        """Return this reader's facts, as of the head seen last.

        Parameters
        ----------
        cache : Cache, optional
            What this process knows of the queue, where the caller has looked it up.

        Raises
        ------
        ReaderNotFoundError
            When it was dropped.
        """
        seen = (cache or self.cache()).queue.head
        readers = seen.readers if seen is not None else {}
        if self.reader not in readers:
            readers = self.queue_head().readers
        if self.reader not in readers:
            raise ReaderNotFoundError(self.name, f"#{self.reader}", names_of(readers))
        return readers[self.reader]

    def reader_config(self) -> ReaderConfig:
        """Return this reader's configuration."""
        cache = self.cache()
        return cache.position(self.reader).reader_config_of(self.registered(cache))

    def outstanding(self, head: StatusHead) -> int:
        """Return the number of items open for this reader, as of a step of its log."""
        return self.queue_head().items - self.registered().since_items - sum(head.finished.values())

    def columns(self) -> str:
        """Return the columns of the item log, as Spark writes a schema in JSON."""
        log = self.native("queue")
        if log is not None:
            return log.schema()
        cache = self.cache()
        if self.is_local() or cache.columns is None:
            cache.columns = self.queue.schema()
        return cache.columns

    def forget(self) -> None:
        """Drop this process's view of the queue; it is read again on demand."""
        catch_up.forget(self.handle.place.identity())

    def queue_head(self, cache: Cache | None = None) -> QueueHead:
        """Return the newest head of the item log.

        Parameters
        ----------
        cache : Cache, optional
            What this process knows of the queue, where the caller has looked it up.

        Raises
        ------
        LogDamagedError
            When the log has not all the steps that something names.
        FormatVersionError
            When a newer release wrote it.
        """
        try:
            return catch_up.items(self, cache or self.cache())
        except UnknownHeadError as exc:
            raise self._unknown("queue", exc) from exc

    def status_head(self, cache: Cache | None = None, at: Position | None = None) -> StatusHead:
        """Return the newest head of the status log; as :meth:`queue_head`."""
        cache = cache or self.cache()
        at = at or cache.position(self.reader)
        is_first = at.status.head is None
        try:
            head = catch_up.status(self, cache, at)
        except UnknownHeadError as exc:
            raise self._unknown("status", exc) from exc
        if is_first and head.step:
            self._require_agreement(head)
        return head

    def _require_agreement(self, head: StatusHead) -> None:
        """Raise where the item log and this status log cannot both be whole."""
        # The item log is read last: what a transition names has entered by then.
        completeness.require_known_seqs(self.name, self.status, head, self.queue_head)
        if self.reader == 0:
            completeness.require_known_steps(self.name, self.status, head, self.queue_head())

    def rows_since(
        self, which: LogName, step: int, columns: Sequence[str], most: int | None = None
    ) -> pa.Table:
        """Return some columns of the rows of a log's steps after one, by a query.

        Raises
        ------
        InvalidArgumentError
            When there are more rows than that; by default they may be any number.
        """
        by_spark = import_module("spark_queue.state.spark_frames")
        return by_spark.rows_since(self, which, step, columns, most)

    def position(self) -> Position:
        """Return this process's view of the reader's log."""
        return self.cache().position(self.reader)

    def cache(self) -> Cache:
        """Return this process's view of the queue."""
        return catch_up.cache_of(self.handle.place.identity())

    def native(self, which: LogName) -> Log[Any] | None:
        """Return a log that can be read and written without Spark; ``None`` where it cannot."""
        # A queue that was made in the place of another is to be opened again.
        self.handle.place.identity()
        log = self.log(which)
        return log if log.is_readable() else None

    def is_followed(self) -> bool:
        """Whether this process follows the steps of others one by one."""
        if self.is_local():
            return True
        seen = (self.cache().queue, self.position().status)
        is_known = all(log.head is None or log.version is not None for log in seen)
        return is_known and self.queue.is_followed() and self.status.is_followed()

    def settings(self, head: StatusHead, position: Position | None = None) -> Settings:
        """Return the configuration in force at a step of the status log.

        Parameters
        ----------
        head : StatusHead
            The step.
        position : Position, optional
            What this process knows of the reader's log, where the caller has looked it up.
        """
        known = (position or self.position()).settings
        if head.config_step not in known:
            known[head.config_step] = self._read_settings(head.config_step)
        return known[head.config_step]

    def is_local(self) -> bool:
        """Whether the queue is on this machine's disk."""
        return self.handle.place.is_local()

    @contextmanager
    def writing(self, which: LogName) -> Iterator[None]:
        """Hold the right to write a log, against threads here and processes on this disk.

        Raises
        ------
        WriterLockedError
            When another process keeps it too long; it names its pid.
        QueueNotFoundError
            When the log is gone.
        """
        place, name = self.handle.place, self.name
        directory = place.directory_of(self.log(which))
        if directory is None:
            # Logs elsewhere are only locked against other threads, each log by itself.
            name = f"{place.name()}/{which} of {self.reader}"
        with ExitStack() as held:
            try:
                held.enter_context(write_lock.holding(name, directory, timeout=PATIENCE))
            except FileNotFoundError as exc:
                raise QueueNotFoundError(self.name) from exc
            yield

    def _unknown(self, which: LogName, exc: UnknownHeadError) -> SparkQueueError:
        """Return the error for a head that this release would not write."""
        newest = max(map(format_of, self.of_reader(0).status.texts(CONFIG)), default=0)
        if newest > FORMAT_VERSION:
            return FormatVersionError(self.name, newest, FORMAT_VERSION)
        return LogDamagedError(self.name, which, 0, f"its newest head cannot be read: {exc}")

    def _read_settings(self, step: int) -> Settings:
        text = self.status.text(CONFIG, step)
        if text is None:
            why = f"the configuration that it names, a row of step {step}, is gone"
            raise LogDamagedError(self.name, "status", step, why)
        return Settings.from_json(self.name, text)
