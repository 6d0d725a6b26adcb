from __future__ import annotations

import threading
from concurrent.futures import Future, wait
from queue import Empty
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.waiting.timer import ManualTimer
from spark_queue.memory.waiting.waiters import LineFuture, WaiterLine
from tests.unit.threads import threads


class Calls:
    """A line whose waiters write down what they are called for."""

    def __init__(self) -> None:
        self.timer = ManualTimer()
        self.line: WaiterLine[str] = WaiterLine(self.timer)
        self.made: list[str] = []

    def wait(self, name: str, timeout: float | None = None) -> LineFuture[str]:
        """Join the line."""

        def note(done: Future[str]) -> None:
            self.made.append(f"{name} {'timed out' if done.exception() else 'awake'}")

        waiter: LineFuture[str] = LineFuture()
        waiter.add_done_callback(note)
        return waiter.join(self.line, Empty, timeout)


class Declining(LineFuture[str]):
    """A waiter that takes nothing."""

    def deliver(self, _: str) -> bool:
        """Say so."""
        return False


class Failing(LineFuture[str]):
    """A waiter that raises whatever it is told."""

    def deliver(self, _: str) -> bool:
        """Raise."""
        return 1 / 0 > 0

    def lapse(self) -> None:
        """Raise."""
        self.deliver("")


@pytest.fixture
def calls() -> Calls:
    """Make a line with nobody in it."""
    return Calls()


def test_a_waiter_times_out_once(calls: Calls) -> None:
    """WQ-01, WQ-02: a waiter of 10 s is left alone at 5 s, timed out once after it, and gone."""
    calls.wait("a", 10)
    calls.timer.advance(5)
    assert calls.made == []
    calls.timer.advance(5.001)
    calls.timer.advance(100)
    assert calls.made == ["a timed out"]
    assert len(calls.line) == 0


def test_a_deadline_is_passed_when_it_is_reached(calls: Calls) -> None:
    """WQ-01: the deadline itself is too late."""
    calls.wait("a", 10)
    calls.timer.advance(10)
    assert calls.made == ["a timed out"]


def test_a_waiter_for_ever_sets_no_alarm(calls: Calls) -> None:
    """WQ-03: waiting for ever never touches the timer."""
    calls.wait("a")
    calls.wait("b", float("inf"))
    assert len(calls.timer) == 0
    assert len(calls.line) == 2


def test_a_trigger_wakes_before_the_deadline(calls: Calls) -> None:
    """WQ-04, WQ-05: a waiter triggered at 5 s wakes once, does not time out, and is gone."""
    calls.wait("a", 10)
    calls.timer.advance(5)
    assert calls.line.trigger("go")
    calls.timer.advance(100)
    assert calls.made == ["a awake"]
    assert len(calls.line) == 0
    assert len(calls.timer) == 0


def test_each_trigger_wakes_exactly_one(calls: Calls) -> None:
    """WQ-06: two waiters are woken one by one, in their order."""
    calls.wait("a", 10)
    calls.wait("b", 10)
    sizes = [len(calls.line)]
    for _ in range(2):
        calls.line.trigger("go")
        sizes.append(len(calls.line))
    assert sizes == [2, 1, 0]
    assert calls.made == ["a awake", "b awake"]
    assert not calls.line.trigger("nobody")


def test_trigger_all_wakes_everybody(calls: Calls) -> None:
    """WQ-07, WQ-08: all are woken in their order and the line is empty."""
    calls.wait("a", 10)
    calls.wait("b")
    assert calls.line.trigger_all("go") == 2
    assert calls.made == ["a awake", "b awake"]
    assert len(calls.line) == 0


def test_a_removed_waiter_is_never_called(calls: Calls) -> None:
    """WQ-09: an explicit remove makes neither call and works once."""
    waiter = calls.wait("a", 10)
    assert calls.line.remove(waiter)
    assert not calls.line.remove(waiter)
    calls.line.trigger("go")
    calls.timer.advance(100)
    assert calls.made == []
    assert len(calls.line) == 0
    assert len(calls.timer) == 0


def test_evicting_times_everybody_out(calls: Calls) -> None:
    """WQ-10: a 10 s and a forever waiter are timed out at once, and nothing happens later."""
    calls.wait("a", 10)
    calls.wait("b")
    assert calls.line.evict_all() == 2
    assert calls.made == ["a timed out", "b timed out"]
    assert len(calls.line) == 0
    calls.timer.advance(11)
    assert len(calls.made) == 2


@pytest.mark.parametrize("rounds", range(20))
def test_exactly_one_call_runs_whoever_comes_first(rounds: int) -> None:
    """WQ-11: triggers, evictions, removals and deadlines race; each waiter has one end."""
    calls = Calls()
    waiters = [calls.wait(str(number), 1) for number in range(60)]
    removed: list[LineFuture[str]] = []
    barrier = threading.Barrier(4)

    def remove() -> None:
        barrier.wait()
        removed.extend(w for w in waiters[rounds::3] if calls.line.remove(w))

    def trigger() -> None:
        barrier.wait()
        while calls.line.trigger("go"):
            pass

    def evict() -> None:
        barrier.wait()
        calls.line.evict_all()

    with threads(remove, trigger, evict):
        barrier.wait()
        calls.timer.advance(1)
    names = [made.split()[0] for made in calls.made]
    assert len(names) == len(set(names))
    assert len(names) + len(removed) == 60
    assert len(calls.line) == 0


def test_an_alarm_that_rings_while_it_is_set_is_not_left_behind() -> None:
    """WQ-11: a waiter woken between joining the line and setting its alarm leaves no alarm."""

    class Late(ManualTimer):
        """A timer during whose call_at somebody wakes the line."""

        def call_at(self, when: float, callback: Any) -> Any:
            line.trigger("go")
            return super().call_at(when, callback)

    timer = Late()
    line: WaiterLine[str] = WaiterLine(timer)
    waiter = LineFuture[str]().join(line, Empty, 5)
    assert waiter.result(timeout=0) == "go"
    assert len(timer) == 0


def test_a_waiter_that_declines_passes_its_turn_on(calls: Calls) -> None:
    """A value that the first waiter does not take goes to the next."""
    calls.line.add(Declining())
    calls.wait("b")
    assert calls.line.trigger("go")
    assert calls.made == ["b awake"]


def test_a_call_that_raises_keeps_no_other_from_its_own(calls: Calls) -> None:
    """When a waiter's call raises, all others are called and the line is empty."""
    calls.line.add(Failing())
    calls.wait("b")
    with pytest.raises(ZeroDivisionError):
        calls.line.trigger_all("go")
    assert calls.made == ["b awake"]
    calls.line.add(Failing())
    calls.wait("c")
    with pytest.raises(ZeroDivisionError):
        calls.line.evict_all()
    assert calls.made == ["b awake", "c timed out"]
    assert len(calls.line) == 0


def test_a_negative_timeout_is_refused_and_nobody_waits(calls: Calls) -> None:
    """A bad timeout is an error, and the line is as it was."""
    with pytest.raises(InvalidArgumentError, match="timeout"):
        calls.wait("a", -1)
    assert len(calls.line) == 0


def test_a_cancelled_future_leaves_the_line_and_tells_who_waits_for_it() -> None:
    """Cancelling gives up the place at once and wakes those who wait for the future."""
    line: WaiterLine[str] = WaiterLine(ManualTimer())
    future: LineFuture[str] = LineFuture()
    future.join(line, Empty, 10)
    assert future.cancel()
    assert future.cancel()
    assert len(line) == 0
    assert wait([future], timeout=10).done == {future}


def test_a_cancel_between_being_chosen_and_being_served_passes_the_value_on() -> None:
    """A future cancelled after it was taken out of the line declines what it is given."""
    line: WaiterLine[str] = WaiterLine(ManualTimer())
    first = LineFuture[str]().join(line, Empty)
    second = LineFuture[str]().join(line, Empty)
    chosen = line.take()
    assert chosen is not None
    assert first.cancel()
    assert not chosen.deliver("item")
    assert line.trigger("item")
    assert second.result() == "item"
