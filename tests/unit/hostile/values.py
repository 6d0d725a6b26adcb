"""Values that no caller should hand in, each made when it is needed."""

from __future__ import annotations

import math
import re
from collections import namedtuple
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import numpy as np

#: So deep that whatever walks it by recursion fails.
DEEP = 5_000
LONG = 100_000

#: Clears a screen, sets its title, goes back, turns what follows, and ends a command of a shell.
EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2066\u2028\r\x08\x7f\t\x15 touch owned #"
FORGED = "ALL-QUEUES-ARE-HEALTHY"
LINES = f"{EVIL}\n{FORGED}\n"

#: Control signs, marks of direction, and what else ends a line or is not seen.
RAW = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

WEST = timezone(timedelta(hours=-14))
EAST = timezone(timedelta(hours=14))


class Text(str):  # noqa: SLOT000 - as a user might write it
    """A text, and not quite."""


class Number(int):
    """A whole number, and not quite."""


class Mute(Exception):  # noqa: N818 - it is a value
    """An exception that cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Hidden:
    """An object that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


Pair = namedtuple("Pair", ["a", "b"])  # noqa: PYI024 - without types, as rows come


def deep_list() -> list[Any]:
    """Return lists in lists."""
    nested: list[Any] = []
    for _ in range(DEEP):
        nested = [nested]
    return nested


def deep_mapping() -> dict[str, Any]:
    """Return dictionaries in dictionaries."""
    nested: dict[str, Any] = {}
    for _ in range(DEEP):
        nested = {"a": nested}
    return nested


def _endless() -> dict[str, Any]:
    nested: dict[str, Any] = {}
    nested["a"] = nested
    return nested


VALUES: Final[dict[str, Callable[[], Any]]] = {
    "None": lambda: None,
    "True": lambda: True,
    "minus one": lambda: -1,
    "zero": lambda: 0,
    "2**63": lambda: 2**63,
    "2**200": lambda: 2**200,
    "a half": lambda: 0.5,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "1e308": lambda: 1e308,
    "empty text": lambda: "",
    "blank": lambda: " ",
    "word": lambda: "nobody's word",
    "surrogate": lambda: "\ud800",
    "stray byte": lambda: "a\udcff",
    "NUL": lambda: "\x00",
    "escape": lambda: "\x1b[2J",
    "lines": lambda: "a\nb\r\nc",
    "quotes": lambda: "'\"`;--",
    "parentheses": lambda: "(" * 300,
    "long text": lambda: "x" * LONG,
    "no bytes": lambda: b"",
    "bytes": lambda: b"t",
    "bytearray": lambda: bytearray(b"t"),
    "empty list": list,
    "list of None": lambda: [None],
    "list of texts": lambda: ["\ud800", "a"],
    "empty mapping": dict,
    "mapping": lambda: {"\ud800": b"t", 5: None},
    "empty tuple": tuple,
    "set": lambda: {1, "a"},
    "object": object,
    "hidden": Hidden,
    "class": lambda: Number,
    "lambda": lambda: lambda *_args, **_named: None,
    "generator": lambda: (one for one in (1, "a")),
    "naive": lambda: datetime(2026, 1, 1),  # noqa: DTZ001 - that is the point
    "last instant": lambda: datetime.max.replace(tzinfo=WEST),
    "first instant": lambda: datetime.min.replace(tzinfo=EAST),
    "date": lambda: date(2026, 1, 1),
    "time": lambda: time(12),
    "negative duration": lambda: timedelta(days=-1),
    "longest duration": lambda: timedelta.max,
    "Decimal NaN": lambda: Decimal("NaN"),
    "signalling NaN": lambda: Decimal("sNaN"),
    "complex": lambda: 1j,
    "deep list": deep_list,
    "deep mapping": deep_mapping,
    "endless mapping": _endless,
    "text of a subclass": lambda: Text("a"),
    "number of a subclass": lambda: Number(2),
    "numpy integer": lambda: np.int64(2),
    "numpy float": lambda: np.float64("nan"),
    "numpy array": lambda: np.array([1, 2]),
    "path": lambda: Path("nowhere/at/all"),
    "row": lambda: Pair(1, "a"),
    "mute exception": Mute,
    "range": lambda: range(3),
}
