"""Callbacks that end their thread, as ``sys.exit`` does: they end it, and leave nobody waiting."""

from __future__ import annotations

import asyncio
import sys
import threading
from concurrent.futures import Future
from typing import Any

import pytest

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.broker import QueueBroker, TaskExpiredError, Turn
from spark_queue.memory.guards import OnceGuard
from spark_queue.memory.waiting.abort import AbortScope
from spark_queue.memory.waiting.timer import ManualTimer, ThreadTimer


def leaves(_: object) -> None:
    """Be a callback that ends its thread."""
    sys.exit()


def held(broker: QueueBroker) -> tuple[Future[Any], Future[Any]]:
    """Hold the only slot of a broker: its gate, and its future."""
    gate: Future[Any] = Future()
    return gate, broker.enqueue(lambda _: gate.result(10))


@pytest.mark.parametrize("kind", ["threads", "coroutines"])
async def test_a_task_whose_callback_exits_makes_room(kind: str) -> None:
    """The slot is free, its successor runs, every callback is called, and a stop returns."""
    said: list[str] = []
    broker = QueueBroker(1)

    async def fine(_: Turn) -> str:
        return "fine"

    gate, first = held(broker)
    first.add_done_callback(leaves)
    first.add_done_callback(lambda _: said.append("told"))
    second = broker.enqueue(lambda _: "fine") if kind == "threads" else broker.enqueue(fine)
    gate.set_result(None)
    second.add_done_callback(lambda _: said.append("next"))
    await broker.aio.wait_for_idle(10)
    assert sorted(said) == ["next", "told"]
    assert broker.active_count == 0
    broker.stop(deadline=10)


def test_a_stop_tells_all_though_a_callback_exits() -> None:
    """Every task that waits is rejected, every running one told, and who waits for idle woken."""
    broker = QueueBroker(1)
    gate, running = held(broker)
    waiting = [broker.enqueue(lambda _: None) for _ in range(3)]
    waiting[0].add_done_callback(leaves)
    with pytest.raises(SystemExit):
        broker.stop(force=True)
    assert all(isinstance(each.exception(0), QueueShutDownError) for each in waiting)
    gate.set_result("late")
    assert running.result(10) == "late"
    broker.stop(deadline=10)


def test_late_tasks_are_all_rejected_though_a_callback_exits() -> None:
    """At the end of their waiting time each fails, and the next task still starts."""
    timer = ManualTimer()
    broker = QueueBroker(1, max_idle=5, timer=timer)
    gate, _ = held(broker)
    late = [broker.enqueue(lambda _: None) for _ in range(3)]
    late[0].add_done_callback(leaves)
    with pytest.raises(SystemExit):
        timer.advance(5)
    assert all(isinstance(each.exception(0), TaskExpiredError) for each in late)
    gate.set_result(None)
    assert broker.enqueue(lambda _: "next").result(10) == "next"
    broker.stop(deadline=10)


def test_an_abort_and_a_cancel_are_complete_though_a_callback_exits() -> None:
    """The task is out, and who waits for idle is woken."""
    broker = QueueBroker(1)
    gate, running = held(broker)
    scope = AbortScope()
    aborted, cancelled = broker.enqueue(lambda _: None, signal=scope.signal), broker.enqueue(str)
    for future in (aborted, cancelled):
        future.add_done_callback(leaves)
    with pytest.raises(SystemExit):
        scope.abort()
    with pytest.raises(SystemExit):
        cancelled.cancel()
    assert (aborted.done(), cancelled.cancelled(), broker.waiting_count) == (True, True, 0)
    gate.set_result(None)
    running.result(10)
    broker.wait_for_idle(10)
    broker.stop(deadline=10)


def test_a_task_that_cannot_start_ends_though_its_callback_exits() -> None:
    """Those behind it run, and no slot is lost."""
    broker = QueueBroker(1)
    loop = asyncio.new_event_loop()

    async def enqueue() -> Future[str]:
        async def never(_: Turn) -> str:
            return "never"

        return broker.enqueue(never)

    gate, _ = held(broker)
    dead = loop.run_until_complete(enqueue())
    dead.add_done_callback(leaves)
    behind = broker.enqueue(lambda _: "behind")
    loop.close()
    gate.set_result(None)
    assert behind.result(10) == "behind"
    assert isinstance(dead.exception(0), RuntimeError)
    broker.stop(deadline=10)


def test_an_abort_tells_every_listener_though_one_exits() -> None:
    """Errors of listeners are logged, also when they come late; an exit is raised in the end."""
    said: list[str] = []
    scope = AbortScope()

    def fails(_: BaseException) -> None:
        raise ZeroDivisionError

    for listener in (fails, leaves, lambda _: said.append("told")):
        scope.signal.listen(listener)
    with pytest.raises(SystemExit):
        scope.abort()
    assert said == ["told"]
    scope.signal.listen(fails)


@pytest.mark.parametrize("fails", [False, True])
def test_a_once_guard_answers_all_though_a_callback_exits(fails: bool) -> None:  # noqa: FBT001
    """Everybody who waits gets the value, or the error, whatever the callback of another does."""
    gate: Future[Any] = Future()
    guard = OnceGuard(lambda _: gate.result(10), max_retries=0)
    callers = [guard.get_future() for _ in range(3)]
    for caller in callers:
        caller.add_done_callback(leaves)
    if fails:
        gate.set_exception(ZeroDivisionError())
        assert all(isinstance(caller.exception(10), ZeroDivisionError) for caller in callers)
    else:
        gate.set_result("value")
        assert [caller.result(10) for caller in callers] == ["value"] * 3
    guard.stop(deadline=10)


def test_a_timer_outlives_a_call_that_exits() -> None:
    """The thread of the timer is that of all time-outs of the process, so no call ends it."""
    timer = ThreadTimer()
    due = threading.Event()
    timer.call_at(0, sys.exit)
    timer.call_at(timer.now() + 0.05, due.set)
    assert due.wait(10)
