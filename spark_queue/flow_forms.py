"""Forms of limits and rates, and of a pause: how one is typed, changed and told."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from spark_queue import checks
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import Keyed, Limit, Pause, Rate, key_texts
from spark_queue.overriding import override
from spark_queue.wording import instant, number as number_text, shorten

#: How many seconds a unit has in which a pause is said.
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def read_span(text: str, name: str = "for") -> timedelta:
    """Read a time, as of a pause: seconds, or a number of s, m, h or d.

    Raises
    ------
    InvalidArgumentError
        When it is none.

    Examples
    --------
    >>> read_span("10m")
    datetime.timedelta(seconds=600)
    """
    found = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([smhd]?)", text.strip(), re.ASCII)
    if found is None:
        raise InvalidArgumentError(f"{name} is {shorten(text)}: it must be like 90s, 10m, 2h or 1d")
    length = timedelta(seconds=float(found[1]) * _UNITS[found[2]])
    checks.require_duration(name, length, least=timedelta(0))
    return length


def plain_pause(pause: Pause) -> dict[str, object]:
    """Return a pause as plain data."""
    until = None if pause.until is None else instant(pause.until)
    return {"by": pause.by, "key": pause.key, "until": until, "who": pause.who}


def require_no_key(verb: str, **given: object) -> None:
    """Raise where a queue is paused or resumed with what is said of a key."""
    for name, value in given.items():
        if value is not None:
            raise InvalidArgumentError(
                f"{name} is {shorten(value)}: it is about a key; {verb}(key=..., {name}=...)"
            )


def expression_of(config: Keyed, by: str | None) -> str:
    """Return the expression of a key: the fair key's, or the only one, unless it is said.

    Raises
    ------
    InvalidArgumentError
        When a queue has no key of the expression, or several and no fair key.
    """
    known = list(dict.fromkeys(text for text in key_texts(config) if text is not None))
    named = ", ".join(map(shorten, known)) or "none"
    if by is None:
        if config.fair_key is not None or len(known) == 1:
            return known[0]
        raise InvalidArgumentError(
            f"by is None, and there is no fair_key: say by which key; the queue has {named}"
        )
    if by not in known:
        raise InvalidArgumentError(
            f"by is {shorten(by)}: no such key is stored with items, as those of fair_key, of "
            f"group_key, of limits and rates are; the queue has {named}"
        )
    return by


#: No rule, and no number for a key of a rule.
NONE, UNLIMITED = "none", "unlimited"

#: A rule of a key, as plain data.
Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FlowForm(ABC):
    """How the rules of a setting are typed and told.

    Attributes
    ----------
    setting, word, verb : str
        The name of the setting, of one rule of it, and of what gives a key its own number.
    like, like_key, shape, option, number_like, says : str
        What one looks like, and one of a key: in an error, in a form, and as an option; what the
        number of a key looks like, and what that does.
    """

    setting: str
    word: str
    verb: str
    like: str
    like_key: str
    shape: str
    option: str
    number_like: str
    says: str

    @abstractmethod
    def split(self, text: str) -> tuple[str, str]:
        """Part a text into by what, or of which key, it is, and the rest; else raise."""

    @abstractmethod
    def change(self, rule: Any, by: str, text: str, rest: str) -> Any:
        """Return a rule that is changed by a text, or made by it where there is none."""

    @abstractmethod
    def begin(self, rule: Any, by: str, text: str, number: str) -> tuple[Any, float | None]:
        """Return a rule, or a new one where there is none, and the number of a key of it."""

    @abstractmethod
    def value(self, rule: Plain) -> str:
        """Return what a rule, as plain data, allows each key."""

    def key_values(self, rule: Plain) -> dict[str, str]:
        """Return what a rule, as plain data, allows the keys with numbers of their own."""
        return {key: most_text(most) for key, most in dict(rule["overrides"]).items()}

    def name(self, by: str | None) -> str:
        """Return what a rule is called."""
        return f"{self.word} by {by}" if by else f"{self.word} of the queue"

    def words(self, rule: Plain) -> Iterator[str]:
        """Yield the words of a rule, as plain data: ``tenant=4``, then ``tenant:acme=20``."""
        by = rule["by"]
        yield f"{by}={self.value(rule)}" if by else self.value(rule)
        for key, most in dict(rule["overrides"]).items():
            yield f"{by}:{key}={most_text(most)}"

    def refuse(self, option: str, text: str, why: str) -> InvalidArgumentError:
        """Return the error of a text that cannot be read."""
        return InvalidArgumentError(f"{option} is {shorten(text)}: {why}")


class _Limits(FlowForm):
    __slots__ = ()

    def split(self, text: str) -> tuple[str, str]:
        name, _, rest = text.rpartition("=")
        return name, rest.strip().lower()

    def change(self, rule: Limit | None, by: str, text: str, rest: str) -> Limit:
        if not by:
            raise self.refuse(self.word, text, f"give it as {self.like}")
        return replace(rule or Limit(by=by), default=_whole(self.word, text, rest))

    def begin(
        self, rule: Limit | None, by: str, text: str, number: str
    ) -> tuple[Limit, int | None]:
        most = None if number == NONE else _whole(f"{self.word}-of", text, number)
        return rule or Limit(by=by), most

    def value(self, rule: Plain) -> str:
        return most_text(rule["default"], NONE)


#: A rate; what it is by may hold any of these signs itself, so that it is the shortest one.
_RATE = re.compile(
    r"(?:(?P<by>.+?)=)??(?P<limit>none|unlimited|\d[\d.]*)(?:/(?P<per>[\d.]*[smhd]?))?"
    r"(?:,burst=(?P<burst>none|[\d.]+))?(?:,units=(?P<units>.+))?",
    re.ASCII | re.IGNORECASE | re.DOTALL,
)


class _Rates(FlowForm):
    __slots__ = ()

    def split(self, text: str) -> tuple[str, str]:
        found = _RATE.fullmatch(text.strip())
        if found is None:
            return text.rpartition("=")[0], ""
        by = found["by"] or ""
        return by, text.strip()[len(by) + 1 if by else 0 :]

    def change(self, rule: Rate | None, by: str, text: str, rest: str) -> Rate:
        found = _RATE.fullmatch(rest)
        if found is None or found["by"]:
            raise self.refuse(self.word, text, f"give it as {self.like}")
        if rule is None and found["per"] is None:
            like = f"{by}={found['limit']}" if by else found["limit"]
            why = f"say in what time, as in {like}/60s"
            raise self.refuse(self.word, text, why)
        changed: dict[str, Any] = {"limit": _amount(self.word, text, found["limit"])}
        if (per := found["per"]) is not None:
            changed["per"] = _per(per)
        if found["burst"] is not None:
            changed["burst"] = _amount(self.word, text, found["burst"])
        if found["units"] is not None:
            changed["units"] = found["units"]
        return Rate(by=by or None, **changed) if rule is None else replace(rule, **changed)

    def begin(
        self, rule: Rate | None, by: str, text: str, number: str
    ) -> tuple[Rate, float | None]:
        option, (amount, _, span) = f"{self.word}-of", number.partition("/")
        per = _per(span) if span else None if rule is None else rule.per
        if per is None:
            raise self.refuse(option, text, f"say in what time, as in {text}/60s")
        if rule is not None and rule.per != per:
            why = (
                f"the rate by {by} is per {_span_text(rule.per.total_seconds())} since it was made"
            )
            raise self.refuse(option, text, f"{why}; give how many start in that time")
        most = None if amount == NONE else _amount(option, text, amount)
        return rule or Rate(by=by, limit=None, per=per), most

    def value(self, rule: Plain) -> str:
        if rule["limit"] is None and rule["burst"] is None:
            return NONE
        burst = "" if rule["burst"] is None else f",burst={number_text(rule['burst'])}"
        units = "" if rule["units"] is None else f",units={rule['units']}"
        return f"{most_text(rule['limit'], NONE)}/{_span_text(rule['per'])}{burst}{units}"

    @override
    def key_values(self, rule: Plain) -> dict[str, str]:
        per, found = _span_text(rule["per"]), super().key_values(rule)
        return {key: one if one == UNLIMITED else f"{one}/{per}" for key, one in found.items()}


LIMITS = _Limits(
    "limits",
    "limit",
    "limit",
    "BY=NUMBER, or BY=none",
    "KEY=NUMBER, or KEY=none",
    "BY=NUMBER",
    "<by>=<int>|none",
    "4",
    "Say how many items of a key may be in flight",
)
RATES = _Rates(
    "rates",
    "rate",
    "pace",
    "BY=NUMBER/TIME, as in tenant=100/60s,burst=10, NUMBER/TIME for the whole queue, or BY=none",
    "KEY=NUMBER, KEY=NUMBER/TIME, or KEY=none",
    "BY=NUMBER/TIME, NUMBER/TIME for the whole queue",
    "[<by>=]<n>/<time>[,burst=<n>]|none",
    "10/60s",
    "Say how much of a key may start in a time",
)

#: The settings that are rules of keys, with how they are typed and told.
FLOW: Mapping[str, FlowForm] = {form.setting: form for form in (LIMITS, RATES)}


def _per(text: str) -> timedelta:
    """Read the time of a rate: one unit where there is no number."""
    return read_span(f"1{text}" if text.isalpha() else text, "per")


def _whole(option: str, text: str, number: str) -> int | None:
    if number in {NONE, UNLIMITED}:
        return None
    try:
        return int(number)
    except ValueError:
        why = f"{option} is {shorten(text)}: it must end with a whole number or none"
        raise InvalidArgumentError(why) from None


def _amount(option: str, text: str, number: str) -> float | None:
    if number.lower() in {NONE, UNLIMITED}:
        return None
    try:
        return float(number)
    except ValueError:
        why = f"{option} is {shorten(text)}: {number!r} must be a number above 0 or none"
        raise InvalidArgumentError(why) from None


def most_text(number: float | None, absent: str = UNLIMITED) -> str:
    """Return a number of a rule, or a word where there is none."""
    return absent if number is None else number_text(number)


def _span_text(seconds: float) -> str:
    """Return a time as a rate has it: in the largest unit of which it has two and no part."""
    for unit, sign in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= 2 * unit and seconds % unit == 0:
            return f"{seconds / unit:g}{sign}"
    return f"{number_text(seconds)}s"
