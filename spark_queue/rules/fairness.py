"""Fair by key: tags given at the enqueue, and turns handed out since. See ADR 3.

All turns of a key lie on the scale of its weight. When the weight changes from ``w`` to ``w'``
while the pointer of a priority is at turn ``V``, every turn of the key at that priority, tags and
handed out ones alike, moves to ``V + (turn - V) * w / w'``: it is stretched around the pointer. So
order is kept, passed turns stay passed, and the backlog goes on at the new rate at once. Tags
are not rewritten: they are stored in units of cost, at any weight, and an account holds the
map for all of them. Where the weight changed, a stored tag and a turn are pinned together.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from spark_queue.overriding import override
from spark_queue.rules.heap import Heap

#: What costs and increments are whole numbers of: a little less than a millionth of a turn.
UNIT = 2.0**-20

#: A number without digits behind the unit: a number added to it loses its own.
ROUNDER = 1.5 * 2.0**32


def round_to_unit(number: float) -> float:
    """Return the whole number of units that is nearest; of two, the even one.

    Examples
    --------
    >>> round_to_unit(0.1) == 104858 * UNIT
    True
    """
    return (number + ROUNDER) - ROUNDER


def share(amount: float) -> float:
    """Return the increment of an amount above 0: at least a unit, so that turns move."""
    return max(UNIT, round_to_unit(amount))


# rule: overdue item
def is_passed(turn: float, seq: float, pointer: tuple[float, int]) -> bool:
    """Tell whether the order has passed an item, which has come to a turn and an item."""
    return (turn, seq) <= pointer


class Level:
    """One priority: its pointer ``(turn, seq)``, the highest handed out, and its accounts."""

    __slots__ = ("accounts", "idle", "priority", "seq", "turn")

    def __init__(self, priority: int, turn: float = 0.0, seq: int = 0) -> None:
        self.priority = priority
        self.turn = turn
        self.seq = seq
        self.accounts: dict[Hashable, Account] = {}
        self.idle: Heap[Hashable] = Heap()

    # rule: turns handed out
    def advance(self, turn: float, seq: int) -> None:
        """Move the pointer forward, never back."""
        self.turn, self.seq = max((self.turn, self.seq), (turn, seq))

    def forget_idle(self) -> None:
        """Drop accounts without items whose last tag is passed: a new one would be the same."""
        for fair_key in self.idle.take_until(self.turn):
            del self.accounts[fair_key]


class Scale:
    """How the stored tags of a key map to turns, at one priority.

    Attributes
    ----------
    raw_pin, pin : float
        The stored tag that is the turn ``pin``, at any weight.
    """

    __slots__ = ("pin", "raw_pin", "weight")

    def __init__(self, weight: float, raw_pin: float = 0.0, pin: float = 0.0) -> None:
        self.weight = weight
        self.raw_pin = raw_pin
        self.pin = pin

    # rule: weight of a key
    def tag(self, raw: float) -> float:
        """Return a stored tag on the scale of the present weight."""
        return self.pin + (raw - self.raw_pin) / self.weight

    # rule: weight of a key
    def raw(self, tag: float) -> float:
        """Return what to store for a tag."""
        return self.raw_pin + (tag - self.pin) * self.weight

    # rule: weight of a key
    def stretch(self, pointer: float, weight: float) -> None:
        """Change the weight: what is stored stays, and moves around the pointer."""
        self.raw_pin, self.pin, self.weight = self.raw(pointer), pointer, weight


class Account(Scale):
    """What one key was given at one priority.

    Attributes
    ----------
    raw_last : float
        The last tag given out, as it is stored, before it was raised to that of an earlier item of
        a group.
    regular, overdue : float
        The highest regular and the highest overdue turn handed out.
    live : int
        Items of the key that are ready or claimed.
    """

    __slots__ = (
        "fair_key",
        "level",
        "live",
        "overdue",
        "raw_last",
        "regular",
    )

    def __init__(self, level: Level, fair_key: Hashable, weight: float) -> None:
        super().__init__(weight)
        self.level = level
        self.fair_key = fair_key
        self.raw_last = 0.0
        self.regular = -math.inf
        self.overdue = -math.inf
        self.live = 0

    @property
    def last(self) -> float:
        """The last tag given out, on the scale of the present weight."""
        return self.tag(self.raw_last)

    @property
    def is_pinned(self) -> bool:
        """Whether the weight has changed since the account was opened."""
        return self.pin != 0.0 or self.raw_pin != 0.0

    # rule: tag of a new item
    def start(self) -> float:
        """Return the stored tag that the next one follows."""
        return max(self.raw(self.level.turn), self.raw_last)

    # rule: overdue item
    def is_given(self, raw: float, seq: int) -> bool:
        """Tell whether the regular turn of a live item is gone."""
        level, tag = self.level, self.tag(raw)
        return tag <= self.regular or is_passed(tag, seq, (level.turn, level.seq))

    def earliest(self) -> float:
        """Return the turn before which an item is served at none."""
        return self.level.turn

    def serve(self, slot: float, *, overdue: bool) -> None:
        """Note a turn that was handed out."""
        if overdue:
            self.overdue = max(self.overdue, slot)
        else:
            self.regular = max(self.regular, slot)

    # rule: weight of a key
    def reweigh(self, weight: float) -> None:
        """Change the weight: stretch every turn of the account around the pointer."""
        if weight == self.weight:
            return
        pointer, ratio = self.level.turn, self.weight / weight
        for name in ("regular", "overdue"):
            setattr(self, name, pointer + (getattr(self, name) - pointer) * ratio)
        self.stretch(pointer, weight)


class Turns:
    """The levels and accounts of a scheduler.

    Hooks: ``stamp`` when an item is admitted, ``hand_out`` when it is served, ``leave`` when it is
    finished, ``reweigh`` when weights change.
    """

    __slots__ = ("_entered", "_weights", "levels")

    def __init__(self, weights: Mapping[str, float]) -> None:
        self.levels: dict[int, Level] = {}
        self._weights = dict(weights)
        self._entered: dict[Account, tuple[float, float]] = {}

    def begin(self) -> None:
        """Begin a step: costs of its new items are summed per line."""
        self._entered.clear()

    def account(self, priority: int, fair_key: Hashable) -> Account:
        """Return the account of a key at a priority, opening it if needed."""
        level = self.level(priority)
        account = level.accounts.get(fair_key)
        return self.open(level, fair_key, self.weight(fair_key)) if account is None else account

    def open(self, level: Level, fair_key: Hashable, weight: float) -> Account:
        """Open the account of a key that has none."""
        account = level.accounts[fair_key] = Account(level, fair_key, weight)
        return account

    def level(self, priority: int) -> Level:
        """Return the level of a priority, creating it if needed."""
        level = self.levels.get(priority)
        if level is None:
            level = self.levels[priority] = Level(priority)
        return level

    def knows(self, priority: int, fair_key: Hashable) -> bool:
        """Whether a key has an account at a priority."""
        level = self.levels.get(priority)
        return level is not None and fair_key in level.accounts

    def stamp(
        self,
        account: Account,
        seq: int,
        cost: float,
        floor: float | None,
        kept: float | None = None,
    ) -> tuple[float, float]:
        """Give a new item its tag, at least ``floor``: as stored, and as a turn.

        A kept tag is the item's own: the key's next tag does not count from it.
        """
        if kept is None:
            self._enter(account, seq, cost)
        raw = account.raw_last if kept is None else kept
        turn = account.tag(raw)
        if floor is None or floor <= turn:
            return raw, turn
        # The raised tag is not the key's last: a later item of the key in no group, or in another,
        # must not wait for a group that belongs to another key.
        return account.raw(floor), floor

    # rule: tag of a new item
    def _enter(self, account: Account, seq: int, cost: float) -> None:
        """Give out the tag of a new item: behind where the step began, by what it added since."""
        del seq
        start, added = self._entered.get(account) or (account.start(), 0.0)
        added += share(cost)
        self._entered[account] = (start, added)
        account.raw_last = start + added

    def join(self, account: Account) -> None:
        """Count a live item of an account."""
        account.live += 1
        account.level.idle.discard(account.fair_key)

    def leave(self, account: Account) -> None:
        """Take a finished item off an account."""
        account.live -= 1
        if not account.live:
            self._rest(account)

    # rule: turns handed out
    def hand_out(
        self, account: Account, seq: int, turn: float, slot: float, *, overdue: bool
    ) -> None:
        """Record that an item was served: its key's slot, and the turn."""
        account.serve(slot, overdue=overdue)
        account.level.advance(turn, seq)

    @contextmanager
    def restoring(self, accounts: Iterable[Account]) -> Iterator[None]:
        """Restore the turns of some accounts when the block ends."""
        before = {a: (a.regular, a.overdue, a.level.turn, a.level.seq) for a in accounts}
        try:
            yield
        finally:
            for account, (regular, overdue, turn, seq) in before.items():
                account.regular, account.overdue = regular, overdue
                account.level.turn, account.level.seq = turn, seq

    def reweigh(self, weights: Mapping[str, float]) -> Iterator[Account]:
        """Apply new weights, and yield each account whose weight changed."""
        changed = {
            key
            for key in self._weights.keys() | weights.keys()
            if self._weights.get(key, 1.0) != weights.get(key, 1.0)
        }
        self._weights = dict(weights)
        for level in self.levels.values():
            for key in changed & level.accounts.keys():
                account = level.accounts[key]
                account.reweigh(self.weight(key))
                if not account.live:
                    self._rest(account)
                yield account

    def weight(self, fair_key: Hashable) -> float:
        """Return the weight in force of a key."""
        return self._weights.get(fair_key, 1.0) if isinstance(fair_key, str) else 1.0

    def rest_idle(self) -> None:
        """Let accounts without items be forgotten when their time comes."""
        for level in self.levels.values():
            for account in list(level.accounts.values()):
                if not account.live:
                    self._rest(account)

    def _rest(self, account: Account) -> None:
        level = account.level
        if account.is_pinned:
            # A new one would be as good, and would store other tags. It may have rested since
            # before its weight was changed.
            level.idle.discard(account.fair_key)
            return
        # The count of idle accounts only tells keys apart that do not compare with each other.
        level.idle.put(account.fair_key, (account.last, id(account)))
        level.forget_idle()


class _OneAccount(Account):
    """What all items of a priority were given, in the order of their seqs: none is overdue."""

    __slots__ = ()

    @override
    def is_given(self, raw: float, seq: int) -> bool:
        return False

    @override
    def earliest(self) -> float:
        return -math.inf


# rule: one line without keys
class OneLine(Turns):
    """The levels of a scheduler without fair keys: an account each, whose tags are the seqs."""

    __slots__ = ()

    @override
    def account(self, priority: int, fair_key: Hashable) -> Account:
        return super().account(priority, None)

    @override
    def open(self, level: Level, fair_key: Hashable, weight: float) -> Account:
        account = level.accounts[fair_key] = _OneAccount(level, fair_key, weight)
        return account

    @override
    def _enter(self, account: Account, seq: int, cost: float) -> None:
        # Those of a snapshot of an earlier release were sums of costs.
        account.raw_last = max(account.raw_last, tag_of(seq))


# rule: one line without keys
def tag_of(seq: int) -> float:
    """Return the tag of an item in one line."""
    return float(seq)
