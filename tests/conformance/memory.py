"""The queue in memory that is for users' own tests, as an engine of the conformance suite."""

from __future__ import annotations

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.testing import memory_queue
from tests.conformance.engines import EVERYTHING, SCHEMA, Capability
from tests.conformance.local import LocalEngine


class MemoryEngine(LocalEngine):
    """The queue without Spark over tables in memory, which have no path."""

    capabilities: frozenset[Capability] = EVERYTHING - {"disk"}

    def __init__(self, config: QueueConfig) -> None:
        self.clock = ManualClock()
        self.queue = memory_queue(SCHEMA, config, clock=self.clock)
        self.ids: dict[int, str] = {}
