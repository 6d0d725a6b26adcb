"""Bounds of keys: items in flight, debts, and the way of a claim past them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_queue.config import QueueConfig
from spark_queue.flow import Bound, Limit, has_pass
from spark_queue.rules.limiting import ItemKeys, Limited, Limits
from spark_queue.rules.pacing import NO_DEBT, Debt, Paces, UnitsAsked, instant_of, seconds_of

if TYPE_CHECKING:
    from spark_queue.rules.rule_model import Reason, Record


class Tally:
    """What one claim charges to the keys of its items.

    Attributes
    ----------
    paces : Paces
        What they owed before.
    now : int
        Its instant.
    debts : dict
        What keys owe that it charged.
    next_at : int or None
        The first instant at which one of what it kept back may start: when a key has the units for
        which it was closed.
    is_over : bool
        Whether the rate of the whole queue ended it.
    closed : dict
        The keys of which nothing more starts, each with the instant at which the item that closed
        it has its units.
    """

    __slots__ = ("closed", "debts", "is_over", "next_at", "now", "paces")

    def __init__(self, paces: Paces, now: int) -> None:
        self.paces, self.now = paces, now
        self.closed: dict[Limited, int] = {}
        self.debts: dict[Limited, Debt] = {}
        self.next_at: int | None = None
        self.is_over = False

    # rule: pass of a claim
    def admits(self, asked: Sequence[UnitsAsked]) -> bool:
        """Tell whether the next item has its units.

        A key that lacks those of one of its items is closed for the rest of the claim, so that
        nothing of it overtakes; without those of the whole queue the claim ends.
        """
        if self.closed and any(one.key in self.closed for one in asked):
            return False
        lacking = [one for one in asked if one.starts_at(self._debt(one)) > self.now]
        if not lacking:
            return True
        of_keys = [one for one in lacking if not self.paces.is_whole(one.key)]
        self.is_over = not of_keys
        for one in of_keys or lacking:
            debt = self.debts.get(one.key) or self.paces.debts.get(one.key, NO_DEBT)
            at = self.closed[one.key] = one.due_at(debt, self.now)
            # From then on an item behind may start that needs nothing of the others.
            self.next_at = at if self.next_at is None else min(self.next_at, at)
        return False

    def charge(self, asked: Sequence[UnitsAsked]) -> None:
        """Charge an item that starts."""
        for one in asked:
            self.debts[one.key] = one.charge(self._debt(one), self.now)

    def _debt(self, asked: UnitsAsked) -> Debt:
        debt = self.debts.get(asked.key) or self.paces.debts.get(asked.key, NO_DEBT)
        return asked.set_right(debt, self.now)


def reason_of(bound: Bound) -> Reason:
    """Return the reason of an item that a bound keeps back."""
    if isinstance(bound, Limit):
        return "key limit"
    return "rate" if bound.by is None else "key rate"


class Bounds:
    """What keys of a queue have in flight and owe, and what claims may add.

    Attributes
    ----------
    is_any : bool
        Whether the queue has some.
    in_flight : Limits
        The items in flight of each key.
    paces : Paces
        What keys owe for what started.
    """

    __slots__ = ("_has_groups", "in_flight", "is_any", "paces")

    def __init__(self, config: QueueConfig) -> None:
        self.is_any = has_pass(config)
        self.in_flight, self.paces = Limits(config), Paces(config)
        self._has_groups = config.group_key is not None

    def find(
        self, keys: ItemKeys, units: Sequence[float] | None
    ) -> tuple[tuple[Limited, ...], tuple[UnitsAsked, ...]]:
        """Return the keys of an item that bound its flight, and its units."""
        return self.in_flight.keys.find(keys), self.paces.find(keys, units)

    def find_anew(
        self, keys: ItemKeys, units: Sequence[float] | None
    ) -> tuple[tuple[Limited, ...], tuple[UnitsAsked, ...]]:
        """Return the same as :meth:`find`, and keep nothing of it."""
        return self.in_flight.keys.find(keys), self.paces.find_anew(keys, units)

    def start_pass(self, now: float) -> Pass:
        """Return a claim's pass."""
        tally = Tally(self.paces, instant_of(now))
        return Pass(self.in_flight.room, tally, has_groups=self._has_groups)

    # rule: pass of a claim
    def keep_back(self, record: Record, now: float) -> bool:
        """Tell whether an item that has no slot yet lacks room or units of a key."""
        is_full = any(map(self.in_flight.is_full, record.limited))
        return is_full or bool(self.paces.lacking(record.asked, instant_of(now)))

    def keep(self, before: Bounds, now: float) -> None:
        """Take what keys owe by other bounds."""
        if before.paces.debts:
            self.paces.keep(before.paces, instant_of(now))


class Pass:
    """One claim's way along the order of service, past what bounds keep back.

    Parameters
    ----------
    room : callable
        Returns how many items of a key may start in the claim.
    tally : Tally
        What the claim charges to keys.
    has_groups : bool
        Whether items of a group stay behind each other.
    """

    __slots__ = ("_has_groups", "_room", "left", "passed", "tally")

    def __init__(self, room: Callable[[Limited], float], tally: Tally, *, has_groups: bool) -> None:
        self._room = room
        self._has_groups = has_groups
        self.tally = tally
        self.left: dict[Limited, float] = {}
        self.passed: dict[Hashable, int] = {}
        """The first item of each group that was passed."""

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
        asked: Sequence[UnitsAsked] = (),
        *,
        is_lapsed: bool,
    ) -> bool:
        """Tell whether the next item in order may start.

        One of a group stays behind an earlier one that was passed. One whose lease ran out has its
        slots; any other needs room of all its keys. Each needs its units, which are asked last:
        what has no room takes none.
        """
        if self.passed and self.passed.get(group_key, seq) < seq:
            return False
        has_room = is_lapsed or all(map(self._has_room, keys))
        if has_room and (not asked or self.tally.admits(asked)):
            return True
        self.keep_back(seq, group_key)
        return False

    def start(self, record: Record) -> None:
        """Count as :meth:`charge` an item that starts."""
        self.charge(record.limited, record.asked, is_lapsed=record.place == "lost")

    def charge(
        self, keys: Sequence[Limited], asked: Sequence[UnitsAsked] = (), *, is_lapsed: bool
    ) -> None:
        """Count an item that starts, of all its keys."""
        if not is_lapsed:
            for key in keys:
                self.left[key] -= 1
        self.tally.charge(asked)

    def closed_keys(self) -> list[Limited]:
        """Return the keys of which nothing more starts."""
        return [key for key, left in self.left.items() if left <= 0] + [*self.tally.closed]

    def debts(self) -> tuple[tuple[str, Hashable, Debt], ...]:
        """Return what keys owe that the claim charged."""
        return self.tally.paces.name_debts(self.tally.debts)

    def next_at(self) -> float | None:
        """Return when the first item may start that lacked units."""
        return None if self.tally.next_at is None else seconds_of(self.tally.next_at)

    @property
    def is_over(self) -> bool:
        """Whether nothing more of the claim starts."""
        return self.tally.is_over

    def keep_back(self, seq: int, group_key: Hashable) -> None:
        """Note an item that is kept back: later ones of its group stay behind it."""
        if self._has_groups and group_key is not None:
            self.passed[group_key] = min(seq, self.passed.get(group_key, seq))

    def _has_room(self, key: Limited) -> bool:
        left = self.left.get(key)
        if left is None:
            left = self.left[key] = self._room(key)
        return left > 0


@dataclass(frozen=True, slots=True)
class Played:
    """What a claim of any length would take now, and the keys that it would leave.

    Attributes
    ----------
    starting : set of int
        The items that it would take.
    debts : mapping
        What the keys would owe that it charges.
    closed : mapping
        The keys of which it would take nothing more for lack of units, each with the instant at
        which the first item that it leaves has its units.
    next_at : float or None
        The first of these instants.
    judges_each : bool
        Whether it was not played where that makes a difference: each item is judged by itself.
    """

    starting: AbstractSet[int] = frozenset()
    debts: Mapping[Limited, Debt] = field(default_factory=dict)
    closed: Mapping[Limited, int] = field(default_factory=dict)
    next_at: float | None = None
    judges_each: bool = False

    @classmethod
    def of(cls, starting: AbstractSet[int], taking: Pass | None) -> Played:
        """Return it by the items of a pass that has ended."""
        if taking is None:
            return cls(starting)
        return cls(starting, taking.tally.debts, taking.tally.closed, taking.next_at())
