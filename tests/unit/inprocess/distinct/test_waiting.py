"""Who waits for elements, who serves them, and what ends the wait."""

from __future__ import annotations

import itertools
import queue as standard
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.distinct import DistinctQueue
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.inprocess.distinct.work import Failing, WorkError
from tests.unit.threads import threads, together
from tests.unit.waiting.tickets.crew import Crew
from tests.unit.waiting.tickets.stage import FakeTicket, line_of

F = [1, 5, 2, 6, 4, 3]


@pytest.fixture
def timer() -> ManualTimer:
    """Make a clock that stands still."""
    return ManualTimer()


@pytest.fixture
def queue(timer: ManualTimer) -> DistinctQueue[Any]:
    """Make an empty queue on the standing clock."""
    return DistinctQueue(timer=timer)


@pytest.fixture
def crew(queue: DistinctQueue[Any]) -> Crew:
    """Hold the threads that wait for elements."""
    return Crew(line_of(queue, "takers"))


def work(queue: DistinctQueue[Any], count: int, timeout: float | None = None) -> list[Any]:
    """Take so many elements, and be done with them."""
    with queue.take(count, timeout) as items:
        return list(items)


def wait(queue: DistinctQueue[Any], count: int = 1) -> FakeTicket:
    """Let a taker join the line who only writes down that it is rung."""
    ticket = FakeTicket(line_of(queue, "takers"), queue.take(count))
    queue._state.ask(ticket, None)
    return ticket


@pytest.mark.parametrize(("second", "left"), [(2, [3]), (1, [4, 3])])
def test_blocked_takers_share_a_bulk_add(
    queue: DistinctQueue[Any], crew: Crew, second: int, left: list[int]
) -> None:
    """DQ-06: two takers who wait get what they asked for of one bulk add, the first one first."""
    crew.waits(lambda: work(queue, 3))
    crew.waits(lambda: work(queue, second))
    assert queue.waiter_count == 2
    queue.add_all(F)
    assert crew.outcomes() == [F[:3], F[3 : 3 + second]]
    assert (queue.queued, queue.waiter_count) == (left, 0)


def test_a_blocked_taker_gets_what_another_gives_back(
    queue: DistinctQueue[Any], crew: Crew
) -> None:
    """DQ-13: what a scope fails with goes to who waits, at once."""
    queue.add(1)
    with Failing(), queue.take(1):
        crew.waits(lambda: work(queue, 2))
        raise WorkError
    assert crew.outcomes() == [[1]]
    assert len(queue) == 0


def test_a_blocked_taker_gets_a_nacked_element(queue: DistinctQueue[Any], crew: Crew) -> None:
    """What is nacked or released inside a scope goes to who waits, before the scope ends."""
    queue.add_all("ab")
    with queue.take(2) as items:
        crew.waits(lambda: work(queue, 2))
        items.nack("b")
        assert crew.outcomes() == [["b"]]
        crew.waits(lambda: work(queue, 2))
        items.release("a")
        assert crew.outcomes(1) == [["a"]]


def test_success_wakes_nobody(queue: DistinctQueue[Any]) -> None:
    """DQ-14: who waits goes on waiting when a scope succeeds, and gets what is added next."""
    queue.add(1)
    with queue.take(1):
        waiting = wait(queue)
    assert not waiting.settled
    queue.add(1)
    assert waiting.value == [1]


def test_single_adds_wake_as_many_takers(queue: DistinctQueue[Any]) -> None:
    """DQ-20: of five who wait three adds wake three, in their order, one element each."""
    waiting = [wait(queue, 2) for _ in range(5)]
    for item in (1, 5, 1, 2):
        queue.add(item)
    assert [ticket.value for ticket in waiting[:3]] == [[1], [5], [2]]
    assert [ticket.rung for ticket in waiting] == [1, 1, 1, 0, 0]
    assert queue.waiter_count == 2


def test_a_bulk_add_wakes_no_more_than_it_must(queue: DistinctQueue[Any]) -> None:
    """DQ-20: there is no herd: who would find nothing is not woken, nor for what is refused."""
    waiting = [wait(queue, 2) for _ in range(4)]
    queue.add_all([1, 5, 2, 5])
    assert [ticket.rung for ticket in waiting] == [1, 1, 0, 0]
    assert [ticket.value for ticket in waiting[:2]] == [[1, 5], [2]]
    queue.add_all([1, 2])
    assert [ticket.rung for ticket in waiting] == [1, 1, 0, 0]


def test_nobody_waits_while_something_is_queued() -> None:
    """DQ-21: takers and adders race; in the end every element is taken and every taker served."""
    for _ in range(20):
        queue: DistinctQueue[int] = DistinctQueue()
        taken: list[int] = []

        def take(queue: DistinctQueue[int] = queue, taken: list[int] = taken) -> None:
            for _ in range(60):
                taken.extend(work(queue, 1, 20))

        def add(start: int, queue: DistinctQueue[int] = queue) -> None:
            for item in range(start, start + 60):
                queue.add(item)

        together(*[take] * 3, *(partial(add, 60 * n) for n in range(3)))
        assert sorted(taken) == list(range(180))
        assert (len(queue), queue.waiter_count) == (0, 0)


def test_scopes_that_fail_lose_no_wake_up() -> None:
    """DQ-21: takers who often fail race for batches; nothing is lost, nobody left."""
    queue: DistinctQueue[int] = DistinctQueue()
    taken: list[int] = []
    luck = itertools.count()

    def take() -> None:
        while len(taken) < 200:
            with suppress(ZeroDivisionError, standard.Empty), queue.take(3, 0.01) as items:
                assert 1 / (next(luck) % 3)
                taken.extend(items)

    with threads(*[take] * 4):
        for item in range(200):
            queue.add(item)
    assert sorted(taken) == list(range(200))
    assert len(queue) == 0


def test_waits_leave_nothing_behind(queue: DistinctQueue[Any], timer: ManualTimer) -> None:
    """However often takes end in vain, no place in the line, no alarm and no element stays."""
    takes = [queue.take(1) for _ in range(50)]
    for take in takes:
        ticket = FakeTicket(line_of(queue, "takers"), take)
        with Failing(standard.Empty), ticket:
            queue._state.ask(ticket, 1)
            timer.advance(1)
            ticket._raise()
        assert ticket.rung == 1
    assert (queue.waiter_count, len(timer)) == (0, 0)
    with pytest.raises(standard.Empty):
        queue.take(1, timeout=0).__enter__()
    takes[0].patience = 0
    with pytest.raises(standard.Empty):
        takes[0].__enter__()
    queue.add(1)
    assert queue.queued == [1]


def test_an_add_is_cheap_again_when_nobody_waits(
    queue: DistinctQueue[Any], timer: ManualTimer, crew: Crew
) -> None:
    """Takers who came and went leave no trace that later adds would stumble over."""
    crew.waits(lambda: work(queue, 1, 1))
    timer.advance(1)
    crew.outcomes()
    assert queue.add(1)
    assert not queue._state.alert
    assert queue.queued == [1]


def test_a_shutdown_wakes_takers(queue: DistinctQueue[Any], crew: Crew, timer: ManualTimer) -> None:
    """Who waits when the queue is shut down gets an error, though elements may come back."""
    queue.add(1)
    with Failing(), queue.take(1):
        crew.waits(lambda: work(queue, 1))
        crew.waits(lambda: work(queue, 1, 5))
        crew.waits(lambda: list(queue.batches(1)))
        queue.shutdown()
        first, second, batches = crew.outcomes()
        raise WorkError
    assert [type(first), type(second)] == [QueueShutDownError] * 2
    assert (batches, queue.queued, len(timer)) == ([], [1], 0)


def test_an_interrupt_while_a_scope_ends_does_not_keep_it_open(
    queue: DistinctQueue[Any],
) -> None:
    """A scope of several elements that is interrupted while it ends has ended, all the same."""
    queue.add_all(F)
    state, now = queue._state, queue._state.now
    interrupts = [KeyboardInterrupt]

    def interrupted() -> float:
        if interrupts:
            raise interrupts.pop()
        return now()

    with Failing(KeyboardInterrupt), queue.take(3):
        state.now = interrupted
        raise WorkError
    assert (queue.queued, queue.in_progress) == (F, [])


def test_an_interrupt_while_a_take_begins_leaves_its_element_queued(
    queue: DistinctQueue[Any],
) -> None:
    """A take that is interrupted before it has its element leaves it where it was."""
    queue.add_all([1, 5])
    state, now = queue._state, queue._state.now

    def interrupted() -> float:
        state.now = now
        raise KeyboardInterrupt

    state.now = interrupted
    with pytest.raises(KeyboardInterrupt):
        queue.take(1).__enter__()
    assert (queue.queued, queue.in_progress) == ([1, 5], [])
    assert work(queue, 1) == [1]


def test_takers_of_failed_elements_are_served_in_order(queue: DistinctQueue[Any]) -> None:
    """What comes back is shared among those who wait, by their order and its places."""
    queue.add_all(F)
    with Failing(), queue.take(6):
        waiting = [wait(queue, 4), wait(queue, 4), wait(queue, 4)]
        raise WorkError
    assert [ticket.value for ticket in waiting[:2]] == [[1, 5, 2, 6], [4, 3]]
    assert not waiting[2].settled
