"""Wording of names, counts, durations and errors, and texts safe to show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from difflib import get_close_matches
from html import escape
from math import isfinite
from typing import Any

#: How many items an error message names before it says "and N more".
_NAMED = 10

#: How many characters of what an exception says a log keeps.
_LONGEST_ERROR = 2_000

#: How many characters of a value an error message shows.
_LONGEST = 100

#: Control characters, ends of lines, marks of direction, halves of pairs and invisible tags.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def utf8(text: str, how: str = "replace") -> str:
    """Return a text in UTF-8; any other character becomes a question mark.

    Parameters
    ----------
    text : str
        The text of a caller; names of files bring signs that are not UTF-8.
    how : str
        ``"backslashreplace"`` keeps texts apart that differ in such signs only.
    """
    return text.encode("utf-8", how).decode()


def visible(text: str, *, lines: bool = False) -> str:
    """Return a text that cannot steer a terminal: its control characters are escaped.

    Marks of direction are escaped, too, as they show a text in another order than it has.

    Parameters
    ----------
    text : str
        Any text.
    lines : bool
        Whether ends of lines stay; by default they are escaped, and the text is one line.
    """
    return _UNSAFE.sub(lambda found: _escape(found[0], lines=lines), text)


def _escape(sign: str, *, lines: bool) -> str:
    return sign if lines and sign == "\n" else sign.encode("unicode_escape").decode()


def without_unsafe(text: str, instead: str) -> str:
    """Return a text with another sign in the place of each that :func:`visible` escapes."""
    return _UNSAFE.sub(instead, text)


def in_html(text: str) -> str:
    """Return a text as HTML shows it: without markup, control characters escaped."""
    return escape(visible(text, lines=True))


def shell_command(*words: str) -> str:
    """Return a command to paste in a shell; empty if a word is not safe to paste."""
    return " ".join(map(_quote, words)) if all(visible(word) == word for word in words) else ""


def _quote(word: str) -> str:
    """Quote a word for a shell: by double quotes where it has single ones, and nothing else."""
    is_plain = "'" in word and not set('"$`!\\') & {*word}
    return f'"{word}"' if is_plain else shlex.quote(word)


def text_of(error: object) -> str:
    """Return a log's text of an error: a caller's text, or an exception's kind and text.

    An exception whose ``__str__`` raises is named by its kind.
    """
    if isinstance(error, str):
        return utf8(error)
    try:
        said = f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - an error that cannot say what it is
        said = type(error).__name__
    return utf8(said[:_LONGEST_ERROR])


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Say which known name an unknown one resembles, or list the known ones.

    Returns
    -------
    str
        ``"; did you mean 'lease'?"``, or the list of known names where none is close.
    """
    return close_to(name, known) or f"; known are {', '.join(sorted(known))}"


def close_to(name: str, known: Sequence[str]) -> str:
    """Say which known name an unknown one resembles; empty where none is close."""
    close = get_close_matches(name[:_LONGEST], known, n=1)
    return f"; did you mean {shorten(close[0])}?" if close else ""


def shorten(value: object) -> str:
    """Return how a value looks, in one line that an error message has room for."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return f"a {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def some_of(seqs: Sequence[int]) -> str:
    """Name the first of some items, and say how many more there are."""
    shown = ", ".join(str(seq) for seq in seqs[:_NAMED])
    rest = len(seqs) - _NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown


def instant(at: datetime | None) -> str:
    """Return an instant to the second, in UTC; nothing for ``None``."""
    if at is None:
        return ""
    return at.astimezone(timezone.utc).isoformat(" ", "seconds").replace("+00:00", "Z")


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{count:,} {agree(count, one, many or one + 's')}"


def number(value: float) -> str:
    """Return a number as a setting is typed: without an exponent, or a fraction of nothing."""
    return f"{Decimal(f'{value:.15g}'):f}"


def agree(count: int, one: str, many: str) -> str:
    """Return the word that agrees with a number: singular or plural."""
    return one if count == 1 else many


def size(count: int) -> str:
    """Return a number of bytes in its largest unit."""
    for power, name in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if count >= 1024**power:
            return f"{count / 1024**power:,.1f} {name}"
    return f"{count} B"


def duration(seconds: float | None) -> str:
    """Return a duration in the largest unit of which it has two, empty for ``None``."""
    if seconds is None:
        return ""
    for unit, name in _UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.1f} s"


def lasting(seconds: float) -> str:
    """Say how long something takes, or still takes, whole numbers without a part."""
    return duration(max(0.0, seconds)).replace(".0 ", " ")


def line_of(exc: BaseException) -> str:
    """Return the most telling line of an exception; empty if it has none."""
    lines = [line.strip() for line in str(exc).splitlines() if line.strip()]
    said = _of_the_jvm(lines) or (lines[0] if lines else "")
    # What follows a colon is a traceback of a worker: its last line is the error.
    return f"{said} {lines[-1]}" if said.endswith(":") else said


def _of_the_jvm(lines: Sequence[str]) -> str | None:
    """Return what the JVM says, where the first line is only by which call it was asked."""
    first, *rest = lines or [""]
    if not rest or not first.startswith("An error occurred while calling "):
        return None
    causes = [line for line in rest if line.startswith("Caused by: ")]
    return causes[-1].removeprefix("Caused by: ") if causes else rest[0].removeprefix(": ")


def _as_text(value: object) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def plain(value: Any, foreign: Callable[[Any], Any] = _as_text) -> Any:
    """Return a value as JSON can hold it.

    Dataclasses and mappings become objects, durations seconds, and instants ISO 8601 in UTC; what
    else JSON does not know becomes what ``foreign`` makes of it, by default its text.
    """
    if isinstance(value, float) and not isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(one, foreign) for name, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one, foreign) for one in value]
    if isinstance(value, timedelta):
        return value.total_seconds()
    is_instant = isinstance(value, datetime) and value.tzinfo is not None
    return foreign(value.astimezone(timezone.utc) if is_instant else value)
