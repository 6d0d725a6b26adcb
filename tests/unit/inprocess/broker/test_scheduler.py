from __future__ import annotations

from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.broker.turn_scheduler import TaskOrder, TaskScheduler


def filled(*tasks: Any, order: TaskOrder = "arrival") -> TaskScheduler[Any]:
    """Make a scheduler with tasks, each a name or a name, a group and a deadline."""
    scheduler: TaskScheduler[Any] = TaskScheduler(order)
    for task in tasks:
        assert scheduler.enqueue(*(task if isinstance(task, tuple) else (task,)))
    return scheduler


def drained(scheduler: TaskScheduler[Any]) -> list[Any]:
    """Start and complete one task after another, till none may start."""
    taken = []
    while (task := scheduler.take_next()) is not None:
        taken.append(task)
        assert scheduler.complete(task)
    return taken


def test_tasks_start_in_the_order_of_their_arrival() -> None:
    """QS-01: first, second, third, then none."""
    scheduler = filled("first", "second", "third")
    assert [scheduler.take_next() for _ in range(4)] == ["first", "second", "third", None]


def test_a_group_runs_one_at_a_time() -> None:
    """QS-02: the second of a group starts only after the first is complete."""
    scheduler = filled(("first", "g"), ("second", "g"))
    assert [scheduler.take_next(), scheduler.take_next()] == ["first", None]
    assert scheduler.complete("first")
    assert scheduler.take_next() == "second"


def test_an_older_grouped_task_goes_before_a_newer_ungrouped_one() -> None:
    """QS-03: as soon as its group is free."""
    scheduler = filled(("first", "g"), ("second", "g"), "free")
    assert scheduler.take_next() == "first"
    scheduler.complete("first")
    assert [scheduler.take_next(), scheduler.take_next()] == ["second", "free"]


def test_three_of_a_group_go_strictly_in_turn() -> None:
    """QS-04: no other order and no overlap within a group."""
    scheduler = filled(("a", "g"), ("b", "g"), ("c", "g"))
    seen = []
    for _ in range(3):
        seen.append(scheduler.take_next())
        assert scheduler.take_next() is None
        scheduler.complete(seen[-1])
    assert seen == ["a", "b", "c"]


@pytest.mark.parametrize("group", [None, "g"])
def test_a_waiting_task_can_be_removed_once(group: str | None) -> None:
    """QS-05, QS-06: it leaves the count and its place, in a group as well; a second time fails."""
    scheduler = filled(("a", group), ("b", group), ("c", group))
    assert scheduler.remove("a")
    assert len(scheduler) == 2
    assert scheduler.take_next() == "b"
    scheduler.complete("b")
    assert not scheduler.remove("a")
    assert scheduler.remove("c")
    assert scheduler.take_next() is None
    assert scheduler.group_count == 0


def test_an_expired_head_lets_the_next_of_its_group_go() -> None:
    """QS-07: the deadline takes the head of a group out, and the next may start."""
    scheduler = filled(("a", "g", 10), ("b", "g"))
    assert scheduler.expire(10) == ["a"]
    assert scheduler.take_next() == "b"


def test_a_started_task_cannot_be_removed() -> None:
    """QS-08: removing is for tasks that wait."""
    scheduler = filled(("a", "g"))
    scheduler.take_next()
    assert not scheduler.remove("a")
    assert scheduler.active == ["a"]


def test_completing_an_unknown_task_changes_nothing() -> None:
    """QS-09: neither one that is unknown, nor one that waits, nor one that is complete."""
    scheduler = filled(("a", "g"), ("b", "g"))
    scheduler.take_next()
    assert not scheduler.complete("unknown")
    assert not scheduler.complete("b")
    assert scheduler.take_next() is None
    assert scheduler.complete("a")
    assert not scheduler.complete("a")
    assert scheduler.take_next() == "b"


def test_started_tasks_do_not_expire() -> None:
    """QS-10: a deadline is about waiting."""
    scheduler = filled(("a", None, 10))
    scheduler.take_next()
    assert scheduler.expire(100) == []
    assert scheduler.complete("a")


@pytest.mark.parametrize("leave", ["remove", "start"])
def test_the_next_expiration_follows_what_waits(leave: str) -> None:
    """QS-11, QS-12: 10, and 30 once the first is removed or started."""
    scheduler = filled(("a", None, 10), ("b", None, 30))
    assert scheduler.next_expiration() == 10
    if leave == "remove":
        scheduler.remove("a")
    else:
        scheduler.take_next()
    assert scheduler.next_expiration() == 30


def test_there_is_no_expiration_without_deadlines() -> None:
    """QS-13: none when no task has one."""
    assert filled("a", ("b", "g")).next_expiration() is None


@pytest.mark.parametrize("group", [None, "g"])
def test_a_task_counts_once(group: str | None) -> None:
    """QS-14: enqueuing what is there already, waiting or active, is refused."""
    scheduler = filled(("a", group))
    assert not scheduler.enqueue("a", group)
    assert len(scheduler) == 1
    scheduler.take_next()
    assert not scheduler.enqueue("a", group)
    assert drained(scheduler) == []


def test_the_earliest_deadline_counts() -> None:
    """QS-15: of 50 and 10 it is 10."""
    assert filled(("a", None, 50), ("b", "g", 10)).next_expiration() == 10


def test_a_later_deadline_does_not_expire() -> None:
    """QS-16: nothing expires at 20 that may wait until 30."""
    scheduler = filled(("a", None, 30))
    assert scheduler.expire(20) == []
    assert len(scheduler) == 1


def test_an_expired_task_lets_the_next_run() -> None:
    """QS-17: the one with deadline 10 expires at 20, and the next runs."""
    scheduler = filled(("a", None, 10), "b")
    assert scheduler.expire(20) == ["a"]
    assert drained(scheduler) == ["b"]


def test_equal_deadlines_expire_in_the_order_of_arrival() -> None:
    """QS-18: and a deadline is passed when it is reached."""
    scheduler = filled(("a", None, 10), ("b", "g", 10), ("c", None, 10), ("d", None, 9))
    assert scheduler.expire(10) == ["d", "a", "b", "c"]


def test_an_expired_task_behind_a_busy_group_blocks_nobody() -> None:
    """QS-19: it leaves, others go on, and its group is served when it is free."""
    scheduler = filled(("a", "g"), ("b", "g", 10), ("c", "g"), "free")
    assert scheduler.take_next() == "a"
    assert scheduler.expire(10) == ["b"]
    assert scheduler.take_next() == "free"
    scheduler.complete("a")
    assert scheduler.take_next() == "c"


def test_clear_returns_what_waits_in_the_order_of_arrival() -> None:
    """QS-20: the active task is not returned, and completing it finds nothing to start."""
    scheduler = filled(("a", "g"), "b", ("c", "g"), ("d", "h"), "e")
    assert scheduler.take_next() == "a"
    assert scheduler.clear() == ["b", "c", "d", "e"]
    assert scheduler.complete("a")
    assert scheduler.take_next() is None


def test_nothing_is_left_after_clear() -> None:
    """QS-21, QS-22: the size is 0, nothing expires, and the group of an active task stays busy."""
    scheduler = filled(("a", "g", 10), ("b", "g", 10), ("c", None, 10))
    scheduler.take_next()
    scheduler.clear()
    assert len(scheduler) == 0
    assert scheduler.next_expiration() is None
    assert scheduler.expire(100) == []
    scheduler.enqueue("d", "g")
    assert scheduler.take_next() is None
    scheduler.complete("a")
    assert scheduler.take_next() == "d"


def test_groups_are_compared_as_python_compares_keys() -> None:
    """QB-47: the empty string is a group, None is none, 1 and 1.0 are one."""
    scheduler = filled(("a", ""), ("b", ""), ("c", None), ("d", None), ("e", 1), ("f", 1.0))
    assert [scheduler.take_next() for _ in range(5)] == ["a", "c", "d", "e", None]


def test_ungrouped_tasks_may_go_first() -> None:
    """QS-03: with that order a task without a group goes before older ones with one."""
    scheduler = filled(("a", "g"), "b", ("c", "h"), "d", order="ungrouped_first")
    assert drained(scheduler) == ["b", "d", "a", "c"]


def test_the_least_congested_group_may_go_first() -> None:
    """QS-03: with that order the group with the fewest waiting is served first."""
    scheduler = filled(
        ("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("b2", "b"), ("c1", "c"), "free",
        order="least_congested",
    )  # fmt: skip
    assert drained(scheduler) == ["c1", "free", "b1", "b2", "a1", "a2", "a3"]
    scheduler = filled(("a1", "a"), ("a2", "a"), ("b1", "b"), order="least_congested")
    scheduler.enqueue("b2", "b")
    scheduler.enqueue("b3", "b")
    assert scheduler.remove("b1")
    assert scheduler.remove("b2")
    assert scheduler.take_next() == "b3"


def test_an_unhashable_group_is_refused() -> None:
    """A group that cannot be a key is an error, and nothing was added."""
    scheduler = filled("a")
    with pytest.raises(InvalidArgumentError, match="group"):
        scheduler.enqueue("b", ["not", "a", "key"])  # type: ignore[arg-type]
    assert drained(scheduler) == ["a"]


@pytest.mark.parametrize("order", ["arrival", "ungrouped_first", "least_congested"])
def test_what_has_gone_leaves_no_memory_behind(order: TaskOrder) -> None:
    """QS-21: groups, removed heads and passed deadlines do not pile up while the slots are busy."""
    scheduler = filled(("busy", "hot"), order=order)
    scheduler.take_next()
    for number in range(3000):
        scheduler.enqueue(("head", number), "cold", number)
        scheduler.enqueue(("more", number), "cold", 10**9)
        scheduler.enqueue(("other", number), number)
        for name in ("head", "other", "more"):
            assert scheduler.remove((name, number))
        scheduler.enqueue(("run", number), ("own", number), 10**9)
        assert scheduler.take_next() == ("run", number)
        scheduler.complete(("run", number))
    assert scheduler.group_count == 1
    assert len(scheduler) == 0
    assert len(scheduler._ready) < 200
    assert len(scheduler._deadlines) < 200
