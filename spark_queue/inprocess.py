"""Queues for the threads and coroutines of one process: no Spark, and nothing outlives it."""

from __future__ import annotations

from spark_queue.memory.blocking import AioBlockingQueue, BlockingQueue
from spark_queue.memory.broker import QueueBroker, Turn, current_turn
from spark_queue.memory.distinct import AioDistinctQueue, DistinctQueue, Take
from spark_queue.memory.fair import AioFairQueue, FairQueue
from spark_queue.memory.guards import (
    BoundedGuard,
    ConcurrentGuard,
    ExclusiveGuard,
    Guard,
    InProcessLock,
    LockToken,
    OnceGuard,
)
from spark_queue.memory.idempotency import (
    IdempotencyKeyStore,
    InMemoryIdempotencyKeyStore,
    idempotent,
)
from spark_queue.memory.singular import PendingCalls, SingularUpdateQueue, WorkerPool, WriteAheadLog

__all__ = [
    "AioBlockingQueue",
    "AioDistinctQueue",
    "AioFairQueue",
    "BlockingQueue",
    "BoundedGuard",
    "ConcurrentGuard",
    "DistinctQueue",
    "ExclusiveGuard",
    "FairQueue",
    "Guard",
    "IdempotencyKeyStore",
    "InMemoryIdempotencyKeyStore",
    "InProcessLock",
    "LockToken",
    "OnceGuard",
    "PendingCalls",
    "QueueBroker",
    "SingularUpdateQueue",
    "Take",
    "Turn",
    "WorkerPool",
    "WriteAheadLog",
    "current_turn",
    "idempotent",
]
