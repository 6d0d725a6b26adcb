"""Batches of single things, which gather until they are written together."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from datetime import timedelta

import pytest

from spark_queue.errors import DeadlockError, QueueFullError, QueueShutDownError
from spark_queue.front.producer import Batcher, settle
from spark_queue.memory.singular.requests import Promise

PATIENCE = 10.0
LONG = timedelta(hours=1)
SHORT = timedelta(milliseconds=1)


def _joining(line: Batcher[int]) -> tuple[threading.Event, threading.Thread]:
    """Join a line on another thread, and tell when that returned."""
    joined = threading.Event()

    def join() -> None:
        line.join()
        joined.set()

    thread = threading.Thread(target=join)
    thread.start()
    return joined, thread


class Taken:
    """The group that a thread took, once it has it."""

    def __init__(self) -> None:
        self.group: list[int] | None = None
        self.done = threading.Event()


def _taking(line: Batcher[int]) -> tuple[Taken, threading.Thread]:
    """Take from a line on another thread."""
    taken = Taken()

    def take() -> None:
        taken.group = line.take()
        taken.done.set()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    return taken, thread


def test_a_group_is_cut_when_it_is_full() -> None:
    """A full group waits for nothing more, and what is too much stays for the next."""
    line: Batcher[int] = Batcher(3, 10, LONG)
    for number in range(4):
        line.add(number)

    assert line.take() == [0, 1, 2]
    line.close()
    assert line.take() == [3]
    assert line.is_done


def test_a_small_group_waits_a_little() -> None:
    """A group that is not full is cut when its time is up; an empty one when the taker's is."""
    line: Batcher[int] = Batcher(3, 10, SHORT)
    assert line.take(timeout=0) == []
    line.add(1)

    assert line.take() == [1]


def test_who_finds_no_room_waits_or_is_told() -> None:
    """A line has room for so many; a taker makes room, and impatience is an error."""
    line: Batcher[int] = Batcher(1, 1, SHORT)
    line.add(1)
    with pytest.raises(QueueFullError) as full:
        line.add(2, timeout=0)
    waiting = threading.Thread(target=line.add, args=(3,))
    waiting.start()

    assert line.take() == [1]
    waiting.join(PATIENCE)
    assert line.take() == [3]
    assert (full.value.item, full.value.size) == (2, 1)


def test_a_closed_line_takes_nothing_more() -> None:
    """Closing ends every wait: of those who add, and of the taker, who gets what is left."""
    line: Batcher[int] = Batcher(2, 1, LONG)
    line.add(1)
    ended: list[BaseException] = []

    def add() -> None:
        try:
            line.add(2)
        except QueueShutDownError as exc:
            ended.append(exc)

    waiting = threading.Thread(target=add)
    waiting.start()
    line.close()
    waiting.join(PATIENCE)

    assert len(ended) == 1
    assert line.take() == [1]
    assert line.take() == []


def test_a_join_waits_for_what_is_written() -> None:
    """A join returns when the group that was taken is written, and not before."""
    line: Batcher[int] = Batcher(2, 10, SHORT)
    line.add(1)
    group = line.take()
    joined, thread = _joining(line)
    with line.busy():
        assert not joined.wait(0.05)
    assert joined.wait(PATIENCE)
    assert group == [1]
    thread.join()


def test_a_taker_can_be_woken() -> None:
    """A wake ends the wait of a taker with nothing, also when it comes first."""
    line: Batcher[int] = Batcher(2, 10, LONG)
    line.wake()

    assert line.take() == []


def test_a_join_waits_for_nothing_that_came_later() -> None:
    """A join returns beside producers that never rest."""
    line: Batcher[int] = Batcher(1, 10, SHORT)
    line.add(1)
    group = line.take()
    joined, thread = _joining(line)
    assert not joined.wait(0.05)
    line.add(2)
    with line.busy():
        pass

    assert joined.wait(PATIENCE)
    assert (group, len(line)) == ([1], 1)
    thread.join()


def test_what_is_put_back_comes_first_and_is_waited_for() -> None:
    """Things of a group that are taken again keep their place, and are not counted as written."""
    line: Batcher[int] = Batcher(3, 10, SHORT)
    for number in (1, 2, 3, 4):
        line.add(number)
    line.take()
    with line.busy():
        line.put_back([2, 3])
    joined, thread = _joining(line)

    assert not joined.wait(0.05)
    assert line.take() == [2, 3, 4]
    with line.busy():
        pass
    assert joined.wait(PATIENCE)
    thread.join()


def test_a_wake_ends_one_wait() -> None:
    """After a wake the next taker waits again, until there is something."""
    line: Batcher[int] = Batcher(1, 10, SHORT)
    line.wake()
    assert line.take() == []
    taken, thread = _taking(line)

    assert not taken.done.wait(0.05)
    line.add(1)
    assert taken.done.wait(PATIENCE)
    thread.join()
    assert taken.group == [1]


def _write_a_first_group(line: Batcher[int]) -> None:
    line.add(0)
    first, _ = _taking(line)
    assert first.done.wait(PATIENCE)
    with line.busy():
        assert first.group == [0]


def test_a_group_gathers_behind_one_that_was_written() -> None:
    """After a rest nothing waits; what comes soon after a group waits for others."""
    line: Batcher[int] = Batcher(2, 10, LONG)
    _write_a_first_group(line)
    taken, thread = _taking(line)
    line.add(1)

    assert not taken.done.wait(0.05)
    line.add(2)
    assert taken.done.wait(PATIENCE)
    thread.join()
    assert taken.group == [1, 2]


@pytest.mark.parametrize("things", [[], [1]])
def test_a_close_ends_the_wait_of_the_taker(things: list[int]) -> None:
    """Who waits for a first thing, or for more, gets what there is when the line is closed."""
    line: Batcher[int] = Batcher(2, 10, LONG)
    _write_a_first_group(line)
    taken, thread = _taking(line)
    for thing in things:
        line.add(thing)

    assert not taken.done.wait(0.05)
    line.close()
    assert taken.done.wait(PATIENCE)
    thread.join()
    assert taken.group == things


def test_the_taker_is_told_that_it_would_wait_for_itself() -> None:
    """A callback on its thread that needs room, joins, or waits for a future gets an error."""
    line: Batcher[int] = Batcher(1, 1, SHORT)
    future: Future[int] = Promise(line.context)
    line.add(1)
    line.take()
    line.add(2)

    with line.taking():
        with pytest.raises(DeadlockError, match="would never end"):
            line.add(3)
        with pytest.raises(DeadlockError, match="would never end"):
            line.join()
        with pytest.raises(DeadlockError, match="would never end"):
            future.result()
    with pytest.raises(QueueFullError):
        line.add(3, timeout=0.001)
    assert not future.cancel()


def test_a_callback_that_ends_its_thread_ends_nothing_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever a callback raises is logged, and the future has its outcome."""
    future: Future[int] = Future()

    def leave(_: object) -> None:
        raise SystemExit

    future.add_done_callback(leave)
    settle(future.set_result, 1)

    assert future.result(0) == 1
    assert "a callback failed" in caplog.text
