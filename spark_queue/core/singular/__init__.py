"""The singular update queue: one writer, many requests, each with a reply."""

from __future__ import annotations

from spark_queue.core.singular.calls import PendingCalls
from spark_queue.core.singular.log import WriteAheadLog
from spark_queue.core.singular.pool import WorkerPool
from spark_queue.core.singular.queue import SingularUpdateQueue

__all__ = ["PendingCalls", "SingularUpdateQueue", "WorkerPool", "WriteAheadLog"]
