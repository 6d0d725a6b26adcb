"""Grouped serial: which members of a group may be claimed, and in what order."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Hashable, Iterable, Mapping

from spark_queue.rules.heap import Heap
from spark_queue.rules.places import Place
from spark_queue.rules.ready import Line
from spark_queue.rules.rule_model import Record

_CLAIMABLE = frozenset({"due", "lost"})

#: Places of members that have a slot which no claim can give on.
_HELD = frozenset({"held", "kept"})


class Ungrouped:
    """No groups: an item is claimable whenever it is due, or its lease ran out."""

    __slots__ = ("_line",)

    def __init__(self, line: Line) -> None:
        self._line = line

    def predecessor(self, group_key: Hashable) -> Record | None:
        """Return the member that a new one of the group must not overtake."""
        del group_key
        return None

    def move(self, record: Record, old: Place | None, new: Place) -> None:
        """Follow an item from its old place to its new one."""
        if old in _CLAIMABLE:
            self._line.discard(record)
        if new in _CLAIMABLE:
            self._line.add(record)

    def before(self, record: Record) -> Record | None:
        """Return the last claimable member of the item's group that is earlier than it."""
        del record
        return None

    def configure(self, *, limit: int, blocking: bool, run: int) -> None:
        """Change the rules for all groups."""

    def stand_in(self, line: Line) -> None:
        """Go on with another line, in which the claimable items stand, too."""
        self._line = line

    def members(self, record: Record) -> list[Record]:
        """Return the live members of the item's group, in seq order."""
        return [record]


class SerialGroup:
    """The live members of one group by place, and its members in the line."""

    __slots__ = ("delayed", "held", "lost", "lost_open", "open", "tail", "waiting")

    def __init__(self) -> None:
        self.tail: deque[Record] = deque()
        self.delayed: Heap[int] = Heap()
        self.waiting: Heap[int] = Heap()
        self.open: list[int] = []
        self.held: set[int] = set()
        self.lost: list[int] = []
        self.lost_open: list[int] = []

    @property
    def is_empty(self) -> bool:
        """Whether the group has no live member."""
        return not (self.open or self.waiting or self.delayed or self.held or self.lost)

    def seqs(self) -> list[int]:
        """Return all live members, in order."""
        ready = [*self.open, *self.waiting, *self.delayed]
        return sorted([*ready, *self.held, *self.lost])

    def last_ahead(self) -> Record | None:
        """Return the last live member that the pointer of its priority has not passed."""
        # Items never leave these states, so the dropped ones are never wanted again.
        tail = self.tail
        while tail and (tail[-1].place == "done" or tail[-1].passed):
            tail.pop()
        while tail and (tail[0].place == "done" or tail[0].passed):
            tail.popleft()
        return tail[-1] if tail else None


# rule: slots of a group, waiting head of a group, run of a group
def opening(
    limit: int,
    run: int,
    blocking: bool,  # noqa: FBT001 - it is called for each move of a member
    held: int,
    lost: int,
    delayed: float,
) -> tuple[int, int, float]:
    """Return how many members of a group are claimable, and the one that those come before.

    A due member is claimable when it is among the first (limit * run - in flight) of them. A lease
    that ran out keeps its slot, so its item needs none: of these the first (limit * run - held)
    are claimable. A blocking group stops at its first member that is not due. With a run of more
    than one, a group under a live lease has no claimable member.

    Parameters
    ----------
    limit, run, blocking
        The settings of the queue and of the claim.
    held, lost : int
        Members under a lease, and under one that ran out.
    delayed : float
        The first member that waits for its time; infinity where there is none.

    Returns
    -------
    tuple
        How many whose lease ran out, how many due ones, and the member that all are before.
    """
    room = 0 if run > 1 and held else max(0, limit * run - held)
    return room, max(0, room - lost), delayed if blocking else math.inf


class Serial(Ungrouped):
    """At most ``limit`` in flight per group, in seq order; see :func:`opening`.

    Hooks: ``predecessor`` when an item is admitted, ``move`` when it changes its place, ``before``
    when it is served, ``configure`` when a limit changes.
    """

    __slots__ = ("_blocking", "_groups", "_limit", "_records", "_run")

    def __init__(
        self, line: Line, records: Mapping[int, Record], *, limit: int, blocking: bool
    ) -> None:
        super().__init__(line)
        self._records = records
        self._groups: dict[Hashable, SerialGroup] = {}
        self._limit = limit
        self._blocking = blocking
        self._run = 1

    def predecessor(self, group_key: Hashable) -> Record | None:
        """Return the group's last live member that the pointer has not passed."""
        group = self._groups.get(group_key)
        return None if group is None else group.last_ahead()

    def move(self, record: Record, old: Place | None, new: Place) -> None:
        """Follow an item to its new place, and open or close the line for its group."""
        key = record.new.group_key
        if key is None:
            super().move(record, old, new)
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = SerialGroup()
        if old is None:
            group.tail.append(record)
        else:
            self._take_out(group, record, old)
        if old == "done" and new != "done" and record not in group.tail:
            # It was only set aside, and so were all others of its group.
            group.tail = deque(sorted([*group.tail, record], key=_seq_of))
        self._put_in(group, record.seq, new)
        if group.is_empty:
            del self._groups[key]
        else:
            self._refresh(group)

    def before(self, record: Record) -> Record | None:
        """Return the last claimable member of the item's group that is earlier than it."""
        group = self._groups.get(record.new.group_key)
        if group is None:
            return None
        seqs = [
            line[at - 1]
            for line in (group.open, group.lost_open)
            if (at := bisect_left(line, record.seq))
        ]
        return self._records[max(seqs)] if seqs else None

    def configure(self, *, limit: int, blocking: bool, run: int) -> None:
        """Change the rules for all groups. Costs a pass over them where something changes."""
        if (limit, blocking, run) == (self._limit, self._blocking, self._run):
            return
        self._limit, self._blocking, self._run = limit, blocking, run
        for group in self._groups.values():
            self._refresh(group)

    def members(self, record: Record) -> list[Record]:
        """Return the live members of the item's group, in seq order."""
        group = self._groups.get(record.new.group_key)
        return [record] if group is None else [self._records[seq] for seq in group.seqs()]

    def _take_out(self, group: SerialGroup, record: Record, old: Place) -> None:
        seq = record.seq
        if old in _HELD:
            group.held.discard(seq)
        elif old == "delayed":
            group.delayed.discard(seq)
        elif old == "lost":
            _remove(group.lost, seq)
            _remove(group.lost_open, seq)
            self._line.discard(record)
        elif not group.waiting.discard(seq):
            _remove(group.open, seq)
            self._line.discard(record)

    @staticmethod
    def _put_in(group: SerialGroup, seq: int, new: Place) -> None:
        if new in _HELD:
            group.held.add(seq)
        elif new == "delayed":
            group.delayed.put(seq, seq)
        elif new == "lost":
            insort(group.lost, seq)
        elif new == "due":
            group.waiting.put(seq, seq)

    def _refresh(self, group: SerialGroup) -> None:
        first = group.delayed.first()
        delayed = math.inf if first is None else first[1]
        lost, due, barrier = opening(
            self._limit, self._run, self._blocking, len(group.held), len(group.lost), delayed
        )
        if group.lost or group.lost_open:
            self._open_lost(group, lost, barrier)
        self._close_due(group, due, barrier)
        self._open_due(group, due, barrier)

    def _open_lost(self, group: SerialGroup, room: int, barrier: float) -> None:
        wanted = group.lost[: min(room, bisect_left(group.lost, barrier))]
        if wanted == group.lost_open:
            return
        for seq in set(group.lost_open).difference(wanted):
            self._line.discard(self._records[seq])
        for seq in set(wanted).difference(group.lost_open):
            self._line.add(self._records[seq])
        group.lost_open = wanted

    def _close_due(self, group: SerialGroup, room: int, barrier: float) -> None:
        while group.open and (len(group.open) > room or group.open[-1] > barrier):
            self._close_last(group)

    def _open_due(self, group: SerialGroup, room: int, barrier: float) -> None:
        while room and (first := group.waiting.first()) is not None and first[1] < barrier:
            if len(group.open) == room:
                if group.open[-1] < first[1]:
                    return
                self._close_last(group)
            group.waiting.discard(first[1])
            insort(group.open, first[1])
            self._line.add(self._records[first[1]])

    def _close_last(self, group: SerialGroup) -> None:
        seq = group.open.pop()
        group.waiting.put(seq, seq)
        self._line.discard(self._records[seq])


def in_the_way(
    record: Record, members: Iterable[Record], now: float, *, limit: int, blocking: bool
) -> Record | None:
    """Return the member of a group that blocks another one at an instant.

    It is worked out from the members alone, for any instant and for claims without runs. Where
    several are, it is one that waits for its time, or else one in flight, the earliest of them.
    """
    at: dict[Place, list[Record]] = {"held": [], "lost": [], "due": [], "delayed": []}
    for member in members:
        place = member.place_at(now)
        at["held" if place in _HELD else place].append(member)
    first = at["delayed"][0].seq if at["delayed"] else math.inf
    lost, due, barrier = opening(limit, 1, blocking, len(at["held"]), len(at["lost"]), first)
    place = record.place_at(now)
    ahead = sum(member.seq < record.seq for member in at[place])
    if ahead < (lost if place == "lost" else due) and record.seq < barrier:
        return None
    if barrier < record.seq:
        return at["delayed"][0]
    return [*at["held"], *at["lost"], *at["due"]][0]


def _seq_of(record: Record) -> int:
    return record.seq


def _remove(seqs: list[int], seq: int) -> None:
    at = bisect_left(seqs, seq)
    if at < len(seqs) and seqs[at] == seq:
        del seqs[at]
