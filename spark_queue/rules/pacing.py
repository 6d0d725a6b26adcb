"""Rates of keys: what each key owes, and when more of it may start, in whole nanoseconds."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import LONGEST_PACE, Rate, stored_units
from spark_queue.rules.limiting import ItemKeys, KeyPlaces, Limited, keys_of
from spark_queue.wording import shorten

#: A default burst is what comes in this part of a second.
_AT_ONCE = Fraction(1, 4)

_BEGIN = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICRO = 1_000
_SECOND = 1_000_000_000

#: Keys of items whose units are remembered at most.
_KNOWN = 100_000
_LONGEST = LONGEST_PACE // timedelta(microseconds=1) * _MICRO


@dataclass(frozen=True, slots=True)
class Debt:
    """What a key owes.

    Attributes
    ----------
    tat : int
        The instant at which it owes nothing.
    refunds : int
        What came back to it, in all.
    at : int
        The instant of the step that says so.
    righted : int
        The instant at which a claim last found that ahead of its clock, and set it right.
    """

    tat: int
    refunds: int = 0
    at: int = 0
    righted: int = 0


class UnitsAsked(NamedTuple):
    """Units that an item takes of a key, and what they cost.

    The key has the place of its rate among those of the queue below zero, from -1 on.
    Keys of what is in flight have those above.
    """

    key: Limited
    units: float
    cost: int
    """How much time of the key they take."""
    allowance: int
    """How far ahead the key may be."""
    per: int
    """The time that the limit of the rate is of."""

    # rule: rate of a key
    def starts_at(self, debt: Debt) -> int:
        """Return the instant from which on the units may start.

        More than the burst, as it was lowered, start when the key owes nothing.
        """
        return debt.tat - max(0, self.allowance - self.cost)

    # rule: rate of a key, debt ahead of a clock
    def due_at(self, debt: Debt, now: int) -> int:
        """Return when units may start, also of a key whose debt is to be set right by then."""
        at = self.starts_at(self.set_right(debt, now))
        return min(at, debt.righted + self.per) if debt.at - now > self.allowance else at

    # rule: rate of a key
    def charge(self, debt: Debt, now: int) -> Debt:
        """Return what the key owes after the units have started."""
        return Debt(max(debt.tat, now) + self.cost, debt.refunds, now, debt.righted)

    # rule: debt ahead of a clock
    def set_right(self, debt: Debt, now: int) -> Debt:
        """Return a debt as it counts for a clock: one of a clock far ahead lets an item start.

        It does so once in the time of the rate, so that two clocks that take turns do not run away.
        """
        is_said = debt.righted and now - debt.righted < self.per
        if debt.at - now <= self.allowance or is_said:
            return debt
        tat = min(debt.tat, now + max(0, self.allowance - self.cost))
        return replace(_lower(debt, tat), at=now, righted=now)


#: What keys owed after a claim that charged them, by what their rate is by, and the key.
Charges = Mapping[tuple[str, Hashable], Debt]

#: Of a key that nothing was charged.
NO_DEBT = Debt(0)


# rule: debt of a key
def debt_of(row: Mapping[str, Any]) -> Debt:
    """Return the debt that a row of a log says; of a key the newest one counts."""
    righted = int(row["_body"] or 0)
    return Debt(row["_tat"], row["_refunds"], instant_of(row["_at"].timestamp()), righted)


def instant_of(seconds: float) -> int:
    """Return an instant, given in seconds to the microsecond, in nanoseconds."""
    return round(seconds * 1e6) * _MICRO


@lru_cache(maxsize=64)
def moment_of(instant: int) -> datetime:
    """Return an instant in nanoseconds as a moment."""
    return _BEGIN + timedelta(microseconds=instant // _MICRO)


def seconds_of(instant: int) -> float:
    """Return the first microsecond from an instant on, in seconds."""
    return -(-instant // _MICRO) / 1e6


@lru_cache(maxsize=4096)
def cost_of(per: int, limit: float, units: float) -> int:
    """Return how much time of a key some units take, rounded up once."""
    return _up(Fraction(units) * per / Fraction(limit))


def allowance_of(rate: Rate, limit: float) -> int:
    """Return how far ahead a key may be: by as many units, each rounded up, as the burst has."""
    return _allowance(nanos_of(rate), limit, rate.burst)


@lru_cache(maxsize=1024)
def _allowance(per: int, limit: float, burst: float | None) -> int:
    return _up(_burst(per, limit, burst) * cost_of(per, limit, 1))


def burst_of(rate: Rate, limit: float) -> Fraction:
    """Return how many units of a key start at once after a rest."""
    return _burst(nanos_of(rate), limit, rate.burst)


def _burst(per: int, limit: float, burst: float | None) -> Fraction:
    if burst is not None:
        return Fraction(burst)
    return max(Fraction(1), Fraction(limit) * _AT_ONCE * _SECOND / per)


def nanos_of(rate: Rate) -> int:
    """Return the time that the limit of a rate is of."""
    per = rate.per
    return ((per.days * 86_400 + per.seconds) * 1_000_000 + per.microseconds) * _MICRO


def _up(number: Fraction) -> int:
    """Return a time rounded up, as far as the log has room for it."""
    return min(-(-number.numerator // number.denominator), _LONGEST)


#: Why the units of an item are refused; engines fill in what they are.
NO_UNITS = "units %s are %s in a row: they must be a number above 0"
TOO_MANY_UNITS = (
    "an item has %s units of the rate %s, whose burst is %s: it could never start; raise the burst "
    "or part the item"
)


def whose(rate: Rate) -> str:
    """Return what a rate is by, for messages."""
    return f"by {shorten(rate.by)}" if rate.by else "of the queue"


def require_units(texts: Sequence[str], units: Sequence[float | None]) -> None:
    """Raise where the units of an item are no numbers above 0."""
    for text, number in zip(texts, units, strict=True):
        if number is None or not 0 < number < math.inf:
            raise InvalidArgumentError(NO_UNITS % (shorten(text), number))


class Paces:
    """What the keys of a queue's rates owe.

    Attributes
    ----------
    debts : dict
        The debts that are known, by key.
    """

    __slots__ = ("_keys", "_known", "_numbers", "_pers", "_rates", "_units", "debts")

    def __init__(self, config: QueueConfig) -> None:
        self._rates = config.rates
        self._numbers = {rate.text: number for number, rate in enumerate(config.rates)}
        self._pers = [nanos_of(rate) for rate in config.rates]
        self._keys = KeyPlaces.of(config, config.rates)
        texts = stored_units(config)
        self._units = [None if r.units is None else texts.index(r.units) for r in config.rates]
        self._known: dict[tuple[Limited, ...], tuple[UnitsAsked, ...]] = {}
        self.debts: dict[Limited, Debt] = {}

    def find_anew(self, keys: ItemKeys, units: Sequence[float] | None) -> tuple[UnitsAsked, ...]:
        """Return the same as :meth:`find`, and keep nothing of it."""
        return self._find(self._keys.find(keys), units or ())

    def find(self, keys: ItemKeys, units: Sequence[float] | None) -> tuple[UnitsAsked, ...]:
        """Return what an item takes of the keys that have rates; of the whole queue at last."""
        if units:
            return self.find_anew(keys, units)
        limited = self._keys.find(keys)
        # Items of a key share one: a million of their own is what Python collects garbage among.
        found = self._known.get(limited)
        if found is None:
            if len(self._known) >= _KNOWN:
                self._known.clear()
            found = self._known[limited] = self._find(limited, ())
        return found

    def _find(self, limited: Sequence[Limited], units: Sequence[float]) -> tuple[UnitsAsked, ...]:
        found = []
        for number, key in limited:
            rate, at = self._rates[number], self._units[number]
            if rate.most(key) is not None:
                taken = units[at] if at is not None and at < len(units) else 1
                found.append(self.ask((-1 - number, key), taken))
        if len(found) > 1:
            found.sort(key=lambda asked: self.is_whole(asked.key))
        return tuple(found)

    def ask(self, key: Limited, units: float) -> UnitsAsked:
        """Return some units of a key, with what they cost; without a limit they cost nothing."""
        rate, per = self.rate_of(key), self._pers[-1 - key[0]]
        limit = rate.most(key[1])
        if limit is None:
            return UnitsAsked(key, units, 0, 0, per)
        cost, allowance = cost_of(per, limit, units), _allowance(per, limit, rate.burst)
        return UnitsAsked(key, units, cost, allowance, per)

    # rule: units of an item
    def require_fit(self, keys: ItemKeys, units: Sequence[float]) -> None:
        """Raise where an item has more units than a key ever has at once.

        Raises
        ------
        InvalidArgumentError
            It names both numbers.
        """
        for asked in self.find(keys, units):
            rate = self.rate_of(asked.key)
            burst = burst_of(rate, rate.most(asked.key[1]) or 1)
            if asked.units > burst:
                told = (f"{asked.units:g}", whose(rate), f"{float(burst):g}")
                raise InvalidArgumentError(TOO_MANY_UNITS % told)

    def is_whole(self, key: Limited) -> bool:
        """Tell whether a key stands for the whole queue."""
        return self.rate_of(key).by is None

    def rate_of(self, key: Limited) -> Rate:
        """Return the rate of a key."""
        return self._rates[-1 - key[0]]

    def find_in(self, row: Mapping[str, Any]) -> tuple[UnitsAsked, ...]:
        """Return what an item takes, by its row in a log."""
        units = row["_units"]
        return self.find(keys_of(row), units and json.loads(units))

    def lacking(self, asked: Iterable[UnitsAsked], now: int) -> list[tuple[UnitsAsked, int]]:
        """Return the keys that lack units at an instant, and when each has them."""
        found = ((one, one.due_at(self.debts.get(one.key, NO_DEBT), now)) for one in asked)
        return [(one, at) for one, at in found if at > now]

    def after(self, debts: Mapping[Limited, Debt]) -> Paces:
        """Return the same rates where some keys owe something else."""
        found = copy(self)
        found.debts = {**self.debts, **debts}
        return found

    # rule: units that come back
    def give_back(
        self, asked: Iterable[UnitsAsked], granted: Charges, now: int
    ) -> Mapping[Limited, Debt]:
        """Take back units that a claim charged and that were not begun; return who owes less.

        They come back as far as they are outstanding: what the keys owed after the claim, less what
        came back since, is ahead of now.
        """
        found: dict[Limited, Debt] = {}
        for one in asked:
            owed = self.debts.get(one.key)
            was = granted.get((self.rate_of(one.key).text, one.key[1]))
            if owed is None or was is None:
                continue
            left = was.tat - (owed.refunds - was.refunds) - now
            back = min(one.cost, left)
            if back > 0:
                found[one.key] = self.debts[one.key] = _lower(owed, owed.tat - back)
        return found

    def counts(self, key: Limited, debt: Debt, now: int, *, in_flight: bool) -> bool:
        """Tell whether a debt still says something, with some items in flight or none."""
        is_righted = debt.righted and now - debt.righted < nanos_of(self.rate_of(key))
        return debt.tat > now or (in_flight and debt.refunds > 0) or bool(is_righted)

    def name_debts(self, debts: Mapping[Limited, Debt]) -> tuple[tuple[str, Hashable, Debt], ...]:
        """Return debts by the texts of their rates."""
        return tuple((self.rate_of(key).text, key[1], debt) for key, debt in debts.items())

    def learn(self, by: str, key: Hashable, debt: Debt) -> None:
        """Take a debt from elsewhere; one of a rate that is no more counts for nothing."""
        number = self._numbers.get(by)
        if number is not None:
            self.debts[-1 - number, key] = debt

    # rule: debt under a changed rate
    def keep(self, before: Paces, now: int) -> None:
        """Take the debts of other rates, which stay as many units."""
        for key, debt in before.debts.items():
            was = before.rate_of(key)
            now_rate = next((rate for rate in self._rates if rate.by == was.by), None)
            if now_rate is not None:
                self.learn(was.text, key[1], move_debt(debt, was, now_rate, key[1], now))


# rule: debt under a changed rate
def move_debt(debt: Debt, was: Rate, rate: Rate, key: Hashable, now: int) -> Debt:
    """Return the debt of a key, as many units as before, under a changed rate."""
    old, new = was.most(key), rate.most(key)
    if old == new or debt.tat <= now:
        return debt
    if old is None or new is None:
        return _lower(debt, now)
    return _lower(debt, now + _up((debt.tat - now) * Fraction(old) / Fraction(new)))


# rule: units that come back
def _lower(debt: Debt, tat: int) -> Debt:
    """Return a debt as of another instant; what it is less counts as come back."""
    return replace(debt, tat=tat, refunds=debt.refunds + max(0, debt.tat - tat))
