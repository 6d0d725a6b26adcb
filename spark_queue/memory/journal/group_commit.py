"""Group commit: puts and settlements that become durable together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures._base import FINISHED
from contextlib import suppress
from dataclasses import dataclass
from threading import RLock
from typing import Any, Generic, Protocol, TypeVar, cast

from spark_queue.checks import limit_of
from spark_queue.durability import AT_ONCE, Durability
from spark_queue.errors import QueueShutDownError
from spark_queue.memory.journal.cache import EntryCache
from spark_queue.memory.journal.journal_options import QueueOptions
from spark_queue.memory.journal.offsets import QueueReader
from spark_queue.memory.journal.records import Entry, Group, PutTotals
from spark_queue.memory.singular.requests import ExecutionContext, Promise, Reply, require_elsewhere
from spark_queue.memory.singular.singular_queue import SingularUpdateQueue
from spark_queue.memory.waiting.timer import Alarm, Timer, seconds

R = TypeVar("R")


class WriterThread:
    """Runs calls in order, on a thread of its own.

    Parameters
    ----------
    name : str
        What the thread and messages call it.
    last_words : callable
        Called on the thread with what kills it: an error that is no ordinary exception.
    """

    def __init__(self, name: str, last_words: Callable[[BaseException], object]) -> None:
        self._last_words = last_words
        self._calls: SingularUpdateQueue[Callable[[], Any], Any] = SingularUpdateQueue(
            self._make, capacity=None, name=name
        )
        self.context: ExecutionContext = self._calls.work.context
        self._calls.start()

    def _make(self, call: Callable[[], R]) -> R:
        try:
            return call()
        except Exception:
            raise
        except BaseException as error:
            self._last_words(error)
            raise

    def run(self, call: Callable[[], R]) -> Reply[R]:
        """Have a call made, and return the future of its result.

        Raises
        ------
        QueueShutDownError
            When the thread has gone.
        """
        return cast("Reply[R]", self._calls.submit_nowait(call))

    def tell(self, call: Callable[[], object]) -> None:
        """Make a call without a reply, if the thread still exists."""
        with suppress(QueueShutDownError):
            self._calls.submit_nowait(call)

    def require_elsewhere(self) -> None:
        """Refuse to wait for this thread on itself.

        Raises
        ------
        DeadlockError
            When a callback of a future, which this thread runs, is about to wait for it.
        """
        require_elsewhere(self.context)

    def leave(self) -> None:
        """Make the calls that were asked for, take no more, and end the thread after them."""
        self._calls.shutdown(drain=True, wait=False)


T = TypeVar("T")


class Receipt(Promise[int]):
    """The future of a put: the id of its item, once that is as durable as it was asked to be."""

    item_id: int

    def __init__(self, item: int, context: ExecutionContext) -> None:
        super().__init__(context)
        self.item_id = item


class DoneReceipt(Receipt):
    """A receipt that is done from the start."""

    # What a future sets and settles, said once for all: it would be a quarter of a put.
    context = ExecutionContext("nowhere")
    _state = FINISHED
    _exception = None

    def __init__(self, item: int) -> None:
        self._result = item


@dataclass(slots=True)
class PendingGroup(Generic[T]):
    """A group on its way to the journal."""

    group: Group[T]
    receipts: list[Receipt]
    last_id: int
    """With it, everything up to this id is durable."""

    def is_empty(self) -> bool:
        """Whether the group has nothing to make durable."""
        return not (self.group.puts or self.group.settlements)


class CommitState(Protocol[T]):
    """The state of a queue as its group commit uses it."""

    lock: RLock
    timer: Timer
    writer: WriterThread
    totals: PutTotals
    cache: EntryCache[T]
    readers: Sequence[QueueReader[T]]


class GroupCommit(Generic[T]):
    """The next group: all puts and settlements since the last. Under the lock.

    Parameters
    ----------
    state : CommitState
        The queue.
    options : QueueOptions
        How large a group may be, and when it is due.
    let_in : callable
        Called under the lock when a group has left room for waiting puts.

    Attributes
    ----------
    puts : list of Entry
        Items that no group has yet.
    room : float
        How many more may be put before a put must wait; nothing, once the queue is closed.
    receipts : list of Receipt
        Futures that wait for the group.
    commit : callable
        What the writer thread does when a group is due; set by its owner.
    """

    def __init__(
        self, state: CommitState[T], options: QueueOptions, let_in: Callable[[], object]
    ) -> None:
        self._state = state
        self._let_in = let_in
        self._context = state.writer.context
        self._max_items = limit_of("max_group_items", options.max_group_items)
        self._max_bytes = limit_of("max_group_bytes", options.max_group_bytes)
        self._durability = options.durability
        self._interval = seconds("interval", options.interval) or 0.0
        self._alarm: Alarm | None = None
        self.commit: Callable[[], object] = lambda: None
        self.room = limit_of("max_pending", options.max_pending)
        self.unsettled = 0
        self._start()

    def _start(self) -> None:
        self.puts: list[Entry[T]] = []
        self.receipts: list[Receipt] = []
        self._bytes = 0
        self._settlements = 0
        #: Whether the group need not wait for others to join it.
        self._is_urgent = False
        self._is_asked = False

    # What joins the group

    def add(self, entry: Entry[T], durability: Durability | None) -> Receipt:
        """Note an item, and return the future of its id."""
        durability = durability or self._durability
        self.puts.append(entry)
        self._bytes += entry.size
        self.room -= 1
        if durability not in AT_ONCE:
            return self.await_commit(entry.id)
        if len(self.puts) >= self._max_items or self._bytes >= self._max_bytes or self.room <= 0:
            self._is_urgent = True
        if self._alarm is None or self._is_urgent:
            self._see_to_commit(durability)
        return DoneReceipt(entry.id)

    def await_commit(self, item: int) -> Receipt:
        """Return the future of an item that is durable with this group, which is due at once."""
        receipt = Receipt(item, self._context)
        self.receipts.append(receipt)
        self._is_urgent = True
        self.ask_commit()
        return receipt

    def note_settlements(self, count: int = 1) -> None:
        """Count what readers did, which is to be durable some time."""
        self._settlements += count
        if self._settlements >= self._max_items:
            self._is_urgent = True
        if self._alarm is None or self._is_urgent:
            self._see_to_commit(self._durability)

    # When it is due

    def _see_to_commit(self, durability: Durability) -> None:
        if self._is_urgent:
            self.ask_commit()
        elif durability != "memory":
            timer = self._state.timer
            self._alarm = timer.call_at(timer.now() + self._interval, self._ring)

    def _ring(self) -> None:
        with self._state.lock:
            self._alarm = None
            if self.puts or self._settlements:
                self.ask_commit()

    def ask_commit(self) -> None:
        """Have the group committed that gathers."""
        if not self._is_asked:
            self._is_asked = True
            self._state.writer.tell(self.commit)

    # What becomes of it

    def cut(self) -> PendingGroup[T]:
        """Begin a new group, and return the gathered one. Without the lock."""
        with self._state.lock:
            lines = [reader.line for reader in self._state.readers]
            settlements = {
                line.number: cut for line in lines if (cut := line.cut_settlements()) is not None
            }
            heads = {line.number: line.head for line in lines}
            group = Group(self.puts, settlements, heads)
            done = PendingGroup(group, self.receipts, self._state.totals.last_id)
            self.unsettled = len(self.puts)
            self._start()
            return done

    def settle(self, done: PendingGroup[T]) -> None:
        """Say that a group is durable, and let producers in who waited for it. Without the lock."""
        state = self._state
        with state.lock:
            self.room += self.unsettled
            self.unsettled = 0
            state.totals.durable_id = done.last_id
            state.cache.trim(done.last_id)
            self._let_in()

    def close(self) -> None:
        """Take no items any more."""
        self.room = -math.inf

    def drop_receipts(self) -> list[Receipt]:
        """Return the futures that wait, which nothing will settle now."""
        receipts, self.receipts = self.receipts, []
        return receipts

    @property
    def pending(self) -> int:
        """How many items are not durable."""
        return len(self.puts) + self.unsettled
