"""What still waits in a queue of which a claim gets nothing, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from pyspark.sql import functions as F

from spark_queue.delta.plans import candidates, fold
from spark_queue.delta.store.store import Store, is_long
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import CLAIMED
from spark_queue.delta.tables.settings import Settings
from spark_queue.rules.model import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Items that are not over, by the reason why they do not run."""

    waiting: Mapping[Reason, int] = field(default_factory=dict)
    until: datetime | None = None
    """When time alone may let one of them run: the end of a delay, or of a lease."""


def standing(store: Store) -> Standing:
    """Count what is left of a queue; one that is empty is not read."""
    with store.writing("status"):
        head = store.status_head()
        left = store.outstanding(head)
        if left <= 0:
            return Standing()
        settings = store.settings(head)
        found = _waiting(store, head, settings, left)
    return Standing(
        waiting={why: n for why, n in found.waiting.items() if n > 0}, until=found.until
    )


def _waiting(store: Store, head: StatusHead, settings: Settings, left: int) -> Standing:
    touched = fold.touched(store.recent(head), is_long=is_long(head)).localCheckpoint()
    leased = touched.where(F.col("_state") == CLAIMED)
    first_end = _first(leased.agg(F.min("_lease_expires_at")).head())
    ready = left - head.claimed
    if settings.paused:
        return Standing(waiting={"leased": head.claimed, "paused": ready}, until=first_end)
    late = F.col("_available_at") > store.clock.now()
    rows = candidates.unleased(store, head, settings, touched, F.lit(False), None).where(late)
    counted = rows.agg(F.count(F.lit(1)), F.min("_available_at")).head()
    delayed = counted[0] if counted else 0
    due = None if counted is None else _utc(counted[1])
    waiting: dict[Reason, int] = {"leased": head.claimed, "delayed": delayed}
    waiting[_in_the_way(head, settings)] = ready - delayed
    return Standing(waiting=waiting, until=min(filter(None, (first_end, due)), default=None))


def _in_the_way(head: StatusHead, settings: Settings) -> Reason:
    """Say what holds up items that are due, where a claim gets none of them."""
    most = settings.config.max_in_flight
    if most is not None and head.claimed >= most:
        return "limit"
    return "runnable" if settings.config.group_key is None else "held by group"


def _first(row: tuple[datetime | None, ...] | None) -> datetime | None:
    return None if row is None else _utc(row[0])


def _utc(local: datetime | None) -> datetime | None:
    return None if local is None else local.astimezone(timezone.utc)
