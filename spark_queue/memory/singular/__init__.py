"""The singular update queue: one writer, many requests, each with a reply."""

from __future__ import annotations

from spark_queue.memory.singular.request_log import WriteAheadLog
from spark_queue.memory.singular.requests import PendingCalls
from spark_queue.memory.singular.singular_queue import SingularUpdateQueue
from spark_queue.memory.singular.work import WorkerPool

__all__ = ["PendingCalls", "SingularUpdateQueue", "WorkerPool", "WriteAheadLog"]
