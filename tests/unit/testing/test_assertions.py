"""Assertions hold where the queue is as they say, and show what it is where it is not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pyarrow.compute as pc
import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidArgumentError
from spark_queue.local_queue import LocalQueue
from spark_queue.testing import (
    assert_cancelled,
    assert_claimed,
    assert_dead,
    assert_done,
    assert_empty,
    assert_enqueued,
    assert_expired,
    assert_order,
    assert_ready,
    assert_refused,
    drain,
    fail_next,
)
from tests.unit.testing.conftest import Make, put


@pytest.fixture
def queue(make: Make, clock: ManualClock) -> LocalQueue:
    """Return a queue with an item in each state."""
    queue = make("path string, tenant string", dedup_key="path", max_attempts=1)
    names = ("done", "dead", "held", "gone", "late", "wait", "wait")
    queue.enqueue([{"path": name, "tenant": name[0]} for name in names])
    queue.enqueue({"path": "old", "tenant": "o", "expires_at": clock.now() + timedelta(seconds=1)})
    queue.cancel({"path": "gone"})
    claim = queue.claim(3)
    claim.settle_each({1: "ack", 2: ("dead", "no such file")})
    clock.advance(timedelta(seconds=2))
    queue.maintain()
    return queue


def test_each_state_has_an_assertion(queue: LocalQueue) -> None:
    """It holds where there is such an item, and returns it."""
    for check, path in (
        *((assert_done, "done"), (assert_dead, "dead"), (assert_claimed, "held")),
        *((assert_cancelled, "gone"), (assert_expired, "old"), (assert_ready, "wait")),
    ):
        (found,) = check(queue, path=path)
        assert found["path"] == path
        with pytest.raises(AssertionError, match="found none"):
            check(queue, path="late" if path != "wait" else "done")
    assert len(assert_enqueued(queue)) == 7
    (refused,) = assert_refused(queue)
    assert (refused["path"], refused["_duplicate_of"]) == ("wait", 6)


def test_a_count_is_the_very_count(queue: LocalQueue) -> None:
    """More are as wrong as fewer, and zero says that there is none."""
    assert_ready(queue, count=2)
    assert_ready(queue, path="nothing", count=0)
    for wrong in (0, 1, 3):
        with pytest.raises(AssertionError, match="found 2"):
            assert_ready(queue, count=wrong)
    for none in (-1, True, "2"):
        with pytest.raises(InvalidArgumentError, match="count"):
            assert_ready(queue, count=none)  # type: ignore[arg-type]


def test_items_are_meant_by_columns(queue: LocalQueue) -> None:
    """By values, by several, by columns of the library's own, by an expression, and by SQL."""
    assert_enqueued(queue, tenant="d", count=2)
    assert_enqueued(queue, path=["done", "late"], count=2)
    assert_enqueued(queue, tenant="d", _seq=1, count=1)
    assert_enqueued(queue, {"path": "done"}, count=1)
    assert_enqueued(queue, pc.field("_seq") > 3, tenant="w", count=1)
    assert_enqueued(queue, "path LIKE 'd%' AND _seq < 2", count=1)
    with pytest.raises(InvalidArgumentError, match="pth"):
        assert_enqueued(queue, pth="done")


def test_a_dead_letter_is_known_by_its_error(queue: LocalQueue) -> None:
    """A part of the text will do; another text is another error."""
    assert_dead(queue, error="no such")
    with pytest.raises(AssertionError, match=r"an error that has 'denied' in it, found none"):
        assert_dead(queue, error="denied")


def test_what_fails_shows_what_there_is(queue: LocalQueue) -> None:
    """All items, with their states and errors, and a mark at those that were found."""
    with pytest.raises(AssertionError) as caught:
        assert_enqueued(queue, tenant="d", count=3)

    lines = str(caught.value).splitlines()
    wanted = "wanted 3 items enqueued with tenant='d', found 2. "
    assert lines[0] == f"{wanted}{queue.name!r} has:"
    assert lines[1].split() == ["_seq", "_state", "path", "tenant", "_error"]
    assert lines[2].split() == ["*", "1", "acked", "done", "d"]
    assert lines[3].split() == ["*", "2", "dead", "dead", "d", "no", "such", "file"]
    assert lines[4].split() == ["3", "claimed", "held", "h"]
    assert len(lines) == 9


def test_what_is_long_is_cut(make: Make) -> None:
    """A message shows twenty rows and says how many more there are; long values are cut."""
    queue = make()
    put(queue, "x" * 100, *(str(number) for number in range(30)))

    with pytest.raises(AssertionError) as caught:
        assert_done(queue)

    lines = str(caught.value).splitlines()
    assert len(lines) == 23
    assert lines[2].endswith("xxx…")
    assert len(lines[2]) < 80
    assert lines[-1].strip() == "and 11 more rows"


def test_a_queue_without_items_says_so(make: Make) -> None:
    """The message does not show a table without rows."""
    queue = make()
    with pytest.raises(AssertionError, match=r"found none\. Nothing was enqueued in 'memory:"):
        assert_enqueued(queue)
    with pytest.raises(AssertionError, match=r"found none\. Nothing was refused in 'memory:"):
        assert_refused(queue)


def test_a_queue_is_empty_once_all_is_over(make: Make) -> None:
    """What waits and what is in somebody's hands is left; what has ended is not."""
    queue = make()
    assert_empty(queue)
    put(queue, "a", "b")
    claim = queue.claim()
    for left in (2, 1):
        with pytest.raises(AssertionError, match=rf"is not empty: {left} items? left"):
            assert_empty(queue)
        if left == 2:
            claim.ack()
    drain(queue)
    assert_empty(queue)


def test_the_order_is_that_of_the_claims(make: Make) -> None:
    """Within a claim and from claim to claim, and not the order in which items came."""
    queue = make("path string, prio int", priority="prio")
    queue.enqueue([{"path": path, "prio": prio} for path, prio in (("a", 0), ("b", 2), ("c", 1))])
    queue.claim(2).ack()
    drain(queue)

    found = assert_order(queue, path=["b", "c", "a"])
    assert [item["prio"] for item in found] == [2, 1, 0]
    assert_order(queue, _seq=[2, 3, 1])
    assert_order(queue, {"prio": [0, 1]}, path=["c", "a"])


def test_an_item_that_is_tried_again_is_in_the_order_again(make: Make) -> None:
    """Each claim of it counts, wherever it comes."""
    queue = make()
    put(queue, "a", "b")
    fail_next(queue)
    drain(queue, through_delays=True)

    assert_order(queue, path=["a", "b", "a"])


def test_another_order_is_shown_beside_the_wanted_one(make: Make) -> None:
    """With the first place at which they differ."""
    queue = make()
    put(queue, "a", "b")
    drain(queue)

    for wanted, said in (
        (["b", "a"], "number 1 was 'a', not 'b'"),
        (["a", "b", "c"], "1 never came"),
        (["a"], "1 came beyond them"),
    ):
        with pytest.raises(AssertionError) as caught:
            assert_order(queue, path=wanted)
        lines = [line.strip() for line in str(caught.value).splitlines()]
        assert lines[0] == f"{queue.name!r} gave its items out in another order by path:"
        assert lines[1].split(maxsplit=1) == ["wanted:", ", ".join(map(repr, wanted))]
        assert lines[2].split(maxsplit=1) == ["was:", "'a', 'b'"]
        assert lines[3] == said


def test_an_order_is_of_one_column(make: Make) -> None:
    """None, two, one that is not there, and what is no list are refused."""
    queue = make()
    wrong: tuple[Callable[[], object], ...] = (
        lambda: assert_order(queue),
        lambda: assert_order(queue, path=["a"], _seq=[1]),
        lambda: assert_order(queue, pth=["a"]),
        lambda: assert_order(queue, path="a"),
        lambda: assert_order(queue, path={"a"}),  # type: ignore[arg-type]
    )
    for refused in wrong:
        with pytest.raises(InvalidArgumentError):
            refused()


def test_a_reader_is_asserted_by_what_it_sees(make: Make) -> None:
    """An item that one reader is done with another may have yet to do."""
    queue = make()
    first, second = queue.reader("first"), queue.reader("second")
    put(queue, "a")
    drain(first)

    assert_done(first, path="a")
    assert_ready(second, path="a")


def test_what_is_no_queue_of_this_kind_is_refused() -> None:
    """It is said what to give instead."""
    with pytest.raises(InvalidArgumentError, match=r"queue is a str.*spark_queue.open"):
        assert_enqueued("memory:/1")  # type: ignore[arg-type]
