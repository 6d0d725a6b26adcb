"""What becomes of single elements, and what is known of each."""

from __future__ import annotations

from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.distinct import DistinctQueue, DistinctSnapshot, Element
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.inprocess.distinct.work import Failing, WorkError


@pytest.fixture
def timer() -> ManualTimer:
    """Make a clock that stands still."""
    return ManualTimer()


@pytest.fixture
def queue(timer: ManualTimer) -> DistinctQueue[Any]:
    """Make a queue of four letters on the standing clock."""
    queue: DistinctQueue[Any] = DistinctQueue(timer=timer)
    queue.add_all("abcd")
    return queue


class Task:
    """An element that is told by a field which may change."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Task {self.name}"


def test_an_element_that_is_acked_is_done_whatever_the_scope_does(
    queue: DistinctQueue[Any],
) -> None:
    """What was acked leaves at once, may come again, and does not return when the scope fails."""
    with Failing(), queue.take(3) as items:
        items.ack("b")
        assert queue.in_progress == ["a", "c"]
        assert queue.add("b")
        raise WorkError
    assert queue.queued == ["a", "c", "d", "b"]


def test_an_element_that_is_nacked_returns_at_once(queue: DistinctQueue[Any]) -> None:
    """What was nacked is first in line again while its scope goes on, and counts a failure."""
    with queue.take(3) as items:
        items.nack("b")
        assert (queue.queued, queue.in_progress) == (["b", "d"], ["a", "c"])
        with queue.take(1) as others:
            assert others == ["b"]
            assert queue.facts("b").failures == 1
    assert queue.queued == ["d"]


def test_an_element_that_is_released_returns_untried(queue: DistinctQueue[Any]) -> None:
    """What was released returns to its place, and no failure is counted."""
    with queue.take(4) as items:
        for item in "cab":
            items.release(item)
        assert queue.queued == ["a", "b", "c"]
    assert queue.queued == ["a", "b", "c"]
    assert queue.facts("a").failures == 0


@pytest.mark.parametrize("outcome", ["ack", "nack", "release"])
def test_only_what_a_take_holds_can_be_settled(queue: DistinctQueue[Any], outcome: str) -> None:
    """What a take does not hold is an error that says so, and changes nothing."""
    take = queue.take(2)

    def refused(item: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="does not hold"):
            getattr(take, outcome)(item)

    refused("a")
    with take:
        take.ack("a")
        with queue.take(1):
            for item in ("a", "c", "d", "x", [1], None):
                refused(item)
        assert (queue.queued, queue.in_progress) == (["d"], ["b"])
    for item in "ab":
        refused(item)
    assert queue.queued == ["d"]


def test_an_equal_object_settles_too(queue: DistinctQueue[Any]) -> None:
    """An element is named by any equal one, and the one that was added goes back."""
    first = Task("x")
    queue.add(first)
    with queue.take(5) as items:
        items.nack(Task("x"))
        items.ack("abc"[1])
    assert queue.queued == [first]
    assert queue.queued[0] is first


def test_a_take_goes_on_after_all_is_settled(queue: DistinctQueue[Any]) -> None:
    """A scope that has nothing left to settle ends without an effect, well or badly."""
    with queue.take(1) as items:
        items.ack("a")
    with Failing(), queue.take(1) as items:
        items.nack("b")
        raise WorkError
    assert queue.queued == ["b", "c", "d"]
    assert queue.facts("b").failures == 1


def test_an_element_taken_anew_is_not_settled_by_its_former_scope(
    queue: DistinctQueue[Any],
) -> None:
    """A scope leaves alone what it gave back and another one holds by then."""
    outer = queue.take(2)
    with outer:
        outer.release("a")
        inner = queue.take(1)
        inner.__enter__()
    assert queue.in_progress == ["a"]
    inner.__exit__(WorkError, None, None)
    assert queue.queued == ["a", "c", "d"]


def test_times_are_counted_by_the_clock(queue: DistinctQueue[Any], timer: ManualTimer) -> None:
    """Queued time and time in progress add up over takes and returns, to its age."""
    timer.advance(10)
    with Failing(), queue.take(1):
        timer.advance(3)
        facts = queue.facts("a")
        assert facts.status == "in_progress"
        assert (facts.queued_seconds, facts.in_progress_seconds) == (10, 3)
        raise WorkError
    timer.advance(5)
    facts = queue.facts("a")
    assert (facts.status, facts.queued_seconds, facts.in_progress_seconds) == ("queued", 15, 3)
    with queue.take(1):
        timer.advance(2)
        facts = queue.facts("a")
        assert (facts.queued_seconds, facts.in_progress_seconds) == (15, 5)
    queue.add("a")
    assert queue.facts("a").queued_seconds == 0


def test_collisions_are_counted(queue: DistinctQueue[Any]) -> None:
    """Every refused add counts, whatever the element is doing, until it is done."""
    queue.add("a")
    queue.add_all("aab")
    with Failing(), queue.take(1):
        queue.add("a")
        raise WorkError
    assert (queue.facts("a").collisions, queue.facts("b").collisions) == (4, 1)
    with queue.take(1):
        queue.add("a")
        assert queue.facts("a").collisions == 5
    queue.add("a")
    assert queue.facts("a").collisions == 0


def test_a_snapshot_tells_everything_at_one_instant(
    queue: DistinctQueue[Any], timer: ManualTimer
) -> None:
    """A snapshot has both kinds with their facts, and does not change any more."""
    timer.advance(4)
    with queue.take(2) as items:
        timer.advance(1)
        items.nack("a")
        snapshot = queue.snapshot()
    waited = Element(
        item="a",
        status="queued",
        queued_seconds=4.0,
        in_progress_seconds=1.0,
        collisions=0,
        failures=1,
    )
    assert isinstance(snapshot, DistinctSnapshot)
    assert [element.item for element in snapshot.queued] == ["a", "c", "d"]
    assert snapshot.queued[0] == waited
    (held,) = snapshot.in_progress
    assert (held.item, held.status, held.in_progress_seconds) == ("b", "in_progress", 1)


def test_facts_of_what_is_not_here_are_an_error(queue: DistinctQueue[Any]) -> None:
    """Asking for an unknown, a finished or an unhashable element is an error that names it."""
    with queue.take(1):
        pass
    for item in ("a", "x", [1]):
        with pytest.raises(InvalidArgumentError, match="neither queued nor in progress") as refused:
            queue.facts(item)
        assert repr(item) in str(refused.value)


@pytest.mark.parametrize("moment", ["queued", "in progress"])
@pytest.mark.parametrize("many", [1, 3])
def test_an_element_may_change_its_hash_and_be_done(moment: str, many: int) -> None:
    """An element that changes while it is here is delivered, ends, and leaves nothing behind."""
    queue: DistinctQueue[Task] = DistinctQueue()
    tasks = [Task("a"), Task("b"), Task("c")]
    queue.add_all(tasks)
    if moment == "queued":
        tasks[0].name = "z"
    with queue.take(many) as items:
        assert items[0] is tasks[0]
        if moment == "in progress":
            tasks[0].name = "z"
        assert queue.in_progress == items
        assert [element.item for element in queue.snapshot().in_progress] == items
    assert queue.queued == tasks[many:]
    assert len(queue) == 3 - many
    assert queue.add(Task("a"))
    assert queue.add(Task("z"))


@pytest.mark.parametrize("moment", ["queued", "in progress"])
@pytest.mark.parametrize("outcome", ["fail", "ack", "nack"])
def test_an_element_that_changed_its_hash_is_settled(moment: str, outcome: str) -> None:
    """Every outcome of a changed element is that of any other, and it returns to its place."""
    queue: DistinctQueue[Task] = DistinctQueue()
    task, other = Task("a"), Task("b")
    queue.add_all([task, other])
    if moment == "queued":
        task.name = "z"
    take = queue.take(2)
    take.__enter__()
    task.name = "y"
    if outcome != "fail":
        getattr(take, outcome)(task)
        assert queue.in_progress == [other]
    take.__exit__(WorkError if outcome == "fail" else None, None, None)
    expected = {"fail": [task, other], "ack": [], "nack": [task]}[outcome]
    assert queue.queued == expected
    for batch in queue.batches(2, timeout=0):
        with batch as items:
            assert items == expected
    assert len(queue) == 0


@pytest.mark.parametrize("outcome", ["done", "ack"])
def test_an_element_that_comes_to_equal_another_does_not_hide_it(outcome: str) -> None:
    """The end of the one leaves the other where it is: an equal of it is still refused."""
    queue: DistinctQueue[Task] = DistinctQueue()
    first, second = Task("a"), Task("b")
    queue.add_all([first, second])
    with queue.take(1) as items:
        first.name = "b"
        if outcome == "ack":
            items.ack(items[0])
    assert not queue.add(Task("b"))
    assert queue.queued == [second]
    with queue.take(5) as items:
        assert items == [second]
    assert len(queue) == 0
    assert queue.add(Task("b"))


def test_elements_that_become_equal_are_both_delivered(queue: DistinctQueue[Any]) -> None:
    """Two elements that have come to be equal are still two, and none is lost or left behind."""
    first, second = Task("x"), Task("y")
    queue.add_all([first, second])
    second.name = "x"
    with queue.take(6) as items:
        assert [item for item in items if isinstance(item, Task)] == [first, second]
    assert len(queue) == 0
    assert queue.add_all([Task("x"), Task("y")]) == []
