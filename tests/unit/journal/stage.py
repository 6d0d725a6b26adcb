"""What the tests of the journaled queue share: queues, journals, and time driven by hand."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from spark_queue.clock import ManualClock
from spark_queue.journal import (
    Entry,
    Group,
    JournaledQueue,
    JournalReader,
    MemoryJournal,
    QueueOptions,
    Read,
    ReaderHooks,
    Settlements,
)
from spark_queue.memory.waiting.timer import ManualTimer
from spark_queue.reader_config import ReaderConfig

T = TypeVar("T")

KIB = 1024
#: Nobody waits for the journal: what is durable is what the test asks for.
LAZY = QueueOptions(durability="memory")


class Stage:
    """Makes queues that share one clock and one timer."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.timer = ManualTimer()
        self.queues: dict[str, JournaledQueue[str]] = {}
        self._made: list[JournaledQueue[str]] = []

    def advance(self, seconds: float) -> None:
        """Move the time forward."""
        self.clock.advance(timedelta(seconds=seconds))
        self.timer.advance(seconds)

    def after(self, seconds: float) -> datetime:
        """Return an instant to come."""
        return self.clock.now() + timedelta(seconds=seconds)

    def journal(self) -> MemoryJournal[str]:
        """Return an empty journal."""
        return MemoryJournal(clock=self.clock)

    def filled(self, count: int, head: int | None, *, name: str = "") -> MemoryJournal[str]:
        """Return a journal with so many items of 1 KiB, and a reader at a head, if one is given."""
        journal = self.journal()
        journal.recover()
        if head is not None:
            journal.add_reader(name, ReaderConfig(), head=0)
        entries = [Entry(i, str(i) * KIB, self.clock.now(), KIB) for i in range(1, count + 1)]
        done = Settlements(acked=list(range(1, (head or 0) + 1)))
        journal.commit(Group(entries, {0: done}))
        return journal

    def queue(
        self,
        journal: MemoryJournal[str] | None = None,
        name: str = "queue",
        *,
        options: QueueOptions | None = None,
        hooks: ReaderHooks[str] | None = None,
        **limits: Any,
    ) -> JournaledQueue[str]:
        """Open a queue; what is not known of its arguments is of its readers' configuration."""
        made: JournaledQueue[str] = JournaledQueue(
            self.journal() if journal is None else journal,
            name,
            options=LAZY if options is None else options,
            config=ReaderConfig(**limits),
            hooks=hooks,
            queues=self.queues.__getitem__,
            clock=self.clock,
            timer=self.timer,
        )
        self.queues[name] = made
        self._made.append(made)
        return made

    def again(self, journal: MemoryJournal[str], **options: Any) -> JournaledQueue[str]:
        """Open a queue over what a journal has left behind."""
        return self.queue(journal.successor(), **options)

    def end(self) -> None:
        """Give every queue up."""
        for made in self._made:
            with contextlib.suppress(Exception):
                made.close(drain=False)


class Gate:
    """Holds calls of a journal up until the test lets them go, or fails them."""

    def __init__(self, journal: MemoryJournal[Any], *calls: str) -> None:
        self._calls = calls
        self._open = threading.Event()
        self.reached = threading.Event()
        self.error: BaseException | None = None
        journal.before = self._pass

    def _pass(self, call: str) -> None:
        if call not in self._calls:
            return
        self.reached.set()
        assert self._open.wait(10)
        if self.error is not None:
            raise self.error

    def open(self) -> None:
        """Let everything go, from now on."""
        self._open.set()

    def fail(self, error: BaseException) -> None:
        """Fail what waits, and what comes."""
        self.error = error
        self._open.set()


def failing(journal: MemoryJournal[Any], call: str, error: BaseException) -> None:
    """Let every call of a kind fail."""

    def fail(name: str) -> None:
        if name == call:
            raise error

    journal.before = fail


def put_all(queue: JournaledQueue[str], *items: str) -> list[int]:
    """Put items, and return their ids."""
    return [queue.put(item).result() for item in items]


def got(call: Callable[[], Read[str]]) -> str | None:
    """Return the item that a get finds, ``None`` for nothing."""
    try:
        return call().item
    except queue.Empty:
        return None


def drain(reader: JournalReader[T]) -> list[T]:
    """Get and ack everything that is there."""
    items: list[T] = []
    while True:
        try:
            read = reader.get(timeout=0)
        except queue.Empty:
            return items
        reader.ack(read)
        items.append(read.item)


def unread(reader: JournalReader[str]) -> list[str]:
    """Get everything that is there, and put it back untried."""
    reads = reader.get_many(1_000_000)
    for read in reads:
        reader._state._take_back(read)
    return [read.item for read in reads]
