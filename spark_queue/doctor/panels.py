"""What a report says of a reader, as far as checks go by it: its panels, each asked once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from spark_queue.delta.store.store import Store
from spark_queue.delta.views.ends import ends_at
from spark_queue.report.model import HeldGroup, RetryPoint, WorkerLine
from spark_queue.report.reading import asked_of, engines_of

#: Which item has waited longest.
_OLDEST = "seq IN (SELECT min_by(seq, enqueued_at) FROM sq_reasons WHERE state = 'ready')"


@dataclass(frozen=True, slots=True, kw_only=True)
class Oldest:
    """The ready item that was enqueued first."""

    seq: int
    reason: str
    """Why it is not running, as :meth:`explain` says it."""
    enqueued_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class StarvingKey:
    """A fair key whose items could run, and that got no turn in the window."""

    fair_key: str | None
    items: int
    since: datetime
    """Since when the first of them could run."""
    seq: int
    """That item."""
    turns_of_others: int
    """Turns that others got in the window."""


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
    done: int
    """Items acked in the window."""
    oldest: Oldest | None
    workers: tuple[WorkerLine, ...]
    retries: tuple[RetryPoint, ...]
    groups: tuple[HeldGroup, ...]
    starving: tuple[StarvingKey, ...]
    errors: tuple[FailureGroup, ...]


def read(store: Store, window: timedelta) -> Panels:
    """Ask the logs of a reader, by who answers reports of its queue.

    Raises
    ------
    SparkNeededError
        When only Spark reads them, and the queue was opened without.
    """
    ends = ends_at(store, None)
    asked = asked_of(store, ends, window)
    with engines_of(store).over(store, ends, asked) as engine:
        (overview,) = engine.rows("overview")
        return Panels(
            now=asked.now,
            done=overview["done_in_window"],
            oldest=next((_oldest(row) for row in engine.rows("reasons", _OLDEST)), None),
            workers=tuple(WorkerLine(**row) for row in engine.rows("workers")),
            retries=tuple(RetryPoint(**row) for row in engine.rows("retries")),
            groups=tuple(HeldGroup(**row) for row in engine.rows("groups")),
            starving=tuple(StarvingKey(**row) for row in engine.rows("starving")),
            errors=tuple(_errors(row) for row in engine.rows("errors", "in_window > 0")),
        )


def _oldest(row: dict[str, Any]) -> Oldest:
    return Oldest(seq=row["seq"], reason=row["reason"], enqueued_at=row["enqueued_at"])


def _errors(row: dict[str, Any]) -> FailureGroup:
    return FailureGroup(wording=row["wording"], in_window=row["in_window"], dead=row["dead"])
