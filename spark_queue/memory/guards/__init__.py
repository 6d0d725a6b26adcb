"""Guards around operations: one at a time, with a resource each, once, any number; and locks."""

from __future__ import annotations

from spark_queue.memory.guards.brokered import BoundedGuard, ConcurrentGuard, ExclusiveGuard, Guard
from spark_queue.memory.guards.lock import InProcessLock, LockToken
from spark_queue.memory.guards.once import OnceGuard

__all__ = [
    "BoundedGuard",
    "ConcurrentGuard",
    "ExclusiveGuard",
    "Guard",
    "InProcessLock",
    "LockToken",
    "OnceGuard",
]
