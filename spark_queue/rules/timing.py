"""Times of items: when each can run, until when its keys are paused, and when its lease is over."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from spark_queue.flow import Keyed, key_texts
from spark_queue.rules.heap import Heap
from spark_queue.rules.places import LAPSED, TIMED, WAITS, Place
from spark_queue.rules.rule_model import Record

if TYPE_CHECKING:
    from spark_queue.rules.rule_model import NewItem, Record


Move = Callable[[Record, Place], None]


class Timing:
    """The items by the instants for which they wait.

    Hooks: ``move`` when an item changes its place, ``advance`` when the clock moves,
    ``past_deadline`` and ``worn_out`` when a claim looks for what it must end first. A heap is
    touched only by items that use it.
    """

    __slots__ = ("_deadlines", "_delays", "_leases", "_losses", "_records")

    def __init__(self, records: Mapping[int, Record]) -> None:
        self._records = records
        self._delays: Heap[int] = Heap()
        self._leases: Heap[int] = Heap()
        self._deadlines: Heap[int] = Heap()
        self._losses: Heap[int] = Heap()

    def move(self, record: Record, old: Place | None, new: Place) -> None:
        """Move an item's entry from its old place's instants to the new one's."""
        seq = record.seq
        if old == "held":
            self._leases.discard(seq)
        elif old in TIMED:
            self._delays.discard(seq)
        if old in LAPSED:
            self._losses.discard(seq)
        if new == "held":
            self._leases.put(seq, (record.freed_at, seq))
        elif new in TIMED:
            self._delays.put(seq, (record.due_at, seq))
        if new in LAPSED:
            self._losses.put(seq, (-record.losses, seq))
        if record.new.expires_at is not None:
            self._watch_deadline(record, new)

    def _watch_deadline(self, record: Record, new: Place) -> None:
        if new in WAITS:
            self._deadlines.put(record.seq, (record.new.expires_at, record.seq))
        else:
            self._deadlines.discard(record.seq)

    # rule: place at an instant
    def advance(self, now: float, move: Move) -> None:
        """Move the items whose delay or lease has ended."""
        for heap in (self._delays, self._leases):
            for seq in heap.take_until(now):
                record = self._records[seq]
                move(record, record.place_at(now))

    def past_deadline(self, now: float) -> list[Record]:
        """Return the waiting items whose deadline has passed, by deadline and seq."""
        return [self._records[seq] for seq in self._deadlines.take_until(now)]

    def worn_out(self, max_losses: int | None) -> list[Record]:
        """Return the items for which the lease that ran out was the last one allowed."""
        worn = sorted(self._losses.take_until(-last_loss(max_losses)))
        return [self._records[seq] for seq in worn]

    def lost_records(self) -> list[Record]:
        """Return the items whose lease ran out."""
        return [self._records[seq] for seq in self._losses]

    def next_at(self) -> float | None:
        """Return the earliest instant that anything waits for."""
        heaps = (self._delays, self._leases, self._deadlines)
        at = min((entry[0][0] for heap in heaps if (entry := heap.first())), default=math.inf)
        return at if at < math.inf else None


# rule: loss of a lease
def last_loss(max_losses: int | None) -> float:
    """Return how many losses an item has behind it that dies of the next one."""
    return math.inf if max_losses is None else max_losses - 1


# rule: loss of a lease
def add_loss(losses: int) -> int:
    """Return the losses of an item after one more lease of it ran out."""
    return losses + 1


#: Until when each key is paused, with the expression of the key; infinity for an open end.
PausedKeys = Mapping[tuple[str, Hashable], float]


class KeyPauses:
    """The pauses in force, and the live items by their keys.

    Hooks: ``join`` when an item enters, ``leave`` at its end, ``change`` when other pauses come in
    force.

    Attributes
    ----------
    keys : mapping
        The pauses.
    """

    __slots__ = ("_ends", "_members", "_texts", "keys")

    def __init__(self, config: Keyed) -> None:
        self._texts = key_texts(config)
        self._members: dict[tuple[int, Hashable], set[int]] = {}
        self.keys: PausedKeys = {}
        self._ends: dict[int, dict[Hashable, float]] = {}

    def join(self, record: Record) -> None:
        """Note a live item."""
        for at in enumerate(record.new.keys):
            self._members.setdefault(at, set()).add(record.seq)

    def leave(self, record: Record) -> None:
        """Forget an item that is over."""
        for at in enumerate(record.new.keys):
            self._members[at].discard(record.seq)
            if not self._members[at]:
                del self._members[at]

    def change(self, keys: PausedKeys) -> set[int]:
        """Put other pauses in force; return the items that they make a difference to."""
        places = {(by, key): (self._texts.index(by), key) for by, key in {**self.keys, **keys}}
        changed = [at for one, at in places.items() if self.keys.get(one) != keys.get(one)]
        self.keys, self._ends = dict(keys), {}
        for one, until in keys.items():
            place, key = places[one]
            self._ends.setdefault(place, {})[key] = until
        return set().union(*(self._members.get(at, ()) for at in changed))

    # rule: pause of a key
    def end_of(self, new: NewItem) -> float:
        """Return until when an item is paused by any of its keys; minus infinity for never."""
        keys = new.keys
        known = ((keys[at], ends) for at, ends in self._ends.items() if at < len(keys))
        return max((ends.get(key, -math.inf) for key, ends in known), default=-math.inf)
