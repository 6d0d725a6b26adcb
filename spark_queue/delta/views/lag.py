"""Lag of a reader behind its queue."""

from __future__ import annotations

from datetime import datetime, timezone

from pyspark.sql import functions as F

from spark_queue.delta.commands.trim import FULL, LAGS
from spark_queue.delta.input.sizes import bytes_of
from spark_queue.delta.plans import candidates, fold
from spark_queue.delta.store.store import Store, is_long
from spark_queue.delta.tables.schema import CANCELLED, CLAIMED, ITEM
from spark_queue.results import Lag


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
    touched = fold.find_touched(store.recent(head), is_long=is_long(head))
    held = touched.where(F.col("_state") == CLAIMED).select("_seq", F.lit(True).alias("_open"))
    waiting = candidates.waiting(store, head).select("_seq", F.lit(False).alias("_open"))
    items = store.items().where(F.col("_kind") == ITEM)
    rows = items.join(waiting.unionByName(held), "_seq")
    count, size, open_items, oldest, first = rows.agg(
        F.count(F.lit(1)),
        F.coalesce(F.sum(bytes_of(store.user_schema())), F.lit(0)),
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
    rows = store.items().where(F.col("_kind") == ITEM)
    total = rows.agg(F.sum(bytes_of(store.user_schema()))).collect()[0][0]
    return int(total or 0)


def _count_dropped(store: Store) -> int:
    ended = (F.col("_kind") == ITEM) & (F.col("_state") == CANCELLED)
    return store.status.read().where(ended & F.col("_error").isin(FULL, LAGS)).count()


def _utc(local: datetime) -> datetime:
    """Read a collected timestamp, which is naive and in this process's zone."""
    return local.astimezone(timezone.utc)
