"""The queue on an object store, without Spark and beside it, as engines of the suite."""

from __future__ import annotations

from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.local_queue import LocalQueue
from tests.conformance.engines import EVERYTHING, SCHEMA, Capability, DeltaEngine
from tests.conformance.local import LocalEngine
from tests.logs.stores import ShakyStore

_PLACE = "s3://bucket/queue"


class ObjectEngine(LocalEngine):
    """The queue without Spark whose steps are requests, some of which are not answered."""

    capabilities: frozenset[Capability] = EVERYTHING - {"disk"}

    def __init__(self, config: QueueConfig) -> None:
        self.clock = ManualClock()
        self.storage = ShakyStore(lost=0.02, refused=0.02)
        LocalQueue.create(_PLACE, SCHEMA, config, clock=self.clock, storage=self.storage)
        self.queue = self.opened()
        self.ids: dict[int, str] = {}

    def exists(self, path: str) -> bool:
        return LocalQueue.exists(path, storage=self.storage)

    def opened(self) -> LocalQueue:
        return LocalQueue.open(_PLACE, clock=self.clock, storage=self.storage)


class BesideEngine(DeltaEngine):
    """The same queue in a session of Spark, which reads the copy that the process keeps."""

    capabilities: frozenset[Capability] = EVERYTHING - {"disk"}

    def __init__(self, spark: SparkSession, config: QueueConfig) -> None:
        self.clock = ManualClock()
        self.spark = spark
        self.storage = ShakyStore(lost=0.02, refused=0.02)
        self.queue = DeltaQueue.create(
            spark, _PLACE, SCHEMA, config, clock=self.clock, storage=self.storage
        )
        self.ids: dict[int, str] = {}

    def exists(self, path: str) -> bool:
        return DeltaQueue.exists(self.spark, path, storage=self.storage)
