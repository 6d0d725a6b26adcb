"""Wake-ups, with every point at which two threads can meet played on purpose."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.blocking import BlockingQueue
from spark_queue.memory.waiting.timer import ManualTimer


class StepLock:
    """A lock whose holder stops before taking it, until the schedule lets its thread go on."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._schedule.pause()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        self._schedule.pause()


class Schedule:
    """Runs two threads, one at a time, and switches where a list of turns says so."""

    def __init__(self, turns: Iterator[int]) -> None:
        self._turns = turns
        self._permits = [threading.Semaphore(0), threading.Semaphore(0)]
        self._paused = [threading.Semaphore(0), threading.Semaphore(0)]
        self._mine = threading.local()

    def pause(self) -> None:
        """Stop the calling thread, if it is one of the two, until its next turn."""
        number: int | None = getattr(self._mine, "number", None)
        if number is not None:
            self._paused[number].release()
            self._permits[number].acquire()

    def _run(self, number: int, body: Any, alive: list[bool]) -> None:
        self._mine.number = number
        self._permits[number].acquire()
        body()
        alive[number] = False
        self._paused[number].release()

    def play(self, *bodies: Any) -> None:
        """Run both to their end."""
        alive = [True, True]
        threads = [
            threading.Thread(target=self._run, args=(number, body, alive), daemon=True)
            for number, body in enumerate(bodies)
        ]
        for thread in threads:
            thread.start()
        while any(alive):
            turn = next(self._turns)
            turn = turn if alive[turn] else 1 - turn
            self._permits[turn].release()
            assert self._paused[turn].acquire(timeout=10)
        for thread in threads:
            thread.join()


def schedules(length: int) -> list[tuple[int, ...]]:
    """Every order in which two threads can take so many turns."""
    return list(itertools.product((0, 1), repeat=length))


def stepped(turns: tuple[int, ...]) -> tuple[Schedule, BlockingQueue[str]]:
    """Make a queue that stops at each of its locks."""
    schedule = Schedule(itertools.cycle(turns))
    line: BlockingQueue[str] = BlockingQueue(timer=ManualTimer())
    locked: Any = StepLock(schedule)
    line._lock = locked
    return schedule, line


@pytest.mark.parametrize("turns", schedules(6))
def test_no_taker_sleeps_while_an_item_waits(turns: tuple[int, ...]) -> None:
    """LB-11: wherever a put falls between looking and joining the line, the taker has the item."""
    schedule, line = stepped(turns)
    taken: list[Any] = []
    schedule.play(lambda: taken.append(line.get_future()), lambda: line.put("item"))
    assert taken[0].done()
    assert taken[0].result() == "item"
    assert (line.size(), line.waiter_count) == (0, 0)


@pytest.mark.parametrize("turns", schedules(6))
def test_a_cancel_loses_no_item(turns: tuple[int, ...]) -> None:
    """BQ-21: wherever a cancel falls, the item is taken or queued, and nobody is left waiting."""
    schedule, line = stepped(turns)
    waiting = line.get_future()
    schedule.play(waiting.cancel, lambda: line.put("item"))
    if waiting.cancelled():
        assert line.poll() == "item"
    else:
        assert waiting.result() == "item"
    assert (line.size(), line.waiter_count) == (0, 0)


@pytest.mark.parametrize("turns", schedules(6))
def test_a_close_leaves_nobody_waiting(turns: tuple[int, ...]) -> None:
    """BQ-23: wherever a close falls, a get ends at once: refused, or with nothing."""
    schedule, line = stepped(turns)
    ended: list[Any] = []

    def take() -> None:
        try:
            ended.append(line.get_future())
        except QueueShutDownError as refused:
            ended.append(refused)

    schedule.play(take, line.close)
    assert line.waiter_count == 0
    if not isinstance(ended[0], QueueShutDownError):
        assert isinstance(ended[0].exception(timeout=0), Empty)
