"""Counts of a queue, and why one of its items is not running."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

from pyspark.sql import Column, DataFrame, Row, Window
from pyspark.sql import functions as F

from spark_queue.delta.plans import limits, snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, READY, REFUSED, TERMINAL
from spark_queue.delta.views import explaining
from spark_queue.delta.views.cut import Cut
from spark_queue.results import Explanation, QueueStats
from spark_queue.rules.explain import Situation, explain_live

_STATES = (READY, CLAIMED, *TERMINAL)


def stats(store: Store, cut: Cut) -> QueueStats:
    """Count a queue as of a cut of its logs."""
    now = store.clock.now() if cut.at is None else cut.at
    items = snapshot.status(cut.queue, cut.status)
    refused = cut.queue.where(F.col("_kind") == REFUSED)
    counted = items.groupBy("_state").agg(
        F.count(F.lit(1)).alias("items"), F.min("_enqueued_at").alias("oldest")
    )
    by_state = {row["_state"]: row for row in counted.collect()}
    counts = {s: by_state[s]["items"] if s in by_state else 0 for s in _STATES}
    oldest = explaining.utc(by_state[READY]["oldest"]) if READY in by_state else None
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
    known = explaining.live(store, seq)
    return _explained_by_spark(store, seq) if known is None else known


def _explained_by_spark(store: Store, seq: int) -> Explanation:
    items = snapshot.status(store.items(), store.status.read())
    items = items.withColumn("_expires_at", limits.expires_at(store.limits()))
    row = items.where(F.col("_seq") == seq).first()
    if row is None:
        return _not_an_item(store, seq)
    if row["_state"] in TERMINAL:
        return explaining.finished(seq, row["_state"], row["_finished_at"], row["_error"])
    at = _situation(store, items)
    members = _members(items, row, at)
    why = explain_live(explaining.Seen.of(row), members, at)
    text = explaining.detail(row, why, {member.seq: member.state for member in members}, at)
    return explaining.because(
        seq, why.reason, text, by=why.by, until=explaining.until_of(row, why.reason)
    )


def _not_an_item(store: Store, seq: int) -> Explanation:
    refused = store.queue.read().where((F.col("_seq") == seq) & (F.col("_kind") == REFUSED))
    row = refused.select("_duplicate_of").first()
    if row is None:
        return explaining.because(seq, "unknown", "no row of the queue has this seq")
    return explaining.refused(seq, row[0])


def _situation(store: Store, items: DataFrame) -> Situation:
    at = explaining.now_of(store)
    if not at.is_full():
        return at
    staying = items.where((F.col("_state") == CLAIMED) & ~_ends(at))
    return replace(at, in_flight=staying.count())


def _members(items: DataFrame, row: Row, at: Situation) -> list[explaining.Seen]:
    """Return the members of an item's group that may be in its way, in seq order.

    Of each kind no more can matter than the group has slots.
    """
    if row["_group_key"] is None:
        return []
    held, earlier = F.col("_state") == CLAIMED, F.col("_seq") < row["_seq"]
    others = (F.col("_group_key") == row["_group_key"]) & (F.col("_seq") != row["_seq"])
    staying = items.where(others & (held | earlier) & ~_ends(at))
    due = F.col("_available_at").isNull() | _passed("_available_at", at)
    kind = [held, _passed("_lease_expires_at", at), due]
    place = F.row_number().over(Window.partitionBy(*kind).orderBy("_seq"))
    first = staying.withColumn("_place", place).where(F.col("_place") <= at.config.group_limit)
    return [explaining.Seen.of(member) for member in first.orderBy("_seq").collect()]


def _ends(at: Situation) -> Column:
    """Tell whether a claim would end an item, as :meth:`Situation.ends` does."""
    expired = _passed("_expires_at", at)
    worn_out = F.lit(False)
    if at.config.max_losses is not None:
        worn_out = F.col("_losses") + 1 >= at.config.max_losses
    lapsed = _passed("_lease_expires_at", at) & (expired | worn_out)
    return F.when(F.col("_state") == CLAIMED, lapsed).otherwise(expired)


def _passed(column: str, at: Situation) -> Column:
    """Tell whether a time has come; one that is not set never does."""
    now = datetime.fromtimestamp(at.now, timezone.utc)
    return F.coalesce(F.col(column) <= F.lit(now), F.lit(False))
