"""Entry cache: the items of a queue that are in memory, once for all readers, as many as fit.

A reader takes items by id, upwards. So the cache holds what lies ahead of some reader: an item
leaves it once every reader has taken it (its holder keeps it), or when there are too many and it
will be needed last. Other items are loaded from the journal again; items that are not durable yet
always are here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from spark_queue.memory.journal.records import Entry

T = TypeVar("T")

#: Ids that are evicted by the same look at the readers: as 2 to the power of this.
_SPAN_BITS = 6
#: What one load asks for at most.
_MAX_BLOCK = 10_000
#: No items, of no bytes.
_NOTHING = (0, 0)


class Follower(Protocol):
    """A reader as the cache sees it."""

    cursor: int
    """It has taken everything below."""
    refill_at: float
    """When its cursor gets here, what it needs next may not be in memory."""


class EntryCache(Generic[T]):
    """Items by id, the gaps between ids, and how much of it fits. Used under the queue's lock.

    Attributes
    ----------
    entries : dict
        The items in memory, by id.
    bytes : int
        How many bytes that counts.
    followers : list
        The readers; changed by their registry.
    """

    def __init__(self, max_items: float, max_bytes: float) -> None:
        self._max_items = max_items
        self._max_bytes = max_bytes
        self.entries: dict[int, Entry[T]] = {}
        self.bytes = 0
        self.followers: list[Follower] = []
        self._gaps: dict[int, int] = {}
        # No id above this one is missing here.
        self._missing_to = 0

    def add(self, entry: Entry[T]) -> None:
        """Keep an item, if some reader has not taken it."""
        if entry.id in self.entries or not self._is_needed(entry.id):
            return
        self.entries[entry.id] = entry
        self.bytes += entry.size

    def release(self, item: int) -> None:
        """Let an item go that a reader has taken, unless another has not."""
        if item in self.entries and not (len(self.followers) > 1 and self._is_needed(item)):
            self.bytes -= self.entries.pop(item).size

    def release_range(self, first: int, last: int) -> None:
        """Let items go that a reader is past; see :meth:`release`."""
        if last - first > len(self.entries):
            self.prune()
        else:
            for item in range(first, last + 1):
                self.release(item)

    def prune(self) -> None:
        """Let everything go that no reader needs."""
        lowest = min((line.cursor for line in self.followers), default=math.inf)
        for item in [item for item in self.entries if item < lowest]:
            self.bytes -= self.entries.pop(item).size

    def _is_needed(self, item: int) -> bool:
        return any(line.cursor <= item for line in self.followers)

    def gap_end(self, item: int) -> int | None:
        """Return the last of the missing ids that an id is one of, ``None`` when it is none."""
        for first, last in self._gaps.items():
            if first <= item <= last:
                return last
        return None

    def note_missing(self, first: int, last: int) -> None:
        """Say that ids are in the journal and not here."""
        if last < first:
            return
        self._missing_to = max(self._missing_to, last)
        for line in self.followers:
            if line.cursor <= last:
                line.refill_at = line.cursor

    def block_size(self) -> int:
        """Return how many items to load at once."""
        share = min(self._max_items / (2 * max(1, len(self.followers))), _MAX_BLOCK)
        if self.entries and self.bytes:
            mean = self.bytes / len(self.entries)
            share = min(share, self._max_bytes / mean / (2 * len(self.followers)))
        return max(1, int(share))

    def first_missing(self, line: Follower, count: int) -> int | None:
        """Return the first id, of the next so many for a reader, that is not here."""
        item = line.cursor
        last = min(self._missing_to, item + count - 1)
        while item <= last:
            if item not in self.entries:
                end = self.gap_end(item)
                if end is None:
                    return item
                item = end
            item += 1
        return None

    def await_refill(self, line: Follower, stocked_to: int, count: int) -> None:
        """Set when a reader must look again, given that all is here up to an id."""
        more = stocked_to < self._missing_to
        line.refill_at = max(line.cursor, stocked_to - count // 2) if more else math.inf

    def stock(self, first: int, entries: Sequence[Entry[T]], end: int) -> None:
        """Take in a block of the journal, which has nothing else from an id on up to another."""
        expected = first
        for entry in entries:
            self._note_gap(expected, entry.id - 1)
            expected = entry.id + 1
            self.add(entry)
        self._note_gap(expected, end)

    def _note_gap(self, first: int, last: int) -> None:
        if first <= last:
            self._gaps[first] = last

    def trim(self, durable_id: int) -> None:
        """Evict durable items beyond the limit, first the items that every reader needs last."""
        if not self._is_full(_NOTHING):
            return
        # Items that are not durable stay, and have a limit of their own. In the room of the rest
        # they would evict a block that was just loaded, before its reader had it.
        pending = [entry.size for item, entry in self.entries.items() if item > durable_id]
        beside = (len(pending), sum(pending))
        spans = {item >> _SPAN_BITS for item in self.entries if item <= durable_id}
        for span in sorted(spans, key=self._distance, reverse=True):
            self._evict(self._of_span(span, durable_id), beside)
            if not self._is_full(beside):
                return

    def _is_full(self, beside: tuple[int, int]) -> bool:
        items, size = beside
        return len(self.entries) - items > self._max_items or self.bytes - size > self._max_bytes

    def _distance(self, span: int) -> int:
        last = ((span + 1) << _SPAN_BITS) - 1
        return last - max(
            (line.cursor for line in self.followers if line.cursor <= last), default=0
        )

    def _of_span(self, span: int, durable_id: int) -> Iterable[int]:
        first = span << _SPAN_BITS
        last = min(durable_id, first + (1 << _SPAN_BITS) - 1)
        return range(last, first - 1, -1)

    def _evict(self, items: Iterable[int], beside: tuple[int, int]) -> None:
        # What a reader needs next stays: those who look after a load would else look for ever.
        next_ones = {line.cursor for line in self.followers}
        for item in items:
            if not self._is_full(beside):
                return
            entry = None if item in next_ones else self.entries.pop(item, None)
            if entry is not None:
                self.bytes -= entry.size
                self.note_missing(item, item)
