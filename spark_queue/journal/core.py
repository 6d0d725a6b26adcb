"""A journaled queue behind its fronts: the desk, what writes its journal, and the readers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from spark_queue.clock import Clock
from spark_queue.errors import QueueShutDownError
from spark_queue.inprocess.singular.requests import Reply
from spark_queue.journal.counters import QueueStats
from spark_queue.journal.failures import shut_down
from spark_queue.journal.journal_writer import JournalWriter
from spark_queue.journal.options import QueueOptions, ReaderHooks
from spark_queue.journal.reader import Reader
from spark_queue.journal.reader_state import ReaderDesk
from spark_queue.journal.records import Journal
from spark_queue.journal.registry import Registry
from spark_queue.journal.state import QueueDesk, Target
from spark_queue.reader_config import ReaderConfig
from spark_queue.waiting.timer import Timer

T = TypeVar("T")
R = TypeVar("R")


class Office(Generic[T]):
    """The parts of a journaled queue, put together.

    Attributes
    ----------
    desk : QueueDesk
    journal_writer : JournalWriter
    registry : Registry
    """

    def __init__(
        self,
        journal: Journal[T],
        name: str,
        options: QueueOptions,
        config: ReaderConfig,
        hooks: ReaderHooks[T],
        size_of: Callable[[T], int],
        queues: Callable[[str], Target] | None,
        clock: Clock,
        timer: Timer,
    ) -> None:
        resolve = _no_queue if queues is None else queues
        self.desk: QueueDesk[T] = QueueDesk(name, journal, options, size_of, clock, timer, resolve)
        self.journal_writer = JournalWriter(self.desk, options.checkpoint_interval)
        self.registry = Registry(self.desk, self.journal_writer, config, hooks)
        self._ended: Reply[None] | None = None
        try:
            self.registry.recover()
            self.journal_writer.expect_checkpoint()
            if self.registry.blind():
                self.run(self.registry.load_heads).result()
        except BaseException:
            self.desk.writer.leave()
            # Whoever opens it next must not find it held by one that never was.
            with suppress(Exception):
                journal.close()
            raise

    def front(self, reader: ReaderDesk[T]) -> Reader[T]:
        """Return the front of a reader."""
        return Reader(reader, self.load)

    def load(self, reader: ReaderDesk[T]) -> Reply[None]:
        """Have a block loaded for a reader."""
        return self.run(partial(self.journal_writer.load_now, reader))

    def run(self, call: Callable[[], R]) -> Reply[R]:
        """Have the writer thread make a call.

        Raises
        ------
        SparkQueueError
            When the queue is closed.
        """
        self.desk.require_open()
        try:
            return self.desk.writer.run(call)
        except QueueShutDownError:
            self.desk.require_open()
            raise

    def close(self, *, drain: bool) -> Reply[None]:
        """Refuse every call from now on; return the future of the journal's being given up."""
        return self._end(partial(self.journal_writer.close, drain=drain))

    def erase(self) -> Reply[None]:
        """Refuse every call from now on; return the future of the journal's being gone."""
        return self._end(self.journal_writer.erase)

    def _end(self, last: Callable[[], None]) -> Reply[None]:
        with self.desk.lock:
            if self._ended is None:
                self.desk.stop(shut_down(self.desk.name), broken=False)
                self._ended = self.desk.writer.run(last)
                self.desk.writer.leave()
        self.desk.hand_off()
        return self._ended

    def stats(self) -> QueueStats:
        """Return all that is counted, at one instant."""
        desk = self.desk
        with desk.lock:
            readers = {reader.line.name: reader.stats() for reader in desk.readers}
            return QueueStats(
                items=sum(reader.items for reader in readers.values()),
                bytes=sum(reader.bytes for reader in readers.values()),
                pending=desk.group_commit.pending,
                memory_items=len(desk.cache.entries),
                memory_bytes=desk.cache.bytes,
                commits=self.journal_writer.commits,
                loads=self.journal_writer.loads,
                readers=readers,
            )


def _no_queue(name: str) -> Target:
    raise LookupError(f"there is no way to the queue {name!r}: this one was given no queues")
