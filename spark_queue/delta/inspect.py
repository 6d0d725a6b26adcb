"""Counts of a queue, and why one of its items is not running."""

from __future__ import annotations

from datetime import datetime, timezone

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_queue.config import QueueConfig
from spark_queue.core.scheduler.nouns import Reason
from spark_queue.delta import limits, views
from spark_queue.delta.cut import Cut
from spark_queue.delta.schema import CLAIMED, READY, REFUSED, TERMINAL
from spark_queue.delta.store import Store
from spark_queue.results import Explanation, QueueStats

_STATES = (READY, CLAIMED, *TERMINAL)


def stats(store: Store, cut: Cut) -> QueueStats:
    """Count a queue as of a cut of its logs."""
    now = store.clock.now() if cut.at is None else cut.at
    items = views.status(cut.queue, cut.status)
    refused = cut.queue.where(F.col("_kind") == REFUSED)
    counted = items.groupBy("_state").agg(
        F.count(F.lit(1)).alias("items"), F.min("_enqueued_at").alias("oldest")
    )
    by_state = {row["_state"]: row for row in counted.collect()}
    counts = {s: by_state[s]["items"] if s in by_state else 0 for s in _STATES}
    oldest = _utc(by_state[READY]["oldest"]) if READY in by_state else None
    return QueueStats(
        step=cut.status_step,
        at=now,
        paused=store.settings(cut.head).paused,
        **counts,
        refused=refused.count(),
        oldest_age=None if oldest is None else now - oldest,
        per_key=_per_key(items, refused, now),
    )


def _per_key(items: DataFrame, refused: DataFrame, now: datetime) -> DataFrame:
    waited = F.col("_first_claimed_at").cast("double") - F.col("_enqueued_at").cast("double")
    age = F.lit(now).cast("double") - F.col("_enqueued_at").cast("double")
    states = [F.count_if(F.col("_state") == state).alias(state) for state in _STATES]
    kept = items.groupBy(F.col("_fair_key").alias("fair_key")).agg(
        *states,
        F.percentile_approx(waited, 0.5).alias("wait_p50"),
        F.percentile_approx(waited, 0.95).alias("wait_p95"),
        F.max(waited).alias("wait_max"),
        F.max(F.when(F.col("_state") == READY, age)).alias("oldest_age"),
    )
    lost = refused.groupBy(F.col("_fair_key").alias("key")).agg(F.count(F.lit(1)).alias("refused"))
    joined = kept.join(lost, F.col("fair_key").eqNullSafe(F.col("key")), "full")
    named = joined.withColumn("fair_key", F.coalesce("fair_key", "key")).drop("key")
    return named.fillna(0, subset=[*_STATES, "refused"])


def explain(store: Store, seq: int) -> Explanation:
    """Say why an item is not running."""
    now = store.clock.now()
    head = store.status_head()
    settings = store.settings(head)
    items = views.status(store.items(), store.status.read())
    items = items.withColumn("_expires_at", limits.expires_at(store.limits()))
    row = items.where(F.col("_seq") == seq).first()
    if row is None:
        return _not_an_item(store, seq)
    alone = _by_itself(seq, row, now)
    if alone is not None:
        return alone
    if settings.paused:
        return _because(seq, "paused", "the queue is paused; resume it")
    held = _held_by_group(items, seq, row, settings.config, now)
    if held is not None:
        return held
    most = settings.config.max_in_flight
    if most is not None and head.claimed >= most:
        return _because(seq, "limit", f"{head.claimed} items are in flight, {most} are allowed")
    return _because(seq, "runnable", "it waits for its turn and a claim")


def _not_an_item(store: Store, seq: int) -> Explanation:
    refused = store.queue.read().where((F.col("_seq") == seq) & (F.col("_kind") == REFUSED))
    row = refused.select("_duplicate_of").first()
    if row is None:
        return _because(seq, "unknown", "no row of the queue has this seq")
    if row[0] is None:
        return _because(seq, "refused", "a reader was full when it came; enqueue it again")
    return _because(seq, "duplicate", f"its key is held by item {row[0]}", by=row[0])


def _by_itself(seq: int, row: Row, now: datetime) -> Explanation | None:
    """Return the reason that lies in the item alone, or ``None``."""
    state = row["_state"]
    if state in TERMINAL:
        error = f": {row['_error']}" if row["_error"] else ""
        return _because(seq, "finished", f"{state} at {_said(row['_finished_at'])}{error}")
    if state == CLAIMED:
        until = _utc(row["_lease_expires_at"])
        holder = row["_worker_id"] or f"lease {row['_lease']}"
        if until <= now:
            return _because(seq, "lease lost", f"the lease of {holder} ran out at {_said(until)}")
        return _because(seq, "leased", f"leased by {holder} until {_said(until)}", until=until)
    if row["_expires_at"] is not None and _utc(row["_expires_at"]) <= now:
        return _because(seq, "expired", f"its time was over at {_said(row['_expires_at'])}")
    if row["_available_at"] is not None and _utc(row["_available_at"]) > now:
        until = _utc(row["_available_at"])
        return _because(seq, "delayed", f"not before {_said(until)}", until=until)
    return None


def _held_by_group(
    items: DataFrame, seq: int, row: Row, config: QueueConfig, now: datetime
) -> Explanation | None:
    group = row["_group_key"]
    if group is None:
        return None
    members = items.where((F.col("_group_key") == group) & (F.col("_seq") != seq))
    in_flight = members.where(F.col("_state") == CLAIMED)
    before = members.where((F.col("_state") == READY) & (F.col("_seq") < seq))
    if config.on_failure == "skip":
        before = before.where(F.coalesce(F.col("_available_at") <= now, F.lit(True)))
    first = in_flight.unionByName(before).orderBy("_seq").limit(config.group_limit).collect()
    waits = [m for m in first if m["_state"] == READY and _is_delayed(m, now)]
    if len(first) < config.group_limit and not waits:
        return None
    holder = first[0]
    how = "in flight" if holder["_state"] == CLAIMED else "waiting before it"
    return _because(
        seq, "held by group", f"group {group!r} has item {holder['_seq']} {how}", by=holder["_seq"]
    )


def _is_delayed(row: Row, now: datetime) -> bool:
    return row["_available_at"] is not None and _utc(row["_available_at"]) > now


def _because(
    seq: int,
    reason: Reason,
    detail: str,
    *,
    by: int | None = None,
    until: datetime | None = None,
) -> Explanation:
    return Explanation(seq=seq, reason=reason, detail=detail, by=by, until=until)


def _said(at: datetime) -> str:
    return _utc(at).isoformat(" ", "seconds")


def _utc(local: datetime) -> datetime:
    """Read a collected timestamp, which is naive and in this process's zone."""
    return local.astimezone(timezone.utc)
