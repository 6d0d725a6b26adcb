"""Dedup keys: who has one, while it is live, for a time, or for ever."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import timedelta

from spark_queue.config import DedupScope
from spark_queue.rules.heap import Heap
from spark_queue.rules.places import Holding


# rule: scope of a key
def kept_for(scope: DedupScope) -> float:
    """Return how many seconds after its enqueue an item holds its key, though it has ended."""
    if isinstance(scope, timedelta):
        return scope.total_seconds()
    return math.inf if scope == "forever" else -math.inf


@dataclass(slots=True)
class Holder:
    """The item that holds a key: while it is live, and at least until an instant."""

    seq: int
    until: float
    live: bool = True


class Distinct:
    """The holders of the keys: of each the newest item, and those that it replaces or follows.

    Hooks: ``holder`` before an item is admitted, ``take`` when it is, ``leave`` when it is done.
    """

    __slots__ = ("_kept", "_lapses", "_older", "holders")

    def __init__(self, scope: DedupScope) -> None:
        self._kept = kept_for(scope)
        self.holders: dict[Hashable, Holder] = {}
        self._lapses: Heap[Hashable] = Heap()
        self._older: dict[Hashable, list[Holder]] = {}

    # rule: one item of a key
    def holder(self, key: Hashable, now: float, origin: int | None = None) -> int | None:
        """Return the item that holds a key; an item never stands in the way of its own redrive."""
        if key is None:
            return None
        if self._lapses:
            self._forget_lapsed(now)
        holder = self.holders.get(key)
        if holder is not None and not holder.live and key in self._older:
            # Of items that replace each other the newest is over, and one that has begun is not.
            holder = self._older[key][-1]
        return None if holder is None or holder.seq == origin else holder.seq

    # rule: holder of a key
    def holding_of(self, key: Hashable, seq: int, *, is_begun: bool) -> Holding:
        """Return where the item is that has a key, given whether it has begun."""
        holders = (*self._older.get(key, ()), self.holders[key])
        if not any(one.seq == seq and one.live for one in holders):
            return "over"
        return "busy" if is_begun else "waits"

    def take(self, key: Hashable, seq: int, now: float) -> None:
        """Let an admitted item hold its key."""
        if key is not None:
            self.put(key, Holder(seq, now + self._kept))

    def put(self, key: Hashable, holder: Holder) -> None:
        """Enter a holder; one that is live comes before it."""
        was = self.holders.get(key)
        if was is not None and was.live:
            self._older.setdefault(key, []).append(was)
        self.holders[key] = holder
        if self._lapses:
            self._lapses.discard(key)
        if not holder.live:
            self._rest(key, holder)

    def leave(self, key: Hashable, seq: int, now: float) -> None:
        """Let a finished item free its key, at once or when its time is over."""
        holder = self.holders.get(key)
        if holder is not None and holder.seq == seq:
            holder.live = False
            self._rest(key, holder)
            self._forget_lapsed(now)
        elif key in self._older:
            left = [one for one in self._older.pop(key) if one.seq != seq]
            self._older |= {key: left} if left else {}

    def all_of(self) -> list[tuple[Hashable, Holder]]:
        """Return all holders with their keys, the newest of each key last."""
        found = ((key, (*self._older.get(key, ()), one)) for key, one in self.holders.items())
        return [(key, one) for key, many in found for one in many]

    def _rest(self, key: Hashable, holder: Holder) -> None:
        if holder.until < math.inf:
            self._lapses.put(key, (holder.until, holder.seq))

    def _forget_lapsed(self, now: float) -> None:
        for key in self._lapses.take_until(now):
            del self.holders[key]
            if older := self._older.pop(key, None):
                self.holders[key] = older.pop()
                self._older |= {key: older} if older else {}
