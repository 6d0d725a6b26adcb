"""Columns of the user, and items as a stream of Spark."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import ITEM, QUEUE_COLUMNS


def user_columns(queue: DataFrame) -> list[str]:
    """Return the names of the user's columns."""
    return [name for name in queue.columns if name not in QUEUE_COLUMNS.names]


def stream(store: Store) -> DataFrame:
    """Return the items that a reader sees as a stream: the user's columns, ``_seq``, ``_step``."""
    rows = store.queue.stream()
    users = [name for name in rows.columns if name not in QUEUE_COLUMNS.names]
    items = rows.where(F.col("_kind") == ITEM)
    return items.where(F.col("_step") > store.registered().since_step).select(
        *users, "_seq", "_step"
    )
