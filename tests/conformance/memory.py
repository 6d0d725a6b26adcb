"""The queue in memory that is for users' own tests, as an engine of the conformance suite."""

from __future__ import annotations

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.testing import memory_queue
from tests.conformance.engines import EVERYTHING, SCHEMA, Capability, name_successor
from tests.conformance.local import LocalEngine


class MemoryEngine(LocalEngine):
    """The queue without Spark over tables in memory, which can do all that any engine can."""

    capabilities: frozenset[Capability] = EVERYTHING

    def __init__(self, config: QueueConfig) -> None:
        self.clock = ManualClock()
        self.queue = memory_queue(SCHEMA, config, clock=self.clock)
        self.ids: dict[int, str] = {}

    def cancel(self, *ids: str) -> None:
        self.queue.cancel({"_seq": self.seqs(ids)})

    def redrive(self, *ids: str, again: bool = False) -> None:
        self.queue.redrive({"_seq": self.seqs(ids)}, again=again)
        rows = self.queue.status().select(["_seq", "_origin"]).to_pylist()
        made = sorted((row["_seq"], row["_origin"]) for row in rows if row["_origin"] is not None)
        for seq, origin in made:
            name_successor(self.ids, seq, origin)
