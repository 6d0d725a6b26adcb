"""One life of a sink and of a stream of claims: see ``chaos_format.py``."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from chaos_format import reach
from spark_queue import SMALL_STEPS_CONF, LocalQueue, local_session
from spark_queue.data_source.claiming import ClaimReader
from spark_queue.data_source.source import QueueSource
from spark_queue.data_source.stream_writing import StreamWriter


class MortalSource(QueueSource):
    """The format of a queue, of which each phase may be the last."""

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` calls it."""
        return "mortal_queue"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return what claims items."""
        del schema
        return MortalReader(self.options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """Return what adds rows."""
        del schema
        return MortalWriter(self.options, overwrite=overwrite)


class MortalWriter(StreamWriter):
    """A sink that may die after it staged rows, before it commits them, and after that."""

    def write(self, iterator: Iterator[Any]) -> Any:
        """Stage rows."""
        staged = super().write(iterator)
        reach("staged")
        return staged

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's
        """Enqueue them."""
        reach("committing")
        super().commit(messages, batchId)
        reach("committed")


class MortalReader(ClaimReader):
    """A stream of claims that may die around a claim, its items, and its ack."""

    def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: N802 - Spark's
        """Claim."""
        reach("claiming")
        end = super().latestOffset(start, limit)
        if end != start:
            reach("claimed")
        return end

    def read(self, partition: Any) -> Iterator[Any]:
        """Return the items of a claim."""
        yield from super().read(partition)
        reach("read")

    def commit(self, end: Any) -> None:
        """Ack what is done."""
        reach("acking")
        super().commit(end)
        reach("acked")


def live(place: str, seconds: float) -> None:
    """Run both streams until nothing is left to do, or so long."""
    os.environ["DOOM_GROUP"] = str(os.getpgrp())
    spark = local_session("chaos", quiet=True, **SMALL_STEPS_CONF)
    spark.dataSource.register(MortalSource)
    files = spark.readStream.schema("id long, grp string").option("maxFilesPerTrigger", 1)
    (
        files.parquet(f"{place}/files")
        .writeStream.format("mortal_queue")
        .option("path", f"{place}/queue")
        .option("checkpointLocation", f"{place}/into")
        .start()
    )

    def work(items: DataFrame, _batch: int) -> None:
        items.select("id").write.format("delta").mode("append").save(f"{place}/done")

    (
        spark.readStream.format("mortal_queue")
        .option("sourceId", "chaos")
        .option("lease", "5")
        .option("maxItemsPerTrigger", 10)
        .load(f"{place}/queue")
        .writeStream.foreachBatch(work)
        .option("checkpointLocation", f"{place}/outof")
        .start()
    )
    until, queue = time.monotonic() + seconds, LocalQueue.open(f"{place}/queue")
    rows = 20 * len(os.listdir(f"{place}/files"))  # noqa: PTH208 - a count
    while time.monotonic() < until and queue.stats().acked < rows:
        for query in spark.streams.active:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception()))
        time.sleep(0.5)
    for query in spark.streams.active:
        query.stop()
    spark.stop()


if __name__ == "__main__":
    live(sys.argv[1], float(sys.argv[2]))
