from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, QueueFullError, QueueShutDownError
from spark_queue.memory.singular import SingularUpdateQueue, WriteAheadLog
from spark_queue.memory.waiting.timer import ManualTimer


async def test_handlers_that_suspend_still_run_one_at_a_time() -> None:
    """SU-08: the first suspends longer than the second, and still is done first."""
    order: list[str] = []
    turns = {"WAL": 30, "consensus": 2}

    async def handler(word: str) -> None:
        for _ in range(turns[word]):
            await asyncio.sleep(0)
        order.append(word)

    async with SingularUpdateQueue(handler).aio as queue:
        await asyncio.gather(queue.submit("WAL"), queue.submit("consensus"))
    assert order == ["WAL", "consensus"]


def test_coroutines_and_threads_use_one_queue() -> None:
    """Requests of threads and of coroutines are answered by one worker, thread or task."""

    async def scenario(*, on_loop: bool) -> None:
        queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x + 1, capacity=2)
        if on_loop:
            await queue.aio.start()
        else:
            queue.start()
        answers: list[int] = []
        thread = threading.Thread(
            target=lambda: answers.extend(queue.submit(n).result(timeout=10) for n in range(50))
        )
        thread.start()
        assert await asyncio.gather(*(queue.aio.submit(n) for n in range(50))) == [*range(1, 51)]
        while thread.is_alive():  # noqa: ASYNC110 - the thread needs the loop meanwhile
            await asyncio.sleep(0)
        assert answers == [*range(1, 51)]
        await queue.aio.shutdown()
        assert not queue.is_running

    for on_loop in (True, False):
        asyncio.run(scenario(on_loop=on_loop))


async def test_a_coroutine_waits_for_a_slot_no_longer_than_it_may() -> None:
    """SU-26: a coroutine that waits for a slot is refused when its time is up."""
    timer = ManualTimer()
    queue: SingularUpdateQueue[int, str] = SingularUpdateQueue(str, 1, timer=timer)
    queue.submit(1)
    waiting = asyncio.create_task(queue.aio.submit(2, timeout=5))
    await asyncio.sleep(0)
    assert queue.work.line.blocked == 1
    timer.advance(5)
    with pytest.raises(QueueFullError):
        await waiting
    await queue.aio.shutdown()


async def test_a_cancelled_coroutine_takes_its_request_back() -> None:
    """A request whose coroutine is cancelled is not handled if it has not begun."""
    seen: list[int] = []
    queue: SingularUpdateQueue[int, None] = SingularUpdateQueue(seen.append, capacity=1)
    tasks = [asyncio.create_task(queue.aio.submit(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert (queue.task_count, queue.work.line.blocked) == (1, 2)
    tasks[1].cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert queue.work.line.blocked == 1
    await queue.aio.start()
    await asyncio.gather(tasks[0], tasks[2])
    await queue.aio.shutdown()
    assert seen == [0, 2]


def test_a_cancelled_loop_leaves_nobody_waiting() -> None:
    """SU-13: when the loop cancels its worker, every future resolves with a clear error."""
    hold = asyncio.Event()

    async def handler(_: Any) -> None:
        await hold.wait()

    queue: SingularUpdateQueue[int, Any] = SingularUpdateQueue(handler)

    async def scenario() -> list[Any]:
        await queue.aio.start()
        replies = [queue.submit(1), queue.submit(2)]
        while queue.task_count == 2:  # noqa: ASYNC110 - the loop's turns are waited for
            await asyncio.sleep(0)
        return replies

    for reply in asyncio.run(scenario()):
        assert isinstance(reply.exception(timeout=0), QueueShutDownError)
    assert not queue.is_running
    with pytest.raises(QueueShutDownError):
        queue.submit(3)


def started_on_a_loop(
    handler: Callable[[Any], Any],
) -> tuple[asyncio.AbstractEventLoop, SingularUpdateQueue[Any, Any]]:
    """Start a queue on a loop that is run by hand."""
    loop = asyncio.new_event_loop()
    queue: SingularUpdateQueue[Any, Any] = SingularUpdateQueue(handler)
    loop.run_until_complete(queue.aio.start())
    return loop, queue


def assert_ended(queue: SingularUpdateQueue[Any, Any]) -> None:
    """See that a queue is shut down, and that nobody hangs who says it again."""
    thread = threading.Thread(target=queue.shutdown, daemon=True)
    thread.start()
    thread.join(5)
    assert not thread.is_alive()
    assert not queue.is_running
    with pytest.raises(QueueShutDownError):
        queue.submit(0)


def test_a_worker_that_is_cancelled_before_its_first_step_ends_its_queue() -> None:
    """Nobody waits for a worker that never began: requests fail, and later ones are refused."""

    async def scenario() -> tuple[SingularUpdateQueue[Any, Any], Any]:
        queue: SingularUpdateQueue[Any, Any] = SingularUpdateQueue(str)
        before = asyncio.all_tasks()
        await queue.aio.start()
        (worker,) = asyncio.all_tasks() - before
        worker.cancel()
        return queue, queue.submit(1)

    queue, reply = asyncio.run(scenario())
    assert isinstance(reply.exception(timeout=5), QueueShutDownError)
    assert_ended(queue)


def test_a_loop_that_is_closed_ends_its_queue() -> None:
    """The request in hand is cleaned up and fails, so do those behind it, and later ones."""
    said: list[str] = []

    async def handler(_: Any) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            said.append("cleaned up")

    loop, queue = started_on_a_loop(handler)
    replies = [queue.submit(1), queue.submit(2)]
    loop.run_until_complete(asyncio.sleep(0.01))
    assert queue.task_count == 1
    loop.close()
    assert said == ["cleaned up"]
    for reply in replies:
        assert isinstance(reply.exception(timeout=5), QueueShutDownError)
    assert_ended(queue)


def test_a_handler_that_waits_in_its_cleaning_up_ends_with_its_loop() -> None:
    """A closed loop cannot finish it; its request fails all the same, as does an idle queue's."""

    async def stubborn(_: Any) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            await asyncio.sleep(0)

    loop, queue = started_on_a_loop(stubborn)
    reply = queue.submit(1)
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert isinstance(reply.exception(timeout=5), QueueShutDownError)
    assert_ended(queue)
    loop, queue = started_on_a_loop(stubborn)
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()
    assert_ended(queue)


def test_a_loop_that_is_closed_during_a_replay_ends_its_queue(tmp_path: Path) -> None:
    """A queue that never came to its start is shut down with its loop."""

    async def handler(_: Any) -> None:
        await asyncio.sleep(100)

    with WriteAheadLog[int](tmp_path / "log") as log:
        log.append(1)
        loop = asyncio.new_event_loop()
        queue: SingularUpdateQueue[Any, Any] = SingularUpdateQueue(handler, log=log)
        starting = loop.create_task(queue.aio.start())
        reply = queue.submit(2)
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()
        assert not starting.done()
        assert isinstance(reply.exception(timeout=5), QueueShutDownError)
        assert_ended(queue)


async def test_an_error_and_a_fatal_error_of_a_coroutine_handler() -> None:
    """SU-12, SU-13: as with threads, one fails its future, the other stops the queue."""

    async def handler(error: BaseException) -> None:
        await asyncio.sleep(0)
        raise error

    queue: SingularUpdateQueue[BaseException, Any] = SingularUpdateQueue(handler)
    await queue.aio.start()
    with pytest.raises(ValueError, match="no"):
        await queue.aio.submit(ValueError("no"))
    fatal, left = queue.submit(GeneratorExit()), queue.submit(ValueError("left"))
    await queue.aio.shutdown()
    assert isinstance(fatal.exception(timeout=0), GeneratorExit)
    assert isinstance(left.exception(timeout=0), QueueShutDownError)


async def test_a_reply_that_is_a_stop_iteration_does_not_hang() -> None:
    """An error that coroutines cannot raise reaches the caller as a runtime error."""
    queue: SingularUpdateQueue[Any, Any] = SingularUpdateQueue(lambda _: next(iter(())))
    async with queue.aio as front:
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(front.submit(1), timeout=10)


def test_a_thread_cannot_start_a_coroutine_handler() -> None:
    """A coroutine function is refused by start(), and its requests fail at the shutdown."""

    async def handler(item: int) -> int:
        return item

    queue: SingularUpdateQueue[int, Any] = SingularUpdateQueue(handler)
    reply = queue.submit(1)
    with pytest.raises(InvalidArgumentError, match="aio"):
        queue.start()
    queue.shutdown()
    assert isinstance(reply.exception(timeout=0), QueueShutDownError)


def test_a_coroutine_handler_replays_its_log(tmp_path: Path) -> None:
    """SU-06: with a coroutine handler too, what the log holds is handled before new requests."""
    seen: list[int] = []

    async def handler(item: int) -> None:
        await asyncio.sleep(0)
        seen.append(item)
        if item == 1:
            raise ValueError

    async def scenario(item: int) -> None:
        with WriteAheadLog[int](tmp_path / "log") as log:
            async with SingularUpdateQueue(handler, log=log).aio as queue:
                await asyncio.gather(queue.submit(item), return_exceptions=True)

    asyncio.run(scenario(1))
    asyncio.run(scenario(2))
    assert seen == [1, 1, 2]


async def test_a_handler_may_shut_its_own_queue_down_on_the_loop() -> None:
    """A shutdown by the coroutine handler does not wait for itself."""
    queue: SingularUpdateQueue[Any, Any]

    async def handler(_: Any) -> str:
        await queue.aio.shutdown()
        queue.shutdown()
        return "done"

    queue = SingularUpdateQueue(handler)
    await queue.aio.start()
    assert await queue.aio.submit(1) == "done"
    await queue.aio.shutdown()
