"""A heap whose values can change their key, or leave, from anywhere in it."""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

V = TypeVar("V")

#: Stale entries that a heap may carry however few values it holds.
_SLACK = 16


class Heap(dict[V, Any]):
    """Values with keys; it finds the value with the smallest key.

    Leaving is lazy: the entry stays behind until it comes up, or until most entries are such
    remains and the heap is rebuilt. So every operation is O(log n), on average, and the memory
    is that of the values. Keys of different values must differ, or the values be comparable.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[tuple[Any, V]] = []

    def put(self, value: V, key: Any) -> None:
        """Add a value, or change its key."""
        if self.get(value) == key:
            return
        self[value] = key
        heappush(self._entries, (key, value))
        self._compact()

    def discard(self, value: V) -> bool:
        """Remove a value; say whether it was there."""
        if self.pop(value, None) is None:
            return False
        self._compact()
        return True

    def first(self) -> tuple[Any, V] | None:
        """Return the smallest key with its value, or None when the heap is empty."""
        return self.head() if self else None

    def head(self) -> tuple[Any, V]:
        """Return the smallest key with its value. An empty heap raises IndexError."""
        entries = self._entries
        entry = entries[0]
        while self.get(entry[1]) != entry[0]:
            heappop(entries)
            entry = entries[0]
        return entry

    def take(self) -> V:
        """Remove and return the value of the smallest key. An empty heap raises IndexError."""
        value = self.head()[1]
        heappop(self._entries)
        del self[value]
        return value

    def take_until(self, bound: float) -> list[V]:
        """Remove and return the values whose key starts with a number up to a bound, in order."""
        values = []
        while (entry := self.first()) is not None and entry[0][0] <= bound:
            values.append(self.take())
        return values

    def _compact(self) -> None:
        if len(self._entries) > 2 * len(self) + _SLACK:
            self._entries = [(key, value) for value, key in self.items()]
            heapify(self._entries)
