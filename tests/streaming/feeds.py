"""Streams from files that a test writes, and queries that run until they have read them all."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

#: Few buckets: each is a call of Python in every micro-batch.
BUCKETS = 4


class Feed:
    """A folder of JSON files, read as a stream."""

    def __init__(self, spark: SparkSession, folder: str, schema: str, files: int = 1_000) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.stream = (
            spark.readStream.schema(schema).option("maxFilesPerTrigger", files).json(folder)
        )
        self._names = schema.split(",")
        self._files = len(list(self.folder.glob("*.json")))

    def put(self, rows: Sequence[dict[str, Any]]) -> None:
        """Write rows as one more file: it is there at once, whole."""
        draft = self.folder.parent / "draft"
        draft.write_text("\n".join(json.dumps(row) for row in rows))
        self._files += 1
        # Spark reads files by their age, and several may be made in one tick of the clock.
        os.utime(draft, (self._files, self._files))
        draft.rename(self.folder / f"{self._files:06d}.json")


class Sink:
    """A Delta table that a query writes to, with the query's checkpoint."""

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.spark = spark
        self.table = f"{root}/out"
        self.checkpoint = f"{root}/checkpoint"

    def started(self, df: DataFrame) -> StreamingQuery:
        """Start a query that writes a stream to the table and ends when all was read."""
        writer = df.writeStream.format("delta").outputMode("append")
        writer = writer.option("checkpointLocation", self.checkpoint).trigger(availableNow=True)
        return writer.start(self.table)

    def run(self, df: DataFrame) -> None:
        """Run a query to its end."""
        self.started(df).awaitTermination()

    def rows(self) -> list[Any]:
        """Return the rows of the table."""
        return self.spark.read.format("delta").load(self.table).collect()
