"""Streams into a queue, exactly once, and streams that work a queue off."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, QueueConfig
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from spark_queue.queue_views import store_of
from tests.streaming.feeds import Feed, Sink

SCHEMA = "path string, tenant string"


@pytest.fixture
def queue(spark: SparkSession, queue_path: str) -> DeltaQueue:
    """Make a queue that is distinct and fair."""
    return DeltaQueue.create(
        spark, queue_path, SCHEMA, QueueConfig(dedup_key="path", fair_key="tenant")
    )


def paths(queue: DeltaQueue) -> list[str]:
    """Return the paths of all items."""
    return sorted(row["path"] for row in queue.status().collect())


def _rows(*names: str) -> list[dict[str, Any]]:
    return [{"path": name, "tenant": name[0]} for name in names]


def test_each_batch_of_a_stream_is_in_the_queue_once(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Several streams fill one queue; a batch that comes again after a crash is in it once."""
    one = Feed(spark, f"{place}/one", SCHEMA, files=1)
    two = Feed(spark, f"{place}/two", SCHEMA, files=1)
    one.put(_rows("a1", "a2"))
    one.put(_rows("a2", "b1"))
    two.put(_rows("c1"))
    for feed, name in ((one, "one"), (two, "two")):
        queue.enqueue_stream(feed.stream, f"{place}/{name}-ckpt").awaitTermination()
    assert paths(queue) == ["a1", "a2", "b1", "c1"]
    before = store_of(queue).queue_head()
    assert sorted(mark.number for mark in before.streams.values()) == [0, 1]
    # The batch was enqueued, and the query died before it could note that.
    for note in ("1", ".1.crc"):
        Path(f"{place}/one-ckpt/commits/{note}").unlink()
    queue.enqueue_stream(one.stream, f"{place}/one-ckpt").awaitTermination()
    assert store_of(queue).queue_head().step == before.step
    one.put(_rows("d1"))
    queue.enqueue_stream(one.stream, f"{place}/one-ckpt").awaitTermination()
    assert paths(queue) == ["a1", "a2", "b1", "c1", "d1"]


def test_a_checkpoint_of_another_queue_is_refused(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Batches that are in one queue are in no other one, nor in a clone: the call names both."""
    feed = Feed(spark, f"{place}/feed", SCHEMA, files=1)
    feed.put(_rows("a1"))
    checkpoint = f"{place}/ckpt"
    queue.enqueue_stream(feed.stream, checkpoint).awaitTermination()
    other = DeltaQueue.create(spark, f"{place}/other", SCHEMA)
    for stranger in (other, queue.clone(f"{place}/clone")):
        with pytest.raises(
            InvalidArgumentError, match=r"ckpt'.*done with batch 0, and none.*in queue"
        ):
            stranger.enqueue_stream(feed.stream, checkpoint)
        own = stranger.enqueue_stream(feed.stream, f"{checkpoint}-of-its-own")
        own.awaitTermination()
        shutil.rmtree(f"{checkpoint}-of-its-own")
    assert paths(other) == ["a1"]
    queue.enqueue_stream(feed.stream, checkpoint).awaitTermination()
    assert paths(queue) == ["a1"]


def test_a_query_whose_batches_were_empty_goes_on(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """A queue knows a checkpoint of its own by the first batch, though nothing was in it."""
    feed = Feed(spark, f"{place}/feed", SCHEMA, files=1)
    some = feed.stream.where("path LIKE 'b%'")
    for name, expected in (("a1", []), ("a2", []), ("b1", ["b1"]), ("a3", ["b1"])):
        feed.put(_rows(name))
        queue.enqueue_stream(some, f"{place}/ckpt").awaitTermination()
        assert paths(queue) == expected
    assert store_of(queue).queue_head().items == 1


def test_a_stream_works_a_queue_off(spark: SparkSession, queue: DeltaQueue, place: str) -> None:
    """Every micro-batch claims, runs the handler and settles, until the query is stopped."""
    queue.enqueue(spark.createDataFrame([(f"p{n}", f"t{n % 3}") for n in range(7)], SCHEMA))
    seen: list[int] = []
    query = queue.process_stream(
        lambda _: None,
        f"{place}/work-ckpt",
        trigger=timedelta(seconds=1),
        name="work",
        on_claim=lambda done: seen.append(done.acked),
    )
    try:
        _wait(lambda: sum(seen) >= 7, query)
        queue.enqueue(spark.createDataFrame([("late", "t9")], SCHEMA))
        _wait(lambda: sum(seen) >= 8, query)
        assert query.name == "work"
        assert query.lastProgress is not None
    finally:
        query.stop()
    assert queue.stats().acked == 8


def test_a_stream_without_a_trigger_works_off_what_may_run_and_ends(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Each start of it does, with one checkpoint, which a query with a trigger may have, too."""
    checkpoint = f"{place}/work-ckpt"
    for done in (3, 6):
        names = [(f"p{done}-{number}", "t") for number in range(3)]
        queue.enqueue(spark.createDataFrame(names, SCHEMA))
        queue.process_stream(lambda _: None, checkpoint, trigger=None).awaitTermination()
        assert queue.stats().acked == done
    queue.process_stream(lambda _: None, checkpoint, trigger=timedelta(seconds=1)).stop()


@pytest.mark.parametrize("name", ["c[1]", "c{a,b", "c*d?"])
def test_a_checkpoint_may_have_any_name(
    spark: SparkSession, queue: DeltaQueue, place: str, name: str
) -> None:
    """What is a pattern to a reader of files is none to a query."""
    feed = Feed(spark, f"{place}/feed", SCHEMA, files=1)
    for path in ("a1", "b1"):
        feed.put(_rows(path))
        queue.enqueue_stream(feed.stream, f"{place}/{name}").awaitTermination()
    assert paths(queue) == ["a1", "b1"]
    other = DeltaQueue.create(spark, f"{place}/other", SCHEMA)
    with pytest.raises(InvalidArgumentError, match="done with batch 1"):
        other.enqueue_stream(feed.stream, f"{place}/{name}")


def _wait(until: Callable[[], bool], query: Any) -> None:
    deadline = time.monotonic() + 120
    while not until():
        assert query.exception() is None, query.exception()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_bad_streams_are_refused_before_they_start(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """A frame that is no stream, a missing column, no checkpoint: errors of the call."""
    feed = Feed(spark, f"{place}/feed", SCHEMA)
    with pytest.raises(InvalidArgumentError, match=r"the frame is no stream"):
        queue.enqueue_stream(spark.createDataFrame([("a", "b")], SCHEMA), f"{place}/ckpt")
    with pytest.raises(SchemaMismatchError, match="tenant"):
        queue.enqueue_stream(feed.stream.drop("tenant"), f"{place}/ckpt")
    with pytest.raises(InvalidArgumentError, match=r"checkpoint is ''"):
        queue.enqueue_stream(feed.stream, "")
    with pytest.raises(InvalidArgumentError, match=r"trigger is 0:00:00"):
        queue.process_stream(print, f"{place}/ckpt", trigger=timedelta(0))


def test_streams_go_on_after_a_column_was_added(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Streams in and out end where the column is not known, and go on from their checkpoints."""
    feed = Feed(spark, f"{place}/feed", SCHEMA)
    sink = Sink(spark, f"{place}/index")
    feed.put(_rows("a1"))
    queue.enqueue_stream(feed.stream, f"{place}/in").awaitTermination()
    sink.run(queue.read_stream("search", start="beginning"))
    writer = queue.read_stream("search").writeStream.format("delta")
    going = writer.option("checkpointLocation", sink.checkpoint).start(sink.table)

    # A type that only Spark keeps.
    assert queue.add_columns("tags array<string>") == ["tags"]

    feed.put(_rows("b1"))
    with pytest.raises(SchemaMismatchError, match="tags"):
        queue.enqueue_stream(feed.stream, f"{place}/in")
    wider = Feed(spark, f"{place}/feed", f"{SCHEMA}, tags array<string>")
    queue.enqueue_stream(wider.stream, f"{place}/in").awaitTermination()
    with pytest.raises(StreamingQueryException, match="DELTA_SCHEMA_CHANGED"):
        going.awaitTermination(120)
    spark.sql(f"ALTER TABLE delta.`{sink.table}` ADD COLUMNS (tags array<string>)")
    sink.run(queue.read_stream("search"))
    assert sorted((row["path"], row["tags"]) for row in sink.rows()) == [("a1", None), ("b1", None)]
    assert queue.claim(9).items.count() == 2


def test_a_stream_of_the_items_goes_on_after_a_purge(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """It has what came since its start; files that are written again for the rest are no news."""
    queue.enqueue(spark.createDataFrame([(f"p{n}", "t") for n in range(3)], SCHEMA))
    queue.claim(2).ack()
    sink = Sink(spark, place)
    sink.run(queue.read_stream("search"))
    assert queue.purge("path = 'p0'") == 1

    queue.enqueue(spark.createDataFrame([("p3", "t")], SCHEMA))
    sink.run(queue.read_stream("search"))
    assert [row["path"] for row in sink.rows()] == ["p3"]


def test_plain_stream_of_the_items_needs_to_skip_changes(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """After a purge a stream of Delta's ends for good, and one that skips changes has each item."""
    queue.enqueue(spark.createDataFrame([(f"p{n}", "t") for n in range(4)], SCHEMA))
    options = {"plain": {}, "skipping": {"skipChangeCommits": "true"}}
    sinks = {name: Sink(spark, f"{place}/{name}") for name in options}

    def read(name: str) -> None:
        reader = spark.readStream.format("delta").options(**options[name])
        rows = reader.load(f"{queue.name}/queue").where("_kind = 'item'")
        sinks[name].run(rows.select("path"))

    for name in options:
        read(name)
    queue.claim(2).ack()
    assert queue.purge("path = 'p0'") == 1
    queue.enqueue(spark.createDataFrame([("p4", "t")], SCHEMA))
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        read("plain")
    read("skipping")
    assert sorted(row["path"] for row in sinks["skipping"].rows()) == [f"p{n}" for n in range(5)]
