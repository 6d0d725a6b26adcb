"""Delays and leases that end by time alone, in Arrow."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow import snapshot
from spark_queue.delta.planner import Coming
from spark_queue.delta.replica.state import Row
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, READY
from spark_queue.delta.tables.settings import Settings


# rule again: next event
def known_settings(rows: Collection[Row], settings: Settings, now: datetime) -> Coming:
    """Count what is delayed of all open items, in memory; in a paused queue nothing is."""
    leases = (row["_lease_expires_at"] for row in rows if row["_state"] == CLAIMED)
    held_until = min(leases, default=None)
    if settings.paused:
        return Coming(held_until=held_until)
    times = [row["_available_at"] for row in rows if row["_state"] == READY]
    late = [time for time in times if time is not None and time > now]
    return Coming(held_until=held_until, delayed=len(late), due=min(late, default=None))


# rule again: next event
def coming(store: Store, settings: Settings, now: datetime) -> Coming:
    """Count the same by the tables."""
    rows = snapshot.status(store)
    held_until = pc.min(rows["_lease_expires_at"].filter(pc.equal(rows["_state"], CLAIMED))).as_py()
    if settings.paused:
        return Coming(held_until=held_until)
    times = rows["_available_at"].filter(pc.equal(rows["_state"], READY))
    late = times.filter(pc.greater(times, pa.scalar(now, times.type)))
    return Coming(held_until=held_until, delayed=len(late), due=pc.min(late).as_py())
