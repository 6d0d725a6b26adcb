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
    from spark_queue.queue import Batch

#: What names a query in its tasks, and stays the same when it is started again.
_QUERY = "sql.streaming.queryId"

#: Options of a writer.
Options = Mapping[str, str]

#: What tasks say that are done; nothing of those that failed.
Messages = Sequence[WriterCommitMessage | None]


@dataclass
class Staged(WriterCommitMessage):
    """What a task has staged."""

    file: str | None
    """The file of its rows; ``None`` where it had none."""
    query: str | None
    """The query whose task it was."""


def files_of(messages: Messages) -> list[str]:
    """Return the files of all tasks, in the order of the tasks."""
    found = [cast("Staged", message).file for message in messages if message is not None]
    return [file for file in found if file is not None]


class StagedWriter:
    """Stages the rows of tasks next to the queue.

    Raises
    ------
    InvalidArgumentError
        When the rows of the queue would be replaced; it names the mode that is right.
    """

    def __init__(self, options: Options, *, overwrite: bool) -> None:
        if overwrite:
            raise InvalidArgumentError(
                "a queue is appended to: write with mode('append'), or outputMode('append')"
            )
        self._options = options
        # It is sent to the tasks, so that none of them opens the queue.
        self._staging = main_store_of(open_queue(options)).handle.place.staging()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of a task where the commit finds them."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        return Staged(self._staging.stage(iterator), query)

    def enqueue(self, messages: Messages, batch: Batch | SourceBatch | None) -> None:
        """Enqueue staged files; a batch that was enqueued before is not written again."""
        files, options = files_of(messages), self._options
        if not files:
            return
        given: dict[str, Any] = {"on_duplicate": _on_duplicate(options), "batch": batch}
        rows = self._staging.read(files)
        open_queue(options).enqueue(rows, options.get("orderBy"), **given)
        self._staging.remove(files)

    def abort(self, messages: Messages, *_: int) -> None:
        """Remove the staged files."""
        self._staging.remove(files_of(messages))


def _on_duplicate(options: Options) -> OnDuplicate | None:
    asked = options.get("onDuplicate") or None
    optional(require_choice, "option onDuplicate", asked, choices=get_args(OnDuplicate))
    return cast("OnDuplicate | None", asked)


class BatchWriter(StagedWriter, DataSourceArrowWriter):
    """Adds the rows of a frame in one step; with ``source`` and ``batch`` exactly once."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Enqueue the rows of all tasks."""
        source = self._options.get("source")
        batch = (source, number(self._options, "batch", int)) if source else None
        self.enqueue(messages, batch)
