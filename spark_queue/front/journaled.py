"""A journaled queue whose journal is a queue on Delta."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_queue.clock import Clock, SystemClock
from spark_queue.delta.journal import DeltaJournal
from spark_queue.errors import QueueExistsError, QueueNotFoundError
from spark_queue.journal import JournaledQueue, QueueOptions, ReaderHooks
from spark_queue.journal.options import require_name
from spark_queue.looking import main_store_of
from spark_queue.queue import DeltaQueue
from spark_queue.reader_config import ReaderConfig

#: How often a front checkpoints its positions unless it is told otherwise.
_CHECKPOINTS = timedelta(minutes=1)


def journaled_queue(
    spark: SparkSession,
    name_or_path: str,
    schema: StructType | str = "data binary",
    *,
    options: QueueOptions | None = None,
    config: ReaderConfig | None = None,
    hooks: ReaderHooks[Any] | None = None,
    queues: Callable[[str], JournaledQueue[Any]] | None = None,
    retention: timedelta | None = None,
    archive_to: str | None = None,
    native: bool = False,
    clock: Clock | None = None,
) -> JournaledQueue[Any]:
    """Open a queue in memory with many readers, durable in Delta; make it where it is missing.

    Parameters
    ----------
    spark : SparkSession
        The caller's session, with Delta.
    name_or_path : str
        The queue, as :meth:`DeltaQueue.open` names it. While this one is open nobody else writes to
        it; who reads its tables always may.
    schema : StructType or str
        The columns of an item. With one column an item is its value (bytes, by default), with
        several it is a mapping. A queue that is there has its own.
    options : QueueOptions, optional
        Durability, groups and memory. By default a put's future waits for its group, and positions
        are checkpointed, and small files merged, from time to time.
    config : ReaderConfig, optional
        The limits of readers that are given none.
    hooks : ReaderHooks, optional
        Those of readers that are given none.
    queues : callable, optional
        Called with a name, returns the queue that ``expire_to`` and its like mean by it.
    retention : timedelta, optional
        How long items are kept that all readers are done with; for ever by default.
    archive_to : str, optional
        The table that gets them when they are dropped.
    native : bool
        Whether steps are written without Spark, by the Delta library of Rust (``deltalake``): a
        commit takes milliseconds instead of most of a second. For a queue on this machine's disk.
        Meanwhile nothing but this library may write to its tables: no ``OPTIMIZE`` or ``VACUUM``
        by hand.
    clock : Clock, optional
        Tells when items were put, and when they expire; the machine's by default.

    Returns
    -------
    JournaledQueue
        It holds the queue: a former front of it, in this process or on a shared store, hands out
        nothing more.

    Raises
    ------
    InvalidArgumentError
        When the queue is distinct, fair, grouped or has priorities: for those there is
        :class:`DurableQueue`. When ``native`` is not possible.
    WriterLockedError
        When a front of another process, which lives, holds a queue on this machine's disk.
    """
    now = clock or SystemClock()
    name = require_name(_name_of(name_or_path))
    queue = _opened(spark, name_or_path, schema, now)
    journal = DeltaJournal(
        main_store_of(queue), retention=retention, archive_to=archive_to, native=native
    )
    return JournaledQueue(
        journal,
        name,
        options=options or QueueOptions(checkpoint_interval=_CHECKPOINTS),
        config=config,
        hooks=hooks,
        size_of=journal.size_of,
        queues=queues,
        clock=now,
    )


def _opened(
    spark: SparkSession, name_or_path: str, schema: StructType | str, clock: Clock
) -> DeltaQueue:
    with suppress(QueueNotFoundError):
        return DeltaQueue.open(spark, name_or_path, clock=clock)
    # Somebody else may make it at this very moment.
    with suppress(QueueExistsError):
        return DeltaQueue.create(spark, name_or_path, schema, clock=clock)
    return DeltaQueue.open(spark, name_or_path, clock=clock)


def _name_of(name_or_path: str) -> str:
    """Return what the queue calls itself: the last part of its address."""
    return name_or_path.rstrip("/").rsplit("/", 1)[-1].replace(".", ":")
