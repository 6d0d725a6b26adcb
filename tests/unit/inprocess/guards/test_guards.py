from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial
from typing import Any

import pytest

from spark_queue.errors import (
    DeadlockError,
    QueueFullError,
    QueueShutDownError,
)
from spark_queue.memory.guards import BoundedGuard, ConcurrentGuard, ExclusiveGuard, OnceGuard
from spark_queue.memory.waiting.abort import AbortScope, AbortSignal
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.threads import in_thread, until


class Held:
    """An operation that stays under way until it is let go, or told to stop."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()
        self.running = 0
        self.peak = 0
        self._lock = threading.Lock()

    def __call__(self, *args: Any) -> Any:
        """Stay until let go; the last argument is the signal."""
        signal: AbortSignal = args[-1]
        with self._lock:
            self.running += 1
            self.peak = max(self.peak, self.running)
        self.entered.release()
        leave = signal.listen(lambda _: self.go.set())
        assert self.go.wait(10)
        leave()
        with self._lock:
            self.running -= 1
        signal.raise_if_aborted()
        return 42

    def wait(self, times: int = 1) -> None:
        """Wait until so many are under way."""
        for _ in range(times):
            assert self.entered.acquire(timeout=10)


class Resource:
    """Something to work with, that writes down its life."""

    made: list[Resource]

    def __init__(self, log: list[str]) -> None:
        self.log = log
        log.append("made")

    def close(self) -> None:
        """Write down the end."""
        self.log.append("closed")


def note(ended: list[int], number: int, *_: Any) -> None:
    """Write down that an operation ran."""
    ended.append(number)


# Exclusive


def test_one_operation_at_a_time() -> None:
    """QG-01: of three operations one runs at a time, in their order."""
    guard = ExclusiveGuard()
    held = Held()
    futures = [guard.submit(held) for _ in range(3)]
    held.wait()
    assert held.running == 1
    held.go.set()
    assert [future.result(timeout=10) for future in futures] == [42] * 3
    assert held.peak == 1
    guard.stop()


def test_errors_pass_through_and_the_next_runs() -> None:
    """QG-02: what an operation raises, its caller gets."""
    guard = ExclusiveGuard()
    with pytest.raises(ZeroDivisionError):
        guard.execute(lambda _: 1 / 0)
    assert guard.execute(lambda _: "next") == "next"
    guard.stop()


@pytest.mark.parametrize("kind", [ExclusiveGuard, ConcurrentGuard])
def test_a_stopped_guard_refuses(kind: type[Any]) -> None:
    """QG-03: after a forced stop an operation is refused as stopped."""
    guard = kind()
    guard.stop(force=True)
    with pytest.raises(QueueShutDownError, match="stopped"):
        guard.execute(lambda _: 1)


def test_a_stop_waits_for_the_operation() -> None:
    """QG-04: the operation under way ends with its value before stop returns."""
    guard, held = ExclusiveGuard(), Held()
    running = guard.submit(held)
    waiting = guard.submit(held)
    held.wait()
    stopping, _ = in_thread(guard.stop)
    assert isinstance(waiting.exception(timeout=10), QueueShutDownError)
    assert stopping.is_alive()
    held.go.set()
    stopping.join(timeout=10)
    assert running.result(timeout=0) == 42


def test_waiting_for_idle_waits_for_all() -> None:
    """QG-05: after two operations, both have ended, in order."""
    guard, ended = ExclusiveGuard(), list[int]()
    for number in (1, 2):
        guard.submit(partial(note, ended, number))
    guard.wait_for_idle()
    assert ended == [1, 2]
    guard.stop()


def test_a_forced_stop_aborts_the_operation() -> None:
    """QG-06: the operation under way sees the abort and is rejected as stopped."""
    guard, held = ExclusiveGuard(), Held()
    running = guard.submit(held)
    held.wait()
    guard.stop(force=True)
    assert isinstance(running.exception(timeout=10), QueueShutDownError)


def test_an_aborted_signal_rejects() -> None:
    """QG-07: with a signal that is aborted already, nothing runs, whatever the guard."""
    scope, ran = AbortScope(), list[Any]()
    scope.abort(ValueError("too late"))
    guards: list[Any] = [
        ExclusiveGuard(),
        ConcurrentGuard(),
        BoundedGuard(list, 1),
    ]
    for guard in guards:
        with pytest.raises(ValueError, match="too late"):
            guard.execute(lambda *args: ran.append(args), signal=scope.signal)
        guard.stop()
    assert ran == []


def test_a_guard_has_a_limit_of_waiting_operations() -> None:
    """QG-01: more than may wait are refused."""
    guard, held = ExclusiveGuard(max_waiting=1), Held()
    guard.submit(held)
    guard.submit(held)
    with pytest.raises(QueueFullError):
        guard.submit(held)
    held.go.set()
    guard.stop(deadline=10)


def test_an_operation_that_waits_for_its_own_guard_is_told() -> None:
    """QG-01: an exclusive operation inside another one is an error, not a deadlock."""
    guard = ExclusiveGuard()
    with pytest.raises(DeadlockError):
        guard.execute(lambda _: guard.execute(lambda _: 1))
    assert guard.execute(lambda _: 2) == 2
    guard.stop()


# Bounded


def test_never_more_resources_than_the_limit() -> None:
    """QG-08: four operations on two resources: two at a time."""
    log: list[str] = []
    guard, held = BoundedGuard(lambda: Resource(log), 2), Held()
    futures = [guard.submit(held) for _ in range(4)]
    held.wait(2)
    assert held.running == 2
    held.go.set()
    for future in futures:
        assert future.result(timeout=10) == 42
    assert held.peak == 2
    guard.stop()


@pytest.mark.parametrize(("reuse", "made"), [(True, 1), (False, 4)])
def test_resources_are_reused_or_not(reuse: bool, made: int) -> None:  # noqa: FBT001
    """QG-09: operations share a resource in turn, or have one each, closed behind them."""
    log: list[str] = []
    guard = BoundedGuard(
        lambda: Resource(log), 2, reuse=reuse, close_resource=lambda resource: resource.close()
    )
    for _ in range(4):
        guard.execute(lambda _resource, _signal: None)
    assert log.count("made") == made
    guard.stop()
    assert log.count("closed") == made


def test_a_failing_operation_returns_its_resource() -> None:
    """QG-10: after errors, of the maker too, the resource and the slot are there for the next."""
    log: list[str] = []
    fails = iter([True, False])

    def create() -> Resource:
        if next(fails):
            raise ConnectionError
        return Resource(log)

    guard = BoundedGuard(create, 1)
    with pytest.raises(ConnectionError):
        guard.execute(lambda _resource, _signal: None)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            guard.execute(lambda _resource, _signal: 1 / 0)
    assert guard.execute(lambda _resource, _signal: "fine") == "fine"
    assert log == ["made"]
    guard.stop()


@pytest.mark.parametrize("force", [False, True])
def test_resources_are_closed_after_the_work(force: bool) -> None:  # noqa: FBT001
    """QG-11, QG-12, QG-13: a resource in use is closed when its work has ended, also by force."""
    log: list[str] = []
    stay, entered = threading.Event(), threading.Event()
    guard = BoundedGuard(lambda: Resource(log), 2, close_resource=lambda r: r.close())
    guard.execute(lambda _resource, _signal: None)

    def works(_resource: Resource, _signal: AbortSignal) -> None:
        entered.set()
        assert stay.wait(10)
        log.append("worked")

    running = guard.submit(works)
    assert entered.wait(10)
    stopping, _ = in_thread(lambda: guard.stop(force=force))
    if force:
        stopping.join(timeout=10)
    else:
        until(lambda: guard._broker._dispatcher.stopped)
        assert stopping.is_alive()
    assert log == ["made"]
    stay.set()
    stopping.join(timeout=10)
    assert running.exception(timeout=10) is None
    until(lambda: len(log) == 3)
    assert log == ["made", "worked", "closed"]


def test_a_bounded_guard_can_be_waited_for() -> None:
    """QG-14: waiting for idle ends when all operations have."""
    guard, ended = BoundedGuard(list[int], 2), list[int]()
    for number in range(5):
        guard.submit(partial(note, ended, number))
    guard.wait_for_idle()
    assert sorted(ended) == [0, 1, 2, 3, 4]
    guard.stop()


def test_an_abort_rejects_a_bounded_operation() -> None:
    """QG-15, QG-16: under way or waiting, it is rejected; the resource is there for the next."""
    guard, held, scope = BoundedGuard(list[int], 1), Held(), AbortScope()
    running = guard.submit(held, signal=scope.signal)
    waiting = guard.submit(held, signal=scope.signal)
    held.wait()
    scope.abort(ValueError("enough"))
    for future in (running, waiting):
        assert isinstance(future.exception(timeout=10), ValueError)
    with pytest.raises(ValueError, match="enough"):
        guard.submit(held, signal=scope.signal)
    assert guard.execute(lambda _resource, _signal: "next") == "next"
    guard.stop()


def test_a_resource_that_cannot_be_closed_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """QG-11: an error of the closer reaches no operation's caller, and the others are closed."""
    guard = BoundedGuard(list[int], 1, reuse=False, close_resource=lambda _: 1 / 0)
    with caplog.at_level(logging.ERROR):
        assert guard.execute(lambda _resource, _signal: 1) == 1
    guard.stop()
    assert "closing a resource failed" in caplog.text


# Once


def test_callers_share_one_attempt() -> None:
    """QG-17: three callers at once get the same value of one making, and so do later ones."""
    held, made = Held(), list[object]()

    def make(signal: AbortSignal) -> object:
        held(signal)
        made.append(object())
        return made[-1]

    guard = OnceGuard(make)
    futures = [guard.get_future() for _ in range(3)]
    held.go.set()
    assert {id(future.result(timeout=10)) for future in futures} == {id(made[0])}
    assert guard.get() is made[0]
    assert len(made) == 1
    guard.stop()


@pytest.mark.parametrize(("failures", "retries", "attempts"), [(2, 5, 3), (99, 2, 3), (99, 0, 1)])
def test_a_failed_attempt_is_repeated(failures: int, retries: int, attempts: int) -> None:
    """QG-18, QG-19: so often as it may; then who waits gets the error, the next begins anew."""
    calls: list[int] = []

    def make(_: AbortSignal) -> str:
        calls.append(1)
        if len(calls) <= failures:
            raise ConnectionError(len(calls))
        return "made"

    guard = OnceGuard(make, retries)
    if failures == 2:
        assert guard.get() == "made"
    else:
        with pytest.raises(ConnectionError, match=str(attempts)):
            guard.get()
    assert len(calls) == attempts
    if failures == 99:
        failures = 0
        assert guard.get() == "made"
    guard.stop()


def test_after_a_reset_the_value_is_made_again() -> None:
    """QG-20: the second value is another one; a reset during the making keeps that from staying."""
    values = iter(range(10))
    held = Held()
    held.go.set()
    guard = OnceGuard(lambda signal: (held(signal), next(values))[1])
    assert (guard.get(), guard.get()) == (0, 0)
    guard.reset()
    assert guard.get() == 1
    guard.reset()
    held.go.clear()
    stale = guard.get_future()
    held.wait(3)
    guard.reset()
    held.go.set()
    assert stale.result(timeout=10) == 2
    assert guard.get() == 3
    guard.stop()


def test_a_stopped_once_guard_gives_nothing() -> None:
    """QG-21: after the stop it says so, with a value and without."""
    for warm in (False, True):
        guard = OnceGuard(lambda _: 1)
        if warm:
            guard.get()
        guard.stop()
        with pytest.raises(QueueShutDownError, match="stopped"):
            guard.get()


def test_an_aborted_signal_makes_nothing() -> None:
    """QG-22: with a signal that is aborted already, nothing is made."""
    scope, made = AbortScope(), list[int]()
    scope.abort(ValueError("too late"))
    guard = OnceGuard(lambda _: made.append(1))
    with pytest.raises(ValueError, match="too late"):
        guard.get(signal=scope.signal)
    assert made == []
    guard.stop()


def test_the_making_is_aborted_when_nobody_waits_any_more() -> None:
    """QG-23: an abort rejects its caller at once; the making hears of it when it was the last."""
    heard: list[bool] = []
    held = Held()

    def make(signal: AbortSignal) -> int:
        try:
            return int(held(signal))
        finally:
            heard.append(signal.aborted)

    guard = OnceGuard(make)
    scopes = [AbortScope(), AbortScope()]
    first, second = (guard.get_future(signal=scope.signal) for scope in scopes)
    third = guard.get_future()
    held.wait()
    scopes[0].abort(ValueError("enough"))
    assert isinstance(first.exception(timeout=0), ValueError)
    assert third.cancel()
    assert heard == []
    assert not second.done()
    scopes[1].abort(ValueError("enough"))
    assert isinstance(second.exception(timeout=0), ValueError)
    until(lambda: heard == [True])
    assert all(scope.signal.listener_count == 0 for scope in scopes)
    assert guard.get() == 42
    assert heard == [True, False]
    guard.stop()


def test_a_forced_stop_ends_the_making() -> None:
    """QG-21: who waits for the value is told, and the making is not repeated."""
    held = Held()
    guard = OnceGuard(held)
    waiting = guard.get_future()
    held.wait()
    guard.stop(force=True)
    assert isinstance(waiting.exception(timeout=10), QueueShutDownError)
    assert not held.entered.acquire(blocking=False)


def test_a_maker_that_asks_for_its_own_value_is_told() -> None:
    """QG-17: it would wait for itself."""
    guard: OnceGuard[int]

    def make(_: AbortSignal) -> int:
        return guard.get()

    guard = OnceGuard(make, 0)
    with pytest.raises(DeadlockError):
        guard.get()
    guard.stop()


# Concurrent


def test_any_number_of_operations_overlap() -> None:
    """QG-24: five operations are all under way at once."""
    guard, held = ConcurrentGuard(), Held()
    futures = [guard.submit(held) for _ in range(5)]
    held.wait(5)
    assert held.running == 5
    held.go.set()
    assert [future.result(timeout=10) for future in futures] == [42] * 5
    guard.stop()


def test_a_deadline_aborts_what_is_left() -> None:
    """QG-25: a stop with a deadline of 10 ms aborts the operation that is still under way then."""
    timer = ManualTimer()
    guard, held = ConcurrentGuard(timer=timer), Held()
    running = guard.submit(held)
    held.wait()
    stopping, _ = in_thread(lambda: guard.stop(deadline=0.010))
    until(lambda: len(timer) == 1)
    assert not held.go.is_set()
    timer.advance(0.010)
    stopping.join(timeout=10)
    assert isinstance(running.exception(timeout=10), QueueShutDownError)


# Coroutines


async def test_the_guards_serve_coroutines() -> None:
    """QG-01, QG-08, QG-24: the same guards, with coroutine functions on the loop."""
    now, peaks = [0], list[int]()

    async def operation(*_: Any) -> int:
        now[0] += 1
        peaks.append(now[0])
        for _turn in range(5):
            await asyncio.sleep(0)
        now[0] -= 1
        return 42

    async def create() -> list[int]:
        await asyncio.sleep(0)
        return []

    bounded: BoundedGuard[Any] = BoundedGuard(create, 2)
    guards: list[tuple[Any, int]] = [
        (ExclusiveGuard(), 1),
        (bounded, 2),
        (ConcurrentGuard(), 5),
    ]
    for guard, peak in guards:
        peaks.clear()
        runs = (guard.aio.execute(operation) for _ in range(5))
        assert await asyncio.gather(*runs) == [42] * 5
        assert max(peaks) == peak
        await guard.aio.wait_for_idle()
        await guard.aio.stop(deadline=10)
        with pytest.raises(QueueShutDownError):
            await guard.aio.execute(operation)


async def test_coroutines_share_one_attempt() -> None:
    """QG-17: three coroutines that ask at once share one making."""
    made: list[int] = []

    async def make(_: AbortSignal) -> int:
        made.append(1)
        await asyncio.sleep(0)
        return 42

    once = OnceGuard(make)
    assert await asyncio.gather(*(once.aio.get() for _ in range(3))) == [42] * 3
    assert len(made) == 1
    await once.aio.stop()


async def test_a_coroutine_maker_is_repeated_and_aborted() -> None:
    """QG-18, QG-23: retries and the abort by the last caller, on the loop."""
    calls: list[int] = []

    async def fails_twice(_: AbortSignal) -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError
        return "made"

    once = OnceGuard(fails_twice)
    assert await once.aio.get() == "made"
    await once.aio.stop()
    heard: list[AbortSignal] = []

    async def waits(signal: AbortSignal) -> None:
        heard.append(signal)
        await signal.aio_wait()
        signal.raise_if_aborted()

    guard = OnceGuard(waits)
    caller = asyncio.create_task(guard.aio.get())
    while not heard:  # noqa: ASYNC110 - the loop's own turns are what is waited for
        await asyncio.sleep(0)
    caller.cancel()
    await asyncio.gather(caller, return_exceptions=True)
    assert heard[0].aborted
    await guard.aio.stop()
    assert len(heard) == 1
