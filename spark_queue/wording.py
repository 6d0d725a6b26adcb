"""How texts name things: names that were mistaken, items that are many, counts and durations."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

#: How many items an error message names before it says "and N more".
_NAMED = 10

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Say which known name an unknown one resembles.

    Returns
    -------
    str
        ``"; did you mean 'lease'?"``, or the list of known names where none is close.
    """
    close = get_close_matches(name, known, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; known are {', '.join(sorted(known))}"


def some_of(seqs: Sequence[int]) -> str:
    """Name the first of some items, and say how many more there are."""
    shown = ", ".join(str(seq) for seq in seqs[:_NAMED])
    rest = len(seqs) - _NAMED
    return f"{shown} and {rest} more" if rest > 0 else shown


def plural(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def duration(seconds: float | None) -> str:
    """Return a duration in the largest unit of which it has two, empty for ``None``."""
    if seconds is None:
        return ""
    for unit, name in _UNITS:
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.1f} {name}"
    return f"{seconds:.1f} s"
