"""Readers: every reader sees every item, and what one does with it is its own affair."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from functools import partial

import pytest
from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import (
    InvalidArgumentError,
    ReaderFullError,
    ReaderNotFoundError,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.reader import SparkVerbs
from spark_queue.reader_config import ReaderConfig
from spark_queue.retry_policy import RetryPolicy
from tests.unit.threads import together

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
AT_ONCE = RetryPolicy(backoff="fixed", delay=timedelta(0))


@pytest.fixture
def jobs(spark: SparkSession, queue_path: str, clock: ManualClock) -> DeltaQueue:
    """Return an empty queue of numbers, first in, first out."""
    return DeltaQueue.create(spark, queue_path, "id long", QueueConfig(retry=AT_ONCE), clock=clock)


def _put(queue: DeltaQueue, *ids: int) -> None:
    frame = SparkSession.active().createDataFrame([(number,) for number in ids], "id long")
    queue.enqueue(frame, order_by="id")


def _get(reader: SparkVerbs, limit: int = 10) -> list[int]:
    """Claim and ack; return the ids in order."""
    with reader.claim(limit) as claim:
        return _ids(claim.items.orderBy("_seq").select("id").collect())


def _ids(rows: Iterable[tuple[int, ...]]) -> list[int]:
    return [row[0] for row in rows]


def test_the_first_named_reader_takes_over_from_the_default(jobs: DeltaQueue) -> None:
    """JN-15: position and unread items stay; what the default had open comes back to it.

    It is the default while it is the only one, and is not told to start where it was not.
    """
    jobs.reader("hello", start="beginning")
    _put(jobs, 1, 2, 3)
    _get(jobs, 1)
    held = jobs.claim(1)
    assert jobs.readers() == ("hello",)

    hello = jobs.reader("hello")

    assert _get(hello) == [3]
    held.release()
    assert _get(hello) == [2]
    jobs.reader("second")
    with pytest.raises(ReaderNotFoundError, match="hello"):
        jobs.claim(1)


def test_a_full_reader_refuses_for_all(jobs: DeltaQueue) -> None:
    """LB-02, LB-03: a frame that one reader has no room for is refused whole; open items count."""
    big = jobs.reader("big")
    small = jobs.reader("small", config=ReaderConfig(max_items=2))
    _put(jobs, 1)
    held = small.claim(1)

    with pytest.raises(ReaderFullError, match="'small'") as refused:
        _put(jobs, 2, 3)

    assert refused.value.rows == 2
    assert _get(big) == [1]
    held.ack()
    _put(jobs, 2, 3)
    assert _get(small) == [2, 3]


def test_what_fits_may_be_taken(spark: SparkSession, jobs: DeltaQueue) -> None:
    """With ``on_full="partial"`` the first rows are taken, and each refused row says so."""
    reader = jobs.reader("r", config=ReaderConfig(max_items=2))
    frame = spark.createDataFrame([(number,) for number in (1, 2, 3)], "id long")

    done = jobs.enqueue(frame, order_by="id", on_full="partial")

    assert (done.inserted, done.duplicates, done.refused) == (2, 0, 1)
    outcomes = {row.id: row.outcome for row in done.outcomes.collect()}
    assert outcomes == {1: "inserted", 2: "inserted", 3: "refused"}
    assert jobs.reader("r").explain(3).reason == "refused"
    assert _get(reader) == [1, 2]


def test_spark_sends_what_is_too_much_for_this_process(
    spark: SparkSession, jobs: DeltaQueue, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its failures, in the order in which it ended, and as far as there is room."""
    monkeypatch.setattr("spark_queue.commands.rows.FEW", 1)
    late = DeltaQueue.create(spark, f"{place}/late", "id long")
    small = late.reader("small", config=ReaderConfig(max_items=2))
    reader = jobs.reader("r", config=ReaderConfig(punt_to=late.name))
    _put(jobs, 1, 2, 3)

    reader.claim(3).nack("no")
    sent = late.status().select("id", "_attempts").orderBy("_seq")
    assert sent.collect() == [(1, 1), (2, 1)]
    assert _get(small, 1) == [1]
    assert reader.claim(1).count == 0
    assert late.status().select("id", "_attempts").orderBy("_seq").collect()[2:] == [(3, 1)]


def test_a_key_that_only_spark_computes_keeps_no_item_from_its_target(
    spark: SparkSession, jobs: DeltaQueue, place: str
) -> None:
    """A session checks the rows by itself, whose keys a process without it does not know."""
    config = QueueConfig(dedup_key="reverse(string(id))")
    late = DeltaQueue.create(spark, f"{place}/late", "id long", config)
    reader = jobs.reader("r", config=ReaderConfig(punt_to=late.name))
    _put(jobs, 12)
    reader.claim(1).nack("no")

    assert late.status().select("id", "_dedup_key", "_attempts").collect() == [(12, "21", 1)]


@pytest.mark.usefixtures("by_spark")
def test_a_key_is_taken_again_when_its_item_is_ready_again(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """What a reader redrives for itself is live, and holds its key, as it did before it ended."""
    queue = DeltaQueue.create(
        spark, f"{place}/keys", "id long", QueueConfig(dedup_key="id"), clock=clock
    )
    reader = queue.reader("one")
    frame = spark.createDataFrame([(1,)], "id long")
    queue.enqueue(frame)
    reader.claim(1).dead("no")
    assert reader.redrive("true") == 1
    assert queue.enqueue(frame).duplicates == 1


@pytest.mark.usefixtures("by_spark")
def test_what_a_reader_redrives_has_its_delay_and_deadline_behind_it(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Spark says so, too, and what it would expire are other items."""
    made = LocalQueue.create(queue_path, "id string", durability="process", clock=clock)
    times = {"available_at": clock.now() + 4 * HOUR, "expires_at": clock.now() + HOUR}
    made.enqueue([{"id": name, **times} for name in "ab"])
    made.reader("one").cancel("id = 'a'")
    made.reader("one").redrive("id = 'a'")
    clock.advance(2 * HOUR)

    queue = DeltaQueue.open(spark, queue_path, clock=clock)

    assert queue.reader("one").explain(1).reason == "runnable"
    due = queue.maintain(dry_run=True)
    assert [item["id"] for item in due.sample] == ["b"]


def test_a_reader_can_be_a_stream(spark: SparkSession, jobs: DeltaQueue, place: str) -> None:
    """A stream gets each item once, and its items are kept until it says that it has them."""
    jobs.reader("claims")
    stream = jobs.read_stream("stream")
    _put(jobs, 1, 2)

    def run() -> list[int]:
        query = stream.writeStream.format("delta").option("checkpointLocation", f"{place}/at")
        query.trigger(availableNow=True).start(f"{place}/out").awaitTermination()
        return _ids(spark.read.format("delta").load(f"{place}/out").orderBy("id").collect())

    assert run() == [1, 2]
    _put(jobs, 3)
    assert run() == [1, 2, 3]
    reader = jobs.reader("stream")
    assert reader.lag().items == 3
    reader.advance(store_of(reader).queue_head().step)
    assert reader.lag().items == 0
    with pytest.raises(InvalidArgumentError, match="claims its items"):
        jobs.reader("claims").advance(1)
    with pytest.raises(InvalidArgumentError, match="is read as a stream"):
        reader.claim(1)


def test_readers_that_register_at_once_are_all_there(jobs: DeltaQueue) -> None:
    """Registrations are steps: none is lost, and no number is given twice."""
    names = [f"r{number}" for number in range(3)]
    together(*(partial(jobs.reader, name) for name in names))
    _put(jobs, 1)

    assert sorted(jobs.readers()) == names
    assert len({jobs.reader(name).number for name in names}) == 3
    assert [_get(jobs.reader(name)) for name in names] == [[1], [1], [1]]
