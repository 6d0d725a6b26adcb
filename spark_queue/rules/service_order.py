"""Selection: which items of the line a claim serves, and at which turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import cast

from spark_queue.rules.bounds import Pass
from spark_queue.rules.parted import LimitedLine, Part
from spark_queue.rules.ready import KeyLine, Line, Slot
from spark_queue.rules.rule_model import Record

Rank = tuple[int, float]

#: The last place in the order of service that is known: negated priority, turn, seq. An item that
#: is not known comes after it.
Horizon = tuple[float, float, float]


# rule: order of service
def rank_of(priority: int, turn: float) -> Rank:
    """Return what items are served by: from the highest priority, by turn, and then by seq."""
    return -priority, turn


Before = Callable[[Record], Record | None]


@dataclass(frozen=True, slots=True)
class Served:
    """An item, the slot of its key that it took, and the turn it was served at."""

    record: Record
    turn: float
    slot: Slot


class Cursor:
    """One key's line during one claim, with the pointer fixed."""

    __slots__ = ("_hidden", "_taken", "_used", "is_by_seq", "line", "pointer")

    def __init__(self, line: KeyLine) -> None:
        self.line = line
        self.pointer = line.account.earliest()
        self.is_by_seq = line.takes_by_seq()
        self._taken: list[Served] = []
        self._used: tuple[float, float] | None = None
        self._hidden: list[Part] = []

    # rule: slots of a line
    def peek(self) -> Served | None:
        """Return the key's next item with its next slot, or None."""
        first = self.line.seqs.first()
        if first is None:
            return None
        slot = self.line.first_slot(self._used)
        if slot.turn < self.pointer:
            slot = Slot(self.pointer, slot.owner, overdue=slot.overdue)
        seq = first[1] if self.is_by_seq else slot.owner
        return Served(self.line.records[seq], slot.turn, slot)

    def may_gain(self, turn: float) -> bool:
        """Whether the next item of a key by seq might take a regular turn not known here."""
        following = self.peek()
        # Where none is known, it may be that of one with the turn of an item that it replaced.
        return following is None or following.turn > turn

    def take(self, served: Served) -> None:
        """Take the item and the slot that were looked at last out of the key."""
        self.line.seqs.discard(served.record.seq)
        if served.slot.overdue:
            self._use(served.slot)
            self.line.overdue.take()
        else:
            self.line.regular.take()
        self._taken.append(served)

    def keep_back(self, served: Served) -> None:
        """Hide the items of the same limited keys as a taken one.

        Where items take the slots in their own order, each of them uses one, and is looked at.
        """
        if isinstance(self.line, LimitedLine) and not self.is_by_seq:
            self._hidden.append(self.line.part_of(served.record.seq))
            self.line.close(self._hidden[-1])

    def _use(self, slot: Slot) -> None:
        """Note an overdue turn: the first, or by how much it is behind the first."""
        if self._used is None:
            self._used = (slot.turn, 0.0)
            return
        first, behind = self._used
        self._used = (first, behind + self.line.records[slot.owner].increment)

    def close(self, served: set[int]) -> None:
        """Return unserved items to the line, with their slots."""
        line = self.line
        for part in self._hidden:
            cast("LimitedLine", line).close(part, closed=False)
        for taken in self._taken:
            seq, owner = taken.record.seq, taken.slot.owner
            if seq in served:
                line.discard(seq)
            else:
                line.seqs.put(seq, seq)
            if owner not in served:
                line.add_slot(line.records[owner])


class Service:
    """The merge of all keys by (priority, turn, seq), for one claim.

    Parameters
    ----------
    line : Line
        The claimable items. Keys that the claim touches are out of it until :meth:`close` or
        :meth:`withdraw`.
    before : callable
        Returns the last claimable item of the same group that is earlier than a given one: it is
        served first, and at no later turn.
    passing : Pass, optional
        What keeps items back that are next.
    """

    def __init__(self, line: Line, before: Before, passing: Pass | None = None) -> None:
        self._line = line
        self._before = before
        self._pass = passing
        self._cursors: list[Cursor] = []
        self._by_seq: list[Cursor] = []
        self._pulls = self._pull_keys()
        self._scout: Cursor | None = None
        self._front: list[tuple[Rank, int, Served, Cursor | None]] = []
        self._parked: dict[int, Served] = {}
        self._served: set[int] = set()
        self._reached: dict[tuple[Hashable, int], float] = {}
        self._unpulled_gain: bool | None = None
        self.is_cut = False
        """Whether the next item may lie beyond the horizon."""

    def take(self, limit: int, room: int | None, horizon: Horizon | None = None) -> list[Served]:
        """Serve up to ``limit`` items; stop at the first that needs a slot when none is left.

        An item beyond the horizon needs a slot.
        """
        taken: list[Served] = []
        self._send_scout()
        while len(taken) < limit and not (self._pass and self._pass.is_over):
            if not self._front:
                self.is_cut = horizon is not None and room != 0
                break
            rank, seq, served, cursor = heappop(self._front)
            # Of two slots of a key at one turn the regular one is taken, whosever it is.
            place = math.inf if served.slot.overdue else seq
            if horizon is not None and (
                (*rank, place) > horizon or self._may_be_preceded(rank, horizon)
            ):
                self.is_cut = True
                break
            if not self._take(served, cursor):
                continue
            if served.record.place == "due" and room is not None:
                if not room:
                    break
                room -= 1
            taken.append(served)
            if self._pass is not None:
                self._pass.start(served.record)
            self._serve(rank, served)
        return taken

    def next_by_seq(self) -> dict[tuple[int, Hashable], float]:
        """Return the next item of each line that goes by seq; infinity where all were taken."""
        found: dict[tuple[int, Hashable], float] = dict(self._line.late())
        for cursor in self._by_seq:
            account, following = cursor.line.account, cursor.peek()
            line = (account.level.priority, account.fair_key)
            found[line] = math.inf if following is None else following.record.seq
        return found

    def withdraw(self) -> None:
        """Return the keys of the claim to the line, with the items it served."""
        self._served.clear()
        self.close()

    def close(self) -> None:
        """Return the keys of the claim to the line, without the items it served."""
        for cursor in self._cursors:
            cursor.close(self._served)
            self._line.refresh(cursor.line.account)

    def _may_be_preceded(self, rank: Rank, horizon: Horizon) -> bool:
        """Whether a turn beyond the horizon may be taken before one of the same height.

        That of a key whose items take its turns by seq, as one of them is overdue: by its first.
        """
        if rank[0] != horizon[0] or rank[1] != horizon[1]:
            return False
        if self._unpulled_gain is None:
            level = self._line.levels.get(int(-rank[0]))
            self._unpulled_gain = level is not None and level.may_gain(rank[1])
        return self._unpulled_gain or any(
            cursor.line.account.level.priority == -rank[0] and cursor.may_gain(rank[1])
            for cursor in self._by_seq
        )

    # rule: later member of a group
    def _take(self, served: Served, cursor: Cursor | None) -> bool:
        """Take the next item; tell whether it is served now."""
        if cursor is None:
            return self._pass is None or self._pass.admits(served.record)
        cursor.take(served)
        earlier = self._before(served.record)
        is_next = False
        if earlier is not None and earlier.seq not in self._served:
            self._parked[earlier.seq] = served
        elif self._pass is None or self._pass.admits(served.record):
            is_next = True
        else:
            cursor.keep_back(served)
        if cursor is self._scout:
            self._send_scout()
        self._advance(cursor)
        return is_next

    # rule: later member of a group
    def _serve(self, rank: Rank, served: Served) -> None:
        record = served.record
        self._served.add(record.seq)
        if record.new.group_key is not None:
            self._reached[_level(record)] = served.turn
        follower = self._parked.pop(record.seq, None)
        if follower is not None:
            reached = self._reached.get(_level(follower.record), follower.turn)
            follower = Served(follower.record, max(follower.turn, reached), follower.slot)
            heappush(self._front, (rank, follower.record.seq, follower, None))

    def _advance(self, cursor: Cursor) -> None:
        following = cursor.peek()
        if following is not None:
            record = following.record
            rank = rank_of(record.priority, following.turn)
            heappush(self._front, (rank, record.seq, following, cursor))

    def _send_scout(self) -> None:
        # The best key not yet touched: all others come after it, and need no look before its turn.
        self._scout = next(self._pulls, None)
        if self._scout is not None:
            self._advance(self._scout)

    def _pull_keys(self) -> Iterator[Cursor]:
        for order in tuple(self._line.order):
            level = self._line.levels[-order]
            while (line := level.pull()) is not None:
                cursor = Cursor(line)
                self._cursors.append(cursor)
                if cursor.is_by_seq:
                    self._by_seq.append(cursor)
                yield cursor


def _level(record: Record) -> tuple[Hashable, int]:
    return record.new.group_key, record.priority
