"""Writer of a stream: each micro-batch is one step of the queue, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from spark_queue.commands.batches import SourceBatch
from spark_queue.data_source.writing import Messages, Staged, StagedWriter, files_of
from spark_queue.errors import InvalidArgumentError
from spark_queue.stream_files import batch_files, is_read_more_often, read_more_often


class StreamWriter(StagedWriter, DataSourceStreamArrowWriter):
    """Adds each micro-batch in one step, exactly once: the step says whose batch it is."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Enqueue the rows of all tasks; a batch without rows is no step."""
        if files_of(messages):
            self._require_read_once(batchId)
            batch = SourceBatch(self._source(messages), batchId, of_stream=True)
            self.enqueue(messages, batch)

    def _require_read_once(self, number: int) -> None:
        """Raise where a micro-batch has rows twice, as far as its checkpoint is on this disk."""
        checkpoint = self._options.get("checkpointLocation")
        files = batch_files(None, checkpoint, number) if checkpoint else []
        if is_read_more_often(files):
            raise InvalidArgumentError(read_more_often(files, number))

    def _source(self, messages: Messages) -> str:
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
