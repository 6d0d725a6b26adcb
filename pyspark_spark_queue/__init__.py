"""Data source of `spark_queue`, under the name by which Spark finds and registers it by itself."""

from __future__ import annotations

from spark_queue.data_source.source import QueueSource as DefaultSource

__all__ = ["DefaultSource"]
