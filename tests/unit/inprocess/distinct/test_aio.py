from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.distinct import AioTake, DistinctQueue
from spark_queue.memory.waiting.aio import end_of
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.inprocess.distinct.work import Failing, WorkError
from tests.unit.waiting.tickets.crew import Crew
from tests.unit.waiting.tickets.stage import line_of

F = [1, 5, 2, 6, 4, 3]


def filled() -> DistinctQueue[Any]:
    """Make a queue with the base fill."""
    queue: DistinctQueue[Any] = DistinctQueue(timer=ManualTimer())
    queue.add_all(F)
    return queue


async def work(take: AioTake[Any]) -> list[Any]:
    """Take, and be done."""
    async with take as items:
        return list(items)


async def test_a_scope_of_a_coroutine() -> None:
    """DQ-02, DQ-03: a coroutine's scope ends as a thread's does, well and badly."""
    queue = filled()
    async with queue.aio.take(3) as items:
        assert items == [1, 5, 2]
        assert queue.in_progress == [1, 5, 2]
        items.nack(5)
    assert queue.queued == [5, 6, 4, 3]
    with Failing():
        async with queue.aio.take(1):
            raise WorkError
    assert queue.queued == [5, 6, 4, 3]
    assert queue.facts(5).failures == 2


async def test_a_cancelled_worker_gives_back() -> None:
    """DQ-04: a coroutine that is cancelled in its scope returns its elements, untried."""
    queue = filled()

    async def hang() -> None:
        async with queue.aio.take(3):
            await asyncio.Event().wait()

    worker = asyncio.create_task(hang())
    await asyncio.sleep(0)
    assert (queue.queued, queue.in_progress) == ([6, 4, 3], [1, 5, 2])
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert (queue.queued, queue.in_progress) == (F, [])
    assert queue.facts(1).failures == 0


async def test_batches_of_a_coroutine() -> None:
    """DQ-07: a loop of scopes, which ends when the queue is shut down and empty."""
    queue: DistinctQueue[int] = DistinctQueue()
    queue.add_all(range(1, 8))
    threading.Timer(0.005, queue.shutdown).start()
    sums = []
    async for take in queue.aio.batches(3):
        with take as items:
            sums.append(sum(items))
    assert sums == [6, 15, 7]
    assert len(queue) == 0


async def test_batches_that_are_left_give_back() -> None:
    """A turn that is not entered, or a loop that is closed, leaves its elements queued."""
    queue = filled()
    batches: Any = queue.aio.batches(2)
    assert await anext(batches) == [1, 5]
    assert queue.in_progress == [1, 5]
    assert await anext(batches) == [1, 5]
    await batches.aclose()
    assert (queue.queued, queue.in_progress) == (F, [])


async def test_a_take_is_used_once() -> None:
    """A coroutine's take cannot be entered again, during its scope or after it."""
    queue = filled()
    take = queue.aio.take(2)
    async with take:
        with pytest.raises(InvalidArgumentError, match="was used"):
            await work(take)
        assert queue.in_progress == [1, 5]
    with pytest.raises(InvalidArgumentError, match="was used"):
        await work(take)


@pytest.mark.parametrize("bulk", [False, True])
def test_a_taker_whose_loop_was_closed_is_passed_over(bulk: bool) -> None:  # noqa: FBT001
    """Elements do not go to a coroutine that can never run again, but to the next in line."""
    queue: DistinctQueue[Any] = DistinctQueue()
    loop = asyncio.new_event_loop()
    lost = loop.create_task(work(queue.aio.take(2)))
    loop.run_until_complete(asyncio.sleep(0))
    # As it is while another thread closes the loop, and has not come to its end.
    end_of(loop).calls.clear()
    loop.close()
    crew = Crew(line_of(queue, "takers"))

    def take() -> list[Any]:
        with queue.take(2) as items:
            return list(items)

    crew.waits(take)
    if bulk:
        queue.add_all([1, 5, 2])
    else:
        queue.add(1)
    assert crew.outcomes() == [[1, 5] if bulk else [1]]
    assert queue.queued == ([2] if bulk else [])
    assert queue.in_progress == []
    lost.get_coro().close()
    assert queue.in_progress == []
