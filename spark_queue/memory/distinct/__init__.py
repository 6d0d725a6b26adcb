"""The distinct queue: each element once, in scopes that end well or give it back."""

from __future__ import annotations

from spark_queue.memory.distinct.distinct_queue import AioDistinctQueue, DistinctQueue
from spark_queue.memory.distinct.take import (
    AioTake,
    Batch,
    DistinctSnapshot,
    Element,
    ReadyTake,
    Take,
)

__all__ = [
    "AioDistinctQueue",
    "AioTake",
    "Batch",
    "DistinctQueue",
    "DistinctSnapshot",
    "Element",
    "ReadyTake",
    "Take",
]
