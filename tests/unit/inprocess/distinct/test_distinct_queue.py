"""The conformance cases of the distinct queue, DQ-01 to DQ-22, where nobody waits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, QueueShutDownError
from spark_queue.memory.distinct import DistinctQueue
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.inprocess.distinct.work import Failing, WorkError, fail
from tests.unit.threads import threads

#: What most cases begin with.
F = [1, 5, 2, 6, 4, 3]


@pytest.fixture
def queue() -> DistinctQueue[Any]:
    """Make an empty queue on a clock that stands still."""
    return DistinctQueue(timer=ManualTimer())


@pytest.fixture
def filled(queue: DistinctQueue[Any]) -> DistinctQueue[Any]:
    """Make a queue with the base fill."""
    assert queue.add_all(F) == []
    return queue


def test_equal_elements_are_refused(queue: DistinctQueue[Any]) -> None:
    """DQ-01: what is there is refused, alone and in bulk, and the rest goes to the end."""
    assert queue.add_all([1, 5]) == []
    assert queue.add_all([2, 6]) == []
    assert queue.add(4)
    assert not queue.add(5)
    assert queue.add_all([3, 4, 5]) == [4, 5]
    assert queue.queued == F


def test_a_scope_that_succeeds_removes_its_elements(filled: DistinctQueue[Any]) -> None:
    """DQ-02: elements are in progress during their scope, and gone after it."""
    assert filled.in_progress == []
    with filled.take(3) as items:
        assert items == [1, 5, 2]
        assert (filled.queued, filled.in_progress) == ([6, 4, 3], [1, 5, 2])
    assert (filled.queued, filled.in_progress) == ([6, 4, 3], [])
    with filled.take(1) as items:
        assert items == [6]
    assert (filled.queued, filled.in_progress) == ([4, 3], [])


def test_a_scope_that_fails_returns_its_elements(filled: DistinctQueue[Any]) -> None:
    """DQ-03: the caller gets the error, the elements their places, the next scope the same ones."""
    assert fail(filled, 3) == [1, 5, 2]
    assert (filled.queued, filled.in_progress) == (F, [])
    with filled.take(3) as items:
        assert items == [1, 5, 2]
        assert filled.queued == [6, 4, 3]


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_scope_that_is_interrupted_returns_its_elements(
    filled: DistinctQueue[Any], interruption: type[BaseException]
) -> None:
    """DQ-04: an interrupted worker leaves nothing in progress, and is no failure."""
    with Failing(interruption), filled.take(3) as items:
        assert (filled.queued, filled.in_progress) == ([6, 4, 3], [1, 5, 2])
        raise interruption
    assert items == [1, 5, 2]
    assert (filled.queued, filled.in_progress) == (F, [])
    assert filled.facts(1).failures == 0


def test_elements_in_progress_are_refused_too(filled: DistinctQueue[Any]) -> None:
    """DQ-05: while a scope holds elements equal ones are refused, and new ones queue up."""
    with filled.take(3) as items:
        assert items == [1, 5, 2]
        assert filled.add(8)
        assert not filled.add(2)
        assert filled.add_all([2, 7]) == [2]
        assert filled.queued == [6, 4, 3, 8, 7]
        assert filled.in_progress == [1, 5, 2]
    assert (filled.queued, filled.in_progress) == ([6, 4, 3, 8, 7], [])


def test_batches_take_again_and_again(queue: DistinctQueue[Any]) -> None:
    """DQ-07: four scopes of three each, one after another, and what is left stays queued."""
    queue.add_all(range(1, 14))
    sums = []
    for take in islice(queue.batches(3), 4):
        with take as items:
            sums.append(sum(items))
    assert sums == [6, 15, 24, 33]
    assert (queue.queued, queue.in_progress) == ([13], [])


def test_a_bulk_add_refuses_its_own_duplicates(queue: DistinctQueue[Any]) -> None:
    """DQ-08, DQ-09: the rejected come back in their order, each as often as it was refused."""
    assert queue.add_all([1, 1, 2]) == [1]
    assert queue.queued == [1, 2]
    assert queue.add_all([2, 3, 2, 1]) == [2, 2, 1]
    assert queue.queued == [1, 2, 3]


def test_a_bulk_add_takes_any_iterable(queue: DistinctQueue[Any]) -> None:
    """A bulk add reads its elements before it adds the first: one that fails adds nothing."""
    assert queue.add_all(iter("aba")) == ["a"]

    def broken() -> Iterator[str]:
        yield "c"
        raise WorkError

    with Failing():
        queue.add_all(broken())
    assert queue.queued == ["a", "b"]


def test_an_element_that_is_done_may_come_again(filled: DistinctQueue[Any]) -> None:
    """DQ-10: after a scope that succeeded an equal element is new, and goes to the end."""
    with filled.take(2):
        pass
    assert filled.add_all([5, 1]) == []
    assert filled.queued == [2, 6, 4, 3, 5, 1]


def test_the_first_of_equal_elements_is_delivered(queue: DistinctQueue[Any]) -> None:
    """DQ-11: of equal but distinct objects the first one is kept, also when it was refused."""
    first, second = (1, "x"), (1.0, "x")
    assert queue.add(first)
    assert not queue.add(second)
    assert fail(queue, 1)[0] is first
    with queue.take(1) as [item]:
        assert item is first
        assert queue.facts(second).item is first


@pytest.mark.parametrize("most", [2, 10])
def test_a_take_does_not_wait_for_more(queue: DistinctQueue[Any], most: int) -> None:
    """DQ-12: a take of ten gets the two that are there, at once."""
    queue.add_all([1, 2])
    with queue.take(most) as items:
        assert items == [1, 2]


@pytest.mark.parametrize("error", [None, WorkError])
def test_two_takes_may_share_a_fate(
    filled: DistinctQueue[Any], error: type[BaseException] | None
) -> None:
    """DQ-15: of two takes in one scope all elements are removed, or all return to their places."""
    scope = ExitStack()
    taken = [scope.enter_context(filled.take(2)) for _ in range(2)]
    assert taken == [[1, 5], [2, 6]]
    assert filled.in_progress == [1, 5, 2, 6]
    scope.__exit__(error, error() if error else None, None)
    assert (filled.queued, filled.in_progress) == (F if error else [4, 3], [])


def test_nested_takes_end_one_by_one(filled: DistinctQueue[Any]) -> None:
    """A take within another ends on its own: what it did is done when the outer one fails."""
    with Failing(), filled.take(2) as outer:
        with filled.take(1) as inner:
            assert (outer, inner) == ([1, 5], [2])
        raise WorkError
    assert filled.queued == [1, 5, 6, 4, 3]


@pytest.mark.parametrize("first", ["A", "B"])
def test_elements_return_to_their_places_in_any_order(
    filled: DistinctQueue[Any], first: str
) -> None:
    """DQ-16: whichever of two scopes fails first, everything ends up where it was."""
    takes = {"A": filled.take(2), "B": filled.take(2)}
    assert [take.__enter__() for take in takes.values()] == [[1, 5], [2, 6]]
    between = {"A": [1, 5, 4, 3], "B": [2, 6, 4, 3]}[first]
    takes.pop(first).__exit__(WorkError, None, None)
    assert filled.queued == between
    for take in takes.values():
        take.__exit__(WorkError, None, None)
    assert filled.queued == F


def test_what_returned_is_taken_before_what_is_new(filled: DistinctQueue[Any]) -> None:
    """A batch may be of elements that came back and of new ones, each in its place."""
    fail(filled, 2)
    with filled.take(1) as items:
        assert items == [1]
        assert fail(filled, 3) == [5, 2, 6]
        assert filled.queued == [5, 2, 6, 4, 3]
        assert fail(filled, 9) == [5, 2, 6, 4, 3]
    assert filled.queued == [5, 2, 6, 4, 3]


def test_an_element_that_fails_is_always_first(filled: DistinctQueue[Any]) -> None:
    """DQ-18: it comes first again each time, an equal one is refused all along, and it counts."""
    for failures in range(3):
        assert filled.facts(1).failures == failures
        assert fail(filled, 1) == [1]
        assert not filled.add(1)
    assert filled.facts(1).failures == 3
    with filled.take(1) as items:
        assert items == [1]


def test_a_refused_element_is_not_remembered(filled: DistinctQueue[Any]) -> None:
    """DQ-19: what was refused during a scope does not appear when that scope succeeds."""
    with filled.take(1):
        assert not filled.add(1)
    assert filled.queued == [5, 2, 6, 4, 3]
    assert 1 not in filled


@pytest.mark.parametrize("most", [0, -1, 1.5, True, None, "3"])
def test_a_take_of_nothing_is_an_error(filled: DistinctQueue[Any], most: Any) -> None:
    """DQ-22: a take of no elements, or of no number, is refused before anything is taken."""
    front = filled.aio
    if most is True:
        assert filled.take(most).wanted == 1
        return
    for take in (filled.take, filled.batches, front.take, front.batches):
        with pytest.raises(InvalidArgumentError, match=rf"max is {most!r}.*at least 1"):
            take(most)
    assert (filled.queued, filled.in_progress) == (F, [])


@pytest.mark.parametrize("timeout", [-1, -0.5, "soon"])
def test_a_bad_timeout_is_refused(filled: DistinctQueue[Any], timeout: Any) -> None:
    """A negative timeout is refused by name where the take is made, also when none would wait."""
    for take in (filled.take, filled.batches, filled.aio.take, filled.aio.batches):
        with pytest.raises(InvalidArgumentError, match="timeout"):
            take(1, timeout)
    assert filled.in_progress == []


def test_none_is_an_element(queue: DistinctQueue[Any]) -> None:
    """``None`` is told from nothing: it is added once, delivered, and returned."""
    assert queue.add(None)
    assert not queue.add(None)
    assert fail(queue, 1) == [None]
    with queue.take(1) as items:
        assert items == [None]
    assert len(queue) == 0


def test_an_element_that_cannot_be_hashed_is_refused(queue: DistinctQueue[Any]) -> None:
    """It is refused with its value and the way out, and in bulk nothing is added either."""
    with pytest.raises(InvalidArgumentError, match=r"\[1\] cannot be told.*can be hashed"):
        queue.add([1])
    with pytest.raises(InvalidArgumentError, match=r"\{\}"):
        queue.add_all([1, 2, {}, 3])
    assert len(queue) == 0
    assert queue.add(1)


def test_an_equality_that_fails_leaves_the_queue_whole(queue: DistinctQueue[Any]) -> None:
    """An error of ``__eq__`` is the caller's, and nothing is added."""

    class Odd:
        def __hash__(self) -> int:
            return 1

        def __eq__(self, other: object) -> bool:
            raise WorkError

    queue.add(Odd())
    with Failing():
        queue.add(Odd())
    with Failing():
        queue.add_all([Odd()])
    assert len(queue) == 1
    with queue.take(2) as items:
        assert len(items) == 1
    assert len(queue) == 0


def test_one_view_of_everything(queue: DistinctQueue[Any]) -> None:
    """``len`` and ``in`` speak of everything that is here, and the text form counts both kinds."""
    queue.add_all("abc")
    with queue.take(1):
        assert len(queue) == 3
        assert "a" in queue
        assert "d" not in queue
        assert repr(queue) == "<DistinctQueue open queued=2 in_progress=1>"
    queue.shutdown()
    assert repr(queue) == "<DistinctQueue shut down queued=2 in_progress=0>"


def test_views_are_of_one_instant() -> None:
    """While elements go round, every view has each of them exactly once."""
    queue: DistinctQueue[int] = DistinctQueue()
    queue.add_all(range(40))
    stop = threading.Event()

    def turn() -> None:
        while not stop.is_set():
            fail(queue, 7)

    with threads(turn, turn):
        for _ in range(200):
            queued, in_progress = queue.snapshot()
            items = [element.item for element in (*queued, *in_progress)]
            assert sorted(items) == list(range(40))
            assert len(in_progress) in (0, 7, 14)
        stop.set()


def test_a_shut_down_queue_can_be_emptied(filled: DistinctQueue[Any]) -> None:
    """After a shutdown adds are refused; what is queued or comes back can be taken."""
    with Failing(), filled.take(4):
        filled.shutdown()
        filled.shutdown()
        for add in (filled.add, lambda item: filled.add_all([item])):
            for item in (1, 9):
                with pytest.raises(QueueShutDownError, match="no elements any more"):
                    add(item)
        with filled.take(9) as items:
            assert items == [4, 3]
        with pytest.raises(QueueShutDownError, match="nothing is queued"):
            filled.take(1).__enter__()
        raise WorkError
    assert filled.is_shutdown
    with filled.take(9) as items:
        assert items == [1, 5, 2, 6]
    assert len(filled) == 0


def test_a_take_is_used_once(filled: DistinctQueue[Any]) -> None:
    """Entering a take again is an error, during its scope and after it, and harms nobody."""
    take = filled.take(2)
    with take as items:
        for again in (take, take):
            with pytest.raises(InvalidArgumentError, match=r"take of \[1, 5\] was used"):
                again.__enter__()
        assert (items, filled.in_progress) == ([1, 5], [1, 5])
    with pytest.raises(InvalidArgumentError, match="call take"):
        take.__enter__()
    assert filled.queued == [2, 6, 4, 3]


def test_a_take_is_a_list_of_its_own(filled: DistinctQueue[Any]) -> None:
    """Changing the list of a take changes nothing of what the scope does."""
    with filled.take(3) as items:
        items.clear()
        items.append(99)
    assert filled.queued == [6, 4, 3]


def test_a_turn_of_batches_that_is_not_entered_leaves_its_elements(
    filled: DistinctQueue[Any],
) -> None:
    """A take whose scope is not entered goes back, whether the loop goes on or ends."""
    seen = [list(take) for take in islice(filled.batches(2), 3)]
    assert seen == [[1, 5], [1, 5], [1, 5]]
    assert (filled.queued, filled.in_progress) == (F, [])
    assert filled.facts(1).failures == 0


def test_batches_end_with_the_queue(filled: DistinctQueue[Any]) -> None:
    """The loop ends when the queue is shut down and empty, or when its time is up."""
    taken = []
    for take in filled.batches(4, timeout=0):
        with take as items:
            taken.append(list(items))
    filled.add(7)
    filled.shutdown()
    for take in filled.batches(4):
        with take as items:
            taken.append(list(items))
    assert taken == [[1, 5, 2, 6], [4, 3], [7]]


def test_a_turn_of_batches_may_fail(filled: DistinctQueue[Any]) -> None:
    """An error in the scope of a turn returns its batch and leaves the loop, with the error."""
    with Failing():
        for take in filled.batches(4):
            with take:
                raise WorkError
    assert filled.queued == F
    assert filled.facts(5).failures == 1


def test_a_ready_take_is_entered_once(filled: DistinctQueue[Any]) -> None:
    """The take of a turn is a scope like any other: it cannot be entered twice."""
    for take in islice(filled.batches(2), 1):
        with take as items, pytest.raises(InvalidArgumentError, match="was used"):
            take.__enter__()
        assert items == [1, 5]
    assert filled.queued == [2, 6, 4, 3]
