"""State of a fair queue under its one lock: its items, its limit, and those who wait."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, Final, Generic, TypeVar

from spark_queue.errors import InvalidArgumentError, QueueFullError, QueueShutDownError
from spark_queue.memory.fair.rounds import Rounds, no_key
from spark_queue.memory.waiting.tickets import Ticket, TicketLine
from spark_queue.memory.waiting.timer import Timer, nothing_came

T = TypeVar("T")

#: An item on its way to a taker: its number, its key, and itself.
Handed = tuple[int, Hashable, T]

#: Says that there is no item, since ``None`` is one.
NOTHING: Final[Any] = object()


class FairState(Generic[T]):
    """The state of a fair queue under its one lock, for fronts of any kind.

    Two rules hold whenever the lock is free, so that no wait is in vain: a taker waits
    only while no item is queued, and a producer only while every slot is taken, by an item or by a
    producer who was let in and is about to put. The key function runs without the lock.

    Attributes
    ----------
    rounds : Rounds
        The queued items.
    done : int
        How many items are done, by ``task_done`` or because they were dropped.
    takers, producers, joiners : TicketLine
        Those who wait: for an item, for a slot, and until every item is done.
    """

    def __init__(self, key: Callable[[T], Hashable], limit: int | None, timer: Timer) -> None:
        self._key = key
        # How many items fit; and how many may be queued now, which is less by the slots of the
        # producers who were let in, and less than nothing once the queue is shut down.
        self._limit = self._room = sys.maxsize if limit is None else limit
        # A reentrant lock for the sake of its release, which refuses a thread that does not hold
        # it. So what must be fast takes it inside of its `try`, at half the price of a `with`, and
        # an interrupt at any instant leaves it free.
        self._lock = lock = RLock()
        self.rounds: Rounds[T] = Rounds()
        self.done = 0
        self.closed = self._drops = False
        self.takers: TicketLine[Handed[T]] = TicketLine(
            lock, timer, lambda _, patience: nothing_came("item", patience), self._give_back
        )
        self.producers: TicketLine[None] = TicketLine(
            lock, timer, lambda ticket, _: self._overflow(ticket.wants), self._free_slot
        )
        self.joiners: TicketLine[None] = TicketLine(
            lock, timer, lambda _, patience: nothing_came("end", patience), lambda _: None
        )
        # For a look in passing: empty while no caller waits.
        self._waiting = self.takers.tickets
        self._blocked = self.producers.tickets

    def offer(self, item: T) -> bool:
        """Put an item if there is a slot for it; ``False`` when there is none.

        The key function is called only if a slot was seen.

        Raises
        ------
        InvalidArgumentError
            When the key cannot be hashed.
        """
        rounds = self.rounds
        if rounds.added - rounds.taken >= self._room:
            return False
        key_of = self._key
        key = key_of(item)
        try:
            self._lock.acquire()
            if rounds.added - rounds.taken >= self._room:
                return False
            if self._waiting:
                self._place(key, item)
            else:
                rounds.add(key, item)
        finally:
            self._lock.release()
        return True

    def poll(self) -> T:
        """Take the next item, or return :data:`NOTHING`."""
        rounds = self.rounds
        item: T = NOTHING
        try:
            self._lock.acquire()
            if rounds.added != rounds.taken:
                item = rounds.take()
                if self._blocked:
                    self._let_in()
        finally:
            self._lock.release()
        return item

    def ask_item(self, ticket: Ticket[Handed[T]], patience: float | None) -> T:
        """Take the next item, or else join the line for one and return :data:`NOTHING`.

        Raises
        ------
        queue.Empty
            When there is none and the patience is 0.
        QueueShutDownError
            When there is none and the queue is shut down.
        """
        with self._lock:
            item = self.poll()
            if item is not NOTHING:
                return item
            if self.closed:
                raise _no_item()
            if patience == 0:
                raise nothing_came("item", patience)
            self.takers.join(ticket)
        if patience is not None:
            ticket.expect(patience)
        return item

    def ask_slot(self, ticket: Ticket[None], patience: float | None) -> None:
        """Reserve a slot for the item that the ticket names, or join the line for one.

        Raises
        ------
        QueueFullError
            When there is none and the patience is 0, or there never will be one.
        QueueShutDownError
            When the queue is shut down.
        """
        with self._lock:
            self._require_open()
            if len(self.rounds) < self._room:
                self._room -= 1
                ticket.give(None)
                return
            if patience == 0 or self._limit < 1:
                raise self._overflow(ticket.wants)
            self.producers.join(ticket)
        if patience is not None:
            ticket.expect(patience)

    def fill_slot(self, ticket: Ticket[None]) -> None:
        """Put the item that a ticket names into the slot that it was given.

        Raises
        ------
        InvalidArgumentError
            When the key cannot be hashed; the ticket still has its slot.
        QueueShutDownError
            When the queue was shut down during the wait.
        """
        key = self._key(ticket.wants)
        with self._lock:
            self._require_open()
            self._place(key, ticket.wants)
            ticket.spend()
            self._free_slot()

    def resize(self, limit: int | None) -> None:
        """Change the limit, and let in who fits now; nothing is dropped."""
        with self._lock:
            before, self._limit = self._limit, sys.maxsize if limit is None else limit
            self._room += self._limit - before
            self._let_in()

    def ask_idle(self, ticket: Ticket[None]) -> None:
        """Join the line of those who wait until every item is done."""
        with self._lock:
            if self.done == self.rounds.added:
                ticket.give(None)
            else:
                self.joiners.join(ticket)

    def task_done(self) -> None:
        """Count one item as done.

        Raises
        ------
        InvalidArgumentError
            When every item is done already.
        """
        with self._lock:
            if self.done == self.rounds.added:
                raise InvalidArgumentError(
                    f"task_done() was called once more than the {self.done} item(s) that were put: "
                    "call it once for each item that was taken"
                )
            self._count_done(1)

    def close(self, *, drop: bool) -> None:
        """Refuse items from now on, and end every wait for an item or a slot with an error."""
        with self._lock:
            self.closed = True
            self._room = -2 * sys.maxsize
            if drop:
                self._drops = True
                self._count_done(self.rounds.clear())
            self.takers.fail_all(_no_item)
            self.producers.fail_all(_no_slot)

    def size(self) -> int:
        """Return how many items are queued."""
        with self._lock:
            return len(self.rounds)

    def count_unfinished(self) -> int:
        """Return how many items were put and are not done."""
        with self._lock:
            return self.rounds.added - self.done

    def copy(self) -> list[list[tuple[Hashable, T]]]:
        """Copy the rounds at one instant."""
        with self._lock:
            return self.rounds.copy()

    def _place(self, key: Hashable, item: T) -> None:
        if not (self._waiting and self._hand_over(key, item)):
            self.rounds.add(key, item)

    def _hand_over(self, key: Hashable, item: T) -> bool:
        try:
            hash(key)
        except TypeError as error:
            raise no_key(key, error) from error
        rounds = self.rounds
        rounds.added += 1
        rounds.taken += 1
        if self.takers.give((rounds.added, key, item)):
            return True
        rounds.added -= 1
        rounds.taken -= 1
        return False

    def _give_back(self, handed: Handed[T]) -> None:
        if self.takers.give(handed):
            return
        if self._drops:
            self._count_done(1)
        else:
            self.rounds.restore(*handed)

    def _let_in(self) -> None:
        while len(self.rounds) < self._room:
            self._room -= 1
            if not self.producers.give(None):
                self._room += 1
                return

    def _free_slot(self, _: object = None) -> None:
        self._room += 1
        if self._blocked:
            self._let_in()

    def _count_done(self, count: int) -> None:
        # No more than all, where some was said to be done before it was taken, and then dropped.
        self.done = min(self.done + count, self.rounds.added)
        if self.done == self.rounds.added:
            while self.joiners.give(None):
                pass

    def _require_open(self) -> None:
        if self.closed:
            raise _no_slot()

    def _overflow(self, item: object) -> QueueFullError:
        return QueueFullError(item, len(self.rounds))


def _no_item() -> QueueShutDownError:
    return QueueShutDownError("the queue is shut down and empty: nothing is left to take")


def _no_slot() -> QueueShutDownError:
    return QueueShutDownError("the queue is shut down: it takes no items any more")
