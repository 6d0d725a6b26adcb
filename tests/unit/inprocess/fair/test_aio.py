from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from spark_queue.errors import QueueFullError, QueueShutDownError
from spark_queue.memory.fair import FairQueue
from spark_queue.memory.waiting.tickets import TaskTicket
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.waiting.tickets.stage import line_of


def by_letter(limit: int | None = 2, **options: Any) -> FairQueue[str]:
    """Make a queue whose key is the first letter of an item."""
    return FairQueue(lambda item: item[0], limit, **options)


async def begun(wait: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a wait, and let it come to where it waits."""
    task = asyncio.create_task(wait)
    await asyncio.sleep(0)
    return task


async def test_coroutines_take_in_rounds() -> None:
    """A coroutine puts and takes what a thread does, without waiting where it need not."""
    queue = by_letter(None)
    front = queue.aio
    for item in ("A1", "A2", "B1"):
        assert await front.put(item) is front
    assert [await front.get() for _ in range(3)] == ["A1", "B1", "A2"]


async def test_a_coroutine_waits_for_a_slot() -> None:
    """A put into a full queue suspends until a take makes room, and then puts."""
    queue = by_letter(1)
    await queue.aio.put("A1")
    producer = await begun(queue.aio.put("A2"))
    assert not producer.done()
    assert queue.get() == "A1"
    await producer
    assert await queue.aio.get() == "A2"


async def test_a_put_of_a_coroutine_ends_by_the_clock() -> None:
    """It is refused at its deadline, or at once where it has no patience, and leaves no alarm."""
    timer = ManualTimer()
    queue = by_letter(1, timer=timer)
    queue.put("A1")
    producer = await begun(queue.aio.put("A2", timeout=5))
    timer.advance(5)
    with pytest.raises(QueueFullError):
        await producer
    with pytest.raises(QueueFullError):
        await queue.aio.put("A2", timeout=0)
    assert (queue.get(), len(timer)) == ("A1", 0)


async def test_a_cancelled_producer_puts_nothing() -> None:
    """A put that is cancelled before or after it was given a slot puts nothing, and frees it."""
    queue = by_letter(1)
    queue.put("A1")
    early, late, last = [await begun(queue.aio.put(item)) for item in ("B1", "C1", "D1")]
    early.cancel()
    await asyncio.gather(early, return_exceptions=True)
    assert queue.get() == "A1"
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)
    await last
    assert await queue.aio.get() == "D1"
    assert queue.unfinished_tasks == 2
    assert queue.put_nowait("E1").full()


async def test_a_coroutine_joins() -> None:
    """A join of a coroutine ends with the last item that is done."""
    queue = by_letter()
    await queue.aio.join()
    queue.put("A1")
    joiner = await begun(queue.aio.join())
    queue.get()
    await asyncio.sleep(0)
    assert not joiner.done()
    queue.task_done()
    await joiner


async def test_a_shutdown_wakes_producers() -> None:
    """A coroutine that waits for a slot is refused, and so is who comes later."""
    queue = by_letter(1)
    queue.put("A1")
    producer = await begun(queue.aio.put("A2"))
    queue.shutdown()
    for wait in (producer, queue.aio.put("A3")):
        with pytest.raises(QueueShutDownError):
            await wait
    assert await queue.aio.get() == "A1"


def test_a_producer_whose_loop_was_closed_is_passed_over() -> None:
    """A slot is not given to a coroutine that can never run again."""
    queue = by_letter(1)
    queue.put("A1")
    loop = asyncio.new_event_loop()
    lost = loop.create_task(queue.aio.put("B1"))
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert queue.get() == "A1"
    assert queue.put_nowait("C1").get() == "C1"
    lost.get_coro().close()
    assert queue.empty()


def test_a_closed_loop_hears_of_nothing() -> None:
    """A ticket whose loop is just closing is passed over, before it is taken out of the line."""
    loop = asyncio.new_event_loop()

    async def make() -> TaskTicket[str]:
        return TaskTicket(line_of(by_letter(), "takers"))

    ticket = loop.run_until_complete(make())
    loop.close()
    assert not ticket.give("item")


async def test_a_ticket_that_is_settled_needs_no_turn_of_the_loop() -> None:
    """What is there when a ticket is waited for is returned without suspending."""
    ticket = TaskTicket(line_of(by_letter(), "takers"))
    ticket.give("item")
    with pytest.raises(StopIteration) as returned:
        ticket.wait().send(None)
    assert returned.value.value == "item"
