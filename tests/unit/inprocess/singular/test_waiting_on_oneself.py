from __future__ import annotations

import asyncio
import threading
from concurrent.futures import TimeoutError as WaitTimeoutError
from contextlib import suppress
from typing import Any

import pytest

from spark_queue.errors import DeadlockError, QueueFullError
from spark_queue.memory.singular import SingularUpdateQueue, WorkerPool


@pytest.mark.parametrize("timeout", [None, 0.5])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("wait", ["result", "exception"])
def test_a_handler_that_waits_for_its_own_queue_is_told(
    timeout: float | None,
    shared: bool,  # noqa: FBT001
    wait: str,
) -> None:
    """SU-21: a handler that waits for a request to its own queue gets an error, not a deadlock."""
    queue: SingularUpdateQueue[str, Any]

    def handler(item: str) -> Any:
        if item == "outer":
            return getattr(queue.submit("inner"), wait)(timeout=timeout)
        return item

    with WorkerPool(1) as pool:
        queue = SingularUpdateQueue(handler, pool=pool if shared else None, name="accounts")
        with queue:
            with pytest.raises(DeadlockError, match="accounts"):
                queue.submit("outer").result(timeout=10)
            assert queue.submit("next").result(timeout=10) == "next"


def test_a_handler_that_waits_for_a_slot_of_its_own_full_queue_is_told() -> None:
    """SU-21: only the handler can free a slot, so it must not wait for one; it may try."""
    queue: SingularUpdateQueue[str, Any]

    def handler(item: str) -> Any:
        if item == "waits":
            return queue.submit("more")
        if item == "tries":
            queue.submit_nowait("more")
        return item

    queue = SingularUpdateQueue(handler, capacity=1)
    queue.start()
    for item, error in (("waits", DeadlockError), ("tries", QueueFullError)):
        entered = queue.submit(item)
        queue.submit("fills the slot")
        with pytest.raises(error):
            entered.result(timeout=10)
    queue.shutdown()


def test_a_handler_may_submit_to_its_own_queue_without_waiting() -> None:
    """SU-21: submitting from the handler is fine, and so is looking at a reply that is there."""
    replies: list[Any] = []
    queue: SingularUpdateQueue[str, Any]

    def handler(item: str) -> Any:
        if item == "outer":
            replies.append(queue.submit("inner"))
        if item == "later":
            return replies[0].result()
        return item

    with SingularUpdateQueue(handler) as queue:
        queue.submit("outer").result(timeout=10)
        assert queue.submit("later").result(timeout=10) == "inner"


def test_two_queues_that_wait_for_each_other_are_told() -> None:
    """SU-21: a circle of two handlers is broken by an error in one of them."""
    met = threading.Barrier(2)
    queues: dict[str, SingularUpdateQueue[str, Any]] = {}

    def waits_for(other: str) -> Any:
        def handler(item: str) -> Any:
            if item == "inner":
                return item
            met.wait(10)
            return queues[other].submit("inner").result(timeout=20)

        return handler

    with (
        SingularUpdateQueue[str, Any](waits_for("b"), name="a") as queues["a"],
        SingularUpdateQueue[str, Any](waits_for("a"), name="b") as queues["b"],
    ):
        replies = [queue.submit("outer") for queue in queues.values()]
        errors = [reply.exception(timeout=10) for reply in replies]
        assert any(isinstance(error, DeadlockError) for error in errors)
        assert all(error is None or isinstance(error, DeadlockError) for error in errors)


def test_a_wait_that_has_ended_is_forgotten() -> None:
    """A handler that gave up waiting for another queue does not hinder that one's handler."""
    gave_up = threading.Event()
    replies: dict[str, Any] = {}

    def impatient(item: str) -> str:
        if item == "look":
            with suppress(WaitTimeoutError):
                replies["patient"].result(timeout=0)
            gave_up.set()
        return item

    def patient(_: str) -> Any:
        assert gave_up.wait(10)
        return a.submit("inner").result(timeout=10)

    with (
        SingularUpdateQueue[str, str](impatient, name="a") as a,
        SingularUpdateQueue[str, Any](patient, name="b") as b,
    ):
        replies["patient"] = b.submit("outer")
        a.submit("look")
        assert replies["patient"].result(timeout=10) == "inner"


def test_waiting_for_another_queue_is_no_deadlock() -> None:
    """A handler may wait for the reply of a queue that does not wait for it."""
    with (
        SingularUpdateQueue[int, int](lambda x: x + 1) as inner,
        SingularUpdateQueue[int, int](lambda x: inner.submit(x).result(timeout=10)) as outer,
    ):
        assert [outer.submit(n).result(timeout=10) for n in range(3)] == [1, 2, 3]


async def test_a_coroutine_handler_that_waits_for_its_own_queue_is_told() -> None:
    """SU-21: the same in asyncio, while a task that the handler starts may wait."""
    queue: SingularUpdateQueue[str, Any]
    helpers: list[asyncio.Task[Any]] = []

    async def handler(item: str) -> Any:
        if item == "waits":
            return await queue.aio.submit("inner")
        if item == "blocks":
            return queue.submit("inner").result()
        if item == "sends":
            helpers.append(asyncio.create_task(queue.aio.submit("inner")))
        return item

    queue = SingularUpdateQueue(handler)
    async with queue.aio as front:
        for item in ("waits", "blocks"):
            with pytest.raises(DeadlockError):
                await front.submit(item)
        assert await front.submit("sends") == "sends"
        assert await helpers[0] == "inner"


async def test_blocking_the_loop_that_the_worker_needs_is_told() -> None:
    """SU-21: a blocking wait on the thread whose loop is to answer gets an error."""
    queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x)
    async with queue.aio as front:
        await front.submit(1)
        reply = queue.submit(2)
        with pytest.raises(DeadlockError):
            reply.result()
        with pytest.raises(DeadlockError):
            queue.shutdown()
        await front.shutdown()
        assert reply.result() == 2
