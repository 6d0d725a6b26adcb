"""Limits by key: how many items of each key are in flight, and what a claim may add to them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spark_queue.config import QueueConfig
from spark_queue.flow import Limit, Rate, key_texts

if TYPE_CHECKING:
    from spark_queue.rules.pacing import Asked, Tally
    from spark_queue.rules.rule_model import Record

#: A key, with the place of its limit among those of the queue.
Limited = tuple[int, Hashable]


@dataclass(frozen=True, slots=True)
class LimitKeys:
    """Where the keys of limits, or of rates, are found in an item.

    Attributes
    ----------
    places : sequence of int or None
        By limit: the place of its key among the fair key, the group key and the stored ones; None
        for what all items have in common.
    """

    places: Sequence[int | None]

    @classmethod
    def of(cls, config: QueueConfig, rules: Sequence[Limit | Rate] | None = None) -> LimitKeys:
        """Return where they are by a configuration, those of its limits by default."""
        texts, rules = key_texts(config), config.limits if rules is None else rules
        return cls([None if one.by is None else texts.index(one.by) for one in rules])

    def find(
        self, fair_key: Hashable, group_key: Hashable, stored: Sequence[Hashable] | None
    ) -> tuple[Limited, ...]:
        """Return the keys of an item that have limits; that of the whole queue is no text."""
        keys = (fair_key, group_key, *(stored or ()))
        found = (
            (n, "" if at is None else keys[at] if at < len(keys) else None)
            for n, at in enumerate(self.places)
        )
        return tuple((n, key) for n, key in found if key is not None)

    def find_in(self, row: Mapping[str, Any]) -> tuple[Limited, ...]:
        """Return the keys of an item by its row in a log."""
        stored = row["_flow_keys"]
        return self.find(row["_fair_key"], row["_group_key"], stored and json.loads(stored))


class Limits:
    """Items in flight by key.

    Hooks: ``count`` when an item is claimed or no longer is, ``is_full`` before one starts.

    Attributes
    ----------
    tell : callable
        Is told of each key that became full, or has room again.
    """

    __slots__ = ("_limits", "flights", "keys", "tell")

    def __init__(self, config: QueueConfig) -> None:
        self._limits = config.limits
        self.tell: Callable[[Limited], None] = lambda _: None
        self.keys = LimitKeys.of(config)
        self.flights: Counter[Limited] = Counter()

    def count(self, keys: Sequence[Limited], by: int) -> None:
        """Count an item of some keys in, or out."""
        for key in keys:
            was = self.is_full(key)
            self.flights[key] += by
            if not self.flights[key]:
                del self.flights[key]
            if self.is_full(key) != was:
                self.tell(key)

    # rule: limit of a key
    def room(self, limited: Limited) -> float:
        """Return how many more items of a key may be in flight; infinity for any number."""
        number, key = limited
        if number < 0:
            # A rate says in each claim anew what may start.
            return math.inf
        most = self._limits[number].most(key)
        return math.inf if most is None else max(0, most - self.flights[limited])

    def is_full(self, limited: Limited) -> bool:
        """Tell whether no item of a key may start."""
        return not self.room(limited)


class Pass:
    """One claim's way along the order of service, past what limits keep back.

    Parameters
    ----------
    room : callable
        Returns how many items of a key may start in the claim.
    has_groups : bool
        Whether items of a group stay behind each other.
    tally : Tally, optional
        What the claim charges to keys with rates.
    """

    __slots__ = ("_has_groups", "_room", "left", "passed", "tally")

    def __init__(
        self, room: Callable[[Limited], float], *, has_groups: bool, tally: Tally | None = None
    ) -> None:
        self._room = room
        self._has_groups = has_groups
        self.tally = tally
        self.left: dict[Limited, float] = {}
        self.passed: dict[Hashable, int] = {}
        """The first item of each group that was passed for a limit."""

    def admits(self, record: Record) -> bool:
        """Tell as :meth:`takes` whether an item starts that is next."""
        key, is_lapsed = record.new.group_key, record.place == "lost"
        return self.takes(record.seq, key, record.limited, record.asked, is_lapsed=is_lapsed)

    # rule: pass of a claim
    def takes(
        self,
        seq: int,
        group_key: Hashable,
        keys: Sequence[Limited],
        asked: Sequence[Asked] = (),
        *,
        is_lapsed: bool,
    ) -> bool:
        """Tell whether the next item in order may start.

        One of a group stays behind an earlier one that was passed. One whose lease ran out has its
        slots; any other needs room in all its limits. Each needs its units of all its rates, which
        are asked last: what a limit keeps back is nothing to them.
        """
        if self.passed and self.passed.get(group_key, seq) < seq:
            return False
        has_room = is_lapsed or not any(self._room_left(key) <= 0 for key in keys)
        if has_room and (self.tally is None or not asked or self.tally.admits(asked)):
            return True
        self.keep_back(seq, group_key)
        return False

    def start(self, record: Record) -> None:
        """Count as :meth:`charge` an item that starts."""
        self.charge(record.limited, record.asked, is_lapsed=record.place == "lost")

    def charge(
        self, keys: Sequence[Limited], asked: Sequence[Asked] = (), *, is_lapsed: bool
    ) -> None:
        """Count an item that starts: in all its limits and rates."""
        if not is_lapsed:
            for key in keys:
                self.left[key] -= 1
        if self.tally is not None:
            self.tally.charge(asked)

    def closed(self) -> list[Limited]:
        """Return the keys of which nothing more starts."""
        full = [key for key, left in self.left.items() if left <= 0]
        return full if self.tally is None else full + self.tally.closed()

    @property
    def is_over(self) -> bool:
        """Whether nothing more of the claim starts."""
        return self.tally is not None and self.tally.is_over

    def keep_back(self, seq: int, group_key: Hashable) -> None:
        """Note an item that a limit keeps back: later ones of its group stay behind it."""
        if self._has_groups and group_key is not None:
            self.passed[group_key] = min(seq, self.passed.get(group_key, seq))

    def _room_left(self, key: Limited) -> float:
        left = self.left.get(key)
        if left is None:
            left = self.left[key] = self._room(key)
        return left
