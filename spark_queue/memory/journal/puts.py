"""Puts into a journaled queue: which are refused, and which wait for room."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Generic, Protocol, TypeVar

from spark_queue.checks import limit_of, optional, require_utf8
from spark_queue.clock import Clock
from spark_queue.durability import Durability, require_kept
from spark_queue.errors import InvalidArgumentError, QueueFullError, SparkQueueError
from spark_queue.memory.journal.group_commit import CommitState, DoneReceipt, GroupCommit, Receipt
from spark_queue.memory.journal.journal_options import QueueOptions
from spark_queue.memory.journal.offsets import ReaderCursor
from spark_queue.memory.journal.records import Entry, Journal, own
from spark_queue.memory.waiting.tickets import ThreadTicket, Ticket, TicketLine
from spark_queue.wording import shorten

T = TypeVar("T")

#: Years that have a meaning in every zone.
_FIRST_YEAR, _LAST_YEAR = 2, 9998

_MAX_ERRORS = 2**31 - 1

#: An item that is to be put: itself, without an id, and the durability that was asked for.
Offer = tuple[Entry[T], Durability | None]


class PutState(CommitState[T], Protocol[T]):
    """The state of a queue as its puts use it."""

    journal: Journal[T]
    clock: Clock
    group_commit: GroupCommit[T]
    alert: bool
    handoffs: deque[Callable[[], None]]
    origins: dict[str, int]

    def require_open(self) -> None:
        """Raise where the queue is closed, lost or broken."""

    def tend(self) -> None:
        """See to every reader after something has come or gone. Under the lock."""

    def hand_off(self) -> None:
        """Run every hand-off that was noted. Without the lock."""


class Puts(Generic[T]):
    """The puts of a queue, under its lock.

    Attributes
    ----------
    producers : TicketLine
        Those who wait for room. What a ticket wants is its offer.
    """

    def __init__(
        self, state: PutState[T], options: QueueOptions, size_of: Callable[[T], int]
    ) -> None:
        self._state = state
        self._size_of = size_of
        self._max_size = limit_of("max_item_size", options.max_item_size)
        self.producers: TicketLine[Receipt] = TicketLine(
            state.lock,
            state.timer,
            lambda ticket, _: self._overflow(ticket.wants[0].item),
            # An interrupted producer has put its item all the same.
            lambda _: None,
        )

    def make_offer(
        self,
        item: T,
        expires_at: datetime | None = None,
        errors: int = 0,
        origin: str | None = None,
        durability: Durability | None = None,
    ) -> Offer[T]:
        """Make of an item what can be offered.

        Raises
        ------
        QueueFullError
            When it is larger than an item may be.
        InvalidArgumentError
            When its expiry has no zone, its errors are no count, or its durability is more than
            the queue promises, or no word of it.
        """
        if expires_at is not None or type(errors) is not int or errors or origin is not None:
            _require_plain(expires_at, errors, origin)
        if durability is not None:
            require_kept(durability, self._state.journal.survives)
        size = self._size_of(item)
        if size > self._max_size:
            raise self._overflow(item)
        now = self._state.clock.now()
        return Entry(0, own(item), now, size, expires_at, errors, origin), durability

    def offer(self, offer: Offer[T]) -> Receipt | None:
        """Put an item if there is room for it; ``None`` where it must wait for its turn.

        Raises
        ------
        QueueFullError
            When some reader is full, and refuses.
        SparkQueueError
            When the queue is closed.
        """
        state = self._state
        try:
            state.lock.acquire()
            if state.group_commit.room <= 0:
                state.require_open()
                return None
            entry, durability = offer
            if state.alert or entry.origin is not None:
                receipt = self._enter(entry, durability)
            else:
                receipt = self._append(entry, durability)
        finally:
            state.lock.release()
            if state.handoffs:
                state.hand_off()
        return receipt

    def _enter(self, entry: Entry[T], durability: Durability | None) -> Receipt:
        if self._state.alert:
            self.admit(entry)
        return self.place(entry, durability)

    def admit(self, entry: Entry[T], exempt: ReaderCursor[T] | None = None) -> None:
        """Find out whether every reader takes an item, except for an exempt one. Under the lock.

        Raises
        ------
        QueueFullError
            When some reader is full, and refuses.
        SparkQueueError
            When the queue is closed.
        """
        self._state.require_open()
        for reader in self._state.readers:
            if reader.line is not exempt and reader.is_refusing():
                raise QueueFullError(entry.item, reader.line.items)

    def place(self, entry: Entry[T], durability: Durability | None) -> Receipt:
        """Put an item that was admitted. Under the lock."""
        if entry.origin is not None and entry.origin in self._state.origins:
            return self._receipt_of(self._state.origins[entry.origin])
        receipt = self._append(entry, durability)
        if self._state.alert:
            self._state.tend()
        return receipt

    def _append(self, entry: Entry[T], durability: Durability | None) -> Receipt:
        state = self._state
        totals, cache, size = state.totals, state.cache, entry.size
        entry.id = item = totals.last_id + 1
        totals.last_id = item
        totals.items += 1
        totals.bytes += size
        if cache.followers:
            cache.entries[item] = entry
            cache.bytes += size
        if entry.origin is not None:
            state.origins[entry.origin] = entry.id
        if entry.expires_at is not None and not totals.has_expiring:
            totals.has_expiring = state.alert = True
        return state.group_commit.add(entry, durability)

    def _receipt_of(self, item: int) -> Receipt:
        if item <= self._state.totals.durable_id:
            return DoneReceipt(item)
        return self._state.group_commit.await_commit(item)

    def wait_for_room(self, offer: Offer[T], patience: float | None) -> Receipt:
        """Put an item once there is room for it, and block until then; see :meth:`ask_room`."""
        ticket = ThreadTicket(self.producers, offer)
        with ticket:
            receipt = self.ask_room(ticket, patience)
            return ticket.wait() if receipt is None else receipt

    def ask_room(self, ticket: Ticket[Receipt], patience: float | None) -> Receipt | None:
        """Put what a ticket offers, or join the line for room and return ``None``.

        The thread that makes room puts the item, so that producers keep their order.

        Raises
        ------
        QueueFullError
            When there is no room and the patience is 0, or some reader is full, and refuses.
        DeadlockError
            When the caller is the thread that would make room.
        SparkQueueError
            When the queue is closed.
        """
        with self._state.lock:
            self._state.require_open()
            receipt = self._enter(*ticket.wants) if self._state.group_commit.room > 0 else None
            if receipt is None:
                self._join(ticket, patience)
        self._state.hand_off()
        if receipt is None and patience is not None:
            ticket.expect(patience)
        return receipt

    def _join(self, ticket: Ticket[Receipt], patience: float | None) -> None:
        if patience == 0:
            raise self._overflow(ticket.wants[0].item)
        self._state.writer.require_elsewhere()
        self._state.group_commit.ask_commit()
        self.producers.join(ticket)

    def let_in(self) -> None:
        """Put what waits, as far as there is room now. Under the lock."""
        while self.producers.tickets and self._state.group_commit.room > 0:
            ticket, _ = self.producers.tickets.popitem(last=False)
            entry, durability = ticket.wants
            entry.added_at = self._state.clock.now()
            try:
                ticket.give(self._enter(entry, durability))
            except SparkQueueError as error:
                ticket.fail(error)

    def _overflow(self, item: T) -> QueueFullError:
        return QueueFullError(item, self._state.group_commit.pending)


def _require_plain(expires_at: object, errors: object, origin: object) -> None:
    """Raise where what goes with an item could not be compared with others', or not be stored."""
    if expires_at is not None:
        if not isinstance(expires_at, datetime) or expires_at.tzinfo is None:
            raise InvalidArgumentError(
                f"expires_at is {shorten(expires_at)}: it is a time with its zone"
            )
        if not _FIRST_YEAR <= expires_at.year <= _LAST_YEAR:
            raise InvalidArgumentError(
                f"expires_at is {expires_at!r}: leave it out where an item never expires"
            )
    if isinstance(errors, bool) or not isinstance(errors, int) or not 0 <= errors <= _MAX_ERRORS:
        raise InvalidArgumentError(f"errors is {shorten(errors)}: it is a count")
    optional(require_utf8, "origin", origin)
