"""A journaled queue over Delta: what was told durable is there, whoever opens it next."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import TimeoutError as WaitTimeoutError
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import FencedError, InvalidArgumentError
from spark_queue.front.journaled import journaled_queue
from spark_queue.journal import JournaledQueue, QueueOptions
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import main_store_of, store_of
from spark_queue.upkeep import spark_upkeep
from spark_queue.upkeep.rewriter import rewriting
from tests.unit.journal.stage import drain

PATIENCE = 60.0
MINUTE = timedelta(minutes=1)


@pytest.fixture
def jobs(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> Iterator[JournaledQueue[bytes]]:
    """Return an open queue of bytes, whose steps Spark commits."""
    opened = journaled_queue(spark, queue_path, clock=clock)
    yield opened
    with suppress(FencedError):
        opened.close()


def _again(
    spark: SparkSession, path: str, clock: ManualClock, options: QueueOptions | None = None
) -> JournaledQueue[bytes]:
    """Open the queue as another process would, whatever the one before had in memory."""
    return journaled_queue(spark, path, clock=clock, options=options)


def test_what_is_durable_is_there_for_the_next(
    spark: SparkSession, jobs: JournaledQueue[bytes], queue_path: str, clock: ManualClock
) -> None:
    """JQ-15, KP-30, KP-31: a front that is left behind loses nothing it told durable."""
    ids = [jobs.put(bytes([n])).result(PATIENCE) for n in (1, 2, 3, 4)]
    reader = jobs.reader("")
    first, second, third = (reader.get(timeout=0) for _ in range(3))
    reader.ack(second)
    reader.nack(third)
    jobs.sync()

    after = _again(spark, queue_path, clock)

    assert ids == [1, 2, 3, 4]
    assert first.item == b"\x01"
    assert after.reader("").get(timeout=0).id == first.id
    again = after.reader("").get(timeout=0)
    assert (again.id, again.errors) == (3, 1)
    assert after.put(b"\x05").result(PATIENCE) == 5
    after.close()


def test_a_front_keeps_the_queue_whoever_closes_or_drops_it(
    spark: SparkSession, jobs: JournaledQueue[bytes], queue_path: str, clock: ManualClock
) -> None:
    """Another handle takes neither the right to write nor the tables from a front."""
    plain = DeltaQueue.open(spark, queue_path, clock=clock)

    plain.close()
    with pytest.raises(FencedError):
        DeltaQueue.drop(spark, queue_path)
    assert jobs.put(b"one").result(PATIENCE) == 1
    with pytest.raises(FencedError):
        plain.pause()

    jobs.close()
    assert plain.pause()


def test_one_directory_is_one_queue(
    spark: SparkSession, place: str, queue_path: str, clock: ManualClock
) -> None:
    """A queue that is opened by two spellings of its path has one lock and one memory."""
    queue = DeltaQueue.create(spark, queue_path, "data binary", clock=clock)
    Path(place, "link").symlink_to(queue_path)
    other = DeltaQueue.open(spark, f"{place}/link", clock=clock)

    other.enqueue(spark.createDataFrame([(b"one",)], "data binary"))

    assert store_of(queue).queue_head().last_seq == 1
    assert store_of(queue).handle.place.location() != store_of(other).handle.place.location()


def test_a_front_goes_on_where_one_without_spark_was(
    jobs: JournaledQueue[bytes], queue_path: str, clock: ManualClock
) -> None:
    """What either kind of front told durable is there for the other, positions and all."""
    for item in (b"one", b"two", b"three"):
        jobs.put(item).result(PATIENCE)
    reader = jobs.reader("")
    reader.ack(reader.get(timeout=0))
    jobs.sync()
    alone = LocalQueue.open(queue_path, clock=clock)
    with journaled_queue(alone) as after:
        with pytest.raises(FencedError):
            jobs.put(b"four").result(PATIENCE)
        taken = after.reader("").get(timeout=0)
        assert (taken.item, after.items, after.bytes) == (b"two", 2, 8)
        after.reader("").nack(taken)
    assert alone.claim(2).rows[0]["_attempts"] == 1


def test_upkeep_by_another_handle_takes_turns_with_a_native_front(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Files are rewritten between native commits, never beside one: no commit is lost."""
    front = journaled_queue(spark, queue_path, clock=clock, native=True)
    store = main_store_of(DeltaQueue.open(spark, queue_path, clock=clock))
    puts = [front.put(bytes([n])) for n in range(3)]
    with rewriting(store, "queue"), rewriting(store, "status"):
        waiting = front.put(b"late")
        with pytest.raises(WaitTimeoutError):
            waiting.result(0.3)
    ids = [put.result(PATIENCE) for put in (*puts, waiting)]
    spark_upkeep.REWRITER.tidy(store)
    ids.append(front.put(b"last").result(PATIENCE))
    front.close()

    assert ids == [1, 2, 3, 4, 5]
    after = _again(spark, queue_path, clock)
    assert drain(after.reader("")) == [b"\x00", b"\x01", b"\x02", b"late", b"last"]
    after.close()


def test_a_queue_with_keys_is_none_for_this_front(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """A distinct or fair queue has another order than that of ids: it is refused by name."""
    DeltaQueue.create(spark, queue_path, "id long", QueueConfig(dedup_key="id"), clock=clock)

    with pytest.raises(InvalidArgumentError, match="dedup_key"):
        journaled_queue(spark, queue_path)
