"""A journaled queue over Delta: what was told durable is there, whoever opens it next."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import TimeoutError as WaitTimeoutError
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta.store.lanes import rewriting
from spark_queue.delta.upkeep import by_spark
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import FencedError, InvalidArgumentError, SchemaMismatchError
from spark_queue.front.journaled import journaled_queue
from spark_queue.journal import JournaledQueue, QueueOptions
from spark_queue.local_queue import LocalQueue
from spark_queue.looking import main_store_of, store_of
from spark_queue.reader_config import ReaderConfig

PATIENCE = 60.0
MINUTE = timedelta(minutes=1)


#: Steps are committed by Spark, and by the library of Rust.
both_lanes = pytest.mark.parametrize("native", [False, True], indirect=True)


@pytest.fixture
def native(request: pytest.FixtureRequest) -> bool:
    """Tell whether the front's steps are written without Spark; by default they are not."""
    return bool(getattr(request, "param", False))


@pytest.fixture
def jobs(
    spark: SparkSession, queue_path: str, clock: ManualClock, *, native: bool
) -> Iterator[JournaledQueue[bytes]]:
    """Return an open queue of bytes."""
    opened = journaled_queue(spark, queue_path, clock=clock, native=native)
    yield opened
    with suppress(FencedError):
        opened.close()


def _again(
    spark: SparkSession, path: str, clock: ManualClock, options: QueueOptions | None = None
) -> JournaledQueue[bytes]:
    """Open the queue as another process would, whatever the one before had in memory."""
    return journaled_queue(spark, path, clock=clock, options=options)


def _drained(front: JournaledQueue[Any], name: str = "") -> list[Any]:
    reader = front.reader(name)
    got: list[Any] = []
    while True:
        try:
            read = reader.get(timeout=0)
        except queue.Empty:
            return got
        got.append(read.item)
        reader.ack(read)


@both_lanes
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


def test_nobody_else_writes_while_a_front_holds_the_queue(
    spark: SparkSession, jobs: JournaledQueue[bytes], queue_path: str, clock: ManualClock
) -> None:
    """The plain queue reads beside a front, and writes when that has closed."""
    jobs.put(b"one").result(PATIENCE)
    plain = DeltaQueue.open(spark, queue_path, clock=clock)
    frame = spark.createDataFrame([(b"two",)], "data binary")

    with pytest.raises(FencedError, match="the front"):
        plain.enqueue(frame)
    with pytest.raises(FencedError):
        plain.claim(1)
    assert plain.stats().ready == 1

    jobs.close()
    plain.enqueue(frame)
    with plain.claim(1) as claim:
        assert bytes(claim.items.collect()[0][0]) == b"one"
    after = _again(spark, queue_path, clock)
    assert _drained(after) == [b"two"]
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


def test_readers_are_those_of_the_queue(
    spark: SparkSession, jobs: JournaledQueue[bytes], queue_path: str, clock: ManualClock
) -> None:
    """K3-01, JQ-03: readers of the front are readers of the queue on Delta, positions and all."""
    jobs.reader("a")
    jobs.put(b"1").result(PATIENCE)
    b = jobs.reader("b", config=ReaderConfig(max_items=10))
    jobs.put(b"2").result(PATIENCE)
    assert _drained(jobs, "a") == [b"1", b"2"]
    jobs.close()

    plain = DeltaQueue.open(spark, queue_path, clock=clock)
    assert plain.readers() == ("a", "b")
    assert plain.reader("a").lag().items == 0
    assert (plain.reader("b").lag().items, plain.reader("b").limits.max_items) == (1, 10)
    plain.drop_reader("a")

    after = _again(spark, queue_path, clock)
    assert after.readers() == ["b"]
    assert _drained(after, "b") == [b"2"]
    assert b.name == "b"
    after.close()


def test_memory_is_bounded(spark: SparkSession, queue_path: str, clock: ManualClock) -> None:
    """KP-04: what is beyond memory's limit is read back in blocks, in order."""
    small = QueueOptions(max_memory_items=10, max_group_items=25, durability="interval")
    items = [number.to_bytes(2, "big") for number in range(100)]
    front = _again(spark, queue_path, clock, small)
    for item in items:
        front.put(item)
    front.sync()

    reader, got = front.reader(""), []
    for _ in items:
        read = reader.get(timeout=PATIENCE)
        got.append(read.item)
        reader.ack(read)

    assert got == items
    front.close()


def test_a_front_keeps_its_tables_small(
    spark: SparkSession,
    place: str,
    queue_path: str,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JN-22, JQ-30: what all readers have passed for long enough is archived, while it is open."""
    monkeypatch.setattr("spark_queue.delta.journal.journal._MANY", 1)
    front = journaled_queue(
        spark,
        queue_path,
        clock=clock,
        retention=MINUTE,
        archive_to=f"{place}/archive",
    )
    front.put(b"1").result(PATIENCE)
    clock.advance(MINUTE)
    front.checkpoint()
    assert _drained(front) == [b"1"]
    front.put(b"2").result(PATIENCE)
    clock.advance(2 * MINUTE)

    front.checkpoint()

    archive = spark.read.format("delta").load(f"{place}/archive")
    assert [bytes(row[0]) for row in archive.select("data").collect()] == [b"1"]
    assert _drained(front) == [b"2"]
    front.close()


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
    by_spark.REWRITER.tidy(store)
    ids.append(front.put(b"last").result(PATIENCE))
    front.close()

    assert ids == [1, 2, 3, 4, 5]
    after = _again(spark, queue_path, clock)
    assert _drained(after) == [b"\x00", b"\x01", b"\x02", b"late", b"last"]
    after.close()


def test_an_item_that_does_not_fit_is_refused_alone(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """What the table cannot hold is told to who puts it; what it can hold comes back as it was."""
    path, schema = f"{place}/typed", "n int, at timestamp, tags array<string>"
    front: JournaledQueue[Any] = journaled_queue(spark, path, schema, clock=clock, native=True)
    item = {"n": 1, "at": clock.now(), "tags": ["a", None]}

    with pytest.raises(SchemaMismatchError, match="column 'n': is 'one' in the item, and int"):
        front.put({**item, "n": "one"})
    with pytest.raises(SchemaMismatchError, match="'tags': is missing"):
        front.put({"n": 1, "at": None})
    assert front.put(item).result(PATIENCE) == 1
    front.close()
    after: JournaledQueue[Any] = journaled_queue(spark, path, clock=clock)
    assert _drained(after) == [item]
    after.close()


def test_a_queue_with_keys_is_none_for_this_front(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """A distinct or fair queue has another order than that of ids: it is refused by name."""
    DeltaQueue.create(spark, queue_path, "id long", QueueConfig(dedup_key="id"), clock=clock)

    with pytest.raises(InvalidArgumentError, match="dedup_key"):
        journaled_queue(spark, queue_path)
