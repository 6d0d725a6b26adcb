"""A work queue for Spark on two Delta tables: distinct, fair by key, serial per group."""

from __future__ import annotations

from spark_queue.config import QueueConfig, RetryPolicy

__all__ = ["QueueConfig", "RetryPolicy"]
