"""Phrases that sentences of findings share."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

#: How many things of a kind a sentence names.
_NAMED = 3

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def span(length: timedelta) -> str:
    """Say a duration in its largest unit, with three digits."""
    seconds = length.total_seconds()
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds:.3g} s"


def list_names(names: Sequence[str]) -> str:
    """Name the first of some things, and say how many more there are."""
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest:,} more" if rest > 0 else "")
