"""A work queue for Spark on two Delta tables: distinct, fair by key, serial per group.

The public names load what they need when they are first used, so that
``spark_queue.inprocess`` works where there is no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_queue import extras

if TYPE_CHECKING:
    from pathlib import Path

    from spark_queue.claim import Claim, LocalClaim
    from spark_queue.config import QueueConfig
    from spark_queue.delta_queue import DeltaQueue
    from spark_queue.errors import (
        AbortedError,
        BatchForgottenError,
        BatchMismatchError,
        CannotUndoError,
        DeadlockError,
        DuplicateItemError,
        FencedError,
        FileAccessError,
        FileDamagedError,
        FileGoneError,
        FormatVersionError,
        InvalidArgumentError,
        InvalidConfigError,
        InvalidExpressionError,
        JournalFailedError,
        LeaseLostError,
        LogDamagedError,
        LogFileError,
        OldCheckpointError,
        OutcomesGoneError,
        OutputRefusedError,
        PackageMissingError,
        QueueExistsError,
        QueueFullError,
        QueueNotFoundError,
        QueueShutDownError,
        ReaderFullError,
        ReaderNotFoundError,
        Reject,
        ResultMismatchError,
        RetryAfter,
        SchemaMismatchError,
        SettingsChangedError,
        SetupError,
        SparkNeededError,
        SparkQueueError,
        StepLostError,
        TaskExpiredError,
        UnsafeSessionError,
        WriterLockedError,
    )
    from spark_queue.flow import Limit, Rate
    from spark_queue.front.aio_durable import AioDurableQueue
    from spark_queue.front.consumer import Delivery
    from spark_queue.front.durable import DurableQueue, FrontOptions
    from spark_queue.front.journaled import journaled_queue
    from spark_queue.front.producer import PutResult
    from spark_queue.item_context import CurrentItem, current_item
    from spark_queue.local_queue import LocalQueue, LocalReader
    from spark_queue.log.step_events import StepFacts, StepTimes
    from spark_queue.memory.journal.journal_options import QueueOptions, ReaderHooks
    from spark_queue.memory.journal.journaled_queue import JournaledQueue
    from spark_queue.metrics.listening import Metrics
    from spark_queue.processing.loop import ProcessResult
    from spark_queue.reader import Reader
    from spark_queue.reader_config import ReaderConfig
    from spark_queue.report.finding import Checkup, Finding, Thresholds
    from spark_queue.report.model import ItemReport, Report
    from spark_queue.report.reading import open_report
    from spark_queue.results import (
        Affected,
        EnqueueResult,
        Explanation,
        ItemProgress,
        Lag,
        Liveness,
        Maintained,
        QueueStats,
        Reconfigured,
        RepeatedBatch,
        Undone,
        Upgraded,
    )
    from spark_queue.retry_policy import RetryPolicy
    from spark_queue.saying import Settlement
    from spark_queue.session import SMALL_STEPS_CONF, local_session
    from spark_queue.stores.keys import DeltaIdempotencyKeyStore

__version__ = "0.2.0"

#: Where a public name is made that is no error of :mod:`spark_queue.errors`.
_HOMES = {
    "SMALL_STEPS_CONF": "session",
    "AioDurableQueue": "front.aio_durable",
    "Checkup": "report.finding",
    "Claim": "claim",
    "CurrentItem": "item_context",
    "Delivery": "front.consumer",
    "DeltaIdempotencyKeyStore": "stores.keys",
    "DeltaQueue": "delta_queue",
    "DurableQueue": "front.durable",
    "Affected": "results",
    "BatchForgottenError": "log_errors",
    "BatchMismatchError": "log_errors",
    "EnqueueResult": "results",
    "Explanation": "results",
    "DuplicateItemError": "log_errors",
    "FencedError": "log_errors",
    "FormatVersionError": "log_errors",
    "FileAccessError": "log_errors",
    "FileDamagedError": "log_errors",
    "FileGoneError": "log_errors",
    "Finding": "report.finding",
    "FrontOptions": "front.durable",
    "ItemProgress": "results",
    "ItemReport": "report.model",
    "JournaledQueue": "memory.journal.journaled_queue",
    "Lag": "results",
    "Limit": "flow",
    "Liveness": "results",
    "LocalClaim": "claim",
    "LocalQueue": "local_queue",
    "LocalReader": "local_queue",
    "LogDamagedError": "log_errors",
    "LogFileError": "log_errors",
    "Maintained": "results",
    "Metrics": "metrics.listening",
    "OldCheckpointError": "log_errors",
    "OutcomesGoneError": "log_errors",
    "ProcessResult": "processing.loop",
    "PutResult": "front.producer",
    "QueueConfig": "config",
    "QueueOptions": "memory.journal.journal_options",
    "QueueStats": "results",
    "Rate": "flow",
    "Reconfigured": "results",
    "RepeatedBatch": "results",
    "Undone": "results",
    "Reader": "reader",
    "ReaderConfig": "reader_config",
    "ReaderHooks": "memory.journal.journal_options",
    "Report": "report.model",
    "RetryPolicy": "retry_policy",
    "SettingsChangedError": "log_errors",
    "Settlement": "saying",
    "SparkQueueError": "log_errors",
    "StepFacts": "log.step_events",
    "StepTimes": "log.step_events",
    "StepLostError": "log_errors",
    "UnsafeSessionError": "log_errors",
    "WriterLockedError": "log_errors",
    "Thresholds": "report.finding",
    "Upgraded": "results",
    "current_item": "item_context",
    "journaled_queue": "front.journaled",
    "local_session": "session",
    "open_report": "report.reading",
}

#: Names of what works with a session of Spark only.
_OF_SPARK = ("DeltaIdempotencyKeyStore", "DeltaQueue", "Reader")

__all__ = [
    "SMALL_STEPS_CONF",
    "AbortedError",
    "Affected",
    "AioDurableQueue",
    "BatchForgottenError",
    "BatchMismatchError",
    "CannotUndoError",
    "Checkup",
    "Claim",
    "CurrentItem",
    "DeadlockError",
    "Delivery",
    "DeltaIdempotencyKeyStore",
    "DeltaQueue",
    "DuplicateItemError",
    "DurableQueue",
    "EnqueueResult",
    "Explanation",
    "FencedError",
    "FileAccessError",
    "FileDamagedError",
    "FileGoneError",
    "Finding",
    "FormatVersionError",
    "FrontOptions",
    "InvalidArgumentError",
    "InvalidConfigError",
    "InvalidExpressionError",
    "ItemProgress",
    "ItemReport",
    "JournalFailedError",
    "JournaledQueue",
    "Lag",
    "LeaseLostError",
    "Limit",
    "Liveness",
    "LocalClaim",
    "LocalQueue",
    "LocalReader",
    "LogDamagedError",
    "LogFileError",
    "Maintained",
    "Metrics",
    "OldCheckpointError",
    "OutcomesGoneError",
    "OutputRefusedError",
    "PackageMissingError",
    "ProcessResult",
    "PutResult",
    "QueueConfig",
    "QueueExistsError",
    "QueueFullError",
    "QueueNotFoundError",
    "QueueOptions",
    "QueueShutDownError",
    "QueueStats",
    "Rate",
    "Reader",
    "ReaderConfig",
    "ReaderFullError",
    "ReaderHooks",
    "ReaderNotFoundError",
    "Reconfigured",
    "Reject",
    "RepeatedBatch",
    "Report",
    "ResultMismatchError",
    "RetryAfter",
    "RetryPolicy",
    "SchemaMismatchError",
    "SettingsChangedError",
    "Settlement",
    "SetupError",
    "SparkNeededError",
    "SparkQueueError",
    "StepFacts",
    "StepLostError",
    "StepTimes",
    "TaskExpiredError",
    "Thresholds",
    "Undone",
    "UnsafeSessionError",
    "Upgraded",
    "WriterLockedError",
    "__version__",
    "current_item",
    "journaled_queue",
    "local_session",
    "open_report",
]

if not extras.is_installed("pyspark"):
    # All the others can be had by ``from spark_queue import *``.
    __all__ = [name for name in __all__ if name not in _OF_SPARK]


def open(path: str | Path, **options: Any) -> LocalQueue:  # noqa: A001 - as of a file
    """Open a queue on this machine's disk, without Spark; options as for :meth:`LocalQueue.open`.

    Raises
    ------
    QueueNotFoundError
        When there is no queue, or something else in its place.
    """
    queue: LocalQueue = __getattr__("LocalQueue").open(path, **options)
    return queue


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    if name not in _HOMES and name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "errors")
    return getattr(extras.load(f"{__name__}.{home}", f"{__name__}.{name}"), name)
