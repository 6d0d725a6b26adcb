"""Readers: every reader sees every item, and what one does with it is its own affair."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from deltalake import DeltaTable

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.errors import (
    InvalidArgumentError,
    ReaderFullError,
    ReaderNotFoundError,
)
from spark_queue.local_queue import LocalQueue, LocalVerbs
from spark_queue.queue_views import store_of
from spark_queue.reader_config import ReaderConfig
from spark_queue.retry_policy import RetryPolicy
from tests.unit.local.conftest import Make

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
#: Makes another queue.
Beside = Callable[..., LocalQueue]

AT_ONCE = RetryPolicy(backoff="fixed", delay=timedelta(0))


@pytest.fixture
def jobs(make: Make) -> LocalQueue:
    """Return an empty queue of numbers, first in, first out."""
    return make("id long", retry=AT_ONCE)


@pytest.fixture
def beside(place: str, clock: ManualClock) -> Beside:
    """Make another queue: ``beside("late", "id long", dedup_key="id")``."""

    def build(name: str, schema: str = "id long", **settings: Any) -> LocalQueue:
        config = QueueConfig(**settings)
        path = f"{place}/{name}"
        return LocalQueue.create(path, schema, config, durability="process", clock=clock)

    return build


def _put(queue: LocalQueue, *ids: int) -> None:
    queue.enqueue([{"id": number} for number in ids])


def _get(reader: LocalVerbs, limit: int = 10) -> list[int]:
    """Claim and ack; return the ids in order."""
    with reader.claim(limit) as claim:
        return _ids(claim.rows)


def _ids(rows: Iterable[Mapping[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def test_every_reader_sees_every_item(jobs: LocalQueue) -> None:
    """K3-01, K3-02: readers get the items from their start on, each of them all of those."""
    first = jobs.reader("client1")
    _put(jobs, 1)
    second = jobs.reader("client2")
    _put(jobs, 2)

    assert _get(first) == [1, 2]
    assert _get(second) == [2]
    assert jobs.readers() == ("client1", "client2")


def test_who_takes_over_is_not_told_where_to_start(jobs: LocalQueue) -> None:
    """The first named reader goes on where the default one is; told otherwise, nothing changes."""
    _put(jobs, 1)
    for start in ("tail", 0, 1):
        with pytest.raises(
            InvalidArgumentError, match=f"start is '?{start}'?: reader 'late' is the"
        ):
            jobs.reader("late", start=start)
    assert jobs.readers() == ("",)
    assert _get(jobs.reader("early", start="beginning")) == [1]


def test_without_a_reader_the_default_begins_again_at_the_tail(jobs: LocalQueue) -> None:
    """LB-19: the last reader takes what it had not read with it; a new default sees what comes."""
    jobs.reader("only")
    _put(jobs, 1)
    jobs.drop_reader("only")
    _put(jobs, 2)

    assert _get(jobs) == []
    _put(jobs, 3)
    assert _get(jobs) == [3]
    assert jobs.readers() == ("",)


def test_a_dropped_reader_leaves_the_others_alone(jobs: LocalQueue) -> None:
    """K3-03: one reader goes, its name is free, and the others go on."""
    jobs.reader("a")
    jobs.reader("b")
    _put(jobs, 1)

    jobs.drop_reader("b")

    assert _get(jobs.reader("a")) == [1]
    assert _get(jobs.reader("b")) == []
    with pytest.raises(ReaderNotFoundError, match="did you mean 'a'"):
        jobs.drop_reader("aa")


def test_a_reader_starts_where_it_is_told(jobs: LocalQueue, clock: ManualClock) -> None:
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


def test_attempts_and_dead_letters_are_a_readers_own(jobs: LocalQueue) -> None:
    """What fails, dies and is revived for one reader is untouched for the other."""
    one, other = jobs.reader("one"), jobs.reader("other")
    one.configure(max_attempts=1)
    _put(jobs, 1, 2)

    one.claim(1).nack("no")

    assert _ids(one.dead().to_pylist()) == [1]
    assert other.dead().num_rows == 0
    assert one.redrive("id = 1", dry_run=True) == 1
    assert one.redrive("id = 1") == 1
    assert _get(one) == [1, 2]
    assert _get(other) == [1, 2]


def test_a_pause_is_a_readers_own(jobs: LocalQueue) -> None:
    """A paused reader gets nothing, and the others do."""
    one, other = jobs.reader("one"), jobs.reader("other")
    _put(jobs, 1)

    one.pause()

    assert (_get(one), _get(other)) == ([], [1])
    one.resume()
    assert _get(one) == [1]


def test_acks_out_of_order_survive(jobs: LocalQueue, again: Callable[[], LocalQueue]) -> None:
    """JR-04, JQ-15, LB-06: an acked item never comes again because an earlier one is open."""
    reader = jobs.reader("r")
    _put(jobs, 1, 2, 3)
    first, second = reader.claim(1), reader.claim(1)
    second.ack()
    jobs.close()

    later = again().reader("r")
    later.claim(1).ack()
    first.release()

    assert _get(later) == [1]
    assert later.lag().items == 0


def test_bytes_are_a_limit_that_one_item_may_overshoot(make: Make) -> None:
    """KP-42, LB-05: with room for 510 bytes, two items of 256 fit and the third does not."""
    queue = make("data string")
    reader = queue.reader("r", config=ReaderConfig(max_bytes=510))
    item = [{"data": "x" * 256}]
    queue.enqueue(item)
    queue.enqueue(item)

    assert reader.lag().bytes == 512
    with pytest.raises(ReaderFullError):
        queue.enqueue(item)


def test_a_full_reader_may_drop_its_oldest(jobs: LocalQueue) -> None:
    """JQ-34, JQ-38: the oldest go, for this reader alone, and are counted."""
    big = jobs.reader("big")
    small = jobs.reader("small", config=ReaderConfig(max_items=2, full_policy="drop_oldest"))
    _put(jobs, 1, 2, 3, 4, 5)

    assert small.lag().dropped == 3
    assert _get(small) == [4, 5]
    assert _get(big) == [1, 2, 3, 4, 5]


def test_an_open_item_is_never_dropped(jobs: LocalQueue) -> None:
    """LB-04, decision 2: with one item open, the oldest of the others goes."""
    reader = jobs.reader("r", config=ReaderConfig(max_items=2, full_policy="drop_oldest"))
    _put(jobs, 1)
    held = reader.claim(1)
    _put(jobs, 2, 3)

    assert _get(reader) == [3]
    held.ack()


def test_items_grow_too_old_for_a_reader(jobs: LocalQueue, clock: ManualClock) -> None:
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


def test_a_target_that_has_forgotten_who_sends_gets_each_item_once(
    jobs: LocalQueue, beside: Beside, clock: ManualClock
) -> None:
    """A reader that sent nothing for long is silent; what it sends then is what it has not sent."""
    late = beside("late", forget_sources_after=HOUR)
    reader = jobs.reader("r", config=ReaderConfig(max_age=MINUTE, expire_to=late.name))
    for ids in ((1, 2), (3,)):
        _put(jobs, *ids)
        clock.advance(MINUTE)
        assert _get(reader) == []
        assert _get(late) == [*ids]
        clock.advance(2 * HOUR)
        late.enqueue([{"id": 9}], batch=(f"of {ids}", 0))
        assert list(store_of(late).queue_head().streams) == [f"of {ids}"]
        late.claim(9).ack()


def test_a_key_is_free_when_all_readers_are_done(make: Make) -> None:
    """A key stays taken while one reader still has its item."""
    queue = make("id long", dedup_key="id")
    one, other = queue.reader("one"), queue.reader("other")
    _put(queue, 1)
    _get(one)

    assert queue.enqueue([{"id": 1}]).duplicates == 1
    _get(other)
    assert queue.enqueue([{"id": 1}]).inserted == 1


def test_items_are_kept_until_the_last_reader_is_past_them(
    jobs: LocalQueue, place: str, clock: ManualClock
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
    archive = DeltaTable(f"{place}/archive").to_pyarrow_table()
    assert _ids(archive.sort_by("_seq").to_pylist()) == [1, 2]
    late = jobs.reader("late", start="beginning")
    assert (late.lag().lost, _get(late)) == (2, [3])
    assert (_get(quick), _get(slow)) == ([3], [3])


def test_a_reader_may_be_too_far_behind(jobs: LocalQueue) -> None:
    """With ``max_lag`` upkeep drops what lies further back, and counts it."""
    reader = jobs.reader("r", config=ReaderConfig(max_lag=1))
    _put(jobs, 1, 2, 3)

    jobs.maintain()

    assert (reader.lag().items, reader.lag().dropped) == (1, 2)
    assert _get(reader) == [3]


def test_lag_counts_what_is_left(make: Make, clock: ManualClock) -> None:
    """JQ-11, JQ-31: items and bytes with the open ones, age without them, and steps."""
    # With both keys the log has rows of lines and groups, too, which are no items.
    jobs = make("id long", fair_key="id", group_key="id")
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
