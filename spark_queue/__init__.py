"""A work queue for Spark on two Delta tables: distinct, fair by key, serial per group.

The public names load what they need when they are first used, so that
``spark_queue.inprocess`` works where there is no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_queue import extras

if TYPE_CHECKING:
    from pathlib import Path

    from spark_queue.claim import Claim as Claim, LocalClaim as LocalClaim
    from spark_queue.commands.wait_for_end import Waited as Waited
    from spark_queue.config import QueueConfig as QueueConfig
    from spark_queue.delta_queue import DeltaQueue as DeltaQueue
    from spark_queue.errors import (
        AbortedError as AbortedError,
        CannotUndoError as CannotUndoError,
        DeadlockError as DeadlockError,
        InvalidArgumentError as InvalidArgumentError,
        InvalidConfigError as InvalidConfigError,
        InvalidExpressionError as InvalidExpressionError,
        JournalFailedError as JournalFailedError,
        LeaseLostError as LeaseLostError,
        OutputRefusedError as OutputRefusedError,
        PackageMissingError as PackageMissingError,
        QueueExistsError as QueueExistsError,
        QueueFullError as QueueFullError,
        QueueNotFoundError as QueueNotFoundError,
        QueueShutDownError as QueueShutDownError,
        ReaderFullError as ReaderFullError,
        ReaderNotFoundError as ReaderNotFoundError,
        Reject as Reject,
        ResultMismatchError as ResultMismatchError,
        RetryAfter as RetryAfter,
        SchemaMismatchError as SchemaMismatchError,
        SetupError as SetupError,
        SparkNeededError as SparkNeededError,
        TaskExpiredError as TaskExpiredError,
    )
    from spark_queue.flow import Limit as Limit, Rate as Rate
    from spark_queue.front.aio_durable import AioDurableQueue as AioDurableQueue
    from spark_queue.front.consumer import Delivery as Delivery
    from spark_queue.front.durable import DurableQueue as DurableQueue, FrontOptions as FrontOptions
    from spark_queue.front.journaled import journaled_queue as journaled_queue
    from spark_queue.front.producer import PutResult as PutResult
    from spark_queue.item_context import CurrentItem as CurrentItem, current_item as current_item
    from spark_queue.local_queue import LocalQueue as LocalQueue, LocalReader as LocalReader
    from spark_queue.log.step_events import StepFacts as StepFacts, StepTimes as StepTimes
    from spark_queue.log_errors import (
        BatchForgottenError as BatchForgottenError,
        BatchMismatchError as BatchMismatchError,
        DuplicateItemError as DuplicateItemError,
        FencedError as FencedError,
        FileAccessError as FileAccessError,
        FileDamagedError as FileDamagedError,
        FileGoneError as FileGoneError,
        FormatVersionError as FormatVersionError,
        LogDamagedError as LogDamagedError,
        LogFileError as LogFileError,
        OldCheckpointError as OldCheckpointError,
        OutcomesGoneError as OutcomesGoneError,
        SettingsChangedError as SettingsChangedError,
        SparkQueueError as SparkQueueError,
        StepLostError as StepLostError,
        UnsafeSessionError as UnsafeSessionError,
        WriterLockedError as WriterLockedError,
    )
    from spark_queue.memory.journal.journal_options import (
        QueueOptions as QueueOptions,
        ReaderHooks as ReaderHooks,
    )
    from spark_queue.memory.journal.journaled_queue import JournaledQueue as JournaledQueue
    from spark_queue.metrics.listening import Metrics as Metrics
    from spark_queue.processing.loop import ProcessResult as ProcessResult
    from spark_queue.reader import Reader as Reader
    from spark_queue.reader_config import ReaderConfig as ReaderConfig
    from spark_queue.report.finding import (
        Checkup as Checkup,
        Finding as Finding,
        Thresholds as Thresholds,
    )
    from spark_queue.report.model import ItemReport as ItemReport, Report as Report
    from spark_queue.report.reading import open_report as open_report
    from spark_queue.results import (
        Affected as Affected,
        EnqueueResult as EnqueueResult,
        Explanation as Explanation,
        ItemProgress as ItemProgress,
        Lag as Lag,
        Liveness as Liveness,
        Maintained as Maintained,
        QueueStats as QueueStats,
        Reconfigured as Reconfigured,
        RepeatedBatch as RepeatedBatch,
        Undone as Undone,
        Upgraded as Upgraded,
    )
    from spark_queue.retry_policy import RetryPolicy as RetryPolicy
    from spark_queue.saying import Settlement as Settlement
    from spark_queue.session import (
        SMALL_STEPS_CONF as SMALL_STEPS_CONF,
        local_session as local_session,
    )
    from spark_queue.stores.keys import DeltaIdempotencyKeyStore as DeltaIdempotencyKeyStore

__version__ = "0.2.0"

#: The public names, by the modules that make them.
_NAMES = {
    "claim": "Claim LocalClaim",
    "commands.wait_for_end": "Waited",
    "config": "QueueConfig",
    "delta_queue": "DeltaQueue",
    "errors": (
        "AbortedError CannotUndoError DeadlockError InvalidArgumentError InvalidConfigError "
        "InvalidExpressionError JournalFailedError LeaseLostError OutputRefusedError "
        "PackageMissingError QueueExistsError QueueFullError QueueNotFoundError "
        "QueueShutDownError ReaderFullError ReaderNotFoundError Reject ResultMismatchError "
        "RetryAfter SchemaMismatchError SetupError SparkNeededError TaskExpiredError"
    ),
    "flow": "Limit Rate",
    "front.aio_durable": "AioDurableQueue",
    "front.consumer": "Delivery",
    "front.durable": "DurableQueue FrontOptions",
    "front.journaled": "journaled_queue",
    "front.producer": "PutResult",
    "item_context": "CurrentItem current_item",
    "local_queue": "LocalQueue LocalReader",
    "log.step_events": "StepFacts StepTimes",
    "log_errors": (
        "BatchForgottenError BatchMismatchError DuplicateItemError FencedError FileAccessError "
        "FileDamagedError FileGoneError FormatVersionError LogDamagedError LogFileError "
        "OldCheckpointError OutcomesGoneError SettingsChangedError SparkQueueError "
        "StepLostError UnsafeSessionError WriterLockedError"
    ),
    "memory.journal.journal_options": "QueueOptions ReaderHooks",
    "memory.journal.journaled_queue": "JournaledQueue",
    "metrics.listening": "Metrics",
    "processing.loop": "ProcessResult",
    "reader": "Reader",
    "reader_config": "ReaderConfig",
    "report.finding": "Checkup Finding Thresholds",
    "report.model": "ItemReport Report",
    "report.reading": "open_report",
    "results": (
        "Affected EnqueueResult Explanation ItemProgress Lag Liveness Maintained QueueStats "
        "Reconfigured RepeatedBatch Undone Upgraded"
    ),
    "retry_policy": "RetryPolicy",
    "saying": "Settlement",
    "session": "SMALL_STEPS_CONF local_session",
    "stores.keys": "DeltaIdempotencyKeyStore",
}

#: Where each is made.
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

#: Names of what works with a session of Spark only, and is left out where there is none: all the
#: others can be had by ``from spark_queue import *``.
_OF_SPARK = ("DeltaIdempotencyKeyStore", "DeltaQueue", "Reader")
_LEFT_OUT = () if extras.is_installed("pyspark") else _OF_SPARK

__all__ = [name for name in (*sorted(_HOMES), "__version__") if name not in _LEFT_OUT]


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
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(extras.load(f"{__name__}.{_HOMES[name]}", f"{__name__}.{name}"), name)
