"""Delays and leases that end by time alone, by Spark."""

from __future__ import annotations

from datetime import datetime, timezone

from pyspark.sql import functions as F

from spark_queue.delta.planner import Coming
from spark_queue.delta.plans import candidates, fold
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.memory import is_long
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.tables.schema import CLAIMED


# rule again: next event
def coming(at: Snapshot, now: datetime) -> Coming:
    """Count what is delayed as of a step; in a paused queue nothing is."""
    store, head, settings = at.store, at.status, at.settings
    recent = by_spark.recent_rows(store, head)
    touched = fold.find_touched(recent, is_long=is_long(head)).localCheckpoint()
    leased = fold.renew(touched.where(F.col("_state") == CLAIMED), recent)
    held_until = _first(leased.agg(F.min("_lease_expires_at")).head())
    if settings.paused:
        return Coming(held_until=held_until)
    late = F.col("_available_at") > now
    rows = candidates.unleased(store, head, settings, touched).where(late)
    counted = rows.agg(F.count(F.lit(1)), F.min("_available_at")).head()
    return Coming(
        held_until=held_until,
        delayed=counted[0] if counted else 0,
        due=None if counted is None else _utc(counted[1]),
    )


def _first(row: tuple[datetime | None, ...] | None) -> datetime | None:
    return None if row is None else _utc(row[0])


def _utc(local: datetime | None) -> datetime | None:
    return None if local is None else local.astimezone(timezone.utc)
