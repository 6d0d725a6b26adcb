from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from spark_queue.errors import (
    AbortedError,
    DeadlockError,
    InvalidArgumentError,
    QueueFullError,
    QueueShutDownError,
)
from spark_queue.memory.broker import QueueBroker, TaskExpiredError, Turn
from spark_queue.memory.waiting.abort import AbortScope
from tests.unit.inprocess.broker.stage import Stage
from tests.unit.threads import until

R = TypeVar("R")


def giving(value: R) -> Callable[[Turn], R]:
    """Make a task that returns a value."""
    return lambda _: value


def test_a_task_gives_its_value(stage: Stage) -> None:
    """QB-01: one task, and its value."""
    stage.broker(2, 3)
    future = stage.add("a")
    stage.end("a")
    assert future.result(timeout=0) == "a"


def test_two_run_together_and_a_third_waits(stage: Stage) -> None:
    """QB-02, QB-03: two of two slots run at once, the third starts when one ends; all three run."""
    broker = stage.broker(2, 3)
    for name in "123":
        stage.add(name)
    stage.settle()
    assert stage.started == ["1", "2"]
    assert (broker.active_count, broker.waiting_count) == (2, 1)
    stage.end("1")
    assert stage.started == ["1", "2", "3"]
    stage.end("2")
    stage.end("3")
    assert stage.ended == ["1", "2", "3"]


def test_ungrouped_tasks_start_in_the_order_of_their_arrival(stage: Stage) -> None:
    """QB-04: with one slot they run 1, 2, 3."""
    stage.broker(1)
    for name in "123":
        stage.add(name)
    stage.play({"1": 0, "2": 0, "3": 0})
    assert stage.started == stage.ended == ["1", "2", "3"]


def test_groups_run_one_at_a_time_each_and_beside_each_other(stage: Stage) -> None:
    """QB-05, QB-06, QB-07: same group 1 then 2; two groups at once; grouped beside ungrouped."""
    stage.broker(3)
    stage.add("g1", "g")
    stage.add("g2", "g")
    stage.add("h", "h")
    stage.add("free")
    stage.settle()
    assert sorted(stage.started) == ["free", "g1", "h"]
    stage.end("g1")
    assert stage.started[-1] == "g2"


def test_too_many_waiting_tasks_are_refused(stage: Stage) -> None:
    """QB-08: with two slots and three places, the sixth is refused, and room is made by an end."""
    stage.broker(2, 3)
    for name in "12345":
        stage.add(name)
    with pytest.raises(QueueFullError) as refused:
        stage.add("6")
    assert refused.value.size == 3
    stage.settle()
    stage.end("1")
    stage.add("7")
    with pytest.raises(QueueFullError):
        stage.add("8")


@pytest.mark.parametrize(
    ("tasks", "ends"),
    [
        ({"g1a": 200, "g1b": 0}, ["g1a", "g1b"]),
        ({"f1": 50, "f2": 50, "f3": 50}, ["f1", "f2", "f3"]),
        ({"g1a": 20, "g1b": 10, "g2a": 50}, ["g1a", "g1b", "g2a"]),
        ({"g1a": 50, "g2a": 50, "g1b": 50}, ["g1a", "g2a", "g1b"]),
        ({"g1a": 50, "f": 50, "g1b": 50}, ["g1a", "f", "g1b"]),
        ({"g1a": 100, "f": 10, "g1b": 20}, ["f", "g1a", "g1b"]),
    ],
)
def test_tasks_of_given_lengths_end_in_order(
    stage: Stage, tasks: dict[str, int], ends: list[str]
) -> None:
    """QB-09, QB-10, QB-11, QB-12, QB-13, QB-14: lengths and groups give the order of the ends."""
    stage.broker(2, 3)
    for name in tasks:
        stage.add(name, name[:2] if name.startswith("g") else None)
    stage.play(tasks)
    assert stage.ended == ends


def test_a_graceful_stop_rejects_what_waits_and_waits_for_what_runs(stage: Stage) -> None:
    """QB-15, QB-30: what waits is rejected, what runs is not aborted, stop returns last."""
    broker = stage.broker(1)
    running, waiting = stage.add("running"), stage.add("waiting")
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    assert isinstance(waiting.exception(timeout=10), QueueShutDownError)
    assert "stopped" in str(waiting.exception())
    until(lambda: "running" in stage.turns)
    assert stopping.is_alive()
    assert not stage.turns["running"].signal.aborted
    stage.end("running")
    stopping.join(timeout=10)
    assert not stopping.is_alive()
    assert running.result(timeout=0) == "running"
    assert stage.started == ["running"]


def test_a_forced_stop_returns_at_once(stage: Stage) -> None:
    """QB-16: waiting tasks are rejected at once; one that runs and does not listen resolves."""
    broker = stage.broker(1)
    running, waiting = stage.add("running"), stage.add("waiting")
    stage.settle()
    broker.stop(force=True)
    assert isinstance(waiting.exception(timeout=0), QueueShutDownError)
    assert not running.done()
    stage.end("running")
    assert running.result(timeout=0) == "running"


def test_a_running_task_does_not_expire(stage: Stage) -> None:
    """QB-17, QB-44: the idle time counts waiting only; a task that runs longer is fine."""
    stage.broker(1, None, 0.010)
    future = stage.add("long")
    stage.settle()
    stage.timer.advance(0.030)
    stage.end("long")
    assert future.result(timeout=0) == "long"


def test_a_task_that_waits_too_long_never_runs(stage: Stage) -> None:
    """QB-18, QB-20, QB-44: it is rejected at its time, never starts, and the one after it runs."""
    broker = stage.broker(1, None, 0.010)
    busy = stage.add("busy")
    expired = stage.add("expired")
    stage.timer.advance(0.005)
    later = stage.add("later")
    assert len(stage.timer) == 1
    stage.timer.advance(0.005)
    error = expired.exception(timeout=0)
    assert isinstance(error, TaskExpiredError)
    assert "not started within the maximum waiting time" in str(error)
    assert broker.waiting_count == 1
    stage.settle()
    stage.end("busy")
    stage.end("later")
    assert (busy.result(), later.result()) == ("busy", "later")
    assert stage.started == ["busy", "later"]
    assert len(stage.timer) == 0


def test_a_task_expires_also_when_its_timer_is_late(stage: Stage) -> None:
    """QB-19: when the alarm is held up, the end of another task finds the time passed."""
    stage.broker(1, None, 0.010)
    stage.add("busy")
    expired = stage.add("expired")
    stage.settle()
    stage.timer._now += 0.030
    stage.end("busy")
    assert isinstance(expired.exception(timeout=10), TaskExpiredError)
    assert stage.started == ["busy"]


@pytest.mark.parametrize("alarm", ["in time", "late"])
def test_an_expired_task_frees_its_place(stage: Stage, alarm: str) -> None:
    """QB-21: with one place, another may wait once the first has expired, whoever notices."""
    stage.broker(1, 1, 0.010)
    stage.add("busy")
    stage.add("expired")
    with pytest.raises(QueueFullError):
        stage.add("refused")
    if alarm == "in time":
        stage.timer.advance(0.010)
    else:
        stage.timer._now += 0.010
    later = stage.add("later")
    assert isinstance(stage.futures["expired"].exception(timeout=0), TaskExpiredError)
    stage.settle()
    stage.end("busy")
    stage.end("later")
    assert later.result(timeout=0) == "later"


@pytest.mark.parametrize("how", ["signal", "cancel"])
def test_a_waiting_task_can_be_withdrawn(stage: Stage, how: str) -> None:
    """QB-22, QB-23: it is rejected with the reason, never runs, and its place is free again."""
    broker = stage.broker(1, 1)
    stage.add("busy")
    scope, reason = AbortScope(), ValueError("not needed")
    waiting = stage.add("waiting", "g", signal=scope.signal)
    assert broker.waiting_count == 1
    if how == "signal":
        scope.abort(reason)
        assert waiting.exception(timeout=0) is reason
    else:
        assert waiting.cancel()
        assert waiting.cancelled()
    assert broker.waiting_count == 0
    assert scope.signal.listener_count == 0
    stage.add("next")
    stage.settle()
    stage.end("busy")
    stage.end("next")
    assert stage.started == ["busy", "next"]


def test_a_running_task_cannot_be_cancelled(stage: Stage) -> None:
    """QB-22: a cancel after the start does nothing."""
    stage.broker(1)
    future = stage.add("a")
    stage.settle()
    assert not future.cancel()
    stage.end("a")
    assert not future.cancel()
    assert future.result(timeout=0) == "a"


@pytest.mark.parametrize("fails", [False, True])
def test_in_manual_mode_only_a_release_frees(stage: Stage, fails: bool) -> None:  # noqa: FBT001
    """QB-24: the first resolves, or fails; its slot and group are held until the release."""
    broker = stage.broker(2, mode="manual")
    stage.add("first", "g")
    stage.add("same group", "g")
    stage.add("other slot")
    stage.add("no slot")
    stage.settle()
    stage.end("first", error=ValueError() if fails else None)
    assert stage.futures["first"].done()
    assert stage.started == ["first", "other slot"]
    assert broker.active_count == 2
    stage.turns["first"].release()
    stage.settle()
    assert stage.started == ["first", "other slot", "same group"]


@pytest.mark.parametrize("group", [None, "g"])
def test_an_early_release_lets_the_next_start(stage: Stage, group: str | None) -> None:
    """QB-25, QB-42: released twice, the long task goes on, the next of its group beside it."""
    broker = stage.broker(1)

    def release_twice(turn: Turn) -> None:
        turn.release()
        turn.release()

    stage.add("long", group, before=release_twice)
    stage.add("next", group)
    stage.add("third", group)
    until(lambda: stage.started == ["long", "next"])
    assert (broker.active_count, broker.running_count) == (1, 2)
    stage.end("long")
    assert stage.started == ["long", "next"]
    stage.end("next")
    assert stage.started == ["long", "next", "third"]


def test_no_release_is_needed(stage: Stage) -> None:
    """QB-26, QB-41: the end of a task frees its slot."""
    broker = stage.broker(1)
    stage.add("a")
    stage.add("b")
    stage.settle()
    stage.end("a")
    assert stage.started == ["a", "b"]
    stage.end("b")
    until(lambda: broker.active_count == 0)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("group", [None, "g"])
def test_a_task_that_fails_makes_room(stage: Stage, moment: str, group: str | None) -> None:
    """QB-27, QB-28, QB-43, QB-50: raising at once or later, its future fails, and the next runs."""
    error = ValueError("broken")

    def fail(_: Turn) -> None:
        raise error

    stage.broker(1)
    options: dict[str, Any] = {moment: fail}
    failing = stage.add("failing", group, **options)
    following = stage.add("following", group)
    if moment == "after":
        stage.let_end("failing")
    assert failing.exception(timeout=10) is error
    stage.settle()
    stage.end("following")
    assert following.result(timeout=0) == "following"
    assert stage.ended == ["following"]


def test_a_failure_after_the_release_is_only_its_own(stage: Stage) -> None:
    """QB-43: its future fails, the next task is not affected."""
    stage.broker(1)
    failing = stage.add("failing", before=lambda turn: turn.release())
    following = stage.add("following")
    until(lambda: len(stage.started) == 2)
    stage.let_end("failing", error=ValueError("late"))
    assert isinstance(failing.exception(timeout=10), ValueError)
    stage.end("following")
    assert following.result(timeout=0) == "following"


def test_a_running_task_sees_a_forced_stop(stage: Stage) -> None:
    """QB-29: it hears of the abort, and is rejected as stopped."""
    broker = stage.broker(1)
    future = stage.add("a", after=lambda turn: turn.signal.raise_if_aborted())
    stage.settle()
    broker.stop(force=True)
    assert stage.turns["a"].signal.aborted
    stage.let_end("a")
    assert isinstance(future.exception(timeout=10), QueueShutDownError)
    assert stage.ended == []


def test_a_group_holds_up_no_other(stage: Stage) -> None:
    """QB-40: T1-G1 T2-G1 T3-G2 T4-G3 T5-G1 with many slots start as the article shows."""
    stage.broker(10)
    groups = {"T1": "G1", "T2": "G1", "T3": "G2", "T4": "G3", "T5": "G1"}
    for name, group in groups.items():
        stage.add(name, group)
    stage.settle()
    assert sorted(stage.started) == ["T1", "T3", "T4"]
    stage.end("T1")
    assert stage.started[3:] == ["T2"]
    stage.end("T3")
    stage.end("T4")
    assert stage.started[3:] == ["T2"]
    stage.end("T2")
    assert stage.started[3:] == ["T2", "T5"]


def test_a_place_counts_only_for_those_who_wait(stage: Stage) -> None:
    """QB-45: with one place one runs, one waits, the third is refused; with none only one runs."""
    stage.broker(1, 1)
    stage.add("runs")
    stage.add("waits")
    with pytest.raises(QueueFullError):
        stage.add("refused")
    stage.broker(2, 0)
    stage.add("a", "g")
    with pytest.raises(QueueFullError):
        stage.add("b", "g")
    stage.add("c", "h")
    with pytest.raises(QueueFullError):
        stage.add("d", "i")


def test_a_stop_waits_for_all_slots_and_refuses_from_then_on(stage: Stage) -> None:
    """QB-46: with two slots and one running it waits for that one; enqueuing is refused."""
    broker = stage.broker(2)
    stage.add("running")
    stage.settle()
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    until(lambda: broker._dispatcher.stopped)
    with pytest.raises(QueueShutDownError):
        stage.add("late")
    assert stopping.is_alive()
    stage.end("running")
    stopping.join(timeout=10)
    broker.stop()
    with pytest.raises(QueueShutDownError):
        stage.add("later")


def test_the_empty_string_is_a_group(stage: Stage) -> None:
    """QB-47: of two tasks with the group "" one runs, of two without a group both."""
    stage.broker(4)
    for name in ("a", "b"):
        stage.add(name, "")
    for name in ("c", "d"):
        stage.add(name, None)
    stage.settle()
    assert sorted(stage.started) == ["a", "c", "d"]


def test_a_grouped_task_keeps_its_place_before_newer_ones(stage: Stage) -> None:
    """QB-48: with one slot, the second of a group starts before a later one without a group."""
    stage.broker(1)
    stage.add("g1", "g")
    stage.add("g2", "g")
    stage.add("free")
    stage.play({"g1": 0, "g2": 0, "free": 0})
    assert stage.started == ["g1", "g2", "free"]


def test_a_thread_task_that_waits_for_its_own_group_is_told() -> None:
    """QB-49: a deadlock by the group, over another task, or by the slots is an error at once."""

    def waits_for(group: str) -> Callable[[Turn], int]:
        return lambda _: broker.enqueue(giving(1), group).result()

    with QueueBroker(3) as broker:
        for group in ("g", "h"):
            outer = broker.enqueue(waits_for(group), "g")
            if group == "g":
                assert isinstance(outer.exception(timeout=10), DeadlockError)
            else:
                assert outer.result(timeout=10) == 1

        def released(turn: Turn) -> int:
            turn.release()
            return broker.enqueue(lambda _: 2, "g").result(timeout=10)

        assert broker.enqueue(released, "g").result(timeout=10) == 2

    with QueueBroker(2) as broker:
        both = threading.Barrier(2)

        def starved(_: Turn) -> Any:
            both.wait(10)
            return broker.enqueue(lambda _: 3).result(timeout=20)

        errors = [f.exception(timeout=10) for f in [broker.enqueue(starved) for _ in range(2)]]
        assert [type(error) for error in errors].count(DeadlockError) == 1


def test_two_tasks_that_wait_for_each_others_group_are_told() -> None:
    """QB-49: a circle over two groups is broken by an error in one of them."""
    both = threading.Barrier(2)

    def waits_for(group: str) -> Any:
        def task(_: Turn) -> Any:
            both.wait(10)
            return broker.enqueue(lambda _: group, group).result(timeout=20)

        return task

    with QueueBroker(5) as broker:
        tasks = [broker.enqueue(waits_for("b"), "a"), broker.enqueue(waits_for("a"), "b")]
        errors = [task.exception(timeout=10) for task in tasks]
    assert [type(error) for error in errors].count(DeadlockError) == 1


async def test_a_coroutine_that_waits_for_its_own_group_is_told() -> None:
    """QB-49: the same for coroutines; a task of theirs may wait; blocking the loop may not."""
    helpers: list[asyncio.Task[Any]] = []

    async def inner(_: Turn) -> str:
        return "inner"

    broker = QueueBroker(3)

    async def waits(_: Turn) -> Any:
        return await broker.aio.enqueue(inner, "g")

    async def blocks(_: Turn) -> Any:
        return broker.enqueue(inner, "h").result()

    async def helper() -> Any:
        return await broker.aio.enqueue(inner, "g")

    async def sends(_: Turn) -> str:
        helpers.append(asyncio.create_task(helper()))
        await asyncio.sleep(0)
        return "sent"

    for task in (waits, blocks):
        with pytest.raises(DeadlockError):
            await broker.aio.enqueue(task, "g")
    assert await broker.aio.enqueue(sends, "g") == "sent"
    assert await helpers[0] == "inner"
    await broker.aio.stop()


def test_a_task_cannot_wait_for_the_end_of_all_tasks(stage: Stage) -> None:
    """QB-49: a task that stops its own broker is told, unless by force, and nothing has changed."""
    broker = stage.broker(1)
    failing = stage.add("waits", before=lambda _: broker.wait_for_idle())
    assert isinstance(failing.exception(timeout=10), DeadlockError)
    failing = stage.add("stops", before=lambda _: broker.stop())
    assert isinstance(failing.exception(timeout=10), DeadlockError)
    forcing = stage.add("forces", before=lambda _: broker.stop(force=True))
    stage.let_end("forces")
    assert forcing.result(timeout=10) == "forces"


class Crowd:
    """Counts how many tasks are inside, in all and of each group."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now: dict[Any, int] = {}
        self.most: dict[Any, int] = {}
        self.order: dict[int | None, list[int]] = {}

    def enter(self, group: int | None, number: int) -> None:
        """Count one in."""
        with self._lock:
            self.order.setdefault(group, []).append(number)
            for name in ("all", group):
                self._now[name] = self._now.get(name, 0) + 1
                self.most[name] = max(self.most.get(name, 0), self._now[name])

    def leave(self, group: int | None, number: int) -> None:
        """Count one out, and fail for some."""
        with self._lock:
            for name in ("all", group):
                self._now[name] -= 1
        if number % 7 == 0:
            raise ValueError(number)

    def task(self, kind: str, group: int | None, number: int) -> Any:
        """Make a task that goes in and out."""

        def thread_task(_: Turn) -> None:
            self.enter(group, number)
            self.leave(group, number)

        async def loop_task(_: Turn) -> None:
            self.enter(group, number)
            await asyncio.sleep(0)
            self.leave(group, number)

        return thread_task if kind == "threads" else loop_task


def test_limits_hold_and_no_slot_leaks(stage: Stage) -> None:
    """QB-51: 3,000 tasks, some failing, never exceed the slots or overlap in a group."""
    broker, crowd = QueueBroker(4), Crowd()

    def enqueue_all() -> list[Any]:
        groups = [number % 6 if number % 6 < 5 else None for number in range(3000)]
        return [broker.enqueue(crowd.task(stage.kind, g, n), g) for n, g in enumerate(groups)]

    futures = stage.on_loop(enqueue_all)
    broker.wait_for_idle(30)
    assert all(future.done() for future in futures)
    assert sum(future.exception() is not None for future in futures) == 429
    assert crowd.most["all"] <= 4
    for group in range(5):
        assert crowd.most[group] == 1
        assert crowd.order[group] == sorted(crowd.order[group])
    assert (broker.active_count, broker.waiting_count, broker.running_count) == (0, 0, 0)
    broker.stop()


def test_a_full_broker_recovers(stage: Stage) -> None:
    """QB-51: after refusing, it accepts again as soon as there is room, any number of times."""
    stage.broker(1, 1)
    for number in range(20):
        stage.add(f"runs {number}")
        stage.add(f"waits {number}")
        with pytest.raises(QueueFullError):
            stage.add(f"refused {number}")
        stage.settle()
        stage.end(f"runs {number}")
        stage.end(f"waits {number}")


@pytest.mark.parametrize("slots", [1, 2])
def test_stop_may_be_called_again_and_by_force(stage: Stage, slots: int) -> None:
    """QB-51: a forced stop after a graceful one aborts what runs; others do nothing."""
    broker = stage.broker(slots)
    stage.add("a")
    stage.settle()
    stopping = threading.Thread(target=broker.stop)
    stopping.start()
    until(lambda: broker._dispatcher.stopped)
    broker.stop(force=True)
    assert stage.turns["a"].signal.aborted
    stage.end("a")
    stopping.join(timeout=10)
    broker.stop()
    broker.stop(force=True)


def test_a_stop_with_a_deadline_aborts_when_it_is_over(stage: Stage) -> None:
    """QB-51, QG-25: running tasks have until the deadline, then they hear of the abort."""
    broker = stage.broker(1)
    stage.add("a")
    stage.settle()
    stopping = threading.Thread(target=lambda: broker.stop(deadline=5))
    stopping.start()
    until(lambda: len(stage.timer) == 1)
    stage.timer.advance(4)
    assert not stage.turns["a"].signal.aborted
    stage.timer.advance(1)
    stopping.join(timeout=10)
    assert not stopping.is_alive()
    assert stage.turns["a"].signal.aborted


def test_waiting_for_idle_counts_all_slots(stage: Stage) -> None:
    """QB-51: it ends when nothing runs and nothing waits, not before, or at its time."""
    broker = stage.broker(2)
    for name in "abc":
        stage.add(name)
    idle = broker.idle()
    for name in "abc":
        assert not idle.done()
        stage.settle()
        stage.end(name)
    idle.result(timeout=10)
    stage.add("d")
    late = broker.idle(timeout=5)
    stage.timer.advance(5)
    assert isinstance(late.exception(timeout=0), TimeoutError)


def test_a_signal_that_is_aborted_already_refuses(stage: Stage) -> None:
    """AB-05: nothing is started or queued, and the reason is raised."""
    broker = stage.broker(1)
    scope, reason = AbortScope(), ValueError("too late")
    scope.abort(reason)
    with pytest.raises(ValueError, match="too late"):
        stage.add("a", signal=scope.signal)
    assert (broker.active_count, broker.waiting_count) == (0, 0)
    assert stage.started == []


def test_an_abort_rejects_a_running_task_at_once(stage: Stage) -> None:
    """AB-06: the future has the reason, the task hears of it, and holds its slot till it ends."""
    broker = stage.broker(1)
    scope = AbortScope()
    future = stage.add("a", signal=scope.signal)
    following = stage.add("b")
    stage.settle()
    heard = stage.turns["a"].signal
    heard.raise_if_aborted()
    scope.abort("enough")
    assert isinstance(future.exception(timeout=0), AbortedError)
    assert heard.reason is future.exception()
    assert broker.active_count == 1
    assert stage.started == ["a"]
    stage.let_end("a")
    until(lambda: len(stage.started) == 2)
    stage.end("b")
    assert following.result(timeout=0) == "b"
    assert scope.signal.listener_count == 0


def test_a_task_that_fails_leaves_no_listener(stage: Stage) -> None:
    """AB-04: when a task raises in its setup, nothing listens to its caller's signal any more."""

    def fail(turn: Turn) -> None:
        assert not turn.signal.aborted
        raise ValueError

    stage.broker(1)
    scope = AbortScope()
    future = stage.add("a", before=fail, signal=scope.signal)
    assert isinstance(future.exception(timeout=10), ValueError)
    stage.settle()
    assert scope.signal.listener_count == 0


def test_callbacks_may_wait_for_the_next_task() -> None:
    """A callback that waits for what its task made room for does not hold that up."""
    with QueueBroker(1) as broker:
        results: list[Any] = []
        gate = threading.Event()
        first = broker.enqueue(lambda _: gate.wait(10))
        second = broker.enqueue(lambda _: "second")
        first.add_done_callback(lambda _: results.append(second.result(timeout=10)))
        gate.set()
        assert second.result(timeout=10) == "second"
    assert results == ["second"]


def test_the_place_is_free_when_the_result_is_there() -> None:
    """A caller that has the result may enqueue at once, though nothing may wait."""
    with QueueBroker(1, 0) as broker:
        for number in range(300):
            assert broker.enqueue(giving(number)).result(timeout=10) == number


def test_a_dead_loop_takes_its_tasks_and_nothing_else() -> None:
    """Tasks of a closed loop fail, their slots are free, and tasks on threads go on."""
    broker = QueueBroker(1)
    gate = threading.Event()
    broker.enqueue(lambda _: gate.wait(10))

    async def never(_: Turn) -> None:
        raise AssertionError

    async def enqueue() -> list[Any]:
        return [broker.enqueue(never) for _ in range(2000)]

    dead = asyncio.run(enqueue())
    living = broker.enqueue(lambda _: "alive")
    gate.set()
    assert living.result(timeout=10) == "alive"
    assert all(isinstance(future.exception(timeout=10), RuntimeError) for future in dead)
    broker.stop()


async def test_a_cancelled_asyncio_task_is_an_abort() -> None:
    """A coroutine whose task is cancelled fails its future with a clear error and makes room."""
    broker = QueueBroker(1)

    async def cancels(turn: Turn) -> None:
        assert turn.aio_task is not None
        turn.aio_task.cancel()
        await asyncio.sleep(0)

    async def fine(_: Turn) -> str:
        return "fine"

    first, second = broker.aio.enqueue(cancels), broker.aio.enqueue(fine)
    with pytest.raises(AbortedError, match="cancelled"):
        await first
    assert await second == "fine"
    await broker.aio.wait_for_idle()
    await broker.aio.stop()


async def test_cancelling_who_awaits_withdraws_a_waiting_task() -> None:
    """QB-22: a coroutine that is cancelled while its task waits takes the task with it."""
    broker = QueueBroker(1)
    gate = asyncio.Event()
    ran: list[str] = []

    async def busy(_: Turn) -> None:
        await gate.wait()

    async def waits(_: Turn) -> None:
        ran.append("waits")

    async def caller() -> None:
        await broker.aio.enqueue(waits)

    first = broker.aio.enqueue(busy)
    calling = asyncio.create_task(caller())
    await asyncio.sleep(0)
    assert broker.waiting_count == 1
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert broker.waiting_count == 0
    gate.set()
    await first
    await broker.aio.stop(deadline=10)
    assert ran == []


def test_bad_tasks_are_refused_and_the_broker_goes_on() -> None:
    """An unhashable group, and a coroutine function without a loop, are errors at once."""

    async def task(_: Turn) -> None:
        pass

    with QueueBroker(1) as broker:
        with pytest.raises(InvalidArgumentError, match="group"):
            broker.enqueue(giving(1), [])  # type: ignore[call-overload]
        with pytest.raises(InvalidArgumentError, match="loop"):
            broker.enqueue(task)
        assert broker.enqueue(lambda _: 1).result(timeout=10) == 1


def test_a_scope_runs_everything_unless_it_fails() -> None:
    """Leaving the scope waits for all tasks; leaving it by an error rejects those that wait."""
    with QueueBroker(1) as broker:
        futures = [broker.enqueue(giving(n)) for n in range(20)]
    assert [future.result(timeout=0) for future in futures] == list(range(20))
    gate = threading.Event()
    left: list[Any] = []

    def scope() -> None:
        with QueueBroker(1) as broker:
            broker.enqueue(lambda _: gate.wait(10))
            left.append(broker.enqueue(lambda _: None))
            left[0].add_done_callback(lambda _: gate.set())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scope()
    assert isinstance(left[0].exception(timeout=0), QueueShutDownError)
