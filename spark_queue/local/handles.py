"""Internal access to a queue that is open without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue import checks
from spark_queue.clock import SystemClock
from spark_queue.config import QueueConfig
from spark_queue.delta.commands.rows import columns_of as _columns_of
from spark_queue.delta.input.kinds import Field
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.address import QueueAddress
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.local.local_queue import LocalQueue

if TYPE_CHECKING:
    from spark_queue.doctor.finding import Checkup
    from spark_queue.doctor.thresholds import Thresholds


def create_in(store: Store, schema: str, config: QueueConfig | None) -> LocalQueue:
    """Make a queue where a store is; what is asked and raised is as for :meth:`LocalQueue.create`.

    Parameters
    ----------
    store : Store
        Where it is to be, with a session that has no Spark.
    """
    return LocalQueue._create(store, schema, config)  # noqa: SLF001 - it is no user's business


def store_of(queue: LocalQueue) -> Store:
    """Return the logs behind a queue, as its reader sees them."""
    checks.require_kind("queue", queue, LocalQueue)
    return queue._store  # noqa: SLF001 - it is no user's business


def main_store_of(queue: LocalQueue) -> Store:
    """Return the logs behind a queue, of all its readers."""
    return queue._main  # noqa: SLF001 - as above


def columns_of(queue: LocalQueue) -> tuple[Field, ...]:
    """Return the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the tables.
    """
    return _columns_of(queue._main)  # noqa: SLF001 - as above


def examine(path: str, limits: Thresholds) -> Checkup:
    """Look for what is wrong with a queue, also with one that does not open.

    Raises
    ------
    QueueNotFoundError
        When there is none.
    """
    from spark_queue.doctor import examine as examination  # noqa: PLC0415 - takes a while

    store = Store.of(PlainSession(), QueueAddress(path), SystemClock())
    return examination.examine(store, limits)
