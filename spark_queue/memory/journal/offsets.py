"""Cursor of one reader: done items, open items, the next.

Items come in the order of their ids, also those that come back. Below the ``cursor`` every
item was taken once: it is done, open, away (on its way out), stuck, or back. From the cursor on
none was. Every item up to the ``head`` is done, and ``done`` holds those that are behind it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Generic, Protocol, TypeVar

from spark_queue.memory.journal.cache import EntryCache
from spark_queue.memory.journal.records import (
    Counters,
    Entry,
    PutTotals,
    Read,
    ReaderOffset,
    Settlements,
)
from spark_queue.memory.waiting.tickets import TicketLine

T = TypeVar("T")


class ReaderCursor(Generic[T]):
    """The state of one reader. Used under the queue's lock; it calls nothing foreign.

    Attributes
    ----------
    cursor : int
        The first id that was never taken.
    head, done : int, set of int
        The done items: everything up to the head, and these.
    open, away, stuck, back : dict
        Items that were taken and are not done, by id: handed out; on their way to another queue or
        in the hands of a hook; expired, with a hook that failed; and unread again.
    settlements : Settlements
        What happened since the last group was cut.
    """

    def __init__(self, offset: ReaderOffset, totals: PutTotals, cache: EntryCache[T]) -> None:
        self.number = offset.reader
        self.name = offset.name
        self.config = offset.config
        self.created_at = offset.created_at
        self.head = offset.head
        self.done = set[int]()
        self.errors = dict(offset.errors)
        self.open: dict[int, Read[T]] = {}
        self.away: dict[int, Entry[T]] = {}
        self.stuck: dict[int, Entry[T]] = {}
        self.back: dict[int, Entry[T]] = {}
        self._order: list[int] = []
        self.settlements = Settlements()
        self.counters = Counters()
        self._totals = totals
        self._cache = cache
        # With the later puts, it is the work of the reader: a put touches no reader.
        self._owed_items = offset.items - totals.items
        self._owed_bytes = offset.bytes - totals.bytes
        self._put_base = (totals.items, totals.bytes)
        self.is_loading = False
        self.refill_at = math.inf
        for item in sorted(offset.done):
            if item > self.head:
                self._mark_done(item)
        self.cursor = self.head + 1

    @property
    def items(self) -> int:
        """How many items are not done."""
        return self._totals.items + self._owed_items

    @property
    def bytes(self) -> int:
        """How many bytes these count."""
        return self._totals.bytes + self._owed_bytes

    @property
    def open_bytes(self) -> int:
        """How many bytes the open items count."""
        return sum(read.entry.size for read in self.open.values())

    @property
    def put_count(self) -> int:
        """How many items were put since the reader is there."""
        return self._totals.items - self._put_base[0]

    @property
    def put_bytes(self) -> int:
        """How many bytes these counted."""
        return self._totals.bytes - self._put_base[1]

    def owe(self, items: int, size: int) -> None:
        """Count items that the reader has to do, and that were not put just now."""
        self._owed_items += items
        self._owed_bytes += size

    # What comes next

    def next_entry(self) -> Entry[T] | None:
        """Return the next unread item; ``None`` when there is none, or it :meth:`is_absent`."""
        while self._order:
            entry = self.back.get(self._order[0])
            if entry is not None:
                return entry
            heappop(self._order)
        return self._next_fresh()

    def _next_fresh(self) -> Entry[T] | None:
        entries, last = self._cache.entries, self._totals.last_id
        while self.cursor <= last:
            entry = entries.get(self.cursor)
            if entry is not None and self.cursor not in self.done and self.cursor > self.head:
                return entry
            if not self._step_over():
                return None
        return None

    def _step_over(self) -> bool:
        """Pass ids at the cursor that are done, or missing; ``False`` when there are none."""
        first = self.cursor
        if first <= self.head:
            self.cursor = self.head + 1
        elif first in self.done:
            self.cursor = first + 1
        else:
            end = self._cache.gap_end(first)
            if end is None:
                return False
            for item in range(first, end + 1):
                self._mark_done(item)
            self.cursor = end + 1
        self._cache.release_range(first, self.cursor - 1)
        return True

    def is_absent(self) -> bool:
        """Whether there is a next item and it is not in memory."""
        return self.next_entry() is None and self.cursor <= self._totals.last_id

    def take(self, entry: Entry[T]) -> None:
        """Take the next item, or the next that was never taken, out of the order."""
        item = entry.id
        if item != self.cursor:
            del self.back[item]
            return
        self.cursor = item + 1
        self._cache.release(item)

    def errors_of(self, entry: Entry[T]) -> int:
        """Return how often an item has failed."""
        return self.errors.get(entry.id, entry.errors)

    # What becomes of it

    def open_read(self, entry: Entry[T], at: float = 0.0) -> Read[T]:
        """Open a read of an item that was taken."""
        read = Read(entry, self.errors_of(entry) if self.errors else entry.errors, at)
        self.open[entry.id] = read
        counters = self.counters
        counters.opened += 1
        counters.get_hit += 1
        return read

    def close_read(self, read: Read[T] | int) -> Read[T] | None:
        """End a read, by itself or by the id; ``None`` when it is not open."""
        if isinstance(read, int):
            return self.open.pop(read, None)
        item = read.entry.id
        if self.open.get(item) is not read:
            return None
        del self.open[item]
        return read

    def undo_read(self, read: Read[T]) -> bool:
        """Take back a read that did not arrive, as if it had never been."""
        if self.close_read(read) is None:
            return False
        self.counters.opened -= 1
        self.counters.get_hit -= 1
        self.put_back(read.entry)
        return True

    def put_back(self, entry: Entry[T]) -> None:
        """Let an item that was taken be unread again, at its place."""
        self.back[entry.id] = entry
        heappush(self._order, entry.id)

    def fail(self, entry: Entry[T], errors: int) -> None:
        """Let an item that was taken be unread again, with its errors."""
        self.errors[entry.id] = self.settlements.returned[entry.id] = errors
        self.put_back(entry)

    def settle(self, entry: Entry[T], into: list[int]) -> None:
        """Count an item that was taken as done, for a reason: a list of the settlements."""
        item = entry.id
        into.append(item)
        self._owed_items -= 1
        self._owed_bytes -= entry.size
        if self.errors and self.errors.pop(item, None) is not None:
            self.settlements.returned.pop(item, None)
        self._mark_done(item)

    def _mark_done(self, item: int) -> None:
        done = self.done
        if item != self.head + 1:
            done.add(item)
            return
        while done and item + 1 in done:
            item += 1
            done.remove(item)
        self.head = item

    def is_done(self, item: int) -> bool:
        """Whether an item is done."""
        return item <= self.head or item in self.done

    def cut_settlements(self) -> Settlements | None:
        """Return what happened since the last cut, ``None`` for nothing."""
        if self.settlements.is_empty():
            return None
        settlements, self.settlements = self.settlements, Settlements()
        return settlements

    # What goes without being read

    def expires_at(self, entry: Entry[T]) -> datetime | None:
        """Return when an item expires for this reader: by itself, or by its age."""
        if self.config.max_age is None:
            return entry.expires_at
        by_age = entry.added_at + self.config.max_age
        return by_age if entry.expires_at is None else min(entry.expires_at, by_age)

    def is_expired(self, entry: Entry[T], now: datetime) -> bool:
        """Whether an item has expired for this reader."""
        at = self.expires_at(entry)
        return at is not None and at <= now

    def sweep(self, now: datetime) -> Iterator[Entry[T]]:
        """Take expired items out, first of the returned items, then of the fresh."""
        while self._order:
            entry = self.next_entry()
            if not self._order or entry is None or not self.is_expired(entry, now):
                break
            self.take(entry)
            yield entry
        while (entry := self._next_fresh()) is not None and self.is_expired(entry, now):
            self.take(entry)
            yield entry

    def unstick(self) -> None:
        """Let expired items whose hook failed be looked at again."""
        for entry in self.stuck.values():
            self.put_back(entry)
        self.stuck.clear()

    def is_refusing(self) -> bool:
        """Whether the reader is full, and wants no more."""
        return self.config.full_policy == "refuse" and self._is_beyond_limits(more=1)

    def is_overfull(self) -> bool:
        """Whether the reader has more than fits, and drops the oldest."""
        return self.config.full_policy == "drop_oldest" and self._is_beyond_limits(more=0)

    def _is_beyond_limits(self, *, more: int) -> bool:
        """Whether the reader would have too much with one more item, or one more byte."""
        config = self.config
        return (config.max_items is not None and self.items + more > config.max_items) or (
            config.max_bytes is not None and self.bytes + more > config.max_bytes
        )

    def drop_oldest(self) -> None:
        """Drop the oldest unread items that are too many; the newest of all stays in any case."""
        while self.is_overfull():
            entry = self.next_entry()
            if entry is None or entry.id == self._totals.last_id:
                return
            self.take(entry)
            self.settle(entry, self.settlements.discarded)
            self.counters.discarded += 1

    def lose_up_to(self, bound: int) -> int:
        """Drop unread items up to an id, as far as they are in memory; return how many."""
        count = 0
        while (entry := self.next_entry()) is not None and entry.id <= bound:
            self.take(entry)
            self.settle(entry, self.settlements.discarded)
            count += 1
        self.counters.lost += count
        return count

    def flush(self) -> int:
        """Drop everything that is unread, and return how many items that were."""
        kept = [read.entry for read in self.open.values()]
        kept += [*self.away.values(), *self.stuck.values()]
        count = self.items - len(kept)
        first, self.cursor = self.cursor, self._totals.last_id + 1
        unread = [
            *self.back,
            *(item for item in range(first, self.cursor) if not self.is_done(item)),
        ]
        self.back.clear()
        self.settlements.discarded += unread
        for item in unread:
            self.errors.pop(item, None)
            self.settlements.returned.pop(item, None)
            self._mark_done(item)
        self._owed_items = len(kept) - self._totals.items
        self._owed_bytes = sum(entry.size for entry in kept) - self._totals.bytes
        self._cache.release_range(first, self.cursor - 1)
        self.counters.flushes += 1
        return count

    # What it looks like

    def age(self, now: datetime) -> timedelta:
        """Return how long the oldest unread item has waited."""
        entry = self.next_entry()
        return timedelta(0) if entry is None else now - entry.added_at

    def is_idle(self, now: datetime) -> bool:
        """Whether nothing is left and the reader is older than an unused one may be."""
        limit: timedelta | None = self.config.max_idle
        return limit is not None and not self.items and self.created_at + limit <= now


class QueueReader(Protocol[T]):
    """A reader as its queue sees it. All but ``lose_up_to`` is called under the queue's lock."""

    line: ReaderCursor[T]
    """Its items."""
    waiters: TicketLine[Read[T]]
    """Calls that wait for an item."""

    def needs_tending(self) -> bool:
        """Whether the reader must be seen to after each put."""

    def is_refusing(self) -> bool:
        """Whether the reader is full and wants no more."""

    def tend(self) -> None:
        """Drop excess and expired items, and serve waiting calls."""

    def restock(self) -> None:
        """Drop excess items, and serve waiting calls."""

    def lose_up_to(self, bound: int) -> bool:
        """Drop unread items up to an id; tell whether a block must be loaded to go on."""
