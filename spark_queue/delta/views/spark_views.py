"""Counts of a queue at a cut of its logs, by state and by key, and the lag of a reader."""

from __future__ import annotations

from datetime import datetime, timezone

from pyspark.sql import Column, DataFrame, Window, functions as F
from pyspark.sql.types import StructType

from spark_queue.delta.commands import enqueue
from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.commands.trim import FULL, LAGS
from spark_queue.delta.input.values import bytes_of
from spark_queue.delta.plans import candidates, fold, snapshot
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.memory import is_long
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CANCELLED, CLAIMED, DEAD, ITEM, READY, REFUSED, STATES
from spark_queue.delta.views import explaining
from spark_queue.delta.views.ends import Ends
from spark_queue.results import WAITS, Lag, QueueStats


def schema(store: Store) -> StructType:
    """Return the user's columns."""
    return by_spark.user_schema(store)


def status(store: Store, ends: Ends) -> DataFrame:
    """Return one row an item, in the order in which they were enqueued."""
    return snapshot.status(*_cut(store, ends)).orderBy("_seq")


def dead(store: Store, ends: Ends) -> DataFrame:
    """Return the dead letters, each with its successor."""
    queue, log = _cut(store, ends)
    letters = snapshot.status(queue, log).where(F.col("_state") == DEAD)
    names = [f"`{name.replace('`', '``')}`" for name in (*letters.columns, "_successor")]
    found = letters.join(snapshot.successors(queue), "_seq", "left")
    return found.select(*names).orderBy("_seq")


def history(store: Store, seq: int) -> DataFrame:
    """Return every transition of an item, oldest first."""
    return snapshot.history(store, seq)


def outcomes(store: Store, done: Enqueued) -> DataFrame:
    """Return what became of each row of an enqueue, as it was logged."""
    return enqueue.outcomes(store, done)


def stats(store: Store, ends: Ends) -> QueueStats:
    """Count a queue as of a step of each log."""
    now = store.clock.now() if ends.at is None else ends.at
    queue, log = _cut(store, ends)
    items = snapshot.status(queue, log)
    refused = queue.where(F.col("_kind") == REFUSED)
    counted = items.groupBy("_state").agg(
        F.count(F.lit(1)).alias("items"), F.min("_enqueued_at").alias("oldest")
    )
    by_state = {row["_state"]: row for row in counted.collect()}
    counts = {s: by_state[s]["items"] if s in by_state else 0 for s in STATES}
    oldest = explaining.utc(by_state[READY]["oldest"]) if READY in by_state else None
    return QueueStats(
        step=ends.head.step,
        at=now,
        paused=store.settings(ends.head).paused,
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


def _cut(store: Store, ends: Ends) -> tuple[DataFrame, DataFrame]:
    """Return the rows of both logs up to some step of each."""
    items, log = by_spark.items(store), store.status.read()
    if ends.queue_step is None:
        return items, log
    return (
        items.where(F.col("_step") <= ends.queue_step),
        log.where(F.col("_step") <= ends.head.step),
    )


def lag(store: Store) -> Lag:
    """Count what a reader is not done with."""
    facts = store.registered()
    newest = store.queue_head()
    if facts.streams:
        return Lag(
            reader=facts.name,
            items=newest.items - facts.since_items,
            bytes=_bytes_since(store),
            open_items=0,
            age=None,
            steps=newest.step - facts.since_step,
            lost=facts.lost,
            dropped=0,
        )
    head = store.status_head()
    touched = fold.find_touched(by_spark.recent_rows(store, head), is_long=is_long(head))
    held = touched.where(F.col("_state") == CLAIMED).select("_seq", F.lit(True).alias("_open"))
    waiting = candidates.waiting(store, head).select("_seq", F.lit(False).alias("_open"))
    items = by_spark.items(store).where(F.col("_kind") == ITEM)
    rows = items.join(waiting.unionByName(held), "_seq")
    count, size, open_items, oldest, first = rows.agg(
        F.count(F.lit(1)),
        F.coalesce(F.sum(bytes_of(by_spark.user_schema(store))), F.lit(0)),
        F.count_if("_open"),
        F.min(F.when(~F.col("_open"), F.col("_enqueued_at"))),
        F.min("_step"),
    ).collect()[0]
    return Lag(
        reader=facts.name,
        items=count,
        bytes=size,
        open_items=open_items,
        age=None if oldest is None else store.clock.now() - _utc(oldest),
        steps=0 if first is None else newest.step - first + 1,
        lost=facts.lost,
        dropped=_count_dropped(store),
    )


def _bytes_since(store: Store) -> int:
    rows = by_spark.items(store).where(F.col("_kind") == ITEM)
    total = rows.agg(F.sum(bytes_of(by_spark.user_schema(store)))).collect()[0][0]
    return int(total or 0)


def _count_dropped(store: Store) -> int:
    ended = (F.col("_kind") == ITEM) & (F.col("_state") == CANCELLED)
    return store.status.read().where(ended & F.col("_error").isin(FULL, LAGS)).count()


def _utc(local: datetime) -> datetime:
    """Read a collected timestamp, which is naive and in this process's zone."""
    return local.astimezone(timezone.utc)
