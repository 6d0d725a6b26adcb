"""Who waits for an item, for a slot, or for the end of the work, and what ends the wait."""

from __future__ import annotations

import contextlib
import queue
from functools import partial
from queue import Empty
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, QueueFullError, QueueShutDownError
from spark_queue.memory.fair import FairQueue
from spark_queue.memory.fair.fair_state import FairState
from spark_queue.memory.waiting.tickets import ThreadTicket
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.threads import together
from tests.unit.waiting.tickets.crew import Crew
from tests.unit.waiting.tickets.stage import line_of

TYPE_OF_SHUT_DOWN = getattr(queue, "ShutDown", QueueShutDownError)


@pytest.fixture
def timer() -> ManualTimer:
    """Make a clock that stands still."""
    return ManualTimer()


@pytest.fixture
def fair(timer: ManualTimer) -> FairQueue[str]:
    """Make a queue for two, by first letter, on the standing clock."""
    return FairQueue(lambda item: item[0], 2, timer=timer)


@pytest.fixture
def takers(fair: FairQueue[str]) -> Crew:
    """Hold the threads that wait for an item."""
    return Crew(line_of(fair, "takers"))


@pytest.fixture
def producers(fair: FairQueue[str]) -> Crew:
    """Hold the threads that wait for a slot."""
    return Crew(line_of(fair, "producers"))


def fill(fair: FairQueue[str]) -> None:
    """Take every slot."""
    fair.put("A1").put("A2")


def test_producers_are_served_first_come_first_served(
    fair: FairQueue[str], producers: Crew
) -> None:
    """The slot that a take frees goes to the producer who has waited longest."""
    fill(fair)
    producers.waits(lambda: fair.put("B1"))
    producers.waits(lambda: fair.put("C1"))
    assert fair.get() == "A1"
    assert producers.outcomes(0) == [fair]
    with pytest.raises(QueueFullError):
        fair.put_nowait("D1")
    assert [fair.get(), fair.get()] == ["A2", "B1"]
    assert producers.outcomes() == [fair, fair]
    assert fair.get() == "C1"


def test_a_limit_may_change_while_producers_wait(fair: FairQueue[str], producers: Crew) -> None:
    """A larger limit lets in who fits then; a smaller one drops nothing, and holds again later."""
    fill(fair)
    for item in ("B1", "C1", "D1"):
        producers.waits(lambda item=item: fair.put(item))  # type: ignore[misc]
    fair.limit = 4
    assert producers.outcomes(0, 1) == [fair, fair]
    fair.limit = 1
    assert fair.get() == "A1"
    assert {fair.get(), fair.get()} == {"B1", "C1"}
    assert fair.full()
    assert 2 not in producers.ended
    assert fair.get() == "A2"
    assert producers.outcomes(2) == [fair]
    fair.limit = None
    assert fair.put_nowait("A3").put_nowait("A4").limit is None
    with pytest.raises(InvalidArgumentError, match="limit is 'many'"):
        setattr(fair, "limit", "many")  # noqa: B010 - its type forbids it
    fair.shutdown()
    fair.limit = 9
    with pytest.raises(QueueShutDownError):
        fair.put("A5")


def test_a_put_ends_in_vain_at_its_deadline(
    fair: FairQueue[str], producers: Crew, timer: ManualTimer
) -> None:
    """A put that found no slot in time is refused with its item and the size, and puts nothing."""
    fill(fair)
    producers.waits(lambda: fair.put("B1", timeout=5))
    timer.advance(5)
    (refused,) = producers.outcomes()
    assert isinstance(refused, QueueFullError)
    assert (refused.item, refused.size) == ("B1", 2)
    assert [fair.get(), fair.get()] == ["A1", "A2"]
    assert (len(timer), fair.unfinished_tasks) == (0, 2)


def test_without_blocking_nobody_waits(fair: FairQueue[str]) -> None:
    """``block=False`` and a timeout of 0 end at once, full or empty."""
    for get in (fair.get_nowait, lambda: fair.get(timeout=0), lambda: fair.get(block=False)):
        with pytest.raises(Empty):
            get()
    fill(fair)
    for put in (fair.put_nowait, lambda item: fair.put(item, timeout=0)):
        with pytest.raises(QueueFullError):
            put("B1")


def test_an_item_of_an_interrupted_taker_goes_to_the_next(
    fair: FairQueue[str], takers: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes back is given to who waits by then."""
    wait = ThreadTicket.wait

    def interrupted(_: object) -> Any:
        fair.put("A1")
        monkeypatch.setattr(ThreadTicket, "wait", wait)
        takers.waits(fair.get)
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadTicket, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fair.get()
    assert takers.outcomes() == ["A1"]


def test_an_interrupted_producer_gives_up_the_slot(
    fair: FairQueue[str], producers: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot that comes to a producer who is interrupted goes to the next who waits."""
    wait = ThreadTicket.wait
    fill(fair)

    def interrupted(_: object) -> Any:
        monkeypatch.setattr(ThreadTicket, "wait", wait)
        producers.waits(lambda: fair.put("C1"))
        assert fair.get() == "A1"
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadTicket, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fair.put("B1")
    assert producers.outcomes() == [fair]
    assert [fair.get(), fair.get()] == ["A2", "C1"]


def test_an_interrupt_after_a_put_frees_no_slot(
    fair: FairQueue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer who is interrupted when its item is queued already does not free the slot."""
    fill(fair)
    fill_slot = FairState.fill_slot

    def interrupted(*arguments: Any) -> None:
        fill_slot(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadTicket, "wait", lambda _: fair.get())
    monkeypatch.setattr(FairState, "fill_slot", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fair.put("B1")
    assert (len(fair), fair.full(), fair._state._room) == (2, True, 2)


def test_a_waiting_put_whose_key_fails_gives_up_the_slot(timer: ManualTimer) -> None:
    """The key of an item that waits for a slot is asked for when it has one, and may fail."""
    asked: list[str] = []

    def key(item: str) -> str:
        asked.append(item)
        return {"A1": "A", "C1": "C"}[item]

    fair = FairQueue(key, 1, timer=timer)
    producers = Crew(line_of(fair, "producers"))
    fair.put("A1")
    producers.waits(lambda: fair.put("bad"))
    producers.waits(lambda: fair.put("C1"))
    assert asked == ["A1"]
    assert fair.get() == "A1"
    failed, put = producers.outcomes()
    assert isinstance(failed, KeyError)
    assert put is fair
    assert fair.get() == "C1"
    assert fair.unfinished_tasks == 2


def test_a_waiting_put_whose_key_is_none_gives_up_the_slot(timer: ManualTimer) -> None:
    """A key that cannot be hashed frees the slot that its item had been given."""
    fair: FairQueue[Any] = FairQueue(lambda item: item, 1, timer=timer)
    producers = Crew(line_of(fair, "producers"))
    fair.put(1)
    producers.waits(lambda: fair.put([2]))
    assert fair.get() == 1
    assert producers.kinds() == [InvalidArgumentError]
    assert fair.put_nowait(3).get() == 3


def test_an_unhashable_key_is_refused_while_a_taker_waits(timer: ManualTimer) -> None:
    """Handing an item over looks at its key as queueing it does; the taker goes on waiting."""
    fair: FairQueue[Any] = FairQueue(lambda item: item, timer=timer)
    takers = Crew(line_of(fair, "takers"))
    takers.waits(fair.get)
    with pytest.raises(InvalidArgumentError, match="no key"):
        fair.put([1])
    assert not takers.ended
    fair.put(2)
    assert takers.outcomes() == [2]


def test_a_key_function_may_use_its_queue() -> None:
    """The key function runs without the lock, so that it may look at the queue, or change it."""
    again: FairQueue[int] = FairQueue(lambda item: again.put(item - 1).qsize() if item else 0)
    again.put(3)
    assert [again.get() for _ in range(4)] == [0, 1, 2, 3]


def test_join_waits_for_every_item(fair: FairQueue[str], timer: ManualTimer) -> None:
    """A join ends with the last ``task_done``, and at once where nothing is left to do."""
    fair.join()
    joiners = Crew(line_of(fair, "joiners"))
    fill(fair)
    joiners.waits(fair.join)
    joiners.waits(fair.join)
    assert [fair.get(), fair.get()] == ["A1", "A2"]
    fair.task_done()
    assert fair.unfinished_tasks == 1
    assert not joiners.ended
    fair.task_done()
    assert joiners.outcomes() == [None, None]
    fair.join()
    assert len(timer) == 0


def test_an_item_that_was_handed_over_is_to_be_done_too(fair: FairQueue[str], takers: Crew) -> None:
    """An item that never was queued, because its taker waited, counts for join as well."""
    takers.waits(fair.get)
    fair.put("A1")
    assert takers.outcomes() == ["A1"]
    assert fair.unfinished_tasks == 1
    fair.task_done()
    fair.join()


def test_one_task_done_too_many_is_an_error(fair: FairQueue[str]) -> None:
    """More calls than items are a ``ValueError`` that says how many items there were."""
    fill(fair)
    fair.task_done()
    fair.task_done()
    with pytest.raises(ValueError, match=r"more than the 2 item\(s\)"):
        fair.task_done()
    fair.join()


def test_a_shut_down_queue_is_emptied_and_then_says_so(fair: FairQueue[str]) -> None:
    """After a shutdown puts are refused, what is queued is served, and then gets are refused."""
    fill(fair)
    fair.shutdown()
    fair.shutdown()
    assert fair.is_shutdown
    for put in (fair.put, fair.put_nowait, lambda item: fair.put(item, timeout=5)):
        with pytest.raises(QueueShutDownError, match="shut down"):
            put("B1")
    assert [fair.get(), fair.get_nowait()] == ["A1", "A2"]
    for get in (fair.get, fair.get_nowait, lambda: fair.get(timeout=5)):
        with pytest.raises(TYPE_OF_SHUT_DOWN):
            get()
    with contextlib.suppress(QueueShutDownError):
        FairQueue(str, None).shutdown()


def test_a_shutdown_wakes_producers(fair: FairQueue[str], producers: Crew) -> None:
    """Who waits for a slot when the queue is shut down gets an error, and has put nothing."""
    fill(fair)
    producers.waits(lambda: fair.put("B1"))
    producers.waits(lambda: fair.put("C1", timeout=5))
    fair.shutdown()
    assert producers.kinds() == [QueueShutDownError] * 2
    assert [fair.get(), fair.get()] == ["A1", "A2"]


def test_an_immediate_shutdown_drops_and_counts_as_done(fair: FairQueue[str]) -> None:
    """What is dropped is done; what was taken before is still to be done."""
    fill(fair)
    fair.get()
    joiners = Crew(line_of(fair, "joiners"))
    joiners.waits(fair.join)
    fair.shutdown(immediate=True)
    assert (len(fair), fair.unfinished_tasks) == (0, 1)
    assert not joiners.ended
    fair.task_done()
    assert joiners.outcomes() == [None]
    with pytest.raises(QueueShutDownError):
        fair.get_nowait()


def test_a_producer_who_was_let_in_is_refused_after_a_shutdown(
    fair: FairQueue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slot that was given before the shutdown lets nothing in after it."""
    wait = ThreadTicket.wait
    fill(fair)

    def late(ticket: ThreadTicket[Any]) -> Any:
        fair.get()
        fair.shutdown()
        return wait(ticket)

    monkeypatch.setattr(ThreadTicket, "wait", late)
    with pytest.raises(QueueShutDownError):
        fair.put("B1")
    assert fair.get() == "A2"
    assert fair.empty()


def test_an_item_that_comes_back_after_an_immediate_shutdown_is_dropped(
    fair: FairQueue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item whose taker was interrupted while everything was dropped is dropped and done."""

    def interrupted(_: object) -> Any:
        fair.put("A1")
        fair.shutdown(immediate=True)
        assert fair.unfinished_tasks == 1
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ThreadTicket, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fair.get()
    assert (len(fair), fair.unfinished_tasks) == (0, 0)
    fair.join()


def test_producers_and_takers_of_a_small_queue() -> None:
    """Four producers and four takers of a queue for three: every item once, each key in order."""
    fair: FairQueue[tuple[int, int]] = FairQueue(lambda item: item[0], 3)
    taken: list[list[tuple[int, int]]] = [[] for _ in range(4)]

    def put(key: int) -> None:
        for number in range(500):
            fair.put((key, number))

    def take(mine: list[tuple[int, int]]) -> None:
        mine.extend(fair.get() for _ in range(500))

    together(
        *(partial(put, key) for key in range(4)),
        *(partial(take, mine) for mine in taken),
    )
    everything = [item for mine in taken for item in mine]
    assert sorted(everything) == [(key, number) for key in range(4) for number in range(500)]
    for mine in taken:
        for key in range(4):
            numbers = [number for owner, number in mine if owner == key]
            assert numbers == sorted(numbers)
    assert fair.empty()
    assert fair._state._room == 3
