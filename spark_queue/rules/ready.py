"""Index of claimable items in their order of service."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from spark_queue.rules.fairness import Account, Level
from spark_queue.rules.heap import Heap
from spark_queue.rules.rule_model import Record


@dataclass(frozen=True, slots=True)
class Slot:
    """A turn of a key, from one of its items.

    It is taken by that item; or, where the key has overdue ones, by the first of all.
    """

    turn: float
    """The turn; before the pointer is taken into account, an overdue one may lie below it."""
    owner: int
    """The item that the turn comes from."""
    overdue: bool
    """Whether it is an overdue turn."""


#: Most keys have no overdue items, and share this in place of an empty heap of their own.
_NONE_OVERDUE: Heap[int] = Heap()


class KeyLine:
    """The claimable items of one key at one priority, by seq and by slots."""

    __slots__ = ("account", "overdue", "records", "regular", "seen_at", "seqs")

    def __init__(self, account: Account, records: Mapping[int, Record]) -> None:
        self.account = account
        self.records = records
        self.seqs: Heap[int] = Heap()
        self.regular: Heap[int] = Heap()
        self.overdue: Heap[int] = _NONE_OVERDUE
        self.seen_at: tuple[float, int] | None = None
        """The pointer at which the line's next turn was last worked out."""

    def add(self, record: Record) -> bool:
        """Add an item to the line; return whether the line's next turn may change."""
        self.seqs.put(record.seq, record.seq)
        slots = self.add_slot(record)
        firsts = (self.seqs.first(), slots.first())
        return any(first is not None and first[1] == record.seq for first in firsts)

    def add_slot(self, record: Record) -> Heap[int]:
        """Enter the slot that an item brings, and return where."""
        if self.account.is_given(record.raw_tag, record.seq):
            return self._add_overdue(record.seq)
        self.regular.put(record.seq, (record.raw_tag, record.seq))
        return self.regular

    def discard(self, seq: int) -> None:
        """Take an item out of the line."""
        self.seqs.discard(seq)
        if not self.regular.discard(seq):
            self.overdue.discard(seq)

    def takes_by_seq(self) -> bool:
        """Whether the items take the slots in their own order: some of them are overdue."""
        self._sort_out()
        return bool(self.overdue)

    def first_seq(self) -> int | None:
        """Return the next item; ``None`` where there is none."""
        first = self.seqs.first() if self.takes_by_seq() else self.regular.first()
        return None if first is None else first[1]

    # rule: slots of a line
    def first_slot(self, used: tuple[float, float] | None = None) -> Slot:
        """Return the earliest slot.

        Of overdue turns that a claim used already: the first, and how far the last is behind it.
        """
        self._sort_out()
        if not self.regular:
            return self._late_slot(used)
        (raw_tag, owner), _ = self.regular.head()
        slot = Slot(self.account.tag(raw_tag), owner, overdue=False)
        if self.overdue:
            late = self._late_slot(used)
            if max(late.turn, self.account.level.turn) < slot.turn:
                return late
        return slot

    def _late_slot(self, used: tuple[float, float] | None) -> Slot:
        seq = self.overdue.head()[1]
        first, behind = (self.account.overdue, 0.0) if used is None else used
        # The increments are added up first: the first turn may have digits behind theirs.
        return Slot(first + (behind + self.records[seq].increment), seq, overdue=True)

    def _sort_out(self) -> None:
        # Items become overdue by the service of others, each at most once while it stands here.
        while (first := self.regular.first()) is not None:
            record = self.records[first[1]]
            if not self.account.is_given(record.raw_tag, record.seq):
                return
            self.regular.take()
            self._add_overdue(record.seq)

    def _add_overdue(self, seq: int) -> Heap[int]:
        if self.overdue is _NONE_OVERDUE:
            self.overdue = Heap()
        self.overdue.put(seq, seq)
        return self.overdue


class LevelLine:
    """The keys of one priority by their next turn.

    A key's stored turn may lag behind, because serving others only ever makes it later, so the best
    key is looked at again before it is used. Keys whose turn lies below the pointer are all served
    at the pointer, in order of their first item.
    """

    __slots__ = ("keys", "late", "later", "level", "now")

    def __init__(self, level: Level) -> None:
        self.level = level
        self.keys: dict[Hashable, KeyLine] = {}
        self.now: Heap[Hashable] = Heap()
        self.later: Heap[Hashable] = Heap()
        self.late: set[Hashable] = set()
        """The keys that have overdue items."""

    def refresh(self, key: Hashable) -> None:
        """Put a key where its first item and slot belong."""
        line = self.keys[key]
        first = line.first_seq()
        if first is None:
            self.now.discard(key)
            self.later.discard(key)
            self.late.discard(key)
            if not len(line.seqs):
                del self.keys[key]
            return
        (self.late.add if line.overdue else self.late.discard)(key)
        turn = line.first_slot().turn
        line.seen_at = (self.level.turn, self.level.seq)
        if turn < self.level.turn:
            self.later.discard(key)
            self.now.put(key, first)
        else:
            self.now.discard(key)
            self.later.put(key, (turn, first))

    def pull(self) -> KeyLine | None:
        """Take out the key whose turn is next."""
        while (key := self._best()) is not _NO_KEY:
            line = self.keys[key]
            if line.seen_at != (self.level.turn, self.level.seq):
                self.refresh(key)
            if self._best() == key:
                self.now.discard(key)
                self.later.discard(key)
                self.late.discard(key)
                return line
        return None

    def may_gain(self, turn: float) -> bool:
        """Whether a key's first item might take a regular turn that is not known here yet."""
        lines = (self.keys[key] for key in self.late)
        return any(one.account.regular < turn < one.first_slot().turn for one in lines)

    def _best(self) -> Hashable:
        now, later = self.now.first(), self.later.first()
        if now is None:
            return _NO_KEY if later is None else later[1]
        at_pointer = (self.level.turn, now[0])
        return now[1] if later is None or at_pointer < later[0] else later[1]


_NO_KEY = object()


class Line:
    """The claimable items of a queue. Adding and taking out are O(log n)."""

    __slots__ = ("levels", "order", "records")

    def __init__(self, records: Mapping[int, Record]) -> None:
        self.records = records
        self.levels: dict[int, LevelLine] = {}
        self.order: list[int] = []
        """The negated priorities that have items, highest priority first."""

    def __contains__(self, record: Record) -> bool:
        line = self._key_line(record.account)
        return line is not None and record.seq in line.seqs

    def add(self, record: Record) -> None:
        """Let an item stand in the line."""
        level = self._level_line(record.account.level)
        key = record.account.fair_key
        line = level.keys.get(key)
        if line is None:
            line = level.keys[key] = self.make(record.account)
        if line.add(record):
            level.refresh(key)

    def make(self, account: Account) -> KeyLine:
        """Return an empty line of a key."""
        return KeyLine(account, self.records)

    def discard(self, record: Record) -> None:
        """Take an item out of the line, if it is in it."""
        line = self._key_line(record.account)
        if line is not None and record.seq in line.seqs:
            line.discard(record.seq)
            self.refresh(record.account)

    def refresh(self, account: Account) -> None:
        """Put the key of an account where it belongs, after the account or its items changed."""
        level = self.levels.get(account.level.priority)
        if level is None or account.fair_key not in level.keys:
            return
        level.refresh(account.fair_key)
        if not level.keys:
            del self.levels[account.level.priority]
            self.order.remove(-account.level.priority)

    def late(self) -> dict[tuple[int, Hashable], int]:
        """Return the first item of each line that goes by seq, by priority and key."""
        return {
            (level.level.priority, key): first
            for level in self.levels.values()
            for key in level.late
            if (first := level.keys[key].first_seq()) is not None
        }

    def _key_line(self, account: Account) -> KeyLine | None:
        level = self.levels.get(account.level.priority)
        return None if level is None else level.keys.get(account.fair_key)

    def _level_line(self, level: Level) -> LevelLine:
        line = self.levels.get(level.priority)
        if line is None:
            line = self.levels[level.priority] = LevelLine(level)
            insort(self.order, -level.priority)
        return line
