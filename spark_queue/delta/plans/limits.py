"""What the configuration of a reader means for its items."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_queue.config import QueueConfig
from spark_queue.reader_config import ReaderConfig


def expires_at(limits: ReaderConfig) -> Column:
    """Return when an item expires for a reader: by itself, or because it has become too old."""
    own = F.col("_expires_at")
    if limits.max_age is None:
        return own
    return F.least(own, F.col("_enqueued_at") + F.lit(limits.max_age))


def in_force(config: QueueConfig, limits: ReaderConfig) -> QueueConfig:
    """Return the configuration by which a reader judges failures: punted items do not retry."""
    if limits.punt_to is not None:
        return replace(config, max_attempts=1)
    if limits.punt_many_to is None:
        return config
    most = limits.punt_many_at
    return replace(config, max_attempts=min(most, config.max_attempts or most))
