from __future__ import annotations

import threading
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from queue import Empty
from typing import Any

import pytest

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.blocking import BlockingQueue
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.threads import together

WEEK = timedelta(days=7)


@pytest.fixture
def timer() -> ManualTimer:
    """Make a clock that stands still."""
    return ManualTimer()


@pytest.fixture
def line(timer: ManualTimer) -> BlockingQueue[Any]:
    """Make an unbounded queue on the standing clock."""
    return BlockingQueue(timer=timer)


def drain(line: BlockingQueue[Any]) -> list[Any]:
    """Take everything that is queued."""
    return [line.poll() for _ in range(line.size())]


def assert_nothing(future: Future[Any]) -> None:
    """Assert that a wait ended without an item."""
    assert isinstance(future.exception(timeout=10), Empty)


def test_items_come_out_in_the_order_of_their_puts(line: BlockingQueue[Any]) -> None:
    """BQ-01: two puts and two gets keep the order and the count."""
    assert line.size() == 0
    assert (line.put("a"), line.size()) == (True, 1)
    assert (line.put("b"), line.size()) == (True, 2)
    assert (line.get(), line.size()) == ("a", 1)
    assert (line.get(), line.size()) == ("b", 0)


def test_poll_takes_without_waiting(line: BlockingQueue[Any]) -> None:
    """BQ-02: poll finds nothing, the item, and nothing again."""
    with pytest.raises(Empty):
        line.poll()
    line.put("a")
    assert line.poll() == "a"
    with pytest.raises(Empty):
        line.poll()


def test_poll_if_looks_only_at_the_head(line: BlockingQueue[Any]) -> None:
    """BQ-03: an item is taken only while it is the head and the predicate holds."""
    for item in ("first", "second", "third"):
        line.put(item)
    assert line.poll_if(lambda item: "t" in item) == "first"
    with pytest.raises(Empty):
        line.poll_if(lambda item: "t" in item)
    assert line.poll_if(lambda item: "c" in item) == "second"
    assert line.poll_if(lambda item: "t" in item) == "third"
    with pytest.raises(Empty):
        line.poll_if(lambda item: "t" in item)


def test_put_head_goes_before_all_others(line: BlockingQueue[Any]) -> None:
    """BQ-04: an item put at the head is served first."""
    line.put("hi")
    line.put_head("bye")
    assert line.size() == 2
    assert [line.get(), line.get()] == ["bye", "hi"]
    assert line.size() == 0


@pytest.mark.parametrize("take", ["get", "poll"])
def test_put_head_on_an_empty_queue(line: BlockingQueue[Any], take: str) -> None:
    """BQ-05, BQ-06: an item put at the head of an empty queue can be got and polled."""
    line.put_head("foo")
    assert line.size() == 1
    assert getattr(line, take)() == "foo"
    assert line.size() == 0


def test_a_full_queue_that_refuses_keeps_its_items() -> None:
    """BQ-07: a full queue that refuses puts keeps its items in order."""
    line: BlockingQueue[int] = BlockingQueue(5, "refuse")
    assert [line.put(item) for item in range(6)] == [True] * 5 + [False]
    assert line.size() == 5
    assert drain(line) == [0, 1, 2, 3, 4]


def test_a_full_queue_that_drops_loses_its_oldest() -> None:
    """BQ-08: a full queue that drops accepts every put and counts the oldest as dropped."""
    line: BlockingQueue[int] = BlockingQueue(5, "drop_oldest")
    assert all(line.put(item) for item in range(6))
    assert line.size() == 5
    assert line.dropped == 1
    assert drain(line) == [1, 2, 3, 4, 5]


def test_waiters_are_served_first_come_first_served(line: BlockingQueue[Any]) -> None:
    """BQ-09: the i-th waiting get receives the i-th item, put at either end."""
    waiting = [line.get_future() for _ in range(10)]
    for item in range(10):
        (line.put_head if item % 2 else line.put)(item)
    assert [future.result(timeout=10) for future in waiting] == list(range(10))
    assert line.size() == 0


def test_one_item_serves_the_first_of_two(line: BlockingQueue[Any], timer: ManualTimer) -> None:
    """BQ-11: the first of two waiting gets has the item, the second ends with nothing."""
    first, second = line.get_future(0.010), line.get_future(0.010)
    line.put("item")
    timer.advance(0.010)
    assert first.result() == "item"
    assert_nothing(second)


@pytest.mark.parametrize(("timeout", "alarms"), [(WEEK, 1), (None, 0)])
def test_a_cancel_gives_up_the_place(
    line: BlockingQueue[Any], timer: ManualTimer, timeout: timedelta | None, alarms: int
) -> None:
    """BQ-13, BQ-15: a cancelled get leaves no alarm and no waiter, with a deadline or without."""
    waiting = line.get_future(timeout)
    assert len(timer) == alarms
    assert waiting.cancel()
    assert len(timer) == 0
    assert line.waiter_count == 0
    line.put("item")
    assert line.get() == "item"


@pytest.mark.parametrize("timeout", [10, None])
def test_evicted_waiters_end_with_nothing(
    line: BlockingQueue[Any], timer: ManualTimer, timeout: float | None
) -> None:
    """BQ-16, BQ-17: evicting ends every wait with nothing, with a deadline or without."""
    waiting = [line.get_future(timeout) for _ in range(10)]
    assert line.evict_waiters() == 10
    for future in waiting:
        assert_nothing(future)
    assert len(timer) == 0
    line.put("later")
    assert line.get() == "later"


def test_every_item_of_many_threads_arrives_once(line: BlockingQueue[Any]) -> None:
    """BQ-18: a hundred waiting gets receive exactly what a hundred threads put."""
    waiting = [line.get_future() for _ in range(100)]
    together(*(partial(line.put, item) for item in range(100)))
    assert sorted(future.result(timeout=10) for future in waiting) == list(range(100))


def test_put_head_ignores_the_limit() -> None:
    """BQ-19: an item put at the head of a full queue makes it larger than its limit."""
    line: BlockingQueue[int] = BlockingQueue(1)
    line.put(1)
    line.put_head(0)
    assert line.size() == 2
    assert not line.put(2)
    assert drain(line) == [0, 1]


def test_the_latest_put_at_the_head_is_served_first(line: BlockingQueue[Any]) -> None:
    """BQ-20: of two items put at the head the later one is served first."""
    line.put_head("a")
    line.put_head("b")
    assert drain(line) == ["b", "a"]


def test_a_cancelled_waiter_is_skipped(line: BlockingQueue[Any]) -> None:
    """BQ-21: the item goes to the next in line when the first has cancelled."""
    first, second = line.get_future(), line.get_future()
    first.cancel()
    line.put("item")
    assert second.result(timeout=10) == "item"


def test_flush_empties_the_queue_and_its_count() -> None:
    """BQ-22: after a flush the size is 0 and a queue that was full accepts again."""
    line: BlockingQueue[int] = BlockingQueue(2)
    line.put(1)
    line.put(2)
    assert line.flush() == 2
    assert line.size() == 0
    assert line.put(3)
    assert drain(line) == [3]


def test_a_closed_queue_is_drained_and_then_says_so(line: BlockingQueue[Any]) -> None:
    """BQ-23: after the close puts are refused, what is queued is served, then every get fails."""
    line.put("left")
    line.close()
    for use in (line.put, line.put_head):
        with pytest.raises(QueueShutDownError):
            use("late")
    assert line.get() == "left"
    for take in (line.get, line.poll, line.get_future, lambda: line.poll_if(bool)):
        with pytest.raises(QueueShutDownError):
            take()
    assert line.flush() == 0


def test_size_and_content_agree_when_items_are_dropped() -> None:
    """BQ-24: dropping after many puts at the head keeps size and content the same."""
    line: BlockingQueue[int] = BlockingQueue(3, "drop_oldest")
    for item in range(6):
        line.put_head(item)
    assert line.size() == 6
    assert line.put(9)
    assert line.size() == 3
    assert line.dropped == 4
    assert drain(line) == [1, 0, 9]


def test_a_future_is_done_when_an_item_is_there(line: BlockingQueue[Any]) -> None:
    """A get that need not wait answers with a finished future, also for the item ``None``."""
    line.put(None)
    future = line.get_future()
    assert future.done()
    assert future.result() is None
    assert_nothing(line.get_future(timeout=0))


def test_a_producer_is_not_held_up_by_a_slow_taker(line: BlockingQueue[Any]) -> None:
    """While one hand-off runs a taker's slow callback, other producers put without waiting."""
    entered, leave = threading.Event(), threading.Event()

    def slow(_: Future[Any]) -> None:
        entered.set()
        assert leave.wait(10)

    line.get_future().add_done_callback(slow)
    blocked = threading.Thread(target=line.put, args=("first",))
    blocked.start()
    assert entered.wait(10)
    others = threading.Thread(target=lambda: [line.put(item) for item in range(100)])
    others.start()
    others.join(timeout=10)
    assert not others.is_alive()
    assert line.size() == 100
    leave.set()
    blocked.join()


def test_a_predicate_that_raises_leaves_the_item(line: BlockingQueue[Any]) -> None:
    """A predicate's error is the caller's, the item stays, and a predicate may use the queue."""
    line.put("item")
    with pytest.raises(ZeroDivisionError):
        line.poll_if(lambda _: 1 / 0)
    assert line.poll_if(lambda _: line.size() == 1) == "item"


def test_a_predicate_is_asked_again_when_the_head_changes(line: BlockingQueue[Any]) -> None:
    """An item taken by somebody else during the predicate is not taken twice."""
    line.put("first")
    line.put("second")
    asked: list[str] = []

    def slow(item: str) -> bool:
        asked.append(item)
        if len(asked) == 1:
            assert line.get() == "first"
        return True

    assert line.poll_if(slow) == "second"
    assert asked == ["first", "second"]


def test_the_text_form_counts(line: BlockingQueue[Any]) -> None:
    """The text form says how many items and waiters there are."""
    line.get_future()
    assert repr(line) == "<BlockingQueue open items=0 waiters=1>"
    line.close()
    assert repr(line) == "<BlockingQueue closed items=0 waiters=0>"


class Parting:
    """An item that puts a last word when it goes."""

    def __init__(self, line: BlockingQueue[Any]) -> None:
        self._line = line

    def __del__(self) -> None:
        self._line.put("last word")


@pytest.mark.parametrize("way", ["flush", "drop"])
def test_an_item_that_is_dropped_may_put(way: str) -> None:
    """A finalizer of an item that is flushed, or makes room, uses the queue as anybody does."""
    line: BlockingQueue[Any] = BlockingQueue(2, "drop_oldest")
    line.put(Parting(line))
    line.put("a")

    def drop() -> None:
        if way == "flush":
            assert line.flush() == 2
        else:
            assert line.put("b")

    dropping = threading.Thread(target=drop, daemon=True)
    dropping.start()
    dropping.join(10)
    assert not dropping.is_alive()
    assert drain(line) == (["last word"] if way == "flush" else ["b", "last word"])
    assert line.dropped == (0 if way == "flush" else 2)


def test_a_wait_that_others_end_and_a_refusal_have_a_text(line: BlockingQueue[Any]) -> None:
    """An eviction has no time to name, and a predicate refuses an item that is there."""
    waiting = line.get_future()
    line.evict_waiters()
    with pytest.raises(Empty, match=r"no item came before the end of the wait$"):
        waiting.result(10)
    with pytest.raises(Empty, match="there is no item now"):
        line.poll()
    line.put("odd")
    with pytest.raises(Empty, match="refused by the predicate: 'odd'"):
        line.poll_if(lambda _: False)
