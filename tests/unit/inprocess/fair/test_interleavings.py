"""Two threads at a fair queue, with every point at which they can meet played on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from spark_queue.errors import QueueFullError, QueueShutDownError
from spark_queue.memory.fair import FairQueue
from spark_queue.memory.waiting.tickets import ThreadTicket
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.waiting.tickets.stage import Meeting, line_of, schedules

TURNS = schedules(6)


@pytest.fixture(params=TURNS, ids=lambda turns: "".join(map(str, turns)))
def meeting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Meeting:
    """Make the two threads of one schedule."""
    return Meeting(request.param, monkeypatch, "spark_queue.memory.fair.fair_state")


def queue_for(limit: int | None = None, *items: str) -> FairQueue[str]:
    """Make a queue by first letter, with items in it."""
    queue: FairQueue[str] = FairQueue(lambda item: item[0], limit, timer=ManualTimer())
    for item in items:
        queue.put(item)
    return queue


def assert_nobody_waits(queue: FairQueue[Any]) -> None:
    """Assert that all lines are empty."""
    for name in ("takers", "producers", "joiners"):
        assert not line_of(queue, name).tickets


def test_no_producer_sleeps_while_a_slot_is_free(meeting: Meeting) -> None:
    """FQ-23: wherever a take falls between looking and joining, the producer has the slot."""
    queue, taken = queue_for(1, "A1"), list[str]()
    meeting.play(lambda: queue.put("A2"), lambda: taken.append(queue.get()))
    assert (taken, meeting.errors, len(queue)) == (["A1"], [], 1)
    assert queue.get_nowait() == "A2"
    assert_nobody_waits(queue)


def test_two_producers_never_exceed_the_limit(meeting: Meeting) -> None:
    """FQ-23: of two who put at once into one slot one is refused, and the limit holds."""
    queue = queue_for(1)
    meeting.play(lambda: queue.put_nowait("A1"), lambda: queue.put_nowait("B1"))
    (refused,) = meeting.errors
    assert isinstance(refused, QueueFullError)
    assert len(queue) == 1


def test_an_interrupt_loses_no_slot(meeting: Meeting, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a producer is interrupted, the slot it was given or not given is free again."""
    queue = queue_for(1, "A1")

    def interrupted(_: object) -> Any:
        meeting.pause()
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadTicket, "wait", interrupted)
    meeting.play(lambda: queue.put("A2"), queue.get)
    while not queue.empty():
        queue.get_nowait()
    assert queue.put_nowait("A3").full()
    assert queue._state._room == 1
    assert_nobody_waits(queue)


def test_a_shutdown_leaves_no_producer_waiting(meeting: Meeting) -> None:
    """Wherever a shutdown falls, a producer of a full queue gets an error and has put nothing."""
    queue = queue_for(1, "A1")
    meeting.play(lambda: queue.put("A2"), queue.shutdown)
    assert [type(error) for error in meeting.errors] == [QueueShutDownError]
    assert queue.get() == "A1"
    assert queue.empty()
    assert_nobody_waits(queue)


def test_no_join_sleeps_when_all_is_done(meeting: Meeting) -> None:
    """Wherever the last ``task_done`` falls, a join ends."""
    queue = queue_for(None, "A1")
    queue.get()
    meeting.play(queue.join, queue.task_done)
    assert (meeting.errors, queue.unfinished_tasks) == ([], 0)
    assert_nobody_waits(queue)
