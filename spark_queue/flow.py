"""Flow control by key: how many items may be in flight, and how many may start in a time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from spark_queue.checks import (
    is_number,
    is_positive,
    known_options,
    optional,
    require_count,
    require_duration,
    require_expression,
    seconds,
)
from spark_queue.errors import InvalidConfigError
from spark_queue.wording import shorten

#: A unit of a rate takes no longer, and no key is further ahead: nanoseconds have 64 bits.
LONGEST_PACE = timedelta(days=36_525)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How many items of one key may be in flight.

    Items whose lease has ended count until a claim, or their holder, says what becomes of them.
    An item that waits for a retry does not count. An item starts only if all its limits have room;
    until then others pass it, and it keeps its place.

    Raises
    ------
    InvalidConfigError
        When a value is out of its range; the message names the field and the value.

    Examples
    --------
    >>> Limit(by="tenant", default=4, overrides={"acme": 20}).most("acme")
    20
    """

    by: str
    """The SQL expression of the key. A null key has no limit."""
    default: int | None = None
    """How many items of a key may be in flight; 0 stops all; ``None`` for no limit."""
    overrides: Mapping[str, int | None] = field(default_factory=dict)
    """The same for some keys, by their texts."""

    def __post_init__(self) -> None:
        require_expression("limit.by", self.by, InvalidConfigError, "a SQL expression")
        _require_number(f"limit by {self.by}", self.default)
        for key, number in _overrides("limit", self.overrides):
            _require_number(f"limit of {shorten(key)} by {self.by}", number)

    # rule: limit of a key
    def most(self, key: Hashable) -> int | None:
        """Return how many items of a key may be in flight; ``None`` for any number."""
        if key is None:
            return None
        return self.overrides.get(key, self.default) if isinstance(key, str) else self.default


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """A key of which no item starts, and none is taken over, until an instant."""

    by: str
    """The SQL expression of the key."""
    key: str
    """Its text."""
    until: datetime | None
    """When it ends; ``None`` for when the key is resumed."""
    at: datetime
    """When it began."""
    who: str
    """Who paused the key last."""
    times: int = 1
    """How often the key was paused before it was resumed, or left alone for as long again."""

    # rule: pause of a key
    def lasts(self, until: datetime | None) -> bool:
        """Tell whether the pause is no shorter than one with another end."""
        return self.until is None or (until is not None and until <= self.until)

    def is_in_force(self, now: datetime) -> bool:
        """Tell whether items of the key are kept back."""
        return self.until is None or self.until > now


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many units of one key, or of the whole queue, may start in a time.

    In any window of ``per`` at most ``limit`` and ``burst`` units start. Each start counts: of a
    retry and of a lost item as well. What has to wait keeps its place, and others pass it.

    Raises
    ------
    InvalidConfigError
        When a value is out of its range; the message names the field and the value.

    Examples
    --------
    >>> rate = Rate(by="tenant", limit=100, per=timedelta(minutes=1), overrides={"acme": 20})
    >>> rate.most("acme")
    20
    """

    limit: float | None
    """How many units start in ``per``; ``None`` for any number. To stop a key, pause it."""
    per: timedelta
    """The time that ``limit`` is of. It is fixed once the queue has the rate."""
    by: str | None = None
    """The SQL expression of the key, and ``None`` for the whole queue. A null key has no rate."""
    burst: float | None = None
    """How many units start at once after a rest. Default: what comes in 0.25 s, 1 at least."""
    units: str | None = None
    """The SQL expression of the units of an item, a number above 0; ``None`` for 1 each. They are
    counted when it is enqueued. What has more than the burst is refused then."""
    overrides: Mapping[str, float | None] = field(default_factory=dict)
    """Other limits of some keys, by their texts."""

    def __post_init__(self) -> None:
        expression = partial(require_expression, error=InvalidConfigError, kind="a SQL expression")
        optional(expression, "rate.by", self.by)
        optional(expression, "rate.units", self.units)
        require_duration("rate.per", self.per, InvalidConfigError, most=LONGEST_PACE)
        self._require_limit(self.name, self.limit)
        _require_above_0("rate.burst", self.burst)
        if self.units is None and self.burst is not None and self.burst < 1:
            raise InvalidConfigError(
                f"rate.burst is {self.burst}: without units each item is 1, and could never start"
            )
        overrides = _overrides("rate", self.overrides)
        if overrides and self.by is None:
            raise InvalidConfigError("rate.overrides are given to a rate of the whole queue")
        for key, number in overrides:
            self._require_limit(f"rate of {shorten(key)} by {self.by}", number)

    def _require_limit(self, what: str, limit: float | None) -> None:
        _require_above_0(what, limit)
        if limit is not None and self.per.total_seconds() / limit > LONGEST_PACE.total_seconds():
            raise InvalidConfigError(
                f"{what} is {limit} in {self.per}: a unit would take more than 100 years; "
                "to stop a key, pause it"
            )

    # rule: rate of a key
    def most(self, key: Hashable) -> float | None:
        """Return how many units of a key may start in ``per``; ``None`` for any number."""
        return self.overrides.get(key, self.limit) if isinstance(key, str) else self.limit

    @property
    def least_gap(self) -> timedelta | None:
        """The time of one unit of the fastest key, a microsecond at least; ``None`` without any."""
        limits = [most for most in (self.limit, *self.overrides.values()) if most is not None]
        return max(self.per / max(limits), timedelta.resolution) if limits else None

    @property
    def name(self) -> str:
        """What the rate is called in messages."""
        return f"rate by {self.by}" if self.by else "rate of the queue"

    @property
    def text(self) -> str:
        """What the rate is by, as the log has it: nothing for the whole queue."""
        return self.by or ""


def _overrides(what: str, overrides: object) -> list[tuple[str, Any]]:
    if not isinstance(overrides, Mapping):
        raise InvalidConfigError(
            f"{what}.overrides is {shorten(overrides)}: it must map keys to numbers"
        )
    for key in overrides:
        if not isinstance(key, str):
            raise InvalidConfigError(f"{what}.overrides has the key {shorten(key)}: use a text")
    return [*overrides.items()]


def _require_number(what: str, value: object) -> None:
    optional(require_count, what, value, error=InvalidConfigError, least=0)


def _require_above_0(what: str, value: object) -> None:
    if value is not None and not is_positive(value):
        raise InvalidConfigError(
            f"{what} is {shorten(value)}: it must be a number above 0 or None; "
            "to stop a key, pause it"
        )


#: The settings that are rules of keys: of which class, and what each needs as plain data.
RULES: Mapping[str, tuple[type[Limit | Rate], str, str]] = {
    "limits": (Limit, "by", "name the key by which it limits"),
    "rates": (Rate, "per", "say what time its limit is of"),
}


def require_rules(name: str, rules: object) -> None:
    """Raise where a value is none of a setting's rules, each by another expression."""
    kind = RULES[name][0]
    what = kind.__name__
    if not isinstance(rules, tuple) or not all(isinstance(one, kind) for one in rules):
        raise InvalidConfigError(f"{name} is {shorten(rules)}: it must be a tuple of {what}")
    texts = [one.by for one in rules]
    for text in texts:
        if texts.count(text) > 1:
            raise InvalidConfigError(
                f"{name} has {shorten(text)} twice: give one {what.lower()} of it"
            )


def rules_of(name: str, plain: object) -> object:
    """Read a setting's rules from plain data, or from rules, where it is a sequence of either."""
    if not isinstance(plain, Sequence) or isinstance(plain, str | bytes):
        return plain
    return tuple(_rule_of(name, one) for one in plain)


def _rule_of(name: str, plain: Any) -> Any:
    if not isinstance(plain, Mapping):
        return plain
    kind, needed, hint = RULES[name]
    values = known_options(kind, plain)
    if isinstance(values.get("overrides"), list):
        values["overrides"] = dict(values["overrides"])
    if needed not in values:
        raise InvalidConfigError(f"{name} has {shorten(plain)}: {hint}")
    if is_number(values.get("per")):
        values["per"] = seconds(name, values["per"])
    if kind is Rate:
        values.setdefault("limit", None)
    return kind(**values)


RuleT = TypeVar("RuleT", Limit, Rate)


def merge_limits(before: Iterable[RuleT], changed: Iterable[RuleT]) -> tuple[RuleT, ...]:
    """Return rules of which some are replaced, each by the one of its key; new ones come last."""
    found = {one.by: one for one in before}
    found.update((one.by, one) for one in changed)
    return tuple(found.values())


class Keyed(Protocol):
    """Keys and limits of a configuration."""

    @property
    def fair_key(self) -> str | None:
        """The expression of the key that takes turns."""

    @property
    def group_key(self) -> str | None:
        """The expression of the key whose items run in order."""

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits by keys."""

    @property
    def rates(self) -> tuple[Rate, ...]:
        """The rates of keys and of the whole queue."""


#: What bounds a key: how many items are in flight, or how many units start in a time.
Bound = Limit | Rate


def bounds_of(config: Keyed) -> tuple[Bound, ...]:
    """Return the bounds of keys, in the order in which the keys are stored."""
    return (*config.limits, *config.rates)


def limit_of(config: Keyed, number: int) -> Limit:
    """Return a limit by its number, as items have it."""
    return config.limits[number]


def setting_of(text: str, *configs: Keyed) -> str:
    """Return the setting that has a bound by an expression."""
    rules = ((name, one) for name in RULES for of in configs for one in getattr(of, name))
    return next(name for name, one in rules if one.by == text)


def has_pass(config: Keyed) -> bool:
    """Tell whether a claim looks at items one by one, as keys have bounds."""
    return bool(config.limits or config.rates)


def is_paced(config: Keyed) -> bool:
    """Tell whether keys owe for what starts."""
    return bool(config.rates)


def moves_debts(before: Keyed, after: Keyed) -> bool:
    """Tell whether keys owe something else once settings have changed."""
    return before.rates != after.rates


def least_gaps(config: Keyed) -> list[timedelta]:
    """Return of each rate the time of one unit of its fastest key, where it has any."""
    return [gap for gap in (one.least_gap for one in config.rates) if gap is not None]


def rates_by_units(config: Keyed, text: str) -> list[Rate]:
    """Return the rates whose units are those of an expression."""
    return [one for one in config.rates if one.units == text]


def stored_units(config: Keyed) -> tuple[str, ...]:
    """Return the expressions of units of which an item has the numbers stored."""
    return tuple(dict.fromkeys(one.units for one in config.rates if one.units is not None))


def stored_texts(config: Keyed) -> tuple[str, ...]:
    """Return the key expressions of bounds of which an item has the keys stored.

    The fair key and the group key stand with it anyway.
    """
    known = (config.fair_key, config.group_key, None)
    texts = dict.fromkeys(one.by for one in bounds_of(config))
    return tuple(text for text in texts if text is not None and text not in known)


def key_texts(config: Keyed) -> tuple[str | None, ...]:
    """Return the key expressions of a queue by their places: fair key, group key, stored ones."""
    return (config.fair_key, config.group_key, *stored_texts(config))


def require_same_texts(before: Keyed, after: Keyed) -> None:
    """Raise where a queue's items would need the keys or units of other expressions than they have.

    Raises
    ------
    InvalidConfigError
        It names the expression, or a rate of which something changes but its numbers.
    """
    _require_same_rates(before, after)
    was, now = stored_texts(before), stored_texts(after)
    if was == now:
        return
    other = next((text for text in (*now, *was) if (text in was) != (text in now)), now[0])
    what = setting_of(other, before, after)
    raise InvalidConfigError(
        f"{what} by {shorten(other)}: by which keys there are {what} is fixed when a queue is "
        "created; one by the text of fair_key or group_key can be added at any time"
    )


def _require_same_rates(before: Keyed, after: Keyed) -> None:
    was = {one.by: one for one in before.rates}
    for one in after.rates:
        if one.by in was and one.per != was[one.by].per:
            raise InvalidConfigError(
                f"{one.name} is per {one.per}: it is per {was[one.by].per} since it was made"
            )
        if one.units != (was[one.by].units if one.by in was else None):
            raise InvalidConfigError(
                f"{one.name} has the units {shorten(one.units)}: which units there are is "
                "fixed when a queue is created"
            )
    if stored_units(before) != stored_units(after):
        raise InvalidConfigError("rates with units stay, in their order: give one the limit None")


def require_debounce(
    on_duplicate: str,
    debounce: timedelta | None,
    at_most: timedelta | None,
    error: type[Exception],
) -> None:
    """Check that a debounce is given with its bound, and for rows that replace others."""
    if (debounce is None) != (at_most is None):
        raise error(
            f"debounce is {debounce} and at_most is {at_most}: give both, as rows that come all "
            "the time would put off the first for ever, or none"
        )
    if debounce is not None and on_duplicate != "replace":
        raise error(
            f"debounce is {debounce} but on_duplicate is {on_duplicate!r}; only rows that replace "
            "others are put off"
        )
