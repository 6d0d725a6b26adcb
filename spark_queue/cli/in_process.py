"""Commands that this process answers: of a queue on its disk, in a second and without Java.

What needs Spark is a :class:`~spark_queue.SparkNeededError`, before anything was written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from spark_queue import local_queue
from spark_queue.cli.choice import (
    AnyQueue,
    CommandScope,
    RowSource,
    is_local,
    local_path,
)
from spark_queue.config import QueueConfig
from spark_queue.errors import (
    InvalidArgumentError,
    InvalidConfigError,
    SchemaMismatchError,
    SparkNeededError,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.results import Affected, EnqueueResult

if TYPE_CHECKING:
    from spark_queue.report.finding import Checkup, Thresholds


def create(
    scope: CommandScope, name: str, schema: str, config: QueueConfig, *, exist_ok: bool
) -> AnyQueue:
    """Create a queue on this machine's disk."""
    try:
        return LocalQueue.create(local_path(name), schema, config, exist_ok=exist_ok)
    except (InvalidArgumentError, InvalidConfigError, SchemaMismatchError) as exc:
        # Spark takes some columns and keys that are none here, and says of others why not.
        scope.require_wrong_for_all(exc)
        raise


def open_queue(scope: CommandScope, name: str, reader: str | None) -> AnyQueue:
    """Open a queue on this machine's disk, or one of its readers."""
    del scope
    queue = LocalQueue.open(local_path(name))
    return queue if reader is None else queue.open_reader(reader)


def locate(scope: CommandScope, name: str) -> str:
    """Return the path of a queue."""
    del scope
    return local_path(name)


def drop(scope: CommandScope, place: str, *, dry_run: bool = False) -> Affected | None:
    """Remove a queue, or return what would be removed."""
    del scope
    return LocalQueue.drop(local_path(place), dry_run=dry_run)


def clone(scope: CommandScope, name: str, to: str) -> AnyQueue:
    """Clone a queue on this machine's disk, and return the clone."""
    del scope
    if not is_local(to):
        raise SparkNeededError(f"a clone in {to!r}", "it is not on this machine's disk")
    return LocalQueue.open(local_path(name)).clone(local_path(to))


def examine(scope: CommandScope, name: str, thresholds: Thresholds) -> Checkup:
    """Find a queue's faults, even where it does not open."""
    del scope
    return local_queue.examine(local_path(name), thresholds)


def enqueue(scope: CommandScope, queue: AnyQueue, source: RowSource) -> EnqueueResult[Any]:
    """Add the rows of files, read without Spark."""
    from spark_queue.cli import input_files  # noqa: PLC0415 - takes a while

    del scope
    into = _local(queue)
    if source.files is None or source.kind is None:
        raise SparkNeededError("a table of the catalog", "the catalog is a session's")
    columns = local_queue.columns_of(into)
    table = input_files.read(source.files, source.kind, columns)
    return into.enqueue(table, **source.options)


def _local(queue: AnyQueue) -> LocalQueue:
    return cast("LocalQueue", queue)
