from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from queue import Empty
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, QueueFullError, QueueShutDownError
from spark_queue.memory.fair import FairQueue
from spark_queue.memory.waiting.tickets import TaskTicket
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.waiting.tickets.crew import Crew
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


async def test_threads_and_coroutines_wait_in_one_line() -> None:
    """Coroutines and threads that wait for an item are served in the order in which they came."""
    queue = by_letter(None)
    threads = Crew(line_of(queue, "takers"))
    first = await begun(queue.aio.get())
    threads.waits(queue.get)
    third = await begun(queue.aio.get(timeout=50))
    thread = threading.Thread(target=lambda: [queue.put(item) for item in ("A1", "A2", "A3")])
    thread.start()
    assert await first == "A1"
    assert await third == "A3"
    assert threads.outcomes() == ["A2"]
    thread.join()


async def test_a_coroutine_waits_for_a_slot() -> None:
    """A put into a full queue suspends until a take makes room, and then puts."""
    queue = by_letter(1)
    await queue.aio.put("A1")
    producer = await begun(queue.aio.put("A2"))
    assert not producer.done()
    assert queue.get() == "A1"
    await producer
    assert await queue.aio.get() == "A2"


async def test_waits_of_coroutines_end_by_the_clock() -> None:
    """A get and a put of a coroutine end in vain at their deadlines, and leave no alarm."""
    timer = ManualTimer()
    queue = by_letter(1, timer=timer)
    taker = await begun(queue.aio.get(timeout=5))
    timer.advance(5)
    with pytest.raises(Empty):
        await taker
    queue.put("A1")
    producer = await begun(queue.aio.put("A2", timeout=5))
    timer.advance(5)
    with pytest.raises(QueueFullError):
        await producer
    with pytest.raises(QueueFullError):
        await queue.aio.put("A2", timeout=0)
    with pytest.raises(InvalidArgumentError, match="timeout is -1"):
        await queue.aio.get(timeout=-1)
    assert (queue.get(), len(timer)) == ("A1", 0)


@pytest.mark.parametrize("moment", ["before the items", "after the items"])
async def test_cancelled_takers_lose_no_item(moment: str) -> None:
    """Items handed to coroutines that are cancelled at that moment go back, in their order."""
    queue = by_letter(None)
    takers = [await begun(queue.aio.get()) for _ in range(3)]

    def put() -> None:
        for item in ("A1", "A2", "B1", "C1"):
            queue.put(item)

    if moment == "after the items":
        put()
        assert len(queue) == 1
    for taker in reversed(takers):
        taker.cancel()
    await asyncio.gather(*takers, return_exceptions=True)
    if moment == "before the items":
        put()
    expected = {
        "before the items": ["A1", "B1", "C1", "A2"],
        "after the items": ["A1", "A2", "B1", "C1"],
    }
    assert [queue.get_nowait() for _ in range(4)] == expected[moment]
    assert not line_of(queue, "takers").tickets


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


async def test_a_shutdown_wakes_coroutines() -> None:
    """Coroutines that wait for an item or a slot get an error when the queue is shut down."""
    empty, full = by_letter(), by_letter(1)
    full.put("A1")
    waits = [await begun(empty.aio.get()), await begun(full.aio.put("A2"))]
    empty.shutdown()
    full.shutdown()
    for wait in waits:
        with pytest.raises(QueueShutDownError):
            await wait
    with pytest.raises(QueueShutDownError):
        await full.aio.put("A3")
    assert await full.aio.get() == "A1"


def test_a_taker_whose_loop_was_closed_is_passed_over() -> None:
    """An item is not given to a coroutine that can never run again, but to the next, or queued."""
    queue = by_letter()
    loop = asyncio.new_event_loop()
    lost = loop.create_task(queue.aio.get())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert not line_of(queue, "takers").tickets
    queue.put("A1")
    assert queue.get_nowait() == "A1"
    lost.get_coro().close()
    assert queue.empty()


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


def test_an_item_that_came_as_the_loop_ended_goes_back() -> None:
    """What a coroutine was given and never took is in its place again, once, when its loop ends."""
    queue = by_letter()
    loop = asyncio.new_event_loop()
    lost = loop.create_task(queue.aio.get())
    loop.run_until_complete(asyncio.sleep(0))
    queue.put("A1").put("A2")
    assert queue.qsize() == 1
    loop.close()
    assert queue.qsize() == 2
    lost.get_coro().close()
    assert [queue.get(), queue.get(), queue.qsize()] == ["A1", "A2", 0]


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
