"""Queues in memory, on a clock that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue
from spark_queue.testing import memory_queue

#: Makes a queue: ``make("id string", dedup_key="id")``.
Make = Callable[..., LocalQueue]


@pytest.fixture
def make(clock: ManualClock) -> Make:
    """Make a queue of some columns, with any settings."""

    def build(schema: str = "path string", **settings: Any) -> LocalQueue:
        return memory_queue(schema, QueueConfig(**settings), clock=clock)

    return build


def put(queue: LocalQueue, *paths: str) -> None:
    """Enqueue items, by their paths."""
    queue.enqueue([{"path": path} for path in paths])
