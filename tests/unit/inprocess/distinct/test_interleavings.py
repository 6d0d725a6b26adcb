"""Two threads at a distinct queue, with every point at which they can meet played on purpose."""

from __future__ import annotations

from typing import Any

import pytest

from spark_queue.memory.distinct import DistinctQueue
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.inprocess.distinct.work import Failing, WorkError
from tests.unit.waiting.tickets.stage import Meeting, schedules

TURNS = schedules(6)


@pytest.fixture(params=TURNS, ids=lambda turns: "".join(map(str, turns)))
def meeting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Meeting:
    """Make the two threads of one schedule."""
    return Meeting(request.param, monkeypatch, "spark_queue.memory.distinct.distinct_state")


def queue_of(*items: Any) -> DistinctQueue[Any]:
    """Make a queue of elements."""
    queue: DistinctQueue[Any] = DistinctQueue(timer=ManualTimer())
    queue.add_all(items)
    return queue


def work(queue: DistinctQueue[Any], count: int, taken: list[Any]) -> None:
    """Take so many elements, and be done with them."""
    with queue.take(count) as items:
        taken.extend(items)


def fail(queue: DistinctQueue[Any], count: int) -> None:
    """Take so many elements, and fail with them."""
    with Failing(), queue.take(count):
        raise WorkError


def test_no_taker_sleeps_while_an_element_returns(meeting: Meeting) -> None:
    """DQ-13, DQ-21: wherever a scope fails, a taker who found nothing has what it gives back."""
    queue, taken = queue_of("a"), list[Any]()
    held = queue.take(1)
    held.__enter__()
    meeting.play(lambda: work(queue, 1, taken), lambda: held.__exit__(WorkError, WorkError(), None))
    assert (taken, meeting.errors) == (["a"], [])
    assert (len(queue), queue.waiter_count) == (0, 0)


def test_no_element_goes_to_two(meeting: Meeting) -> None:
    """DQ-20: of two who take at once each has its own element, in whatever order."""
    queue, taken = queue_of("a", "b"), list[Any]()
    meeting.play(lambda: work(queue, 1, taken), lambda: work(queue, 1, taken))
    assert (sorted(taken), meeting.errors, len(queue)) == (["a", "b"], [], 0)


def test_an_equal_element_is_added_once(meeting: Meeting) -> None:
    """DQ-01: of two who add equal elements at once one is told that it is refused."""
    queue, answers = queue_of(), list[bool]()
    meeting.play(lambda: answers.append(queue.add("a")), lambda: answers.append(queue.add("a")))
    assert sorted(answers) == [False, True]
    assert (queue.queued, queue.facts("a").collisions) == (["a"], 1)


def test_an_add_at_the_end_of_a_scope(meeting: Meeting) -> None:
    """DQ-10, DQ-19: an equal element is refused before the end, and new after it, never between."""
    queue, answers, taken = queue_of("a"), list[bool](), list[Any]()
    meeting.play(lambda: work(queue, 1, taken), lambda: answers.append(queue.add("a")))
    assert taken == ["a"]
    assert queue.queued == (["a"] if answers == [True] else [])
    assert ("a" in queue) is answers[0]


def test_two_scopes_that_fail_leave_the_order(meeting: Meeting) -> None:
    """DQ-16: however two scopes that fail overlap, everything ends up where it was."""
    queue = queue_of(1, 5, 2, 6, 4, 3)
    meeting.play(lambda: fail(queue, 2), lambda: fail(queue, 3))
    assert (queue.queued, meeting.errors) == ([1, 5, 2, 6, 4, 3], [])
