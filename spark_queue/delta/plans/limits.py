"""Limits of a reader's items, by its configuration."""

from __future__ import annotations

from pyspark.sql import Column, functions as F

from spark_queue.reader_config import ReaderConfig


# rule again: deadline of an item
def expires_at(limits: ReaderConfig) -> Column:
    """Return when an item expires for a reader: by itself, or because it has become too old."""
    own = F.col("_expires_at")
    if limits.max_age is None:
        return own
    return F.least(own, F.col("_enqueued_at") + F.lit(limits.max_age))
