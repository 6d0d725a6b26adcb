"""A work queue for Spark on two Delta tables: distinct, fair by key, serial per group.

The public names load what they need when they are first used, so that
``spark_queue.inprocess`` works where there is no Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_queue.claim import Claim, Settlement
    from spark_queue.config import QueueConfig, RetryPolicy
    from spark_queue.delta.keys import DeltaIdempotencyKeyStore
    from spark_queue.delta.tables.facts import StepFacts
    from spark_queue.errors import Reject, SparkQueueError
    from spark_queue.front.durable import DurableQueue
    from spark_queue.front.journaled import journaled_queue
    from spark_queue.processing.worker import ProcessResult
    from spark_queue.queue import DeltaQueue
    from spark_queue.reader import Reader
    from spark_queue.reader_config import ReaderConfig
    from spark_queue.results import EnqueueResult, Explanation, Lag, Maintained, QueueStats
    from spark_queue.session import SMALL_STEPS_CONF, local_session

__version__ = "0.1.0"

_HOMES = {
    "SMALL_STEPS_CONF": "session",
    "Claim": "claim",
    "DeltaIdempotencyKeyStore": "delta.keys",
    "DeltaQueue": "queue",
    "DurableQueue": "front.durable",
    "EnqueueResult": "results",
    "Explanation": "results",
    "Lag": "results",
    "Maintained": "results",
    "QueueStats": "results",
    "ProcessResult": "processing.worker",
    "QueueConfig": "config",
    "Reader": "reader",
    "ReaderConfig": "reader_config",
    "Reject": "errors",
    "RetryPolicy": "config",
    "Settlement": "claim",
    "SparkQueueError": "errors",
    "StepFacts": "delta.tables.facts",
    "journaled_queue": "front.journaled",
    "local_session": "session",
}

__all__ = [
    "SMALL_STEPS_CONF",
    "Claim",
    "DeltaIdempotencyKeyStore",
    "DeltaQueue",
    "DurableQueue",
    "EnqueueResult",
    "Explanation",
    "Lag",
    "Maintained",
    "ProcessResult",
    "QueueConfig",
    "QueueStats",
    "Reader",
    "ReaderConfig",
    "Reject",
    "RetryPolicy",
    "Settlement",
    "SparkQueueError",
    "StepFacts",
    "__version__",
    "journaled_queue",
    "local_session",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
