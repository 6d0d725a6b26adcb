"""Writers of the data source: tasks stage rows, and one step of the queue takes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from spark_queue.checks import require_choice
from spark_queue.data_source.options import number, open_queue
from spark_queue.delta.tables import staged
from spark_queue.errors import InvalidArgumentError
from spark_queue.looking import main_store_of

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_queue.delta.replica.request import OnDuplicate
    from spark_queue.local_queue import LocalQueue
    from spark_queue.queue import Batch

#: What names a query in its tasks, and stays the same when it is started again.
_QUERY = "sql.streaming.queryId"

_Options = Mapping[str, str]


@dataclass
class Staged(WriterCommitMessage):
    """What a task has staged."""

    file: str | None
    """The file of its rows; ``None`` where it had none."""
    query: str | None
    """The query whose task it was."""


def _stage(options: _Options, rows: Iterator[pa.RecordBatch]) -> Staged:
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty(_QUERY)
    directory = main_store_of(open_queue(options)).handle.place.directory()
    if directory is None:
        raise InvalidArgumentError("the queue is not on a disk that the executors share")
    return Staged(staged.stage(directory, rows), query)


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[str]:
    found = [cast("Staged", message).file for message in messages if message is not None]
    return [file for file in found if file is not None]


def _enqueue(
    options: _Options, messages: Sequence[WriterCommitMessage | None], batch: Batch | None
) -> None:
    """Enqueue what was staged; a batch that is there already is not written again."""
    files = _files(messages)
    if files:
        queue: LocalQueue = open_queue(options)
        given: dict[str, Any] = {"on_duplicate": _on_duplicate(options), "batch": batch}
        queue.enqueue(staged.read(files), options.get("orderBy"), **given)
    staged.remove(files)


def _on_duplicate(options: _Options) -> OnDuplicate:
    asked = options.get("onDuplicate") or "skip"
    require_choice("option onDuplicate", asked, ("skip", "raise"))
    return cast("OnDuplicate", asked)


def _require_append(*, overwrite: bool) -> None:
    if overwrite:
        raise InvalidArgumentError(
            "a queue is appended to: write with mode('append'), or outputMode('append')"
        )


class BatchWriter(DataSourceArrowWriter):
    """Adds the rows of a frame in one step; with ``source`` and ``batch`` exactly once."""

    def __init__(self, options: _Options, *, overwrite: bool) -> None:
        _require_append(overwrite=overwrite)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of a task."""
        return _stage(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Enqueue the rows of all tasks."""
        source = self._options.get("source")
        batch = (source, number(self._options, "batch", int)) if source else None
        _enqueue(self._options, messages, batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove what was staged."""
        staged.remove(_files(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Adds each micro-batch in one step, exactly once: the step says whose batch it is."""

    def __init__(self, options: _Options, *, overwrite: bool) -> None:
        _require_append(overwrite=overwrite)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stage the rows of a task."""
        return _stage(self._options, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Enqueue the rows of all tasks; a batch without rows is no step."""
        if _files(messages):
            _enqueue(self._options, messages, (self._source(messages), batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Remove what was staged."""
        del batchId
        staged.remove(_files(messages))

    def _source(self, messages: Sequence[WriterCommitMessage | None]) -> str:
        """Return what names the query: an option, its id in the tasks, or its checkpoint."""
        named = self._options.get("source")
        queries = [cast("Staged", message).query for message in messages if message is not None]
        found = named or next((query for query in queries if query), None) or self._recorded()
        if found is None:
            raise InvalidArgumentError(
                "the query is not known to its tasks: name it by option('source', ...), which "
                "has to stay the same for one checkpoint"
            )
        return found

    def _recorded(self) -> str | None:
        """Return the id that a checkpoint on this disk has."""
        checkpoint = self._options.get("checkpointLocation")
        file = Path(checkpoint or "", "metadata")
        if not checkpoint or not file.exists():
            return None
        return str(json.loads(file.read_text("utf-8"))["id"])
