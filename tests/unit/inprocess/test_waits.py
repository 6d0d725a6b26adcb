"""The laws of who waits for an item: the same at every queue, for threads and for coroutines."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import timedelta
from queue import Empty
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, QueueShutDownError
from spark_queue.memory.waiting.tickets import ThreadTicket
from tests.unit.inprocess.waited import (
    Waited,
    blocking,
    distinct,
    distinct_by_several,
    fair,
    journaled,
)
from tests.unit.waiting.tickets.crew import Crew
from tests.unit.waiting.tickets.stage import Meeting, schedules

Make = Callable[[], Waited]

#: Queues whose takers wait under the lock of the queue, and the module in which that is made.
MEETINGS: dict[Make, str] = {
    fair: "spark_queue.memory.fair.fair_state",
    distinct: "spark_queue.memory.distinct.distinct_state",
    distinct_by_several: "spark_queue.memory.distinct.distinct_state",
    journaled: "spark_queue.memory.journal.journal_state",
}

WHEN = pytest.mark.parametrize("when", ["before the items", "after the items"])


@pytest.fixture(params=[blocking, *MEETINGS], ids=lambda make: make.__name__)
def queue(request: pytest.FixtureRequest) -> Iterator[Waited]:
    """Make a queue of each kind."""
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def crew(queue: Waited) -> Crew:
    """Hold the threads that wait."""
    return Crew(queue.line)


async def begun(wait: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Start a wait, and let it come to where it waits."""
    task = asyncio.create_task(wait)
    await asyncio.sleep(0)
    return task


def put(queue: Waited, items: str) -> None:
    """Put each letter."""
    for item in items:
        queue.put(item)


async def test_threads_and_coroutines_are_served_first_come_first_served(
    queue: Waited, crew: Crew
) -> None:
    """BQ-09, DQ-06, LB-11, LB-16: they wait in one line, in the order in which they came."""
    first = await begun(queue.aio_get(None))
    crew.waits(lambda: queue.get(None))
    third = await begun(queue.aio_get(50))
    crew.waits(lambda: queue.get(50))
    putting = threading.Thread(target=put, args=(queue, "abcd"))
    putting.start()
    assert (await first, await third) == ("a", "c")
    assert crew.outcomes() == ["b", "d"]
    putting.join()
    assert queue.left() == []


async def test_a_wait_ends_in_vain_at_its_deadline(queue: Waited, crew: Crew) -> None:
    """BQ-10, KP-27: five seconds on a standing clock end when they have passed, with nothing."""
    crew.waits(lambda: queue.get(5))
    task = await begun(queue.aio_get(timedelta(seconds=5)))
    queue.timer.advance(4.999)
    await asyncio.sleep(0)
    assert (crew.ended, task.done()) == ({}, False)
    queue.timer.advance(0.001)
    for error in (*crew.outcomes(), *await asyncio.gather(task, return_exceptions=True)):
        assert isinstance(error, Empty)
        assert re.search(queue.vain[0], str(error))
    queue.put("a")
    assert (queue.left(), len(queue.timer)) == (["a"], 0)


async def test_without_patience_nobody_waits(queue: Waited) -> None:
    """A timeout of 0 ends at once, and the error says so."""
    with pytest.raises(Empty, match=queue.vain[1]):
        queue.get(0)
    with pytest.raises(Empty, match=queue.vain[1]):
        await queue.aio_get(0)


@pytest.mark.parametrize("timeout", [-1, -0.001, "soon", float("nan")])
async def test_a_bad_timeout_is_refused(queue: Waited, timeout: Any) -> None:
    """It is an error where an item is there, too: nobody waits, and the item stays."""
    for items in ("", "a"):
        put(queue, items)
        with pytest.raises(InvalidArgumentError, match="timeout"):
            queue.get(timeout)
        with pytest.raises(InvalidArgumentError, match="timeout"):
            await queue.aio_get(timeout)
    assert queue.left() == ["a"]


def test_an_alarm_is_there_as_long_as_its_wait(queue: Waited, crew: Crew) -> None:
    """BQ-12, BQ-14, KP-26, KP-28: a wait for ever sets none, and an item withdraws it."""
    for timeout in (None, float("inf"), timedelta(days=7)):
        assert len(queue.timer) == 0
        crew.waits(lambda timeout=timeout: queue.get(timeout))  # type: ignore[misc]
    assert len(queue.timer) == 1
    put(queue, "abc")
    assert crew.outcomes() == ["a", "b", "c"]
    assert (queue.left(), len(queue.timer)) == ([], 0)


@WHEN
def test_an_interrupted_thread_loses_no_item(
    queue: Waited, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DQ-17: it leaves the line, and what was handed to it by then goes back to its place."""

    def interrupted(*_: object) -> Any:
        monkeypatch.undo()
        if when == "after the items":
            put(queue, "ab")
        raise KeyboardInterrupt

    monkeypatch.setattr(queue.sleep, interrupted, raising=False)
    with pytest.raises(KeyboardInterrupt):
        queue.get(None)
    if when == "before the items":
        put(queue, "ab")
    assert queue.left() == ["a", "b"]


@WHEN
async def test_a_cancelled_coroutine_loses_no_item(queue: Waited, when: str) -> None:
    """DQ-17: coroutines that are cancelled leave the line, and give back what came by then."""
    tasks = [await begun(queue.aio_get(None)) for _ in range(3)]
    if when == "after the items":
        put(queue, "abcd")
    for task in reversed(tasks):
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if when == "before the items":
        put(queue, "abcd")
    assert queue.left() == ["a", "b", "c", "d"]


@WHEN
@pytest.mark.parametrize("end", ["loop", "coroutine"])
def test_a_coroutine_that_ends_without_a_word_loses_no_item(
    queue: Waited, when: str, end: str
) -> None:
    """A taker whose loop or coroutine is closed leaves the line, and what it was given is back."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(queue.aio_get(None))
    loop.run_until_complete(asyncio.sleep(0))
    coroutine = task.get_coro()
    assert coroutine is not None
    if when == "after the items":
        queue.put("a")
    if end == "coroutine":
        coroutine.close()
    loop.close()
    queue.put("b")
    assert queue.left() == (["b"] if when == "before the items" else ["a", "b"])
    coroutine.close()
    assert queue.left() == []


async def test_a_close_ends_every_wait(queue: Waited, crew: Crew) -> None:
    """BQ-23, LB-14: who waits is told, thread or coroutine, and so is who comes later."""
    crew.waits(lambda: queue.get(None))
    crew.waits(lambda: queue.get(5))
    task = await begun(queue.aio_get(None))
    queue.close()
    assert crew.kinds() == [queue.ended] * 2
    with pytest.raises(queue.ended):
        await task
    with pytest.raises(QueueShutDownError):
        queue.get(None)
    with pytest.raises(QueueShutDownError):
        await queue.aio_get(None)
    assert (queue.waiter_count, len(queue.timer)) == (0, 0)


@pytest.fixture(params=schedules(6), ids=lambda turns: "".join(map(str, turns)))
def turns(request: pytest.FixtureRequest) -> Any:
    """Play every order in which two threads meet at a lock."""
    return request.param


@pytest.fixture(params=MEETINGS, ids=lambda make: make.__name__)
def met(
    request: pytest.FixtureRequest, turns: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Meeting, Waited]]:
    """Make a queue at which two threads meet."""
    meeting = Meeting(turns, monkeypatch, MEETINGS[request.param])
    queue = request.param()
    yield meeting, queue
    queue.close()


def test_no_taker_sleeps_while_an_item_waits(met: tuple[Meeting, Waited]) -> None:
    """DQ-21, FQ-31, LB-11: wherever a put falls between looking and joining, the taker has it."""
    meeting, queue = met
    taken: list[str] = []
    meeting.play(lambda: taken.append(queue.get(None)), lambda: queue.put("a"))
    assert (taken, meeting.errors, queue.left()) == (["a"], [], [])


def test_two_takers_have_one_item_each(met: tuple[Meeting, Waited]) -> None:
    """DQ-20, FQ-32: one item is there and one is put while two take at once: each has its own."""
    meeting, queue = met
    queue.put("a")
    taken: list[str] = []

    def second() -> None:
        queue.put("b")
        taken.append(queue.get(None))

    meeting.play(lambda: taken.append(queue.get(None)), second)
    assert (sorted(taken), meeting.errors, queue.left()) == (["a", "b"], [], [])


def test_an_interrupt_loses_no_item_whenever_it_comes(
    met: tuple[Meeting, Waited], monkeypatch: pytest.MonkeyPatch
) -> None:
    """DQ-17: wherever a taker is interrupted, what is put is taken or there, never lost."""
    meeting, queue = met
    sleep, taken = ThreadTicket.wait, list[str]()

    def interrupted(_: object) -> Any:
        meeting.pause()
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadTicket, "wait", interrupted)
    meeting.play(lambda: taken.append(queue.get(None)), lambda: queue.put("a"))
    monkeypatch.setattr(ThreadTicket, "wait", sleep)
    assert taken + queue.left() == ["a"]


def test_a_close_leaves_nobody_waiting(met: tuple[Meeting, Waited]) -> None:
    """Wherever a close falls, a taker who finds nothing gets an error."""
    meeting, queue = met
    meeting.play(lambda: queue.get(None), queue.close)
    assert [type(error) for error in meeting.errors] == [QueueShutDownError]
    assert queue.waiter_count == 0


def test_a_deadline_loses_no_item(met: tuple[Meeting, Waited]) -> None:
    """Wherever a deadline falls, the taker has the item or it is there, never both."""
    meeting, queue = met
    taken: list[str] = []

    def put_late() -> None:
        queue.timer.advance(5)
        queue.put("a")
        queue.timer.advance(5)

    meeting.play(lambda: taken.append(queue.get(5)), put_late)
    assert [type(error) for error in meeting.errors] == [Empty] * (not taken)
    assert (taken + queue.left(), len(queue.timer)) == (["a"], 0)
