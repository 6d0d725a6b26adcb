"""A test works a queue off on the spot, has items fail, and takes leases away."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, LeaseLostError, Reject
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.log.output.outputs import ResultTable
from spark_queue.retry_policy import RetryPolicy
from spark_queue.testing import (
    assert_dead,
    assert_done,
    assert_order,
    drain,
    fail_next,
    lose_lease,
    memory_queue,
)
from tests.unit.testing.conftest import Make, put

AT_ONCE = RetryPolicy(delay=timedelta(0))


def test_drain_works_off_what_may_run(make: Make) -> None:
    """Every item gets to the handler once, in order, and is done."""
    queue, seen = make(), []
    put(queue, "a", "b", "c")

    result = drain(queue, lambda item: seen.append(item["path"]))

    assert seen == ["a", "b", "c"]
    assert (result.acked, result.claims, result.stopped) == (3, 3, "empty")


def test_drain_without_a_handler_does_everything(make: Make) -> None:
    """Where the test is about the order alone, no handler is needed."""
    queue = make()
    put(queue, "a", "b")

    assert drain(queue).acked == 2


def test_drain_calls_the_handler_in_the_thread_of_the_test(make: Make) -> None:
    """What is bound to a thread, a connection or a patch, is there in the handler."""
    queue, threads = make(), set()
    put(queue, "a", "b")

    drain(queue, lambda _: threads.add(threading.get_ident()))

    assert threads == {threading.get_ident()}


def test_drain_gives_batches_where_they_are_asked_for(make: Make) -> None:
    """A handler of batches gets tables of as many items as one claim takes."""
    queue, sizes = make(), []
    put(queue, "a", "b", "c")

    def handler(table: pa.Table) -> None:
        sizes.append(table.num_rows)

    assert drain(queue, handler, per="batch", limit=2).acked == 3
    assert sizes == [2, 1]


def test_what_a_handler_raises_is_the_failure_of_its_item(make: Make) -> None:
    """As for ``process``: the others are worked on, and what failed has its error."""
    queue = make(max_attempts=1)
    put(queue, "a", "b")

    def handler(item: dict[str, Any]) -> None:
        if item["path"] == "a":
            raise ValueError("no such file")

    result = drain(queue, handler)

    assert (result.acked, result.dead) == (1, 1)
    assert_dead(queue, path="a", error="ValueError: no such file")


def test_drain_raises_what_a_handler_raised_where_that_is_wanted(make: Make) -> None:
    """The first failure comes to the test, its item is settled, and nothing further begins."""
    queue, seen = make(), []
    put(queue, "a", "b", "c")

    def handler(item: dict[str, Any]) -> None:
        seen.append(item["path"])
        assert item["path"] != "b", "b is not expected"

    with pytest.raises(AssertionError, match="b is not expected"):
        drain(queue, handler, limit=10, raising=True)
    assert seen == ["a", "b"]
    assert queue.status()["_state"].to_pylist() == ["acked", "ready", "ready"]
    assert queue.status()["_attempts"].to_pylist() == [0, 1, 0]


def test_what_is_delayed_stays_and_is_told(make: Make, clock: ManualClock) -> None:
    """Where the clock is left alone the result says what is left, and until when it waits."""
    queue = make(retry=RetryPolicy(delay=timedelta(minutes=1)))
    put(queue, "a")
    fail_next(queue)

    result = drain(queue)

    assert (result.failed, result.acked, result.stopped) == (1, 0, "waiting")
    assert result.waiting == {"delayed": 1}
    assert result.until == clock.now() + timedelta(minutes=1)


def test_drain_goes_through_delays(make: Make, clock: ManualClock) -> None:
    """The clock is moved to when the next item may run, as often as it takes."""
    queue = make(retry=RetryPolicy(backoff="fixed", delay=timedelta(minutes=1)), max_attempts=3)
    put(queue, "a")
    before = clock.now()

    def handler(item: dict[str, Any]) -> None:
        raise OSError(f"attempt {item['_attempts'] + 1}")

    result = drain(queue, handler, through_delays=True)

    assert (result.failed, result.dead, result.stopped) == (2, 1, "empty")
    assert clock.now() - before == timedelta(minutes=2)
    assert_dead(queue, error="attempt 3")


def test_a_clock_that_cannot_be_moved_is_refused() -> None:
    """To go through delays asks for a clock by hand, before anything is begun."""
    queue = memory_queue("path string")
    put(queue, "a")

    with pytest.raises(InvalidArgumentError, match=r"SystemClock.*ManualClock"):
        drain(queue, through_delays=True)
    assert queue.counts()["ready"] == 1


def test_a_queue_that_is_never_empty_ends_the_test(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that fails for ever does not hang the test."""
    monkeypatch.setattr("spark_queue.testing.driving._MOST", 20)
    queue = make(retry=AT_ONCE, max_attempts=None)
    put(queue, "a")

    def handler(_: dict[str, Any]) -> None:
        raise ValueError

    with pytest.raises(AssertionError, match="called 20 times"):
        drain(queue, handler)


def test_options_of_drain_are_checked(make: Make) -> None:
    """What is no flag, no limit or no handler is refused before anything is begun."""
    queue = make()
    put(queue, "a")
    for options in ({"limit": 0}, {"per": "row"}, {"raising": 1}, {"through_delays": "yes"}):
        with pytest.raises(InvalidArgumentError):
            drain(queue, **options)
    with pytest.raises(InvalidArgumentError):
        drain(queue, "handler")  # type: ignore[call-overload]
    assert queue.counts()["ready"] == 1


def test_the_next_item_fails_without_a_call(make: Make) -> None:
    """The handler never sees it, and its error is the one that was asked for."""
    queue, seen = make(max_attempts=1), []
    put(queue, "a", "b")
    fail_next(queue, error=OSError("disk full"))

    drain(queue, lambda item: seen.append(item["path"]))

    assert seen == ["b"]
    assert_dead(queue, path="a", error="OSError: disk full")


def test_so_many_calls_fail_as_were_asked_for(make: Make) -> None:
    """Two failures, and the third attempt gets to the handler."""
    queue, attempts = make(retry=AT_ONCE), []
    put(queue, "a")
    fail_next(queue, 2)

    drain(queue, lambda item: attempts.append(item["_attempts"]))

    assert attempts == [2]


def test_only_the_item_that_is_meant_fails(make: Make) -> None:
    """Columns say which item fails, whenever its turn comes; others are worked on."""
    queue = make(max_attempts=1)
    put(queue, "a", "b", "c")
    fail_next(queue, path="b")

    drain(queue)

    assert_done(queue, path=["a", "c"], count=2)
    assert_dead(queue, path="b", count=1)


def test_an_item_can_be_rejected(make: Make) -> None:
    """With a ``Reject`` it is a dead letter at once."""
    queue = make(max_attempts=5)
    put(queue, "a")
    fail_next(queue, error=Reject("not a path"))

    assert drain(queue).dead == 1


def test_items_fail_for_process_too(make: Make) -> None:
    """Code that calls ``process`` by itself meets the failure that the test has asked for."""
    queue = make(max_attempts=1)
    queue.reader("index")
    put(queue, "a", "b", "c")
    fail_next(queue, path="a")
    fail_next(queue, path="c")

    first = queue.process(lambda _: None, limit=2)
    then = queue.process(lambda _: None, per="batch")

    assert (first.acked, first.dead) == (1, 2)
    assert then.claims == 0


def test_a_batch_with_an_item_that_fails_fails(make: Make) -> None:
    """All items of the table are charged, as for any handler that raises."""
    queue = make(max_attempts=1)
    put(queue, "a", "b", "c")
    fail_next(queue, path="b")

    result = queue.process(lambda _: None, per="batch", limit=2)

    assert (result.dead, result.acked) == (2, 1)


def test_what_cannot_fail_is_refused(make: Make) -> None:
    """A column that is none, a count below one, and an error that is none are named."""
    queue = make()
    with pytest.raises(InvalidArgumentError, match="pth"):
        fail_next(queue, pth="a")
    with pytest.raises(InvalidArgumentError, match="times"):
        fail_next(queue, 0)
    with pytest.raises(InvalidArgumentError, match="error"):
        fail_next(queue, error=7)  # type: ignore[arg-type]
    put(queue, "a")
    assert drain(queue).acked == 1


def test_a_claim_can_lose_its_lease(make: Make) -> None:
    """Its items are another's to take, charged with a loss, and the holder is told."""
    queue = make()
    put(queue, "a", "b")
    claim = queue.claim(2)
    claim.settle_each({1: "ack"})

    assert lose_lease(claim) == 1
    assert queue.status()["_losses"].to_pylist() == [0, 1]
    with pytest.raises(LeaseLostError):
        claim.ack()
    assert [row["path"] for row in queue.claim(5).rows] == ["b"]


def test_leases_are_lost_by_what_is_held(make: Make) -> None:
    """Of a queue those claims are lost that hold an item that is meant, whole."""
    queue = make()
    put(queue, "a", "b", "c")
    first, second = queue.claim(2), queue.claim(1)

    assert lose_lease(queue, path="a") == 2
    with pytest.raises(LeaseLostError):
        first.ack()
    assert second.ack().acked == 1
    assert lose_lease(queue) == 0


def test_a_lease_can_be_lost_while_the_handler_works(make: Make) -> None:
    """What was done then counts for nothing, and the item is worked on again."""
    queue, calls = make(), []
    put(queue, "a")

    def handler(item: dict[str, Any]) -> None:
        calls.append(item["_seq"])
        if len(calls) == 1:
            lose_lease(queue)

    assert drain(queue, handler).acked == 1
    assert calls == [1, 1]


def test_a_lease_that_is_lost_too_often_is_the_last(make: Make) -> None:
    """Losses are counted by the rule of the queue."""
    queue = make(max_losses=2)
    put(queue, "a")
    for _ in range(2):
        lose_lease(queue.claim())

    assert_dead(queue, path="a")


def test_who_lost_a_lease_writes_no_output(
    queue_path: str, clock: ManualClock, tmp_path: Path
) -> None:
    """Its rows are left out, and the items are worked on again: each is in the output once."""
    queue = LocalQueue.create(queue_path, "path string", durability="process", clock=clock)
    put(queue, "a", "b")
    calls: list[int] = []

    def handler(item: dict[str, Any]) -> dict[str, Any]:
        calls.append(item["_seq"])
        if len(calls) == 1:
            assert lose_lease(queue) == 2
        return {"n": item["_seq"]}

    out = f"{tmp_path}/out"
    queue.process(handler, returns="n bigint", output=out, max_workers=1)

    assert sorted(DeltaTable(out).to_pyarrow_table()["n"].to_pylist()) == [1, 2]
    assert queue.status()["_losses"].to_pylist() == [1, 1]
    assert_done(queue)


def test_what_an_output_has_is_not_lost(
    queue_path: str, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items whose rows are written are done, as they are when their worker dies then."""
    queue = LocalQueue.create(queue_path, "path string", durability="process", clock=clock)
    put(queue, "a")
    lost: list[int] = []
    written = ResultTable.write

    def write(*arguments: Any, **options: Any) -> bool:
        ours = written(*arguments, **options)
        lost.append(lose_lease(queue))
        return ours

    monkeypatch.setattr(ResultTable, "write", write)
    queue.process(lambda item: {"n": item["_seq"]}, returns="n bigint", output=f"{tmp_path}/out")

    assert lost == [0]
    assert_done(queue, path="a")


def test_a_queue_on_a_disk_is_driven_alike(queue_path: str, clock: ManualClock) -> None:
    """What drives a queue in memory drives any queue without Spark."""
    config = QueueConfig(max_attempts=2)
    queue = LocalQueue.create(queue_path, "path string", config, durability="process", clock=clock)
    put(queue, "a", "b")
    lose_lease(queue.claim())
    fail_next(queue, 2, path="a")

    drain(queue, through_delays=True)

    assert_dead(queue, path="a")
    assert_done(queue, path="b")


def test_a_full_key_is_driven_through(clock: ManualClock) -> None:
    """Others of its queue go on; what waits for a lease of its key runs when that has ended."""
    config = QueueConfig(fair_key="t", limits=(Limit(by="t", default=1),))
    queue = memory_queue("id string, t string", config, clock=clock)
    queue.enqueue([{"id": "1", "t": "a"}, {"id": "2", "t": "a"}, {"id": "3", "t": "b"}])
    queue.claim(1)

    done = drain(queue, limit=5)
    assert (done.acked, done.stopped) == (1, "waiting")
    assert done.waiting == {"leased": 1, "key limit": 1}
    assert_done(queue, id="3")

    assert drain(queue, limit=5, through_delays=True).acked == 2
    assert_order(queue, {"t": "a"}, id=["1", "1", "2"])


def test_rates_and_pauses_of_keys_are_driven_through(clock: ManualClock) -> None:
    """A test sees what waits for units, or for a pause, and the clock goes to the end of it."""
    rate = Rate(by="t", limit=1, per=timedelta(minutes=1))
    config = QueueConfig(fair_key="t", rates=(rate,))
    queue = memory_queue("id string, t string", config, clock=clock)
    begun = clock.now()
    queue.enqueue([{"id": "1", "t": "a"}, {"id": "2", "t": "a"}, {"id": "3", "t": "b"}])
    queue.pause(key="b", for_=90)

    done = drain(queue)
    assert (done.acked, done.stopped, done.until) == (1, "waiting", begun + timedelta(minutes=1))
    assert done.waiting == {"key rate": 1, "key paused": 1}

    assert drain(queue, through_delays=True).acked == 2
    assert clock.now() == begun + timedelta(seconds=90)
    assert_order(queue, id=["1", "2", "3"])


@pytest.mark.parametrize("by", ["t", None])
def test_a_lost_lease_is_driven_through_to_its_units(clock: ManualClock, by: str | None) -> None:
    """Law 11: nobody holds the item any more, and yet it waits until its key may start again."""
    rate = Rate(by=by, limit=1, per=timedelta(minutes=1))
    config = QueueConfig(fair_key="t", rates=(rate,), lease=timedelta(seconds=10))
    queue = memory_queue("id string, t string", config, clock=clock)
    queue.enqueue([{"id": "1", "t": "a"}])
    due = queue.claim(1).claimed_at + timedelta(minutes=1)
    clock.advance(timedelta(seconds=20))

    assert queue.process(print).until == due
    assert drain(queue, through_delays=True).acked == 1
    assert clock.now() == due


def test_a_lost_lease_is_driven_through_the_delay_before_it(clock: ManualClock) -> None:
    """Of a group that blocks nothing is taken over before its head runs again."""
    again = RetryPolicy(delay=timedelta(minutes=1), jitter=0.0)
    config = QueueConfig(group_key="g", group_limit=2, retry=again, lease=timedelta(seconds=10))
    queue = memory_queue("id string, g string", config, clock=clock)
    queue.enqueue([{"id": "1", "g": "a"}, {"id": "2", "g": "a"}])
    head, _ = queue.claim(1), queue.claim(1)
    head.nack("no")
    due = clock.now() + timedelta(minutes=1)
    clock.advance(timedelta(seconds=20))

    assert queue.process(print).until == due
    assert drain(queue, through_delays=True).acked == 2
    assert clock.now() == due
