"""Counters of a journaled queue, and the snapshots that tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta


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
