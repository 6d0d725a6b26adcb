"""Checks of a caller's arguments, before anything is read or written."""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from types import UnionType
from typing import Any, Literal, cast, get_args

from spark_queue.errors import InvalidArgumentError, InvalidConfigError, did_you_mean
from spark_queue.wording import shorten

#: A duration that is longer leads out of the years that a timestamp has.
LONGEST = timedelta(days=365_000)

#: How many bytes a name of a file has at most, and a path.
_LONGEST_NAME, _LONGEST_PATH = 255, 4_000

#: The largest cost or weight: whole numbers above it cannot be divided.
LARGEST = sys.float_info.max

#: Signs that an expression may have, and levels of brackets, NOT and CASE: it is read by recursion,
#: in Spark too, which ends in a full stack and not in words.
LONGEST_EXPRESSION = 100_000
DEEPEST_EXPRESSION = 40

#: Texts and quoted names in SQL; what a backslash is in a raw text, it is not elsewhere.
QUOTED = re.compile(r"\b[rR](?:'[^']*'|\"[^\"]*\")|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")

#: What leads a level down, back up, or to the next operand; a field of a struct does none of it.
_NESTING = re.compile(
    r"\.\s*\w+|[([]|\bcase\b|[)\]]|\bend\b|\bnot\b|!(?!=)|~|[-+](?=\s*[-+])|,"
    r"|\b(?:and|or|when|then|else)\b",
    re.IGNORECASE,
)

#: How many items one claim may ask for: Spark counts what is taken first in 32 bits.
MOST = 2**31 - 1

#: How many items a claim of ``process`` takes: as many as take a target time, or a number.
ItemsPerClaim = int | Literal["auto"]

#: How many bytes of rows a claim takes unless a caller says otherwise.
BYTES_PER_CLAIM = 256 * 2**20

#: The same of a claim whose length nobody says: the more of its bytes are in memory several times.
BYTES_PER_AUTO = 16 * 2**20

Refusal = type[InvalidArgumentError] | type[InvalidConfigError]


def optional(require: Callable[..., None], what: str, value: object, **rules: Any) -> None:
    """Raise where one of the checks below does, unless a value is ``None``."""
    if value is not None:
        require(what, value, **rules)


def require_text(
    what: str,
    value: object,
    error: Refusal = InvalidArgumentError,
    kind: str = "a text, and not empty",
) -> None:
    """Raise where a value is no text, or has nothing in it."""
    if not isinstance(value, str) or not value.strip():
        raise error(f"{what} is {shorten(value)}: it must be {kind}")


def require_expression(
    what: str,
    value: object,
    error: Refusal = InvalidArgumentError,
    kind: str = "a text, and not empty",
) -> None:
    """Raise unless a value is a text that can be read as SQL: not too long, not too deep."""
    require_text(what, value, error, kind)
    text = str(value)
    if len(text) > LONGEST_EXPRESSION:
        raise error(
            f"{what} has {len(text):,} signs, beginning with {text[:20]!r}: it must have "
            "at most "
            f"{LONGEST_EXPRESSION:,}; say it in several calls"
        )
    if _depth_of(text) > DEEPEST_EXPRESSION:
        raise error(
            f"{what} is nested too deep, beginning with {text[:20]!r}: brackets, NOT and "
            "CASE may "
            f"be in each other {DEEPEST_EXPRESSION} times"
        )


def _depth_of(text: str) -> int:
    """Return how many brackets, NOT and CASE of an expression are in each other."""
    outer: list[int] = []
    level = deepest = 0
    for found in _NESTING.finditer(QUOTED.sub("''", text)):
        sign = found.group().lower()
        if sign in ("(", "[", "case"):
            outer.append(level)
            level += 1
        elif sign in (")", "]", "end"):
            level = outer.pop() if outer else 0
        elif sign in ("not", "!", "~", "-", "+"):
            level += 1
        elif not sign.startswith("."):
            level = outer[-1] + 1 if outer else 0
        deepest = max(deepest, level)
    return deepest


def require_string(what: str, value: object) -> None:
    """Raise where a value is neither a text, which may be empty, nor ``None``."""
    if value is not None and not isinstance(value, str):
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it must be a text")


def require_flag(what: str, value: object) -> None:
    """Raise where a value is neither true nor false."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it must be True or False")


def require_count(
    what: str,
    value: object,
    error: Refusal = InvalidArgumentError,
    most: int = 2**63 - 1,
    *,
    least: int = 1,
) -> None:
    """Raise where a value is no whole number, or is out of range."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise error(f"{what} is {shorten(value)}: it must be a whole number of at least {least}")
    if value > most:
        raise error(f"{what} is {shorten(value)}: it must be at most {most}")


def require_seq(what: str, value: object) -> None:
    """Raise where a value cannot number an item or a step."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it must be a whole number")


def require_kind(what: str, value: object, kind: type | UnionType) -> None:
    """Raise where a value is not of a class."""
    if not isinstance(value, kind):
        names = " or ".join(one.__name__ for one in get_args(kind) or (kind,))
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it must be a {names}")


def require_key(what: str, value: object) -> None:
    """Raise where a value is not hashable."""
    try:
        hash(value)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{what} is {shorten(value)}, which is no key: {error}"
        ) from error


def require_iterable(what: str, value: object) -> None:
    """Raise where a value is not iterable."""
    if not isinstance(value, Iterable):
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it must be a list, or the like")


def require_several(what: str, value: object) -> None:
    """Raise where a value is no list of things; a text is one thing."""
    require_iterable(what, value)
    if isinstance(value, str | bytes | bytearray | Mapping):
        raise InvalidArgumentError(f"{what} is {shorten(value)}: give a list of them")


def require_sequence(what: str, value: object, kind: type) -> None:
    """Raise where a value is no list of objects of a class."""
    if not isinstance(value, Sequence) or not all(isinstance(one, kind) for one in value):
        raise InvalidArgumentError(
            f"{what} is {shorten(value)}: it must be a list, each of a {kind.__name__}"
        )


def require_path(what: str, value: Any) -> str:
    """Return a path as a text; raise where a value is none."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it must be a path")
    try:
        longest = max(map(len, os.fsencode(path).split(b"/")))
    except UnicodeEncodeError as exc:
        raise InvalidArgumentError(f"{what} is {shorten(value)}: no file has such a name") from exc
    if longest > _LONGEST_NAME or len(path) > _LONGEST_PATH:
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it is too long for a path")
    return path


def require_methods(what: str, value: object, *names: str) -> None:
    """Raise where a value lacks a required method."""
    for name in names:
        if not callable(getattr(value, name, None)):
            raise InvalidArgumentError(f"{what} is {shorten(value)}: it has no method {name}")


def require_utf8(what: str, value: object) -> None:
    """Raise where a value is no text that UTF-8 can write."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it must be a text")
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise InvalidArgumentError(
            f"{what} is {shorten(value)}: it has a character that UTF-8 cannot write"
        ) from exc


def require_duration(
    what: str,
    value: object,
    error: Refusal = InvalidArgumentError,
    least: timedelta = timedelta(milliseconds=1),
    most: timedelta = LONGEST,
) -> None:
    """Raise where a value is no duration, or is out of range."""
    if not isinstance(value, timedelta):
        raise error(f"{what} is {shorten(value)}: it must be a timedelta")
    if not least <= value <= most:
        raise error(f"{what} is {value}: it must be at least {least}, and at most {most}")


def require_moment(what: str, value: object) -> None:
    """Raise where a value is neither a step nor a time with an offset."""
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise InvalidArgumentError(
                f"{what} is {shorten(value)}, a time without an offset: give it one, as in "
                "datetime.now(timezone.utc)"
            )
        try:
            value.astimezone(timezone.utc)
        except OverflowError as exc:
            raise InvalidArgumentError(
                f"{what} is {shorten(value)}: it is outside of the years 1 to 9999 in UTC"
            ) from exc
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise InvalidArgumentError(
            f"{what} is {shorten(value)}: it must be a step, which is a whole number, or a datetime"
        )


def require_choice(
    what: str, value: object, choices: Collection[str], error: Refusal = InvalidArgumentError
) -> None:
    """Raise where a value is none of some words."""
    if not isinstance(value, str) or value not in choices:
        meant = did_you_mean(value if isinstance(value, str) else "", list(choices))
        raise error(f"{what} is {shorten(value)}, which is no choice{meant}")


def require_callable(what: str, value: object) -> None:
    """Raise where a value cannot be called."""
    if not callable(value):
        raise InvalidArgumentError(f"{what} is {shorten(value)}: it must be a function")


def require_handler(what: str, value: object) -> None:
    """Raise where a value cannot be called with one argument: an item or a table."""
    require_callable(what, value)
    try:
        takes = inspect.signature(cast("Callable[..., object]", value))
    except (TypeError, ValueError):
        return  # A built-in function may have no signature.
    try:
        takes.bind(None)
    except TypeError as exc:
        raise InvalidArgumentError(
            f"{what} is {shorten(value)}, which takes {takes}: it is called with one argument, an "
            "item, or a table with per='batch'"
        ) from exc


def require_weights(weights: object, error: Refusal = InvalidConfigError) -> None:
    """Raise where a value does not say how many turns keys get."""
    if not isinstance(weights, Mapping):
        raise error(f"weights is {shorten(weights)}: it must map fair keys to numbers")
    for key, weight in weights.items():
        if not isinstance(key, str):
            raise error(f"weights has the key {shorten(key)}: a fair key is a text")
        if not is_positive(weight):
            raise error(
                f"weights[{shorten(key)}] is {shorten(weight)}: it must be a number above 0 "
                "that a float can hold"
            )


def is_number(value: object) -> bool:
    """Whether a value is a number, and no truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_positive(value: Any) -> bool:
    """Whether a value is a number above 0, finite as a float."""
    return is_number(value) and 0 < value <= LARGEST


def seconds(name: str, value: float) -> timedelta:
    """Return a number of seconds as a duration."""
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError) as exc:
        raise InvalidConfigError(
            f"{name} is {shorten(value)}: it must be seconds, and finite"
        ) from exc


def length_of(what: str, value: object) -> timedelta | None:
    """Return a duration, or seconds, of 0 and more as a duration; ``None`` is none."""
    if value is None:
        return None
    if is_number(value):
        value = seconds(what, cast("float", value))
    require_duration(what, value, least=timedelta(0))
    return cast("timedelta", value)


def known_options(kind: type[Any], plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data as values of a dataclass's fields; unknown names raise."""
    known = [field.name for field in dataclasses.fields(kind)]
    for name in plain:
        if name not in known:
            raise InvalidConfigError(
                f"unknown option {shorten(name)}{did_you_mean(str(name), known)}"
            )
    return dict(plain)


def require_claim(
    limit: object,
    lease: object,
    run: object,
    worker_id: object,
    claim_id: object = None,
    wait: object = timedelta(0),
) -> None:
    """Raise unless the arguments of a claim are valid."""
    require_count("limit", limit, most=MOST)
    require_count("run", run, most=MOST)
    require_string("worker_id", worker_id)
    optional(require_duration, "lease", lease)
    optional(require_text, "claim_id", claim_id)
    require_duration("wait", wait, least=timedelta(0))


def require_as_of(as_of: object) -> None:
    """Raise where a moment to look back at is neither a step nor an instant."""
    optional(require_moment, "as_of", as_of)


def require_end(time_limit: object, stop: object) -> None:
    """Raise where an end of work is neither a time nor an event."""
    optional(require_duration, "time_limit", time_limit, least=timedelta(0))
    if stop is not None and not isinstance(stop, threading.Event):
        raise InvalidArgumentError(f"stop is {shorten(stop)}: it must be a threading.Event")


def limit_of(name: str, limit: object, *, minimum: int = 1) -> float:
    """Return a limit to compare sizes with: infinity for ``None``.

    Raises
    ------
    InvalidArgumentError
        When it is no whole number of at least the minimum; the message names the argument.
    """
    if limit is None:
        return math.inf
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < minimum:
        raise InvalidArgumentError(
            f"{name} is {shorten(limit)}: it must be a whole number of at least {minimum}, or None"
        )
    return limit
