"""The format of Spark on an object store, where ``gofakes3`` is: no commit is Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_queue import LocalQueue
from spark_queue.data_source.writing import BatchWriter, files_of
from spark_queue.log.disk.staged_rows import Staging
from spark_queue.queue_views import main_store_of
from tests.logs.stand_ins import s3
from tests.streaming.feeds import Feed, Sink

PLACE, SCHEMA = "s3://bucket/team/files", "path string"


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Run a store in memory, and return how it is reached."""
    with s3(tmp_path) as options:
        yield options


@pytest.fixture
def queue(storage: dict[str, Any]) -> LocalQueue:
    """Make a queue on it."""
    return LocalQueue.create(PLACE, SCHEMA, storage=storage)


@pytest.fixture
def options(storage: dict[str, Any]) -> dict[str, str]:
    """Return the options by which Spark reaches it."""
    flat = {name: value for name, value in storage.items() if isinstance(value, str)}
    flat["client_options.allow_http"] = "true"
    return {f"storage.{name}": value for name, value in flat.items()}


def _read(spark: SparkSession, view: str, options: dict[str, str]) -> DataFrame:
    return spark.read.format("spark_queue").options(view=view, **options).load(PLACE)


def test_a_frame_is_written_and_a_view_is_read(
    spark: SparkSession, queue: LocalQueue, options: dict[str, str]
) -> None:
    """A batch is one step, once; what its tasks had put aside is gone."""
    frame = spark.createDataFrame([("a",), ("b",)], SCHEMA).repartition(2)
    for _ in range(2):
        writer = frame.write.format("spark_queue").mode("append").options(**options)
        writer.option("source", "nightly").option("batch", 1).save(PLACE)
    assert queue.counts()["ready"] == 2
    states = _read(spark, "status", options).select("path", "_state").collect()
    assert sorted(map(tuple, states)) == [("a", "ready"), ("b", "ready")]


def test_a_stream_writes_and_another_claims(
    spark: SparkSession, queue: LocalQueue, options: dict[str, str], place: str
) -> None:
    """Each micro-batch of the one is a step; the other acks what it has worked on."""
    feed = Feed(spark, f"{place}/feed", SCHEMA, files=1)
    for path in ("a", "b"):
        feed.put([{"path": path}])
    to_queue = feed.stream.writeStream.format("spark_queue").options(**options)
    to_queue = to_queue.option("checkpointLocation", f"{place}/in").trigger(availableNow=True)
    to_queue.start(PLACE).awaitTermination()
    assert queue.counts()["ready"] == 2

    claims = spark.readStream.format("spark_queue").options(maxItemsPerTrigger="1", **options)
    sink = Sink(spark, f"{place}/sink")
    sink.run(claims.load(PLACE))
    assert sorted(row.path for row in sink.rows()) == ["a", "b"]
    assert queue.counts()["acked"] == 2


def test_what_a_cancelled_job_has_put_aside_is_removed(
    queue: LocalQueue, options: dict[str, str]
) -> None:
    """Nothing of it is in the queue, and its objects are gone."""
    writer, staging = BatchWriter({"path": PLACE, **options}, overwrite=False), _staging(queue)
    done = writer.write(iter([pa.record_batch({"path": ["a"]})]))
    assert staging.read(files_of([done]))["path"].to_pylist() == ["a"]
    writer.abort([done])
    with pytest.raises(FileNotFoundError):
        staging.read(files_of([done]))
    assert queue.counts()["ready"] == 0


def _staging(queue: LocalQueue) -> Staging:
    return main_store_of(queue).handle.place.staging()
