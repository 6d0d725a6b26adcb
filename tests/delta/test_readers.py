"""Readers: every reader sees every item, and what one does with it is its own affair."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig, RetryPolicy
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import (
    InvalidArgumentError,
    InvalidConfigError,
    QueueNotFoundError,
    ReaderFullError,
    ReaderNotFoundError,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.looking import store_of
from spark_queue.reader import SparkVerbs
from spark_queue.reader_config import ReaderConfig

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


def test_every_reader_sees_every_item(jobs: DeltaQueue) -> None:
    """K3-01, K3-02: readers get the items from their start on, each of them all of those."""
    first = jobs.reader("client1")
    _put(jobs, 1)
    second = jobs.reader("client2")
    _put(jobs, 2)

    assert _get(first) == [1, 2]
    assert _get(second) == [2]
    assert jobs.readers() == ("client1", "client2")


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


def test_who_takes_over_is_not_told_where_to_start(jobs: DeltaQueue) -> None:
    """The first named reader goes on where the default one is; told otherwise, nothing changes."""
    _put(jobs, 1)
    for start in ("tail", 0, 1):
        with pytest.raises(
            InvalidArgumentError, match=f"start is '?{start}'?: reader 'late' is the"
        ):
            jobs.reader("late", start=start)
    assert jobs.readers() == ("",)
    assert _get(jobs.reader("early", start="beginning")) == [1]


def test_without_a_reader_the_default_begins_again_at_the_tail(jobs: DeltaQueue) -> None:
    """LB-19: the last reader takes what it had not read with it; a new default sees what comes."""
    jobs.reader("only")
    _put(jobs, 1)
    jobs.drop_reader("only")
    _put(jobs, 2)

    assert _get(jobs) == []
    _put(jobs, 3)
    assert _get(jobs) == [3]
    assert jobs.readers() == ("",)


def test_a_dropped_reader_leaves_the_others_alone(jobs: DeltaQueue) -> None:
    """K3-03: one reader goes, its name is free, and the others go on."""
    jobs.reader("a")
    jobs.reader("b")
    _put(jobs, 1)

    jobs.drop_reader("b")

    assert _get(jobs.reader("a")) == [1]
    assert _get(jobs.reader("b")) == []
    with pytest.raises(ReaderNotFoundError, match="did you mean 'a'"):
        jobs.drop_reader("aa")


def test_a_reader_starts_where_it_is_told(jobs: DeltaQueue, clock: ManualClock) -> None:
    """A new reader starts at the tail, at the beginning, behind a step, or at an instant."""
    first = jobs.reader("first")
    _put(jobs, 1)
    clock.advance(MINUTE)
    noon = clock.now()
    clock.advance(MINUTE)
    step = store_of(first).queue_head().step
    _put(jobs, 2)

    assert _get(jobs.reader("all", start="beginning")) == [1, 2]
    assert _get(jobs.reader("later", start=step)) == [2]
    assert _get(jobs.reader("after noon", start=noon)) == [2]
    assert _get(jobs.reader("tail")) == []
    for start in ("head", 99):
        with pytest.raises(InvalidArgumentError, match=f"start is '?{start}"):
            jobs.reader("new", start=start)  # type: ignore[arg-type]


def test_attempts_and_dead_letters_are_a_readers_own(jobs: DeltaQueue) -> None:
    """What fails, dies and is revived for one reader is untouched for the other."""
    one, other = jobs.reader("one"), jobs.reader("other")
    one.configure(max_attempts=1)
    _put(jobs, 1, 2)

    one.claim(1).nack("no")

    assert _ids(one.dead().select("id").collect()) == [1]
    assert other.dead().isEmpty()
    assert one.redrive("id = 1", dry_run=True) == 1
    assert one.redrive("id = 1") == 1
    assert _get(one) == [1, 2]
    assert _get(other) == [1, 2]


def test_a_pause_is_a_readers_own(jobs: DeltaQueue) -> None:
    """A paused reader gets nothing, and the others do."""
    one, other = jobs.reader("one"), jobs.reader("other")
    _put(jobs, 1)

    one.pause()

    assert (_get(one), _get(other)) == ([], [1])
    one.resume()
    assert _get(one) == [1]


def test_acks_out_of_order_survive(
    spark: SparkSession, jobs: DeltaQueue, queue_path: str, clock: ManualClock
) -> None:
    """JR-04, JQ-15, LB-06: an acked item never comes again because an earlier one is open."""
    reader = jobs.reader("r")
    _put(jobs, 1, 2, 3)
    first, second = reader.claim(1), reader.claim(1)
    second.ack()
    jobs.close()

    again = DeltaQueue.open(spark, queue_path, clock=clock).reader("r")
    again.claim(1).ack()
    first.release()

    assert _get(again) == [1]
    assert again.lag().items == 0


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


def test_bytes_are_a_limit_that_one_item_may_overshoot(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """KP-42, LB-05: with room for 510 bytes, two items of 256 fit and the third does not."""
    queue = DeltaQueue.create(spark, f"{place}/bytes", "data string", clock=clock)
    reader = queue.reader("r", config=ReaderConfig(max_bytes=510))
    item = spark.createDataFrame([("x" * 256,)], "data string")
    queue.enqueue(item)
    queue.enqueue(item)

    assert reader.lag().bytes == 512
    with pytest.raises(ReaderFullError):
        queue.enqueue(item)


def test_a_full_reader_may_drop_its_oldest(jobs: DeltaQueue) -> None:
    """JQ-34, JQ-38: the oldest go, for this reader alone, and are counted."""
    big = jobs.reader("big")
    small = jobs.reader("small", config=ReaderConfig(max_items=2, full_policy="drop_oldest"))
    _put(jobs, 1, 2, 3, 4, 5)

    assert small.lag().dropped == 3
    assert _get(small) == [4, 5]
    assert _get(big) == [1, 2, 3, 4, 5]


def test_an_open_item_is_never_dropped(jobs: DeltaQueue) -> None:
    """LB-04, decision 2: with one item open, the oldest of the others goes."""
    reader = jobs.reader("r", config=ReaderConfig(max_items=2, full_policy="drop_oldest"))
    _put(jobs, 1)
    held = reader.claim(1)
    _put(jobs, 2, 3)

    assert _get(reader) == [3]
    held.ack()


def test_items_grow_too_old_for_a_reader(jobs: DeltaQueue, clock: ManualClock) -> None:
    """JQ-29, KP-24: an item expires at its age; a lower limit is for items that are inside, too."""
    strict = jobs.reader("strict", config=ReaderConfig(max_age=HOUR))
    patient = jobs.reader("patient")
    _put(jobs, 1)
    strict.claim(1).nack("later")

    clock.advance(MINUTE)
    strict = jobs.reader("strict", config=ReaderConfig(max_age=MINUTE))

    assert strict.explain(1).reason == "expired"
    assert _get(strict) == []
    assert strict.stats().expired == 1
    assert _get(patient) == [1]


def test_what_expires_goes_to_another_queue(
    spark: SparkSession, jobs: DeltaQueue, place: str, clock: ManualClock
) -> None:
    """K3-04, KC-15, KP-46: nothing moves until the reader is touched; then all, in order, once."""
    late = DeltaQueue.create(spark, f"{place}/late", "id long", clock=clock)
    reader = jobs.reader("r", config=ReaderConfig(max_age=MINUTE, expire_to=f"{place}/late"))
    _put(jobs, 1, 2)
    clock.advance(MINUTE)

    assert _get(late) == []
    assert _get(reader) == []
    assert _get(reader) == []
    assert _get(late) == [1, 2]


def test_a_target_that_has_forgotten_who_sends_gets_each_item_once(
    spark: SparkSession, jobs: DeltaQueue, place: str, clock: ManualClock
) -> None:
    """A reader that sent nothing for long is silent; what it sends then is what it has not sent."""
    config = QueueConfig(forget_sources_after=HOUR)
    late = DeltaQueue.create(spark, f"{place}/late", "id long", config, clock=clock)
    reader = jobs.reader("r", config=ReaderConfig(max_age=MINUTE, expire_to=late.name))
    for ids in ((1, 2), (3,)):
        _put(jobs, *ids)
        clock.advance(MINUTE)
        assert _get(reader) == []
        assert _get(late) == [*ids]
        clock.advance(2 * HOUR)
        late.enqueue(spark.createDataFrame([(9,)], "id long"), batch=(f"of {ids}", 0))
        assert list(store_of(late).queue_head().streams) == [f"of {ids}"]
        late.claim(9).ack()


def test_what_fails_goes_to_other_queues(
    spark: SparkSession, jobs: DeltaQueue, place: str, clock: ManualClock
) -> None:
    """K3-05, K3-06: a failed item goes to one queue, comes back from it, and ends in another."""
    retry = DeltaQueue.create(spark, f"{place}/retry", "id long", clock=clock)
    errors = DeltaQueue.create(spark, f"{place}/errors", "id long", clock=clock)
    reader = jobs.reader(
        "r",
        config=ReaderConfig(
            punt_to=f"{place}/retry", punt_many_to=f"{place}/errors", punt_many_at=2
        ),
    )
    back = retry.reader("back", config=ReaderConfig(max_age=MINUTE, expire_to=jobs.name))
    _put(jobs, 7)

    reader.claim(1).nack("first")
    assert (back.lag().items, reader.lag().items) == (1, 0)
    clock.advance(MINUTE)
    assert _get(back) == []
    again = reader.claim(1)
    assert _ids(again.items.select("_attempts").collect()) == [1]
    again.nack("second")

    assert errors.status().select("id", "_attempts").collect() == [(7, 2)]
    assert retry.reader("back").lag().items == 0


def test_spark_sends_what_is_too_much_for_this_process(
    spark: SparkSession, jobs: DeltaQueue, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its failures, in the order in which it ended, and as far as there is room."""
    monkeypatch.setattr("spark_queue.delta.commands.rows.FEW", 1)
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


def test_a_target_must_be_there(jobs: DeltaQueue, place: str) -> None:
    """A reader that would send its items nowhere is refused, and so is a limit below one."""
    with pytest.raises(QueueNotFoundError, match="nowhere"):
        jobs.reader("r", config=ReaderConfig(expire_to=f"{place}/nowhere"))
    with pytest.raises(InvalidConfigError, match="max_items is 0"):
        ReaderConfig(max_items=0)
    assert jobs.readers() == ("",)


def test_a_key_is_free_when_all_readers_are_done(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """A key stays taken while one reader still has its item."""
    queue = DeltaQueue.create(
        spark, f"{place}/keys", "id long", QueueConfig(dedup_key="id"), clock=clock
    )
    one, other = queue.reader("one"), queue.reader("other")
    frame = spark.createDataFrame([(1,)], "id long")
    queue.enqueue(frame)
    _get(one)

    assert queue.enqueue(frame).duplicates == 1
    _get(other)
    assert queue.enqueue(frame).inserted == 1


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


def test_items_are_kept_until_the_last_reader_is_past_them(
    spark: SparkSession, jobs: DeltaQueue, place: str, clock: ManualClock
) -> None:
    """JQ-30, JN-22: retention waits for who lags; then items are archived, and a floor is set."""
    quick, slow = jobs.reader("quick"), jobs.reader("slow")
    _put(jobs, 1, 2)
    _get(quick)
    clock.advance(2 * HOUR)
    jobs.maintain(retention=HOUR, archive_to=f"{place}/archive")
    assert jobs.maintain(retention=HOUR).dropped_items == 0

    _get(slow)
    _put(jobs, 3)
    clock.advance(2 * HOUR)
    done = jobs.maintain(retention=HOUR, archive_to=f"{place}/archive")

    assert done.dropped_items == 2
    archive = spark.read.format("delta").load(f"{place}/archive")
    assert _ids(archive.orderBy("_seq").select("id").collect()) == [1, 2]
    late = jobs.reader("late", start="beginning")
    assert (late.lag().lost, _get(late)) == (2, [3])
    assert (_get(quick), _get(slow)) == ([3], [3])


def test_a_reader_may_be_too_far_behind(jobs: DeltaQueue) -> None:
    """With ``max_lag`` upkeep drops what lies further back, and counts it."""
    reader = jobs.reader("r", config=ReaderConfig(max_lag=1))
    _put(jobs, 1, 2, 3)

    jobs.maintain()

    assert (reader.lag().items, reader.lag().dropped) == (1, 2)
    assert _get(reader) == [3]


def test_lag_counts_what_is_left(spark: SparkSession, queue_path: str, clock: ManualClock) -> None:
    """JQ-11, JQ-31: items and bytes with the open ones, age without them, and steps."""
    # With both keys the log has rows of lines and groups, too, which are no items.
    config = QueueConfig(fair_key="id", group_key="id")
    jobs = DeltaQueue.create(spark, queue_path, "id long", config, clock=clock)
    reader = jobs.reader("r")
    _put(jobs, 1)
    clock.advance(MINUTE)
    _put(jobs, 2)
    held = reader.claim(1)
    clock.advance(MINUTE)

    lag = reader.lag()
    held.ack()

    assert (lag.items, lag.bytes, lag.open_items, lag.steps) == (2, 16, 1, 2)
    assert lag.age == MINUTE
    assert (reader.lag().items, reader.lag().steps) == (1, 1)


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
    threads = [threading.Thread(target=jobs.reader, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _put(jobs, 1)

    assert sorted(jobs.readers()) == names
    assert len({jobs.reader(name).number for name in names}) == 3
    assert [_get(jobs.reader(name)) for name in names] == [[1], [1], [1]]
