from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.singular import SingularUpdateQueue, WorkerPool
from tests.unit.threads import until


def test_a_result_is_offered_to_the_next_queue_first() -> None:
    """SU-25: with then= the result is a request of the next queue before the future completes."""
    second: SingularUpdateQueue[int, str] = SingularUpdateQueue(str)
    counts: list[int] = []
    with SingularUpdateQueue[int, int](lambda x: 2 * x, then=second) as first:
        reply = first.submit(21)
        reply.add_done_callback(lambda _: counts.append(second.task_count))
        assert reply.result(timeout=10) == 42
    assert counts == [1]
    second.shutdown()


@pytest.mark.parametrize("shared", [False, True])
def test_back_pressure_travels_through_the_chain(shared: bool) -> None:  # noqa: FBT001
    """SU-25: a full last queue holds the one before it, and that its producers; none is lost."""
    seen: list[int] = []
    with WorkerPool(1) as pool:
        last: SingularUpdateQueue[int, None] = SingularUpdateQueue(seen.append, capacity=1)
        middle: SingularUpdateQueue[int, int] = SingularUpdateQueue(
            lambda x: x, 1, then=last, pool=pool if shared else None
        )
        first: SingularUpdateQueue[int, int] = SingularUpdateQueue(
            lambda x: x, 1, then=middle, pool=pool if shared else None
        )
        first.start()
        middle.start()
        producer = threading.Thread(target=lambda: [first.submit(n) for n in range(20)])
        producer.start()
        until(lambda: all(queue.work.line.blocked == 1 for queue in (last, middle, first)))
        # One in the last queue; in each of the others one that waits for its slot and one queued.
        assert [queue.task_count for queue in (last, middle, first)] == [1, 1, 1]
        assert producer.is_alive()
        last.start()
        producer.join(timeout=10)
        for queue in (first, middle):
            queue.shutdown()
        last.shutdown()
    assert seen == list(range(20))


@pytest.mark.parametrize("shared", [False, True])
def test_a_chain_that_is_cut_fails_the_future(shared: bool) -> None:  # noqa: FBT001
    """SU-25: when the next queue shuts down, before or while one waits for it, the future fails."""
    with WorkerPool(1) as pool:
        last: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x, capacity=1)
        first: SingularUpdateQueue[int, int] = SingularUpdateQueue(
            lambda x: x, then=last, pool=pool if shared else None
        )
        first.start()
        assert first.submit(1).result(timeout=10) == 1
        waiting = first.submit(2)
        until(lambda: last.work.line.blocked == 1)
        last.shutdown(drain=False)
        assert isinstance(waiting.exception(timeout=10), QueueShutDownError)
        assert isinstance(first.submit(3).exception(timeout=10), QueueShutDownError)
        first.shutdown()


def test_an_error_is_not_passed_on() -> None:
    """SU-25: only results go to the next queue."""
    seen: list[int] = []
    with (
        SingularUpdateQueue(seen.append) as last,
        SingularUpdateQueue[int, int](lambda x: 6 // x, then=last) as first,
    ):
        assert isinstance(first.submit(0).exception(timeout=10), ZeroDivisionError)
        assert first.submit(3).result(timeout=10) == 2
    assert seen == [2]


async def test_back_pressure_suspends_a_worker_on_the_loop() -> None:
    """SU-25: in asyncio a full next queue suspends the worker, not the loop."""
    seen: list[Any] = []
    last: SingularUpdateQueue[int, None] = SingularUpdateQueue(seen.append, capacity=1)
    first: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x, then=last)
    async with first.aio as front:
        replies = [first.submit(n) for n in range(3)]
        while not last.work.line.blocked:  # noqa: ASYNC110 - the loop's turns are waited for
            await asyncio.sleep(0)
        assert [reply.done() for reply in replies] == [True, False, False]
        last.start()
        assert await front.submit(3) == 3
    await last.aio.shutdown()
    assert seen == [0, 1, 2, 3]
