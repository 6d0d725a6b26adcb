"""Rows that ``format("spark_queue")`` writes: each frame and each micro-batch is one step, once."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from spark_queue import LocalQueue
from spark_queue.data_source.stream_writing import StreamWriter
from spark_queue.log.disk.staged_rows import Staging
from tests.streaming.feeds import Feed

SCHEMA = "path string, n int"


@pytest.fixture
def queue(queue_path: str) -> LocalQueue:
    """Make a queue of paths and numbers."""
    return LocalQueue.create(queue_path, SCHEMA, durability="process")


def _paths(queue: LocalQueue) -> list[str]:
    return sorted(queue.status()["path"].to_pylist())


def _staged(queue: LocalQueue) -> list[Path]:
    return list(Path(queue.name).rglob("_staged/*"))


def _frame(spark: SparkSession, *names: str) -> DataFrame:
    rows = [(name, number) for number, name in enumerate(names)]
    return spark.createDataFrame(rows, SCHEMA).repartition(2)


def test_a_frame_is_appended_in_one_step(spark: SparkSession, queue: LocalQueue) -> None:
    """However many tasks it has; in the order that is asked for, and nothing is left beside it."""
    frame = _frame(spark, "c", "a", "b").selectExpr(
        "n", "path", "timestamp'2026-01-01' available_at"
    )
    frame.write.format("spark_queue").mode("append").option("orderBy", "path").save(queue.name)

    assert queue.status()["path"].to_pylist() == ["a", "b", "c"]
    assert queue._main.queue_head().step == 1
    assert not _staged(queue)


def test_a_frame_with_source_and_batch_is_appended_once(
    spark: SparkSession, queue: LocalQueue
) -> None:
    """A job that is repeated adds nothing; the batch is known to all doors of the queue."""
    writer = _frame(spark, "a", "b").write.format("spark_queue").mode("append")
    for _ in range(2):
        writer.option("source", "nightly").option("batch", 17).save(queue.name)
    assert _paths(queue) == ["a", "b"]
    repeated = queue.enqueue({"path": "z", "n": 0}, batch=("nightly", 17)).repeated
    assert repeated is not None
    assert repeated.inserted == 2
    assert not _staged(queue)


def test_what_does_not_fit_is_refused_and_nothing_is_left(
    spark: SparkSession, queue: LocalQueue
) -> None:
    """Another mode, columns that are not the queue's, a key that is taken, a task that fails."""
    frame = _frame(spark, "a", "b")
    fails = frame.withColumn("n", F.expr("CASE WHEN n = 1 THEN raise_error('no') ELSE n END"))
    append = {"mode": "append"}
    for one, mode, options, why in (
        (frame, {"mode": "overwrite"}, {}, "a queue is appended to"),
        (frame.withColumn("more", F.lit(1)), append, {}, "column 'more'"),
        (frame, append, {"onDuplicate": "never"}, "onDuplicate is 'never'"),
        (frame, append, {"source": "s"}, "option batch is not given"),
        (fails.withColumn("n", F.col("n").cast("int")), append, {}, "no"),
    ):
        with pytest.raises(PySparkException, match=why):
            one.write.format("spark_queue").options(**options).save(queue.name, **mode)
        # A task that was done while another failed may leave its file to upkeep.
        assert why == "no" or not _staged(queue), why
    assert queue._main.queue_head().step == 0


def _stream(feed: Feed, checkpoint: str) -> DataStreamWriter:
    writer = feed.stream.writeStream.format("spark_queue").option("checkpointLocation", checkpoint)
    return writer.trigger(availableNow=True)


def test_each_micro_batch_is_in_the_queue_once(
    spark: SparkSession, queue: LocalQueue, place: str
) -> None:
    """A batch that comes again after a crash, and one without rows, write nothing."""
    feed, checkpoint = Feed(spark, f"{place}/feed", SCHEMA, files=1), f"{place}/ckpt"
    for name in ("a", "b"):
        feed.put([{"path": name, "n": 1}])
    _stream(feed, checkpoint).start(queue.name).awaitTermination()
    assert _paths(queue) == ["a", "b"]
    # The batch was enqueued, and the query died before it could note that.
    for note in ("1", ".1.crc"):
        Path(f"{checkpoint}/commits/{note}").unlink()
    _stream(feed, checkpoint).start(queue.name).awaitTermination()
    assert _paths(queue) == ["a", "b"]
    assert queue._main.queue_head().step == 2
    none = feed.stream.where("path = 'none'").writeStream.format("spark_queue")
    none = none.option("checkpointLocation", f"{place}/none").trigger(availableNow=True)
    none.start(queue.name).awaitTermination()
    assert queue._main.queue_head().step == 2
    feed.put([{"path": "c", "n": 1}])
    _stream(feed, checkpoint).start(queue.name).awaitTermination()
    assert _paths(queue) == ["a", "b", "c"]
    assert len(queue._main.queue_head().streams) == 1
    assert not _staged(queue)


def test_a_query_may_be_given_a_name(spark: SparkSession, queue: LocalQueue, place: str) -> None:
    """Then its batches are known by that, whatever became of its checkpoint."""
    feed = Feed(spark, f"{place}/feed", SCHEMA, files=1)
    feed.put([{"path": "a", "n": 1}])
    for checkpoint in ("one", "two"):
        writer = _stream(feed, f"{place}/{checkpoint}").option("source", "mails")
        writer.start(queue.name).awaitTermination()
    assert _paths(queue) == ["a"]
    assert list(queue._main.queue_head().streams) == ["mails"]


@pytest.mark.parametrize("seed", range(5))
def test_a_micro_batch_whose_commit_was_killed_is_in_the_queue_once(
    queue: LocalQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Before its step or behind it, as often as it may be; its query is known by its checkpoint."""
    draw, kills = random.Random(seed), 0  # noqa: S311 - no secret
    (tmp_path / "metadata").write_text('{"id": "b8c1"}')
    options = {"path": queue.name, "checkpointLocation": str(tmp_path)}

    def mortal(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            if draw.random() < 0.3:
                raise KeyboardInterrupt
            return call(*given)

        return run

    for name in ("read", "remove"):
        monkeypatch.setattr(Staging, name, mortal(getattr(Staging, name)))
    batch = 0
    while batch < 12:
        writer = StreamWriter(options, overwrite=False)
        tasks = [
            pa.record_batch({"path": [f"{batch} {n}"], "n": pa.array([n], pa.int32())})
            for n in (0, 1)
        ]
        messages: list[Any] = [writer.write(iter([task])) for task in tasks]
        try:
            writer.commit(messages, batch)
            batch += 1
        except KeyboardInterrupt:
            kills += 1

    assert kills
    assert queue.status()["path"].to_pylist() == [
        f"{n} {task}" for n in range(12) for task in (0, 1)
    ]
    assert list(queue._main.queue_head().streams) == ["b8c1"]


def test_what_a_killed_writer_has_staged_is_removed_by_upkeep(queue: LocalQueue) -> None:
    """A week after it was written: until then its job may be running."""
    lost = Path(queue.name) / "status" / "_staged"
    lost.mkdir()
    for name, days in (("old", 8), ("new", 6)):
        file = lost / f"{name}.parquet"
        file.write_bytes(b"")
        os.utime(file, (at := time.time() - days * 86_400, at))
    queue.maintain()
    assert [file.name for file in _staged(queue)] == ["new.parquet"]
