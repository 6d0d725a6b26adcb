"""Pauses of keys as texts: options, fields of a form, and answers; and by which key one is."""

from __future__ import annotations

import re
from datetime import timedelta

from spark_queue import checks
from spark_queue.errors import InvalidArgumentError
from spark_queue.flow import Keyed, Pause, key_texts
from spark_queue.wording import instant, shorten

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
