"""Core of a journaled queue, which its fronts share: its state, journal writer and readers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Generic, TypeVar

from spark_queue.checks import require_flag, require_kind
from spark_queue.clock import Clock
from spark_queue.durability import require_kept
from spark_queue.errors import QueueShutDownError
from spark_queue.memory.journal.journal_options import QueueOptions, ReaderHooks
from spark_queue.memory.journal.journal_reader import JournalReader
from spark_queue.memory.journal.journal_state import QueueState, Target, shut_down
from spark_queue.memory.journal.journal_writer import JournalWriter
from spark_queue.memory.journal.reader_registry import Registry
from spark_queue.memory.journal.reader_state import ReaderState
from spark_queue.memory.journal.records import Journal, JournalStats
from spark_queue.memory.singular.requests import Reply
from spark_queue.memory.waiting.timer import Timer
from spark_queue.reader_config import ReaderConfig

T = TypeVar("T")
R = TypeVar("R")


class JournaledCore(Generic[T]):
    """What the fronts of a journaled queue share: its parts, put together.

    Attributes
    ----------
    state : QueueState
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
        require_kept(options.durability, journal.survives)
        resolve = _no_queue if queues is None else queues
        self.state: QueueState[T] = QueueState(
            name, journal, options, size_of, clock, timer, resolve
        )
        self.journal_writer = JournalWriter(self.state, options.checkpoint_interval)
        self.registry = Registry(self.state, self.journal_writer, config, hooks)
        self._ended: Reply[None] | None = None
        try:
            self.registry.recover()
            self.journal_writer.expect_checkpoint()
            if self.registry.blind():
                self.run(self.registry.load_heads).result()
        except BaseException:
            self.state.writer.leave()
            # The next process to open it must not find it held by one that never was.
            with suppress(Exception):
                journal.close()
            raise

    def front(self, reader: ReaderState[T]) -> JournalReader[T]:
        """Return the front of a reader."""
        return JournalReader(reader, self.load)

    def load(self, reader: ReaderState[T]) -> Reply[None]:
        """Have a block loaded for a reader."""
        return self.run(partial(self.journal_writer.load_now, reader))

    def run(self, call: Callable[[], R]) -> Reply[R]:
        """Have the writer thread make a call.

        Raises
        ------
        SparkQueueError
            When the queue is closed.
        """
        self.state.require_open()
        try:
            return self.state.writer.run(call)
        except QueueShutDownError:
            self.state.require_open()
            raise

    def drop_reader(self, name: str) -> Reply[None]:
        """Have a reader dropped, by its name."""
        require_kind("name", name, str)
        return self.run(partial(self.registry.drop, name))

    def close(self, *, drain: bool) -> Reply[None]:
        """Refuse every call from now on; return the future of the journal's being given up.

        In a child of a fork there is nothing to give up.
        """
        require_flag("drain", drain)
        if not self.state.owner.is_here():
            return _done()
        return self._end(partial(self.journal_writer.close, drain=drain))

    def erase(self) -> Reply[None]:
        """Refuse every call from now on; return the future of the journal's being gone."""
        self.state.owner.require()
        return self._end(self.journal_writer.erase)

    def _end(self, last: Callable[[], None]) -> Reply[None]:
        with self.state.lock:
            if self._ended is None:
                self.state.stop(shut_down(self.state.name), broken=False)
                self._ended = self.state.writer.run(last)
                self.state.writer.leave()
        self.state.hand_off()
        return self._ended

    def stats(self) -> JournalStats:
        """Return all that is counted, at one instant."""
        state = self.state
        state.owner.require()
        with state.lock:
            readers = {reader.line.name: reader.stats() for reader in self.registry.readers}
            return JournalStats(
                items=sum(reader.items for reader in readers.values()),
                bytes=sum(reader.bytes for reader in readers.values()),
                pending=state.group_commit.pending,
                memory_items=len(state.cache.entries),
                memory_bytes=state.cache.bytes,
                commits=self.journal_writer.commits,
                loads=self.journal_writer.loads,
                readers=readers,
            )


def _done() -> Reply[None]:
    done: Reply[None] = Reply()
    done.set_running_or_notify_cancel()
    done.set_result(None)
    return done


def _no_queue(name: str) -> Target:
    raise LookupError(f"there is no way to the queue {name!r}: this one was given no queues")
