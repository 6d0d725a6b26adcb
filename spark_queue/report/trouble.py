"""Lines of a report about items that wait in vain, and what else alarms go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestWait:
    """The ready item that has waited longest."""

    seq: int
    reason: str
    """Why it is not running, as :meth:`explain` says it."""
    since: datetime
    """When it was enqueued, or its delay ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StarvingKey:
    """A fair key whose items could run, but that got almost no turn in the window."""

    fair_key: str | None
    items: int
    since: datetime
    """Since when the first of them could run."""
    seq: int
    """That item."""
    turns: int
    """Turns that it got in the window."""
    turns_of_others: int
    """Turns that others got in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutrankedPriority:
    """A priority whose items could run, but whose turns all went to higher ones."""

    priority: int
    items: int
    since: datetime
    """Since when the first of them could run."""
    seq: int
    """That item."""
    turns_above: int
    """Turns of higher priorities in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckItem:
    """An open item that came back again and again, or has one holder for long."""

    seq: int
    worker_id: str | None
    """Who holds it."""
    since: datetime
    """When it was claimed last."""
    given_back: int
    """How often it was given back untouched; 0 below ten times."""
    lease: float | None
    """For how many seconds it was claimed, where it is held for three times that, and longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceState:
    """The pause, the front and the workers of a queue."""

    paused_at: datetime | None = None
    """Since when claims get nothing."""
    paused_by: str | None = None
    resumed_at: datetime | None = None
    """When they got something again last."""
    has_front: bool = False
    """Whether a front holds the queue: its items are in no log before they are done."""
    running: tuple[int, ...] | None = None
    """The worker processes that live here; ``None`` where this cannot be known."""
    weights: Mapping[str, float]
    """The weights of fair keys that are in force."""
