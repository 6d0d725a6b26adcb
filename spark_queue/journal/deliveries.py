"""Deliveries: items that were handed out, each until it is settled."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from spark_queue.errors import InvalidArgumentError
from spark_queue.journal.records import Entry

T = TypeVar("T")

_CHANGEABLE = (dict, list, set, bytearray)


def own(item: T) -> T:
    """Return an item that nobody else can change, as far as it is made of plain containers.

    A queue writes an item later than it takes it, and may hand it out again: to another reader, or
    when it came back. Objects of other kinds are kept as they are.
    """
    if not isinstance(item, _CHANGEABLE):
        return item
    try:
        return deepcopy(item)
    except RecursionError as exc:
        raise InvalidArgumentError("the item is nested too deep to be copied: flatten it") from exc
    except TypeError as exc:
        raise InvalidArgumentError(f"the item cannot be copied, as a queue does: {exc}") from exc


class Read(Generic[T]):
    """What a get hands out: an item, and the token to ack, nack or release it with.

    Attributes
    ----------
    entry : Entry
        The item as the journal has it.
    errors : int
        How often it has failed, here and in the queues it came from.
    opened_at : float
        When it was handed out, by the queue's timer; 0 where no reader asks for it.
    """

    __slots__ = ("_item", "entry", "errors", "opened_at")

    def __init__(self, entry: Entry[T], errors: int, opened_at: float = 0.0) -> None:
        self.entry = entry
        self.errors = errors
        self.opened_at = opened_at

    def __repr__(self) -> str:
        return f"<Read {self.id} {self.item!r} errors={self.errors}>"

    @property
    def id(self) -> int:
        """The id of the item."""
        return self.entry.id

    @property
    def item(self) -> T:
        """The item itself, for this read alone."""
        try:
            return self._item
        except AttributeError:
            self._item: T = own(self.entry.item)
            return self._item

    @property
    def added_at(self) -> datetime:
        """When it was put."""
        return self.entry.added_at


@dataclass(slots=True)
class PutTotals:
    """What was put into a queue since it was opened."""

    last_id: int = 0
    """The highest id that was given."""
    durable_id: int = 0
    """The highest id that the journal holds for sure."""
    items: int = 0
    bytes: int = 0
    has_expiring: bool = False
    """Whether an item was seen that expires by itself."""


@dataclass(slots=True)
class Counters:
    """What happened to the items of one reader since its queue was opened."""

    get_hit: int = 0
    """Gets that were answered with an item."""
    get_miss: int = 0
    """Gets that ended with nothing."""
    opened: int = 0
    committed: int = 0
    """Reads that ended by an ack."""
    canceled: int = 0
    """Reads that ended by a nack, or by their timeout."""
    expired: int = 0
    discarded: int = 0
    """Items that were dropped since the reader was full."""
    lost: int = 0
    """Items that were dropped since the reader was too far behind the others."""
    punted: int = 0
    """Failed items that an error handler or another queue took."""
    flushes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStats:
    """One reader at one instant."""

    name: str
    items: int
    """What is not done, open reads included."""
    bytes: int
    open_items: int
    open_bytes: int
    waiters: int
    age: timedelta
    """How long the oldest unread item has waited."""
    head: int
    """Every item up to this id is done."""
    put: int
    """Items that were put while the reader was there."""
    put_bytes: int
    get_hit: int
    get_miss: int
    opened: int
    committed: int
    canceled: int
    expired: int
    discarded: int
    lost: int
    punted: int
    flushes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalStats:
    """A journaled queue at one instant."""

    items: int
    """The items of all readers together: one that two have not read counts twice."""
    bytes: int
    pending: int
    """Items that are not durable yet."""
    memory_items: int
    memory_bytes: int
    commits: int
    """Groups that were made durable."""
    loads: int
    """Blocks that were read back."""
    readers: Mapping[str, ReaderStats]
