"""Counts of a queue, by state and by key."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_queue.delta.plans import snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import READY, REFUSED, STATES
from spark_queue.delta.views import explaining
from spark_queue.delta.views.cut import Cut
from spark_queue.results import WAITS, QueueStats


def stats(store: Store, cut: Cut) -> QueueStats:
    """Count a queue as of a cut of its logs."""
    now = store.clock.now() if cut.at is None else cut.at
    items = snapshot.status(cut.queue, cut.status)
    refused = cut.queue.where(F.col("_kind") == REFUSED)
    counted = items.groupBy("_state").agg(
        F.count(F.lit(1)).alias("items"), F.min("_enqueued_at").alias("oldest")
    )
    by_state = {row["_state"]: row for row in counted.collect()}
    counts = {s: by_state[s]["items"] if s in by_state else 0 for s in STATES}
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
    """Count the items of each key; the waits are those at their place, found by sorting all."""
    waited = F.col("_first_claimed_at").cast("double") - F.col("_enqueued_at").cast("double")
    age = F.lit(now).cast("double") - F.col("_enqueued_at").cast("double")
    rows = items.select(
        F.col("_fair_key").alias("fair_key"),
        "_state",
        waited.alias("_wait"),
        F.when(F.col("_state") == READY, age).alias("_age"),
    ).unionByName(
        refused.select(F.col("_fair_key").alias("fair_key"), F.lit(REFUSED).alias("_state")),
        allowMissingColumns=True,
    )
    of_key = Window.partitionBy("fair_key")
    rows = rows.withColumns(
        {
            "_waits": F.count("_wait").over(of_key),
            "_place": F.row_number().over(of_key.orderBy(F.asc_nulls_last("_wait"))),
        }
    )
    found = rows.groupBy("fair_key").agg(
        *(F.count_if(F.col("_state") == state).alias(state) for state in (*STATES, REFUSED)),
        *(_wait(part).alias(name) for name, part in WAITS.items()),
        F.max("_age").alias("oldest_age"),
    )
    return found.orderBy("fair_key")


def _wait(part: float) -> Column:
    """Return the wait below which a part of all waits of a key are."""
    return F.max(F.when(F.col("_place") == F.ceil(F.col("_waits") * part), F.col("_wait")))
