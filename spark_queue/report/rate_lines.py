"""Frozen facts about each rate, as a report has them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedKey:
    """A key that a rate keeps back: none of its items that could start has its units."""

    key: str
    """Its text; empty for the whole queue."""
    next_at: datetime
    """When the first of these has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FillingKey:
    """A key of which more units come than its rate lets start."""

    key: str
    """Its text; empty for the whole queue."""
    ready: float
    """How many wait."""
    comes: float
    """How many came in a second of the window."""
    starts: float
    """How many may start in a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLine:
    """A rate, and the keys that it keeps back."""

    by: str | None
    """The expression of its key; ``None`` for the whole queue."""
    unit: str
    """What it counts: ``item``, or ``unit`` where items have units of it."""
    allows: str
    """How much it allows, as it is typed: ``100/60s,burst=10``."""
    fastest: str
    """The same of its fastest key."""
    per_second: float | None
    """How many units of its fastest key may start in a second; ``None`` for any number."""
    burst: float
    """How many of them may start at once."""
    paced: int
    """How many keys it keeps back."""
    keys: tuple[PacedKey, ...]
    """These keys, at most a hundred; first those that may start next."""
    filling: tuple[FillingKey, ...] = ()
    """Keys of which more comes than may start, at most a hundred; first those that fill soonest."""
    started: float = 0.0
    """How many units started in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockGap:
    """Two claims in a row of a rated key, the second of which has the earlier time."""

    ahead: str
    """The worker that made the first."""
    behind: str
    """The worker that made the second."""
    seconds: float
    """By how much their clocks differ at least."""
    step: int
    """The step of the second."""
