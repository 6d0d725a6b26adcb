"""Writers of the data source: tasks stage rows, and one step of the queue takes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from spark_queue.checks import optional, require_choice
from spark_queue.config import OnDuplicate
from spark_queue.data_source.options import number, open_queue
from spark_queue.errors import InvalidArgumentError
from spark_queue.queue_views import main_store_of

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_queue.commands.batches import SourceBatch
    from spark_queue.local_queue import LocalQueue
    from spark_queue.log.disk.staged_rows import Staging
    from spark_queue.queue import Batch

#: What names a query in its tasks, and stays the same when it is started again.
_QUERY = "sql.streaming.queryId"

#: Options of a writer.
Options = Mapping[str, str]


@dataclass
class Staged(WriterCommitMessage):
    """What a task has staged."""

    file: str | None
    """The file of its rows; ``None`` where it had none."""
    query: str | None
    """The query whose task it was."""


def stage_rows(staging: Staging, rows: Iterator[pa.RecordBatch]) -> Staged:
    """Write the rows of a task where the commit finds them."""
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY)
    return Staged(staging.stage(rows), query)


def staging_of(queue: LocalQueue) -> Staging:
    """Return where tasks put rows; it is sent to them, so that none of them opens the queue."""
    return main_store_of(queue).handle.place.staging()


def files_of(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    """Return the files of all tasks, in the order of the tasks."""
    found = [cast("Staged", message).file for message in messages if message is not None]
    return [file for file in found if file is not None]


def enqueue_files(
    options: Options,
    messages: Sequence[WriterCommitMessage | None],
    batch: Batch | SourceBatch | None,
) -> None:
    """Enqueue staged files; a batch that was enqueued before is not written again."""
    files = files_of(messages)
    if not files:
        return
    queue = open_queue(options)
    staging = staging_of(queue)
    given: dict[str, Any] = {"on_duplicate": _on_duplicate(options), "batch": batch}
    queue.enqueue(staging.read(files), options.get("orderBy"), **given)
    staging.remove(files)


def discard(staging: Staging, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Remove staged files."""
    staging.remove(files_of(messages))


def _on_duplicate(options: Options) -> OnDuplicate | None:
    asked = options.get("onDuplicate") or None
    optional(require_choice, "option onDuplicate", asked, choices=get_args(OnDuplicate))
    return cast("OnDuplicate | None", asked)


def require_append(*, overwrite: bool) -> None:
    """Raise where what a queue has would be replaced.

    Raises
    ------
    InvalidArgumentError
        It names the mode that is right.
    """
    if overwrite:
        raise InvalidArgumentError(
            "a queue is appended to: write with mode('append'), or outputMode('append')"
        )


class StagedWriter:
    """Stages the rows of tasks next to the queue."""

    def __init__(self, options: Options, *, overwrite: bool) -> None:
        require_append(overwrite=overwrite)
        self._options = options
        self._staging = staging_of(open_queue(options))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of a task."""
        return stage_rows(self._staging, iterator)


class BatchWriter(StagedWriter, DataSourceArrowWriter):
    """Adds the rows of a frame in one step; with ``source`` and ``batch`` exactly once."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Enqueue the rows of all tasks."""
        source = self._options.get("source")
        batch = (source, number(self._options, "batch", int)) if source else None
        enqueue_files(self._options, messages, batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged files."""
        discard(self._staging, messages)
