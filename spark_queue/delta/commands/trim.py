"""Readers that drop their oldest items, because they are full or too far behind."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_queue.delta.commands import admin, readers
from spark_queue.delta.input.sizes import bytes_of
from spark_queue.delta.plans import candidates, capacity
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CANCELLED, ITEM, READY

#: Why an item was dropped.
FULL = "dropped: the reader is full"
LAGS = "dropped: the reader is too far behind"


def full(store: Store) -> int:
    """Drop the oldest items of readers that are over their limits and say so; return how many.

    Items in flight stay, and count.
    """
    dropped = 0
    for reader in readers.every(store):
        limits = reader.limits()
        if limits.full_policy == "drop_oldest":
            dropped += _items(reader, limits.max_items, FULL)
            dropped += _bytes(reader, limits.max_bytes)
    return dropped


def behind(store: Store) -> int:
    """Drop what readers have not read that are further behind than they may be."""
    return sum(_items(reader, reader.limits().max_lag, LAGS) for reader in readers.every(store))


def _items(reader: Store, most: int | None, why: str) -> int:
    if most is None or reader.outstanding(reader.status_head()) <= most:
        return 0

    def oldest() -> DataFrame:
        head = reader.status_head()
        over = reader.outstanding(head) - most
        return _ready(reader).orderBy("_seq").limit(max(0, over))

    return admin.end(reader, "drop", oldest, CANCELLED, why)[1]


def _bytes(reader: Store, most: int | None) -> int:
    if most is None or capacity.outstanding_bytes(reader) <= most:
        return 0

    def oldest() -> DataFrame:
        over = capacity.outstanding_bytes(reader) - most
        sizes = reader.items().where(F.col("_kind") == ITEM)
        sizes = sizes.select("_seq", bytes_of(reader.user_schema()).alias("_bytes"))
        before = Window.orderBy("_seq").rowsBetween(Window.unboundedPreceding, -1)
        sized = _ready(reader).join(sizes, "_seq")
        passed = F.coalesce(F.sum("_bytes").over(before), F.lit(0))
        return sized.withColumn("_passed", passed).where(F.col("_passed") < over)

    return admin.end(reader, "drop", oldest, CANCELLED, FULL)[1]


def _ready(reader: Store) -> DataFrame:
    waiting = candidates.waiting(reader, reader.status_head())
    return waiting.withColumn("_state", F.lit(READY))
