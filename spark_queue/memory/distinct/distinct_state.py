"""State of a distinct queue: its elements, and those who wait for them.

The order of service is ``returned``, by place, and then ``fresh``: all that was ever taken stood
before everything that was not. So an element needs no place until it is taken, and a return costs
the logarithm of how many have returned. An element is in one of these two or held by a take, and
its entry says which; ``live`` is only the index that tells equal elements. So an element that
changes its hash while it is here, which no index survives, is delivered and settled all the same.

The scheduler knows the same rule with keys, groups, leases and delays, at 0.7 KB an element; here
one costs an entry of four words and its place in the index.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from heapq import heappop, heappush
from threading import RLock
from typing import Any, Generic, TypeVar

from spark_queue.errors import InvalidArgumentError, QueueShutDownError
from spark_queue.memory.distinct.take import GONE, Batch, Element, LiveEntry, element_of, was_used
from spark_queue.memory.waiting.tickets import Ticket, TicketLine
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timer, nothing_came
from spark_queue.wording import shorten

T = TypeVar("T")


class DistinctState(Generic[T]):
    """The state of a distinct queue under its one lock, for fronts of any kind.

    A taker waits only while nothing is queued: an arrival serves the waiters in
    the same step, so that no taker waits for a queued element.

    Attributes
    ----------
    live : dict
        The entry of every element that is queued or in progress, in the order of the adds.
    fresh : deque
        The entries of queued elements that were never taken, in the order of the adds.
    returned : heap
        The entries of queued elements that were, by their places.
    places : int
        How many elements were ever taken for the first time.
    alert : bool
        Whether an add must look closer: a taker may wait, or the queue is shut down.
    """

    __slots__ = ("alert", "closed", "fresh", "live", "lock", "now", "places", "returned", "takers")

    def __init__(self, timer: Timer) -> None:
        # Reentrant for the sake of its release, which refuses a thread that does not hold it. So
        # what must be fast takes it inside of its `try`, at half the price of a `with`, and an
        # interrupt at any instant leaves it free.
        self.lock = RLock()
        # The clock of the shared timer without its method, which would cost a tenth of an add.
        self.now = time.monotonic if timer is SHARED_TIMER else timer.now
        self.live: dict[T, LiveEntry[T]] = {}
        self.fresh: deque[LiveEntry[T]] = deque()
        self.returned: list[tuple[int, LiveEntry[T]]] = []
        self.places = 0
        self.takers: TicketLine[Batch[T]] = TicketLine(
            self.lock, timer, lambda _, patience: nothing_came("element", patience), self.take_back
        )
        self.closed = self.alert = False

    def admit(self, items: Iterable[T]) -> list[T]:
        """Add elements in one step, then serve waiting takes; return the refused elements.

        Raises
        ------
        QueueShutDownError
            When the queue is shut down.
        """
        with self.lock:
            self._require_open()
            now = self.now()
            rejected = [item for item in items if not self._insert(item, now)]
            self.serve()
        return rejected

    def _insert(self, item: T, now: float) -> bool:
        if item in self.live:
            return self.refuse(item)
        entry: LiveEntry[T] = LiveEntry()
        entry.item = item
        entry.facts = now
        entry.take = None
        self.live[item] = entry
        self.fresh.append(entry)
        return True

    def refuse(self, item: T) -> bool:
        """Count a collision, and return ``False``. Under the lock.

        Raises
        ------
        QueueShutDownError
            When the queue is shut down.
        """
        self._require_open()
        entry = self.live.get(item)
        if entry is not None:
            # It is there, unless its take has just ended.
            entry.history().collisions += 1
        return False

    def hand_over(self, entry: LiveEntry[T]) -> None:
        """Lend a new element to the first who waits, or else queue it. Under the lock.

        Raises
        ------
        QueueShutDownError
            When the queue is shut down.
        """
        self._require_open()
        self.live[entry.item] = entry
        tickets = self.takers.tickets
        while tickets:
            ticket, _ = tickets.popitem(last=False)
            take = ticket.wants
            take.taken_at = self.now()
            take.place = self.places = self.places + 1
            take.entry = entry
            take.wanted = 0
            take.append(entry.item)
            entry.take = take
            if ticket.give(take):
                break
            entry.take = None
        else:
            self.fresh.append(entry)
        self.alert = self.closed or bool(tickets)

    def ask(self, ticket: Ticket[Batch[T]], patience: float | None) -> None:
        """Fill the take that a ticket names, or let the ticket join the line.

        Raises
        ------
        queue.Empty
            When nothing is queued and the patience is 0.
        QueueShutDownError
            When nothing is queued and the queue is shut down.
        InvalidArgumentError
            When the take was filled before.
        """
        try:
            self.lock.acquire()
            take = ticket.wants
            if not take.wanted:
                raise was_used(take)
            if self.fresh or self.returned:
                self._lend(take)
                ticket.give(take)
                return
            if self.closed:
                raise _nothing_left()
            if patience == 0:
                raise nothing_came("element", patience)
            self.takers.join(ticket)
            self.alert = True
        finally:
            self.lock.release()
        if patience is not None:
            ticket.expect(patience)

    def serve(self) -> None:
        """Give queued elements to waiting takes. Under the lock."""
        tickets = self.takers.tickets
        while tickets and (self.fresh or self.returned):
            ticket, _ = tickets.popitem(last=False)
            take = ticket.wants
            self._lend(take)
            if not ticket.give(take):
                self._return_all(take, failed=False)
        self.alert = self.closed or bool(tickets)

    def _lend(self, take: Batch[T]) -> None:
        """Give a take the next elements, as many as it wants and there are.

        An element changes hands by the store and the call that follow each other: an interrupt
        comes before both or after both.
        """
        held: list[LiveEntry[T]] = []
        take.entry, take.held = None, held
        take.place = self.places + 1
        take.taken_at = self.now()
        wanted, take.wanted = take.wanted, 0
        fresh, returned = self.fresh, self.returned
        while returned and len(held) < wanted:
            entry = returned[0][1]
            held.append(entry)
            entry.take = take
            heappop(returned)
        while fresh and len(held) < wanted:
            entry = fresh[0]
            held.append(entry)
            self.places += 1
            entry.take = take
            fresh.popleft()
        take.extend([entry.item for entry in held])

    def end(self, take: Batch[T], kind: type[BaseException] | None) -> None:
        """Settle what a take holds: done without an error, failed by an exception, else given back.

        An interrupt in between does not keep it from being settled.
        """
        with self.lock:
            try:
                self._settle(take, kind)
            except BaseException:
                self._settle(take, kind)
                raise

    def _settle(self, take: Batch[T], kind: type[BaseException] | None) -> None:
        if kind is not None:
            self._return_all(take, failed=issubclass(kind, Exception))
            self.serve()
            return
        for entry in take.entries():
            if entry.take is take:
                self._forget(entry)

    def take_back(self, take: Batch[T]) -> None:
        """Return what a take holds to its places, untried."""
        self.end(take, BaseException)

    def ack(self, take: Batch[T], item: T) -> None:
        """Settle one element of a take as done.

        Raises
        ------
        InvalidArgumentError
            When the take does not hold it.
        """
        with self.lock:
            self._forget(self._find_held(take, item))

    def give_back(self, take: Batch[T], item: T, *, failed: bool) -> None:
        """Return one element of a take to its place.

        Raises
        ------
        InvalidArgumentError
            When the take does not hold it.
        """
        with self.lock:
            self._return(take, self._find_held(take, item), failed=failed)
            self.serve()

    def _find_held(self, take: Batch[T], item: T) -> LiveEntry[T]:
        entry = self._look_up(item)
        if entry is None or entry.take is not take:
            # Perhaps its hash has changed since it was added.
            held = (entry for entry in take.entries() if entry.item is item and entry.take is take)
            entry = next(held, None)
        if entry is None:
            raise InvalidArgumentError(
                f"this take does not hold {shorten(item)}: it was settled before, another take has "
                "it, or "
                "the scope has ended"
            )
        return entry

    def _look_up(self, item: T) -> LiveEntry[T] | None:
        try:
            return self.live.get(item)
        except TypeError:
            return None

    def _return_all(self, take: Batch[T], *, failed: bool) -> None:
        for entry in take.entries():
            if entry.take is take:
                self._return(take, entry, failed=failed)

    def _return(self, take: Batch[T], entry: LiveEntry[T], *, failed: bool) -> None:
        self._number(take)
        history, now = entry.history(), self.now()
        history.busy += now - take.taken_at
        history.failures += failed
        entry.take = None
        heappush(self.returned, (history.place, entry))

    def _number(self, take: Batch[T]) -> None:
        """Give each element of a take its place, which is first asked for by a return."""
        if not take.place:
            return
        for entry in take.entries():
            history = entry.history()
            if not history.place:
                history.place = take.place
                take.place += 1
        take.place = 0

    def _forget(self, entry: LiveEntry[T]) -> None:
        entry.take = GONE
        if self.live.get(entry.item) is entry:
            del self.live[entry.item]
        else:
            self.reindex()

    def reindex(self) -> None:
        """Index every element that is here by the hash that it has now."""
        with self.lock:
            entries = list(self.live.values())
            self.live.clear()
            for entry in entries:
                # A done element must not hide an equal one.
                if entry.take is not GONE:
                    self.live.setdefault(entry.item, entry)
            for entry in entries:
                # The scope of one element ends without the lock, perhaps just now.
                if entry.take is GONE and self.live.get(entry.item) is entry:
                    del self.live[entry.item]

    def items(self, *, in_progress: bool) -> list[T]:
        """Return the elements in progress, or the queued ones, in the order of adds."""
        entries = self._here()
        return [entry.item for entry, take in entries if (take is not None) is in_progress]

    def elements(self) -> list[Element[T]]:
        """Return everything that is here at one instant, in the order of adds."""
        with self.lock:
            now = self.now()
            return [element_of(entry, take, now) for entry, take in self._here()]

    def _here(self) -> list[tuple[LiveEntry[T], Any]]:
        with self.lock:
            # The scope of one element ends without the lock: each is looked at once.
            entries = [(entry, entry.take) for entry in list(self.live.values())]
        return [(entry, take) for entry, take in entries if take is not GONE]

    def element(self, item: T) -> Element[T]:
        """Return the status, times and counts of one element.

        Raises
        ------
        InvalidArgumentError
            When it is not here.
        """
        with self.lock:
            entry = self._look_up(item)
            take = GONE if entry is None else entry.take
            if entry is None or take is GONE:
                raise InvalidArgumentError(
                    f"{shorten(item)} is neither queued nor in progress: only what is here has "
                    "facts"
                )
            return element_of(entry, take, self.now())

    def close(self) -> None:
        """Refuse elements from now on, and end every wait with an error."""
        with self.lock:
            self.closed = self.alert = True
            self.takers.fail_all(_nothing_left)

    def _require_open(self) -> None:
        if self.closed:
            raise QueueShutDownError("the queue is shut down: it takes no elements any more")


def _nothing_left() -> QueueShutDownError:
    return QueueShutDownError("the queue is shut down, and nothing is queued that could be taken")
