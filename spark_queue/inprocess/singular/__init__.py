"""The singular update queue: one writer, many requests, each with a reply."""

from __future__ import annotations

from spark_queue.inprocess.singular.request_log import WriteAheadLog
from spark_queue.inprocess.singular.requests import PendingCalls
from spark_queue.inprocess.singular.singular_queue import SingularUpdateQueue
from spark_queue.inprocess.singular.work import WorkerPool

__all__ = ["PendingCalls", "SingularUpdateQueue", "WorkerPool", "WriteAheadLog"]
