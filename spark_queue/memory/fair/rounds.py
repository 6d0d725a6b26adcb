"""Snapshot rounds by key, each key's head in turn: the structure below a fair queue.

The rule is that of the durable queue (the tag of its items): ``round = max(present round, last
round of the key) + 1``, served by ``(round, arrival)``. The scheduler has it with weights,
priorities, delays and returns, by heaps and at 0.7 KB an item. With none of them an item joins its
round in the order of its arrival, which is the order in which the round serves it. So the structure
is its own: no heap, a pair for an item, and every operation takes the same time on average, however
many items and keys there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, TypeVar

from spark_queue.errors import InvalidArgumentError
from spark_queue.wording import shorten

T = TypeVar("T")

#: Rounds that were passed and are kept in the list before it is looked whether they are the most.
_TOLERATED = 64

#: Stands in the list for each of them.
_PASSED: list[Any] = []


class FairSnapshot(NamedTuple):
    """What a fair queue held at one instant; later changes do not show in it."""

    selected: tuple[Any, ...]
    """The items of the present round that are still to come, in their order."""
    queued: Mapping[Hashable, tuple[Any, ...]]
    """All others by key, those of a key in the order of their arrival; no key is without items."""


@dataclass(slots=True, eq=False)
class Rounds(Generic[T]):
    """Items by key, taken in snapshot rounds. It has no lock.

    The counts change before the stored items do, in one call, so that an interrupt between any
    two steps leaves the counts true.

    Attributes
    ----------
    added, taken : int
        How many items were ever added, and taken out; the difference is how many there are.
    round : int
        The present round: the highest of which an item was taken.

    Examples
    --------
    >>> rounds = Rounds()
    >>> for item in ["A1", "A2", "A3", "B1"]:
    ...     rounds.add(item[0], item)
    >>> rounds.take(), rounds.take()
    ('A1', 'B1')
    """

    added: int = 0
    taken: int = 0
    round: int = 0
    # Of each key its last round, if that is not passed: a key without items leaves nothing.
    _last: dict[Hashable, int] = field(default_factory=dict)
    # The present round, its next item last; and all rounds from the first by their number: the
    # later ones in the order of arrival, those that were passed empty.
    _current: list[tuple[Hashable, T]] = field(default_factory=list)
    _ahead: list[list[tuple[Hashable, T]]] = field(default_factory=list)
    _first: int = 1
    # The numbers of the items that came back, the next one's last. They lie at the end of the
    # present round, over so many of its items.
    _restored: list[int] = field(default_factory=list)
    _below: int = 0

    def __len__(self) -> int:
        """Return how many items there are."""
        return self.added - self.taken

    # rule again: tag of a new item
    def add(self, key: Hashable, item: T) -> None:
        """Add an item at the end of its key.

        Raises
        ------
        InvalidArgumentError
            When the key cannot be hashed; nothing is added then.
        """
        number = self.round
        try:
            if key in self._last and self._last[key] > number:
                number = self._last[key]
        except TypeError as error:
            raise no_key(key, error) from error
        number += 1
        ahead, index = self._ahead, number - self._first
        begins = index == len(ahead)
        self._last[key] = number
        self.added += 1
        if begins:
            ahead.append([(key, item)])
        else:
            ahead[index].append((key, item))

    def take(self) -> T:
        """Take the next item: the first of the present round that is left, or of the next one.

        There must be one.
        """
        if not self._current:
            self._turn()
        self.taken += 1
        key, item = entry = self._current.pop()
        try:
            if self._last.get(key) == self.round:
                del self._last[key]
        except BaseException:
            # A key is foreign, and to compare it may raise: nothing was taken then.
            self.taken -= 1
            self._current.append(entry)
            raise
        return item

    def _turn(self) -> None:
        """Begin the next round."""
        ahead, index = self._ahead, self.round + 1 - self._first
        outweighs = index > _TOLERATED and index * 2 > len(ahead)
        entries = ahead[index]
        self._current = entries[::-1] if len(entries) > 1 else entries
        self.round += 1
        if self._restored:
            self._restored = []
        ahead[index] = _PASSED
        if outweighs:
            del ahead[: index + 1]
            self._first = self.round + 1

    def restore(self, number: int, key: Hashable, item: T) -> None:
        """Put back an item that was taken, before all others but those restored with less numbers.

        The number is that of its place among all items, as :attr:`added` was when it came.
        """
        restored = self._restored
        del restored[max(0, len(self._current) - self._below) :]
        if not restored:
            self._below = len(self._current)
        # The next item is the last of the list, so the numbers fall.
        place = bisect_left(restored, -number, key=lambda other: -other)
        restored.insert(place, number)
        self.taken -= 1
        self._current.insert(self._below + place, (key, item))

    def clear(self) -> int:
        """Drop every item, and return how many those were."""
        count = self.added - self.taken
        self.taken = self.added
        for items in (self._current, self._ahead, self._last, self._restored):
            items.clear()
        self._first = self.round + 1
        return count

    def copy(self) -> list[list[tuple[Hashable, T]]]:
        """Copy what there is: the present round, its next item first, and each later one."""
        later = self._ahead[self.round + 1 - self._first :]
        return [self._current[::-1], *(entries[:] for entries in later)]


def no_key(key: object, why: TypeError) -> InvalidArgumentError:
    """Make the error for a key that cannot be hashed."""
    return InvalidArgumentError(
        f"key(item) is {shorten(key)}, which is no key ({why}): make the function return a "
        "hashable value"
    )


def snapshot_of(rounds: list[list[tuple[Hashable, Any]]]) -> FairSnapshot:
    """Make the public form of a copy of rounds."""
    current, *later = rounds
    queued: dict[Hashable, list[Any]] = {}
    for key, item in (entry for entries in later for entry in entries):
        queued.setdefault(key, []).append(item)
    by_key = {key: tuple(items) for key, items in queued.items()}
    return FairSnapshot(tuple(item for _, item in current), MappingProxyType(by_key))
