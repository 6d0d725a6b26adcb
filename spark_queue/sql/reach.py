"""Distance that a claim looks ahead of the order of service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.log.heads import StatusHead
from spark_queue.state.request import Request
from spark_queue.state.snapshot import Snapshot

#: How far ahead of the pointer a first claim looks, in turns.
_FIRST_WIDTH = 64.0

#: Parts of a reach that are tried before it, and how many times the items that are asked for have
#: to wait within one: lines are of many lengths, so that the first turns have more than others.
_NEARER, _ENOUGH = (64, 32, 16, 8, 4, 2), 2

#: How fast a claim looks further, where nothing says how far is enough.
_WIDER = 8.0

#: How much further than that it looks, as items are not spread evenly; and how often it does.
_MARGIN, _BY_COUNT = 1.25, 2

#: What the view ``reach_facts`` says of the items within a reach.
Facts: TypeAlias = Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class Reach:
    """Distance that a claim looks ahead of the order of service, in turns."""

    at: Snapshot
    head: StatusHead
    request: Request

    def first(self) -> float:
        """Return how far a claim looks first."""
        least = max(self.head.width, self._least())
        if self.at.settings.config.fair_key is None:
            return least
        return max(least, self._usual())

    def near(self, reach: float, entered: Any) -> float:
        """Return a part of a reach within which enough items wait, or all of it."""
        if isinstance(entered, pa.Table):
            # Each engine expires what it passes as far as the least, at any rate.
            for near in (reach / part for part in _NEARER if reach / part >= self._least()):
                if self._ahead(entered, near) >= _ENOUGH * self.request.limit:
                    return near
        return reach

    def within(self, entered: pa.Table, reach: float) -> pa.Table:
        """Return the items within a reach."""
        near = [is_near for is_near, _ in self._nearness(entered, reach)]
        return entered.filter(reduce(pc.or_, near)) if near else entered

    def _ahead(self, entered: pa.Table, reach: float) -> int:
        """Return how many items within a reach are ahead of the order."""
        found = self._nearness(entered, reach)
        return sum(
            (pc.sum(near).as_py() or 0) - (pc.sum(over).as_py() or 0) for near, over in found
        )

    def _nearness(
        self, entered: pa.Table, reach: float
    ) -> Iterator[tuple[pa.ChunkedArray, pa.ChunkedArray]]:
        """Tell of each priority which items are within a reach, and which the order has passed."""
        priority, tag = entered["priority"], entered["round"]
        for one in pc.unique(priority).to_pylist():
            turn, _ = self.head.pointers.get(one, (0.0, 0))
            is_its, last = pc.equal(priority, one), partial(self.at.settings.highest_tag, one)
            near, passed = (pc.less_equal(tag, last(turn + width)) for width in (reach, 0.0))
            yield pc.and_(is_its, near), pc.and_(is_its, passed)

    def further(self, reach: float, read: float, looks: int, facts: Facts | None) -> float:
        """Return how far a claim looks that found too few items.

        Parameters
        ----------
        reach, read : float
            How far it has looked, and how far it has read.
        looks : int
            How often it has looked.
        facts : mapping, optional
            What it has found, where that says how many items it can take.
        """
        widest = reach * _WIDER
        unless_known = read if reach < read else widest
        if facts is None or looks > _BY_COUNT:
            return unless_known
        overdue = facts["overdue"] or 0
        ahead, needed = (facts["eligible"] or 0) - overdue, self.wanted(facts) - overdue
        if not 0 < ahead < needed:
            # It has not seen all of a higher priority, or nothing says where more are.
            return unless_known
        return min(reach * _MARGIN * needed / ahead, widest)

    def wanted(self, facts: Facts) -> int:
        """Return how many candidates a claim needs, with the first that finds no slot."""
        room, limit = facts["room"], self.request.limit
        return limit if room is None else min(limit, room + 1 + (facts["lapsed"] or 0))

    def has_all(self, reach: float) -> bool:
        """Tell whether no item is beyond a reach."""
        return all(self._has_all_of(priority, reach) for priority in self.at.queue.tops)

    # rule: reach of a claim
    def is_sure(self, within: Mapping[int, int], wanted: int, reach: float) -> bool:
        """Tell whether the first items are all within reach.

        Parameters
        ----------
        within : mapping
            Items that may start and come within reach, by priority.
        wanted : int
            How many are needed.
        """
        sure = 0
        for priority in sorted({*within, *self.at.queue.tops}, reverse=True):
            sure += within.get(priority, 0)
            if sure >= wanted:
                return True
            if not self._has_all_of(priority, reach):
                return False
        return True

    def _least(self) -> float:
        is_fair = self.at.settings.config.fair_key is not None
        return _FIRST_WIDTH if is_fair else 4.0 * self.request.limit

    def _usual(self) -> float:
        """Return how many turns the items take that are asked for, if all are spread evenly.

        Where many lines end early the first turns have more, so that this is far enough.
        """
        left = self.at.count_left(self.head)
        turns = sum(
            max(0.0, top - self._pointer(priority)) for priority, top in self.at.queue.tops.items()
        )
        return self.request.limit * turns / max(left, 1)

    def _has_all_of(self, priority: int, reach: float) -> bool:
        """Tell whether no item of a priority is beyond a reach."""
        settings = self.at.settings
        if settings.stretches and settings.config.group_key is not None:
            # A tag that its group raised may lie behind the last one that a line has given out.
            return False
        top = self.at.queue.tops.get(priority, 0.0)
        last = max([top, *(s.turn(priority, top) for s in settings.stretches.values())])
        return last <= self._pointer(priority) + reach

    def _pointer(self, priority: int) -> float:
        return self.head.pointers.get(priority, (0.0, 0))[0]
