"""Who waits for whom, and who is told when nothing runs and nothing waits any more."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, TimeoutError as WaitTimeoutError
from contextlib import suppress
from typing import Any

import pytest

from spark_queue.errors import DeadlockError
from spark_queue.memory.broker import QueueBroker, Turn
from spark_queue.memory.waiting.abort import AbortScope
from tests.unit.inprocess.broker.stage import Stage
from tests.unit.threads import until


def once_it_waits(turn: Turn, call: Callable[[], object]) -> None:
    """Call something on another thread, once a task waits for a task."""

    def watch() -> None:
        until(lambda: turn.waits_for is not None)
        call()

    threading.Thread(target=watch).start()


def test_a_wait_that_has_ended_is_forgotten() -> None:
    """A task that gave up waiting for another one does not hinder that one from waiting for it."""
    tasks: dict[str, Future[Any]] = {}
    gave_up, goes_on = threading.Event(), threading.Event()

    def impatient(_: Turn) -> str:
        with suppress(WaitTimeoutError):
            tasks["patient"].result(timeout=0)
        gave_up.set()
        assert goes_on.wait(10)
        return "done"

    def patient(turn: Turn) -> Any:
        assert gave_up.wait(10)
        once_it_waits(turn, goes_on.set)
        return tasks["impatient"].result(timeout=10)

    with QueueBroker(2) as broker:
        ready = threading.Event()
        tasks["patient"] = broker.enqueue(lambda turn: ready.wait(10) and patient(turn))
        tasks["impatient"] = broker.enqueue(impatient)
        ready.set()
        assert tasks["patient"].result(timeout=10) == "done"


def test_one_may_wait_for_a_slot_while_another_goes_on() -> None:
    """A task that was refused a wait waits for nobody: its slot will be free, and others may wait.

    Only where every slot is held by one that waits is there a deadlock.
    """
    refused, goes_on = threading.Event(), threading.Event()

    def works(_: Turn) -> None:
        with pytest.raises(DeadlockError):
            broker.enqueue(lambda _: None, "g").result(timeout=10)
        refused.set()
        assert goes_on.wait(10)

    def waits(turn: Turn) -> Any:
        assert refused.wait(10)
        last = broker.enqueue(lambda _: "last")
        once_it_waits(turn, goes_on.set)
        return last.result(timeout=10)

    with QueueBroker(2) as broker:
        working, waiting = broker.enqueue(works, "g"), broker.enqueue(waits)
        assert waiting.result(timeout=10) == "last"
        working.result(timeout=10)


def test_a_manual_task_that_cannot_be_launched_holds_no_slot() -> None:
    """A task whose event loop is closed when its turn comes holds nothing: the next one starts."""
    broker = QueueBroker(1, mode="manual")
    gate = threading.Event()

    def first(turn: Turn) -> None:
        assert gate.wait(10)
        turn.release()

    async def never(_: Turn) -> None:
        raise AssertionError

    async def enqueue() -> Future[None]:
        return broker.enqueue(never, "g")

    broker.enqueue(first)
    dead = asyncio.run(enqueue())
    living = broker.enqueue(lambda turn: turn.release(), "g")
    gate.set()
    living.result(timeout=10)
    assert dead.exception(timeout=10) is not None
    assert (broker.active_count, broker.waiting_count) == (0, 0)
    broker.stop()


def test_the_abort_of_the_last_that_waits_makes_idle(stage: Stage) -> None:
    """Who waits for nothing to run and nothing to wait hears of it when the last is aborted."""
    broker = stage.broker(1, mode="manual")
    scope = AbortScope()
    stage.add("first")
    stage.add("second", signal=scope.signal)
    stage.end("first")
    until(lambda: broker.running_count == 0)
    idle = broker.idle()
    assert not idle.done()
    scope.abort("enough")
    # A slot that is held till its release may count as well.
    stage.turns["first"].release()
    idle.result(timeout=1)
