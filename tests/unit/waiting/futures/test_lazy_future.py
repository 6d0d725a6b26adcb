from __future__ import annotations

import asyncio
import gc
import logging
import threading
import tracemalloc
from collections.abc import Callable
from concurrent import futures as standard
from concurrent.futures import (
    FIRST_COMPLETED,
    FIRST_EXCEPTION,
    CancelledError,
    Future,
    InvalidStateError,
    as_completed,
    wait,
)
from contextlib import suppress
from typing import Any

import pytest

from spark_queue.memory.waiting.waiters import LazyFuture
from tests.unit.threads import threads


@pytest.fixture(params=[Future, LazyFuture])
def make(request: pytest.FixtureRequest) -> Callable[[], Future[Any]]:
    """Give the standard library's future and ours, which must not differ."""
    kind: Callable[[], Future[Any]] = request.param
    return kind


def states(future: Future[Any]) -> tuple[bool, bool, bool]:
    """Return what a future says of itself."""
    return future.running(), future.done(), future.cancelled()


def test_a_result_is_there_for_everybody(make: Callable[[], Future[Any]]) -> None:
    """A future goes from pending over running to done, and gives its result as often as asked."""
    future = make()
    assert states(future) == (False, False, False)
    assert future.set_running_or_notify_cancel()
    assert states(future) == (True, False, False)
    future.set_result(None)
    assert states(future) == (False, True, False)
    assert future.result() is None
    assert future.result(timeout=0) is None
    assert future.exception() is None
    assert "finished" in repr(future)


def test_an_error_is_raised_to_everybody(make: Callable[[], Future[Any]]) -> None:
    """A future that fails raises that very error, and gives it."""
    future, error = make(), ValueError("no")
    future.set_exception(error)
    assert future.exception(timeout=0) is error
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            future.result()


@pytest.mark.parametrize("settle", ["set_result", "set_exception"])
def test_a_future_settles_once(make: Callable[[], Future[Any]], settle: str) -> None:
    """A second result, error, start or cancel is refused, and changes nothing."""
    future = make()
    future.set_result(1)
    with pytest.raises(InvalidStateError):
        getattr(future, settle)(ValueError())
    with pytest.raises(RuntimeError):
        future.set_running_or_notify_cancel()
    assert not future.cancel()
    assert future.result() == 1


def test_a_cancel_is_told(make: Callable[[], Future[Any]]) -> None:
    """A cancelled future does not begin, calls its callbacks once, and raises for who waits."""
    future, called = make(), list[Any]()
    future.add_done_callback(called.append)
    assert future.cancel()
    assert future.cancel()
    assert called == [future]
    assert not future.set_running_or_notify_cancel()
    assert states(future) == (False, True, True)
    with pytest.raises(CancelledError):
        future.result()
    with pytest.raises(InvalidStateError):
        future.set_result(1)


def test_what_has_begun_is_not_cancelled(make: Callable[[], Future[Any]]) -> None:
    """A cancel after the start says no."""
    future = make()
    future.set_running_or_notify_cancel()
    assert not future.cancel()
    future.set_result(1)
    assert future.result() == 1


def test_a_wait_ends_at_its_time_and_a_later_one_has_the_result(
    make: Callable[[], Future[Any]],
) -> None:
    """A wait that is too short raises, and the future can still be waited for."""
    future = make()
    for ask in (future.result, future.exception):
        with pytest.raises(standard.TimeoutError):
            ask(timeout=0)
    future.set_result(1)
    assert future.result() == 1


def test_callbacks_are_called_in_order(
    make: Callable[[], Future[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """Callbacks run in order when it is done, late ones at once; one that fails stops no other."""
    future, called = make(), list[int]()
    future.add_done_callback(lambda _: called.append(1))
    future.add_done_callback(lambda _: [].pop())
    future.add_done_callback(lambda _: called.append(2))
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        future.set_result(None)
    future.add_done_callback(lambda _: called.append(3))
    assert called == [1, 2, 3]
    assert "exception calling callback" in caplog.text


@pytest.mark.parametrize("settle", ["set_result", "set_exception"])
def test_many_futures_are_waited_for_together(make: Callable[[], Future[Any]], settle: str) -> None:
    """Waiting for the first, for an error, for all, or one by one sees done and pending ones."""
    futures = [make() for _ in range(4)]
    futures[0].set_result(0)
    assert wait(futures, 0).done == {futures[0]}
    assert wait(futures, return_when=FIRST_COMPLETED).not_done == set(futures[1:])
    settling = threading.Thread(
        target=lambda: [getattr(future, settle)(ValueError()) for future in futures[1:]]
    )
    settling.start()
    assert set(as_completed(futures, timeout=10)) == set(futures)
    settling.join()
    assert wait(futures, 10, FIRST_EXCEPTION).done == set(futures)
    assert wait(futures, 10).not_done == set()


def test_a_coroutine_can_wait(make: Callable[[], Future[Any]]) -> None:
    """An event loop takes it for what it is."""

    async def scenario() -> Any:
        future = make()
        threading.Thread(target=future.set_result, args=(1,)).start()
        return await asyncio.wrap_future(future)

    assert asyncio.run(scenario()) == 1


def test_no_wake_up_is_lost_when_settling_and_waiting_race() -> None:
    """Wherever the first wait falls, before, after or while it settles, it has the result."""
    for number in range(300):
        future: LazyFuture[int] = LazyFuture()
        called = list[int]()
        barrier = threading.Barrier(4)

        def listen(
            future: LazyFuture[int] = future,
            called: list[int] = called,
            barrier: threading.Barrier = barrier,
        ) -> None:
            barrier.wait(10)
            future.add_done_callback(lambda done: called.append(done.result()))
            called.append(future.result(timeout=10))
            assert wait([future], 10).not_done == set()

        with threads(*[listen] * 3):
            barrier.wait(10)
            future.set_running_or_notify_cancel()
            future.set_result(number)
        assert called == [number] * 6


@pytest.mark.parametrize("end", ["set_result", "set_exception", "cancel"])
def test_who_waits_is_not_held_up_by_callbacks(make: Callable[[], Future[Any]], end: str) -> None:
    """A callback may wait for a thread that waits for the same future."""
    future, ended = make(), threading.Event()

    def wait_for_it() -> None:
        with suppress(ValueError, CancelledError):
            future.result(timeout=10)
        ended.set()

    thread = threading.Thread(target=wait_for_it)
    thread.start()
    heard: list[bool] = []
    future.add_done_callback(lambda _: heard.append(ended.wait(10)))
    {
        "set_result": lambda: future.set_result(1),
        "set_exception": lambda: future.set_exception(ValueError()),
        "cancel": future.cancel,
    }[end]()
    thread.join(timeout=10)
    assert heard == [True]


def test_waits_that_were_too_short_leave_nothing_behind() -> None:
    """Asking again and again with a timeout does not add up."""
    future: LazyFuture[int] = LazyFuture()
    for timeout in (0, -1, 0.001, 0):
        with pytest.raises(standard.TimeoutError):
            future.result(timeout=timeout)
    assert future._bells == ()


def test_what_nobody_waits_for_takes_little_memory() -> None:
    """A future that nobody waits for takes a fraction of a standard one, also when it is done."""
    ours, standards = memory_of_many(LazyFuture), memory_of_many(Future)
    assert ours < standards / 3


def memory_of_many(make: Callable[[], Future[Any]]) -> int:
    """Return the bytes that a thousand futures take that have settled and were looked at."""
    gc.collect()
    tracemalloc.start()
    try:
        futures = [make() for _ in range(1000)]
        for future in futures:
            future.set_running_or_notify_cancel()
            future.set_result(1)
            assert future.done()
            assert future.result() == 1
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_other_missing_attributes_are_missing() -> None:
    """Asking for what a future has not is an error, as ever."""
    with pytest.raises(AttributeError, match="'LazyFuture' object has no attribute 'value'"):
        LazyFuture[int]().value  # noqa: B018
