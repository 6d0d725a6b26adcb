"""Flow control by key: how many items of a key may be in flight."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from spark_queue.checks import known_options, optional, require_count, require_expression
from spark_queue.errors import InvalidConfigError
from spark_queue.wording import shorten


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
        if not isinstance(self.overrides, Mapping):
            raise InvalidConfigError(
                f"limit.overrides is {shorten(self.overrides)}: it must map keys to numbers"
            )
        for key, number in self.overrides.items():
            if not isinstance(key, str):
                raise InvalidConfigError(f"limit.overrides has the key {shorten(key)}: use a text")
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


def longest_pause(config: Keyed, pauses: Iterable[Pause], keys: Sequence[Hashable]) -> Pause | None:
    """Return the pause of an item that ends last; its keys are those of :func:`key_texts`."""
    of = dict(zip(key_texts(config), keys, strict=False))
    found = (one for one in pauses if of.get(one.by) == one.key)
    return max(found, key=lambda one: (one.until is None, one.until or one.at), default=None)


def _require_number(what: str, value: object) -> None:
    optional(require_count, what, value, error=InvalidConfigError, least=0)


def require_limits(name: str, limits: object) -> None:
    """Raise where a value is no sequence of limits, each by another expression."""
    if not isinstance(limits, tuple) or not all(isinstance(one, Limit) for one in limits):
        raise InvalidConfigError(f"{name} is {shorten(limits)}: it must be a tuple of Limit")
    texts = [one.by for one in limits]
    for text in texts:
        if texts.count(text) > 1:
            raise InvalidConfigError(f"{name} has {shorten(text)} twice: give one limit of it")


def limits_of(name: str, plain: object) -> object:
    """Read limits from plain data, or from limits, where it is a sequence of either."""
    if not isinstance(plain, Sequence) or isinstance(plain, str | bytes):
        return plain
    return tuple(_limit_of(name, one) for one in plain)


def _limit_of(name: str, plain: Any) -> Any:
    if not isinstance(plain, Mapping):
        return plain
    values = known_options(Limit, plain)
    if isinstance(values.get("overrides"), list):
        values["overrides"] = dict(values["overrides"])
    if "by" not in values:
        raise InvalidConfigError(f"{name} has {shorten(plain)}: name the key by which it limits")
    return Limit(**values)


def merge_limits(before: Iterable[Limit], changed: Iterable[Limit]) -> tuple[Limit, ...]:
    """Return limits of which some are replaced, each by the one of its key; new ones come last."""
    return tuple({one.by: one for one in (*before, *changed)}.values())


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


def stored_texts(config: Keyed) -> tuple[str, ...]:
    """Return the key expressions of limits of which an item has the keys stored.

    The fair key and the group key stand with it anyway.
    """
    known = (config.fair_key, config.group_key)
    return tuple(dict.fromkeys(one.by for one in config.limits if one.by not in known))


def key_texts(config: Keyed) -> tuple[str | None, ...]:
    """Return the key expressions of a queue by their places: fair key, group key, stored ones."""
    return (config.fair_key, config.group_key, *stored_texts(config))


def require_same_texts(before: Keyed, after: Keyed) -> None:
    """Raise where a queue's items would need the keys of other expressions than they have.

    Raises
    ------
    InvalidConfigError
        It names the expression.
    """
    was, now = stored_texts(before), stored_texts(after)
    if was == now:
        return
    other = next((text for text in (*now, *was) if (text in was) != (text in now)), now[0])
    raise InvalidConfigError(
        f"limits by {shorten(other)}: by which keys there are limits is fixed when a queue is "
        "created; one by the text of fair_key or group_key can be added at any time"
    )
