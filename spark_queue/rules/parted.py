"""The claimable items of a key whose bounds may keep some of them back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from spark_queue.overriding import override
from spark_queue.rules.fairness import Account
from spark_queue.rules.heap import Heap
from spark_queue.rules.limiting import Limited
from spark_queue.rules.ready import KeyLine, Line
from spark_queue.rules.rule_model import Record

V = TypeVar("V")

#: The bounded keys that some items have in common; none in flight of what has room.
Part = tuple[Limited, ...]


class PartedHeap(Heap[V]):
    """A heap in parts, which finds nothing in closed ones.

    Parameters
    ----------
    parts : mapping
        The part of each value.
    closed : set of tuple
        The closed parts; :meth:`look_at` is called after one was closed or opened.
    """

    __slots__ = ("_closed", "_heaps", "_of", "_tops")

    def __init__(self, parts: Mapping[V, Part], closed: set[Part]) -> None:
        super().__init__()
        self._of = parts
        self._closed = closed
        self._heaps: dict[Part, Heap[V]] = {}
        self._tops: Heap[Part] = Heap()

    def __bool__(self) -> bool:
        return bool(self._tops)

    @override
    def put(self, value: V, key: Any) -> None:
        part = self._of[value]
        self[value] = key
        heap = self._heaps.get(part)
        if heap is None:
            heap = self._heaps[part] = Heap()
        heap.put(value, key)
        self.look_at(part)

    @override
    def discard(self, value: V) -> bool:
        if self.pop(value, None) is None:
            return False
        part = self._of[value]
        self._heaps[part].discard(value)
        self.look_at(part)
        return True

    @override
    def first(self) -> tuple[Any, V] | None:
        return self.head() if self._tops else None

    @override
    def head(self) -> tuple[Any, V]:
        return self._heaps[self._tops.head()[1]].head()

    @override
    def take(self) -> V:
        value = self.head()[1]
        self.discard(value)
        return value

    def look_at(self, part: Part) -> None:
        """Put a part where its first value belongs."""
        heap = self._heaps.get(part)
        first = None if heap is None or part in self._closed else heap.first()
        if first is not None:
            self._tops.put(part, first[0])
            return
        self._tops.discard(part)
        if not heap:
            self._heaps.pop(part, None)


class LimitedLine(KeyLine):
    """The claimable items of one key at one priority, in parts of the same limited keys.

    Its heaps are in parts once it had a second part, or a closed one.
    """

    __slots__ = ("_is_parted", "_of", "_owner", "_parts", "_sizes", "closed")

    def __init__(self, account: Account, owner: LimitedLines) -> None:
        super().__init__(account, owner.records)
        self._owner = owner
        self._of: dict[int, Part] = {}
        self._sizes: Counter[Part] = Counter()
        self._parts: dict[Limited, set[Part]] = {}
        self.closed: set[Part] = set()
        self._is_parted = False

    @override
    def add(self, record: Record) -> bool:
        # One whose lease ran out has its slots: no limit keeps it back.
        paced = tuple(asked.key for asked in record.asked)
        part = paced if record.place == "lost" else (*record.limited, *paced)
        self._of[record.seq] = part
        if part not in self._sizes:
            self._begin(part)
        self._sizes[part] += 1
        super().add(record)
        return True

    @override
    def discard(self, seq: int) -> None:
        super().discard(seq)
        part = self._of.pop(seq)
        self._sizes[part] -= 1
        if not self._sizes[part]:
            self._end(part)

    def look_at(self, limited: Limited) -> None:
        """Close or open the parts of a key, by its room."""
        for part in self._parts.get(limited, ()):
            self.close(part, closed=any(map(self._owner.is_full, part)))

    def close(self, part: Part, *, closed: bool = True) -> None:
        """Close a part, or open it."""
        (self.closed.add if closed else self.closed.discard)(part)
        self._part_heaps()
        for heap in (self.seqs, self.regular, self.overdue):
            cast("PartedHeap[int]", heap).look_at(part)

    def part_of(self, seq: int) -> Part:
        """Return the part of an item."""
        return self._of[seq]

    def _begin(self, part: Part) -> None:
        for key in part:
            if key not in self._parts:
                self._parts[key] = set()
                self._owner.lines_of.setdefault(key, set()).add(self)
            self._parts[key].add(part)
        if any(map(self._owner.is_full, part)):
            self.closed.add(part)
        if self.closed or self._sizes:
            self._part_heaps()

    def _part_heaps(self) -> None:
        if self._is_parted:
            return
        self._is_parted = True
        for name in ("seqs", "regular", "overdue"):
            heap = PartedHeap(self._of, self.closed)
            for seq, key in getattr(self, name).items():
                heap.put(seq, key)
            setattr(self, name, heap)

    def _end(self, part: Part) -> None:
        del self._sizes[part]
        self.closed.discard(part)
        for key in part:
            self._parts[key].discard(part)
            if not self._parts[key]:
                del self._parts[key]
                self._owner.forget(key, self)


class LimitedLines(Line):
    """The claimable items of a queue with bounds of keys.

    Parameters
    ----------
    is_full : callable
        Tells of a key whether no item of it may start; :meth:`look_at` is called when that changes.
    """

    __slots__ = ("is_full", "lines_of")

    def __init__(self, records: Mapping[int, Record], is_full: Callable[[Limited], bool]) -> None:
        super().__init__(records)
        self.is_full = is_full
        self.lines_of: dict[Limited, set[LimitedLine]] = {}

    @override
    def make(self, account: Account) -> KeyLine:
        return LimitedLine(account, self)

    def look_at(self, limited: Limited) -> None:
        """Close or open the parts of a key in all lines."""
        for line in self.lines_of.get(limited, ()):
            line.look_at(limited)
            self.refresh(line.account)

    def forget(self, limited: Limited, line: LimitedLine) -> None:
        """Note that nothing of a key is in a line."""
        self.lines_of[limited].discard(line)
        if not self.lines_of[limited]:
            del self.lines_of[limited]
