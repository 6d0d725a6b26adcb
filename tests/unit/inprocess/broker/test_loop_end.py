from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from spark_queue.errors import AbortedError
from spark_queue.memory.broker import QueueBroker, Turn
from spark_queue.memory.waiting.aio import end_of
from tests.unit.threads import until


async def sleeping(_: Turn) -> None:
    """Run for longer than any test."""
    await asyncio.sleep(100)


def stopped(broker: QueueBroker) -> bool:
    """Tell whether a stop returns, without hanging the test where it does not."""
    thread = threading.Thread(target=broker.stop, daemon=True)
    thread.start()
    thread.join(5)
    return not thread.is_alive()


@pytest.mark.parametrize("mode", ["auto", "manual"])
@pytest.mark.parametrize("group", [None, "G"])
@pytest.mark.parametrize("slots", [1, 2])
@pytest.mark.parametrize("extra", [1, 3])
def test_a_loop_that_ends_ends_its_tasks(
    mode: Any, group: str | None, slots: int, extra: int
) -> None:
    """A task that starts while its loop shuts down fails with it, and so do those behind it."""
    broker = QueueBroker(slots, mode=mode)

    async def scenario() -> list[Future[None]]:
        futures = [broker.enqueue(sleeping, group) for _ in range(slots + extra)]
        await asyncio.sleep(0)
        return futures

    futures = asyncio.run(scenario())
    assert stopped(broker)
    assert all(future.done() and future.exception(0) for future in futures)
    assert broker.running_count == broker.waiting_count == 0


@pytest.mark.parametrize("mode", ["auto", "manual"])
async def test_a_task_that_is_cancelled_before_its_first_step_makes_room(mode: Any) -> None:
    """Slot and group of a coroutine that never began are free again, whatever the mode."""
    ran: list[str] = []

    async def never(_: Turn) -> None:
        ran.append("never")

    async def next_one(turn: Turn) -> str:
        turn.release()
        return "next"

    broker = QueueBroker(1, mode=mode)
    before = asyncio.all_tasks()
    first, second = broker.enqueue(never, "G"), broker.enqueue(next_one, "G")
    (task,) = asyncio.all_tasks() - before
    task.cancel()
    assert await asyncio.wait_for(broker.aio.awaitable(second), 5) == "next"
    assert isinstance(first.exception(0), AbortedError)
    assert (broker.active_count, broker.running_count, ran) == (0, 0, [])


class Closing:
    """A loop that is run by hand, so that it can be closed at any instant."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.broker = QueueBroker(1)

    def enqueue(self, task: Callable[[Turn], Any], group: str | None = None) -> Future[Any]:
        async def run() -> Future[Any]:
            return self.broker.enqueue(task, group)

        return self.loop.run_until_complete(run())

    def step(self) -> None:
        self.loop.run_until_complete(asyncio.sleep(0))


def test_a_loop_that_is_closed_ends_what_it_ran() -> None:
    """Its task cleans up, then fails and makes room; who waits in a thread hears of it."""
    said: list[str] = []

    async def task(_: Turn) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            said.append("cleaned up")

    closing = Closing()
    future = closing.enqueue(task, "G")
    waiting = threading.Thread(target=lambda: said.append(type(future.exception(10)).__name__))
    waiting.start()
    successor = closing.broker.enqueue(lambda _: said.append("next"), "G")
    closing.step()
    assert said == []
    closing.loop.close()
    successor.result(10)
    waiting.join(10)
    assert said[0] == "cleaned up"
    assert sorted(said[1:]) == ["AbortedError", "next"]
    assert stopped(closing.broker)


def test_a_task_on_its_way_to_a_loop_that_closes_is_ended() -> None:
    """A task that another thread has handed to a loop never runs there when the loop closes."""
    closing = Closing()
    gate: Future[None] = Future()
    closing.broker.enqueue(lambda _: gate.result(10))
    future = closing.enqueue(sleeping)
    gate.set_result(None)
    until(lambda: closing.broker.waiting_count == 0)
    closing.loop.close()
    assert "closed" in str(future.exception(5))
    assert stopped(closing.broker)


def test_a_task_that_waits_in_its_cleaning_up_is_ended_too() -> None:
    """A closed loop cannot finish it, and its broker does not wait for that."""

    async def stubborn(_: Turn) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0)

    closing = Closing()
    future = closing.enqueue(stubborn)
    closing.step()
    closing.loop.close()
    assert "ignored" in str(future.exception(5))
    assert stopped(closing.broker)


def test_a_task_that_runs_a_loop_of_its_own_is_still_a_task_when_that_ends() -> None:
    """Tasks that end with a loop inside of a task leave that task what it is."""
    inner = QueueBroker(1)
    outer = QueueBroker(1)

    def task(_: Turn) -> str:
        async def scenario() -> None:
            for _ in range(2):
                inner.enqueue(sleeping)
            await asyncio.sleep(0)

        asyncio.run(scenario())
        try:
            outer.wait_for_idle(0)
        except Exception as error:  # noqa: BLE001 - its kind is looked at
            return type(error).__name__
        return "idle"

    assert outer.enqueue(task).result(10) == "DeadlockError"
    assert stopped(inner)
    assert stopped(outer)


async def test_brokers_leave_nothing_at_a_loop_that_goes_on() -> None:
    """A loop keeps nothing of the brokers whose tasks it has run."""

    async def fine(_: Turn) -> int:
        return 1

    async def once() -> weakref.ref[QueueBroker]:
        broker = QueueBroker(1)
        assert await broker.aio.enqueue(fine) == 1
        await broker.aio.stop()
        return weakref.ref(broker)

    brokers = [await once() for _ in range(5)]
    await asyncio.sleep(0)
    gc.collect()
    assert [broker() for broker in brokers] == [None] * 5
    assert not end_of(asyncio.get_running_loop()).calls
