"""Streams whose checkpoint is an older copy, and files whose names look like patterns."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError, OldCheckpointError
from tests.streaming.feeds import Feed

SCHEMA = "path string"


@pytest.fixture
def queue(spark: SparkSession, queue_path: str) -> DeltaQueue:
    """Make a queue that takes each row as often as it comes."""
    return DeltaQueue.create(spark, queue_path, SCHEMA)


def _paths(queue: DeltaQueue) -> list[str]:
    return sorted(row["path"] for row in queue.status().collect())


def _fill(feed: Feed, names: str) -> None:
    for name in names:
        feed.put([{"path": name}])


def test_a_stream_behind_an_older_checkpoint_is_refused(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Two batches back it is told with the numbers, and nothing is lost; one back, it goes on."""
    feed, checkpoint = Feed(spark, f"{place}/feed", SCHEMA, files=1), f"{place}/ckpt"
    for names in ("a", "b", "c"):
        _fill(feed, names)
        queue.enqueue_stream(feed.stream, checkpoint).awaitTermination()
        shutil.copytree(checkpoint, f"{place}/behind-{names}")

    _fill(feed, "d")
    with pytest.raises(OldCheckpointError, match=r"batch 1 of .* after batch 2"):
        queue.enqueue_stream(feed.stream, f"{place}/behind-a")
    queue.enqueue_stream(feed.stream, f"{place}/behind-b").awaitTermination()

    assert _paths(queue) == ["a", "b", "c", "d"]


def test_a_query_of_the_format_behind_an_older_checkpoint_stops(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Its first batch that is not the last one is an error with both numbers."""
    feed, checkpoint = Feed(spark, f"{place}/feed", SCHEMA, files=1), f"{place}/ckpt"

    def run(place: str) -> None:
        writer = feed.stream.writeStream.format("spark_queue").option("checkpointLocation", place)
        writer.trigger(availableNow=True).start(queue.name).awaitTermination()

    for names in ("a", "bc"):
        _fill(feed, names)
        run(checkpoint)
        shutil.copytree(checkpoint, f"{place}/behind-{names}", dirs_exist_ok=True)

    with pytest.raises(StreamingQueryException, match=r"batch 1 of .* after batch 2"):
        run(f"{place}/behind-a")
    run(f"{place}/behind-bc")
    assert _paths(queue) == ["a", "b", "c"]


def test_a_reader_is_not_set_back(queue: DeltaQueue, spark: SparkSession) -> None:
    """Done with a step, it is done with those before it; the same again changes nothing."""
    for name in "abc":
        queue.enqueue(spark.createDataFrame([(name,)], SCHEMA))
    _ = queue.read_stream("search", start="beginning")
    reader = queue.open_reader("search")
    reader.advance(2)
    reader.advance(2)

    with pytest.raises(OldCheckpointError, match=r"step 1 of .search. .* after step 2"):
        reader.advance(1)
    reader.advance(3)


def test_what_works_a_queue_off_needs_no_checkpoint(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Its batches carry nothing: behind an older checkpoint, or none, it claims what is ready."""
    for names in ("ab", "cd"):
        queue.enqueue(spark.createDataFrame([(name,) for name in names], SCHEMA))
        queue.process_stream(_ok, f"{place}/ckpt", trigger=None).awaitTermination()
        if names == "ab":
            shutil.copytree(f"{place}/ckpt", f"{place}/behind")
    queue.enqueue(spark.createDataFrame([("e",)], SCHEMA))
    queue.process_stream(_ok, f"{place}/behind", trigger=None).awaitTermination()
    assert queue.stats().acked == 5


def _ok(row: object) -> None:
    del row


#: Names of files, each with what is in it: a row that is there twice, too.
FILES = {
    "one.json": "aab",
    "two[1].json": "c",
    "th{r}ee.json": "dd",
    "fo*r.json": "e",
    "five 5%.json": "f",
}


def _write(folder: Path, names: list[str]) -> str:
    folder.mkdir(parents=True)
    for name in names:
        rows = [json.dumps({"path": path}) for path in FILES[name]]
        Path(folder, name).write_text("\n".join(rows))
    return "".join(sorted("".join(FILES[name] for name in names)))


def _plain(stream: DataFrame) -> DataFrame:
    return stream


def _worked_on(stream: DataFrame) -> DataFrame:
    return stream.where("path != ''").select(F.concat("path", F.lit("")).alias("path"))


@pytest.mark.parametrize("work", [_plain, _worked_on])
def test_each_file_is_read_once_whatever_its_name(
    spark: SparkSession, queue: DeltaQueue, place: str, work: object
) -> None:
    """In one micro-batch, and over several of which some have such names."""
    folder = Path(place, "landing")
    wanted = _write(folder, [*FILES])
    stream = spark.readStream.schema(SCHEMA).json(str(folder))
    queue.enqueue_stream(work(stream), f"{place}/ckpt").awaitTermination()  # type: ignore[operator]

    Path(folder, "more[2].json").write_text('{"path": "x"}')
    Path(folder, "more.json").write_text('{"path": "y"}')
    queue.enqueue_stream(work(stream), f"{place}/ckpt").awaitTermination()  # type: ignore[operator]

    assert "".join(_paths(queue)) == f"{wanted}xy"


def test_rows_that_do_not_say_their_file_are_refused(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Behind a union nobody can tell them apart: the file and the way out are named."""
    folder = Path(place, "landing")
    _write(folder, ["one.json", "two[1].json"])
    stream = spark.readStream.schema(SCHEMA).json(str(folder))
    with pytest.raises(StreamingQueryException, match=r"two\[1\].json.*maxFilesPerTrigger"):
        queue.enqueue_stream(stream.union(stream), f"{place}/ckpt").awaitTermination()
    one = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    assert _paths(queue) == []
    queue.enqueue_stream(one, f"{place}/ckpt-2").awaitTermination()
    assert _paths(queue) == ["a", "a", "b", "c"]


def test_a_query_of_the_format_refuses_such_files(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Nothing is written; `enqueue_stream` goes on behind its checkpoint."""
    folder, checkpoint = Path(place, "landing"), f"{place}/ckpt"
    wanted = _write(folder, ["one.json", "two[1].json"])
    stream = spark.readStream.schema(SCHEMA).json(str(folder))
    writer = stream.writeStream.format("spark_queue").option("checkpointLocation", checkpoint)
    with pytest.raises(StreamingQueryException, match=r"two\[1\].json.*enqueue_stream"):
        writer.trigger(availableNow=True).start(queue.name).awaitTermination()
    assert _paths(queue) == []

    queue.enqueue_stream(stream, checkpoint).awaitTermination()
    assert "".join(_paths(queue)) == wanted


def test_a_query_over_one_such_file_is_let_be(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """Alone in its micro-batch it is read once."""
    folder = Path(place, "landing")
    _write(folder, ["two[1].json"])
    stream = spark.readStream.schema(SCHEMA).json(str(folder))
    writer = stream.writeStream.format("spark_queue")
    writer = writer.option("checkpointLocation", f"{place}/ckpt").trigger(availableNow=True)
    writer.start(queue.name).awaitTermination()
    assert _paths(queue) == ["c"]


def test_a_queue_at_a_place_like_a_pattern_is_one(spark: SparkSession, place: str) -> None:
    """No path of ours is a pattern to Spark, of a queue, a checkpoint or an output."""
    here = f"{place}/a[1]{{b}}"
    folder = Path(f"{here}/landing")
    _write(folder, ["one.json", "two[1].json"])
    queue = DeltaQueue.create(spark, f"{here}/queue", SCHEMA)
    stream = spark.readStream.schema(SCHEMA).json(f"{place}/a*/landing")
    for _ in range(2):
        queue.enqueue_stream(stream, f"{here}/ckpt").awaitTermination()
    queue.process(lambda _: {"n": 1}, returns="n int", output=f"{here}/out")
    assert queue.stats().acked == 4
    with pytest.raises(InvalidArgumentError, match="done with batch 0"):
        DeltaQueue.create(spark, f"{here}/other", SCHEMA).enqueue_stream(stream, f"{here}/ckpt")
