"""Panels of a reader's report, each read once for all checks."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from spark_queue.delta.store.store import Store
from spark_queue.delta.views.answers import ViewSource
from spark_queue.delta.views.ends import ends_at
from spark_queue.report import holders
from spark_queue.report.model import HeldGroup, Overview, RetryPoint, WorkerLine
from spark_queue.report.reading import asked_of, source_of

#: Which item has waited longest, of those whose time has come.
OLDEST = """seq IN (
  SELECT r.seq
  FROM sq_reasons r
  CROSS JOIN sq_asked a
  WHERE r.state = 'ready' AND coalesce(r.available_at <= a.now, true)
  ORDER BY greatest(r.enqueued_at, coalesce(r.available_at, r.enqueued_at)), r.seq
  LIMIT 1
)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oldest:
    """The ready item whose time came first."""

    seq: int
    reason: str
    """Why it is not running, as :meth:`explain` says it."""
    since: datetime
    """When it was enqueued, or its delay ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StarvingKey:
    """A fair key whose items could run, and that got no turn in the window, or almost none."""

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
    """A priority whose items could run, and of which higher ones got all turns of the window."""

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
    """An open item that was given back again and again, or that somebody holds for long."""

    seq: int
    worker_id: str | None
    """Who holds it."""
    since: datetime
    """When it was claimed last."""
    given_back: int
    """How often it was given back untouched; 0 where that was less than ten times."""
    lease: float | None
    """For how many seconds it was claimed, where it is held for three times that, and longer."""


#: What is asked at once.
_PANELS = ("overview", "workers", "retries", "groups", "starving", "outranked", "stuck", "errors")


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """What fails most in the window, in the same words."""

    wording: str
    in_window: int
    dead: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Panels:
    """What is asked of the logs of one reader."""

    now: datetime
    overview: Overview
    oldest: Oldest | None
    workers: tuple[WorkerLine, ...]
    retries: tuple[RetryPoint, ...]
    groups: tuple[HeldGroup, ...]
    starving: tuple[StarvingKey, ...]
    outranked: tuple[OutrankedPriority, ...]
    stuck: tuple[StuckItem, ...]
    errors: tuple[FailureGroup, ...]


def read(store: Store, window: timedelta, source: ViewSource | None = None) -> Panels:
    """Ask the logs of a reader, by who answers reports of its queue.

    Raises
    ------
    SparkNeededError
        When only Spark reads them, and the queue was opened without.
    """
    ends = ends_at(store, None)
    asked = asked_of(store, ends, window)
    with (source or source_of(store)).over(store, ends, asked) as answers:
        found = answers.panels(*_PANELS)
        (overview,) = found["overview"]
        directory = holders.directory_at(store, ends)
        return Panels(
            now=asked.now,
            overview=Overview(**overview, refused=store.queue_head().refused),
            oldest=next((_oldest(row) for row in answers.rows("reasons", OLDEST)), None),
            workers=holders.workers(found["workers"], directory, asked.now),
            retries=tuple(RetryPoint(**row) for row in found["retries"]),
            groups=holders.groups(found["groups"], directory, asked.now),
            starving=tuple(StarvingKey(**row) for row in found["starving"]),
            outranked=tuple(OutrankedPriority(**row) for row in found["outranked"]),
            stuck=tuple(StuckItem(**row) for row in found["stuck"]),
            errors=tuple(_errors(row) for row in found["errors"] if row["in_window"]),
        )


def _oldest(row: dict[str, Any]) -> Oldest:
    since = max(row["enqueued_at"], row["available_at"] or row["enqueued_at"])
    return Oldest(seq=row["seq"], reason=row["reason"], since=since)


def _errors(row: dict[str, Any]) -> FailureGroup:
    return FailureGroup(wording=row["wording"], in_window=row["in_window"], dead=row["dead"])
