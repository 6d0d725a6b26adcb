"""Queues to report on, without Spark, on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue

#: Makes a queue: ``make("id string", dedup_key="id")``.
Make = Callable[..., LocalQueue]


@pytest.fixture
def make(queue_path: str, clock: ManualClock) -> Make:
    """Make a queue of some columns, with any settings."""

    def build(schema: str = "id string, tenant string, path string", **settings: Any) -> LocalQueue:
        config = QueueConfig(**settings)
        return LocalQueue.create(queue_path, schema, config, durability="process", clock=clock)

    return build
