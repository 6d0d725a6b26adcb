"""Elements of a distinct queue, and takes that lend them to a scope."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import RLock
from types import TracebackType
from typing import Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.waiting.tickets import TaskTicket, ThreadTicket, Ticket, TicketLine
from spark_queue.memory.waiting.timer import Timeout, seconds
from spark_queue.wording import shorten

T = TypeVar("T")

Status = Literal["queued", "in_progress"]


@dataclass(slots=True)
class History:
    """The facts of an element of which there is more to tell than when it was added.

    Attributes
    ----------
    place : int
        Its place among all elements that were ever taken; 0 while it has none.
    added_at : float
        When it was added, in seconds of the queue's clock.
    busy : float
        Seconds in progress, in the takes that it came back from.
    collisions, failures : int
        How often an equal element was refused, and how often it failed.
    """

    added_at: float
    place: int = 0
    busy: float = 0.0
    collisions: int = 0
    failures: int = 0


class LiveEntry(Generic[T]):
    """An element that is here, and its place."""

    # Its maker sets them all: an `__init__` would cost a tenth of an add and a take.
    __slots__ = ("facts", "item", "take")

    item: T
    #: A history, or when it was added, which is all there is to tell of most elements.
    facts: float | History
    #: The take that holds it; ``None`` while it is queued; :data:`GONE` in the end.
    take: Any

    def history(self) -> History:
        """Return the facts as a history, which they are from now on."""
        facts = self.facts
        if not isinstance(facts, History):
            self.facts = facts = History(facts)
        return facts


#: Where an element is that is done.
GONE: Final = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Element(Generic[T]):
    """An element of a distinct queue and what became of it so far, at one instant."""

    item: T
    """The element: of equal ones the first that was added."""
    status: Status
    """Whether it waits, or a take holds it."""
    queued_seconds: float
    """How long it has waited, in all."""
    in_progress_seconds: float
    """How long takes have held it, in all."""
    collisions: int
    """How often an equal element was refused since it was added."""
    failures: int
    """How often it failed since it was added."""


class DistinctSnapshot(NamedTuple):
    """The elements of a distinct queue at one instant."""

    queued: tuple[Element[Any], ...]
    """What waits, in the order in which it will be taken."""
    in_progress: tuple[Element[Any], ...]
    """What takes hold, in the order in which it was added."""


def element_of(entry: LiveEntry[T], take: Any, now: float) -> Element[T]:
    """Make the public form of an element that a take holds, or none does."""
    facts = entry.facts
    history = facts if isinstance(facts, History) else History(facts)
    busy = history.busy if take is None else history.busy + now - take.taken_at
    return Element(
        item=entry.item,
        status="queued" if take is None else "in_progress",
        queued_seconds=now - history.added_at - busy,
        in_progress_seconds=busy,
        collisions=history.collisions,
        failures=history.failures,
    )


def snapshot_of(elements: list[Element[Any]]) -> DistinctSnapshot:
    """Sort elements by their status."""
    queued = tuple(element for element in elements if element.status == "queued")
    in_progress = tuple(element for element in elements if element.status == "in_progress")
    return DistinctSnapshot(queued, in_progress)


class LendingState(Protocol[T]):
    """The state of a distinct queue as its takes use it; see :class:`DistinctState`."""

    live: dict[T, LiveEntry[T]]
    fresh: deque[LiveEntry[T]]
    returned: list[tuple[int, LiveEntry[T]]]
    places: int
    lock: RLock
    now: Callable[[], float]
    takers: TicketLine[Batch[T]]

    def ask(self, ticket: Ticket[Batch[T]], patience: float | None) -> None:
        """Fill the take that a ticket names, or let the ticket join the line."""

    def end(self, take: Batch[T], kind: type[BaseException] | None) -> None:
        """Settle what a take holds by how its scope has ended."""

    def take_back(self, take: Batch[T]) -> None:
        """Return what a take holds to its places, untried."""

    def ack(self, take: Batch[T], item: T) -> None:
        """Settle one element of a take as done."""

    def give_back(self, take: Batch[T], item: T, *, failed: bool) -> None:
        """Return one element of a take to its place."""

    def reindex(self) -> None:
        """Index every element that is here by the hash that it has now."""


class Batch(list[T]):
    """The elements of one take: a list of them, and the say about each.

    Changing the list changes nothing else. Takes know nothing of one another: they may be nested,
    and run side by side in any number. One take is for one thread or coroutine at a time.
    """

    # The queue sets them all when it makes a take: an `__init__` would cost a tenth of one.
    __slots__ = ("entry", "held", "patience", "place", "queue_state", "taken_at", "wanted")

    queue_state: LendingState[T]
    #: How many elements to take at most; 0 once they are taken.
    wanted: int
    #: Seconds to wait at most for the first of them; ``None`` for ever.
    patience: float | None
    #: What it took, either the one entry or all; it holds those whose entry says so.
    entry: LiveEntry[T] | None
    held: list[LiveEntry[T]]
    #: When it took them.
    taken_at: float
    #: The place of the first of them that had never been taken, and has none yet.
    place: int

    def entries(self) -> Sequence[LiveEntry[T]]:
        """Return what it took, settled or not."""
        if self.wanted > 0:
            return ()
        return self.held if self.entry is None else (self.entry,)

    def ack(self, item: T) -> None:
        """Settle an element as done: it leaves the queue now, apart from the others.

        Raises
        ------
        InvalidArgumentError
            When this take does not hold it, or not any more.
        """
        self.queue_state.ack(self, item)

    def nack(self, item: T) -> None:
        """Settle an element as failed: it returns to its place now, with one failure more.

        Raises
        ------
        InvalidArgumentError
            When this take does not hold it, or not any more.
        """
        self.queue_state.give_back(self, item, failed=True)

    def release(self, item: T) -> None:
        """Give an element back untried: it returns to its place now, and nothing is counted.

        Raises
        ------
        InvalidArgumentError
            When this take does not hold it, or not any more.
        """
        self.queue_state.give_back(self, item, failed=False)


class Take(Batch[T]):
    """The scope of a take in a thread."""

    __slots__ = ()

    def __enter__(self) -> Take[T]:
        state, unused = self.queue_state, self.wanted
        try:
            if unused == 1 and state.fresh:
                try:
                    state.lock.acquire()
                    if state.fresh and not state.returned:
                        # What the state does to lend one element that was never taken before.
                        entry = state.fresh[0]
                        now = state.now
                        self.taken_at = now()
                        self.place = state.places = state.places + 1
                        self.entry = entry
                        self.wanted = 0
                        self.append(entry.item)
                        entry.take = self
                        state.fresh.popleft()
                        return self
                finally:
                    state.lock.release()
            if unused:
                fill(self)
        except BaseException:
            # An interrupt must find it either queued or in a scope that will end.
            state.take_back(self)
            raise
        if not unused:
            raise was_used(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        entry = self.entry
        if kind is not None or entry is None:
            self.queue_state.end(self, kind)
        elif entry.take is self:
            # One element is done in one step, which needs no lock.
            entry.take = GONE
            live, item = self.queue_state.live, entry.item
            if live.get(item) is entry:
                del live[item]
            else:
                # Its hash has changed, or it equals another by now, which stays.
                self.queue_state.reindex()


class ReadyTake(Batch[T]):
    """A take that has its elements before its scope is entered, in a thread or a coroutine."""

    __slots__ = ()

    def __enter__(self) -> ReadyTake[T]:
        if self.wanted:
            raise was_used(self)
        self.wanted = -1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.queue_state.end(self, kind)


class AioTake(Batch[T]):
    """The scope of a take in a coroutine."""

    __slots__ = ()

    async def __aenter__(self) -> AioTake[T]:
        await aio_fill(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        self.queue_state.end(self, kind)


B = TypeVar("B", bound=Batch[Any])


def prepare(take: B, state: LendingState[Any], wanted: int, timeout: Timeout) -> B:
    """Tell a take what it is to take, and return it.

    Raises
    ------
    InvalidArgumentError
        When the number is below 1 or the timeout negative.
    """
    take.queue_state = state
    take.wanted = wanted_of(wanted)
    take.patience = seconds("timeout", timeout)
    return take


def wanted_of(wanted: object) -> int:
    """Return how many elements to take at most.

    Raises
    ------
    InvalidArgumentError
        When it is no whole number of at least 1.
    """
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise InvalidArgumentError(
            f"max is {shorten(wanted)}: it must be a whole number of at least 1"
        )
    return wanted


def fill(take: Batch[T]) -> None:
    """Take the elements of a take, and block while there is none."""
    ticket = ThreadTicket(take.queue_state.takers, take)
    with ticket:
        take.queue_state.ask(ticket, take.patience)
        ticket.wait()


async def aio_fill(take: Batch[T]) -> None:
    """Take the elements of a take, and suspend while there is none."""
    ticket = TaskTicket(take.queue_state.takers, take)
    with ticket:
        take.queue_state.ask(ticket, take.patience)
        await ticket.wait()


def was_used(take: Batch[Any]) -> InvalidArgumentError:
    """Make the error for a take whose scope is entered once more."""
    return InvalidArgumentError(f"the take of {list(take)!r} was used: call take() for each scope")
