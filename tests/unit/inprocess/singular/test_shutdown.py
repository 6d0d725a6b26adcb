from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.singular import SingularUpdateQueue, WorkerPool
from tests.unit.threads import in_thread, threads, until


def busy(capacity: int = 100) -> tuple[SingularUpdateQueue[Any, Any], threading.Event]:
    """Start a queue whose handler stands at its first request until the event is set."""
    entered, leave = threading.Event(), threading.Event()

    def handler(item: Any) -> Any:
        entered.set()
        assert leave.wait(10)
        return item

    queue = SingularUpdateQueue(handler, capacity)
    queue.start()
    queue.submit("busy")
    assert entered.wait(10)
    return queue, leave


def blocked_producer(queue: SingularUpdateQueue[Any, Any]) -> tuple[threading.Thread, list[Any]]:
    """Start a producer that waits for a slot."""
    started = in_thread(lambda: queue.submit("blocked"))
    until(lambda: queue.work.line.blocked == 1)
    return started


def test_a_shutdown_before_the_start_is_kept() -> None:
    """SU-16: after a shutdown before the start, the queue neither starts nor accepts."""
    queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x)
    queue.shutdown()
    with pytest.raises(QueueShutDownError):
        queue.start()
    with pytest.raises(QueueShutDownError):
        queue.submit(1)
    assert not queue.is_running


@pytest.mark.parametrize("drain", [True, False])
def test_a_shutdown_before_the_start_resolves_what_is_queued(drain: bool) -> None:  # noqa: FBT001
    """SU-16: what was queued before the start is handled by a drain, and fails otherwise."""
    queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x)
    replies = [queue.submit(number) for number in range(3)]
    queue.shutdown(drain=drain)
    assert all(reply.done() for reply in replies)
    if drain:
        assert [reply.result() for reply in replies] == [0, 1, 2]
    else:
        assert all(isinstance(reply.exception(), QueueShutDownError) for reply in replies)


@pytest.mark.parametrize("drain", [True, False])
def test_a_shutdown_handles_or_fails_what_is_queued_and_wakes_blocked_producers(
    drain: bool,  # noqa: FBT001
) -> None:
    """SU-17: a drain handles the 100 that are queued, a rejection fails them; the current ends."""
    queue, leave = busy()
    replies = [queue.submit(number) for number in range(100)]
    producer, ended = blocked_producer(queue)
    queue.shutdown(drain=drain, wait=False)
    producer.join(timeout=10)
    assert [type(error) for error in ended] == [QueueShutDownError]
    assert {reply.done() for reply in replies} == {not drain}
    leave.set()
    queue.shutdown()
    assert not queue.is_running
    if drain:
        assert [reply.result(timeout=0) for reply in replies] == list(range(100))
    else:
        assert {type(reply.exception(timeout=0)) for reply in replies} == {QueueShutDownError}


def test_a_drain_can_be_given_up() -> None:
    """SU-17: a second, rejecting shutdown fails what a drain has not handled yet."""
    queue, leave = busy()
    reply = queue.submit(1)
    queue.shutdown(wait=False)
    assert not reply.done()
    queue.shutdown(drain=False, wait=False)
    assert isinstance(reply.exception(timeout=0), QueueShutDownError)
    leave.set()
    queue.shutdown()


def test_submitting_after_a_shutdown_is_refused() -> None:
    """SU-18: after a shutdown both ways of submitting are refused."""
    with SingularUpdateQueue[int, int](lambda x: x, name="accounts") as queue:
        pass
    for submit in (queue.submit, queue.submit_nowait):
        with pytest.raises(QueueShutDownError, match="accounts"):
            submit(1)


def test_a_start_after_the_end_is_an_error() -> None:
    """SU-19: a queue that has ended cannot be started again."""
    with SingularUpdateQueue[int, int](lambda x: x) as queue:
        pass
    with pytest.raises(QueueShutDownError):
        queue.start()


def test_an_idle_queue_shuts_down_at_once() -> None:
    """SU-24: an idle worker is woken by the shutdown; it polls nothing."""
    queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x)
    queue.start()
    queue.submit(1).result(timeout=10)
    begun = time.monotonic()
    queue.shutdown()
    assert time.monotonic() - begun < 0.3
    assert not queue.is_running


def test_a_handler_may_shut_its_own_queue_down() -> None:
    """A shutdown by the handler does not wait for itself, and what is queued is still handled."""
    queue: SingularUpdateQueue[str, str]

    def handler(item: str) -> str:
        if item == "stop":
            queue.shutdown()
        return item

    queue = SingularUpdateQueue(handler)
    replies = [queue.submit("stop"), queue.submit("left")]
    queue.start()
    assert [reply.result(timeout=10) for reply in replies] == ["stop", "left"]
    queue.shutdown()


def test_a_scope_that_fails_rejects_what_is_queued() -> None:
    """Leaving the scope by an error does not handle what is queued."""
    entered, leave = threading.Event(), threading.Event()
    handled: list[int] = []

    def handler(item: int) -> None:
        entered.set()
        assert leave.wait(10)
        handled.append(item)

    def scope() -> None:
        with SingularUpdateQueue(handler) as queue:
            queue.submit(1)
            reply = queue.submit(2)
            assert entered.wait(10)
            reply.add_done_callback(lambda _: leave.set())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        scope()
    assert handled == [1]


def raced(queue: SingularUpdateQueue[int, int], *, drain: bool) -> tuple[list[Any], list[Any]]:
    """Let four producers submit while the queue is shut down: the replies, and the refusals."""
    replies: list[Any] = []
    refused: list[Any] = []

    def submit(number: int) -> None:
        try:
            replies.append(queue.submit(number))
        except QueueShutDownError as error:
            refused.append(error)

    def produce() -> None:
        for number in range(50):
            submit(number)

    with threads(*[produce] * 4):
        queue.start()
        until(lambda: bool(replies))
        queue.shutdown(drain=drain)
    return replies, refused


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("drain", [False, True])
def test_every_future_resolves_in_a_race_with_the_shutdown(
    shared: bool,  # noqa: FBT001
    drain: bool,  # noqa: FBT001
) -> None:
    """SU-17, SU-18: whenever the shutdown comes, each submit is refused or its future resolves."""
    for _ in range(15):
        pool = WorkerPool(2) if shared else None
        queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x, 4, pool=pool)
        replies, refused = raced(queue, drain=drain)
        assert len(replies) + len(refused) == 200
        errors = [reply.exception(timeout=10) for reply in replies]
        assert {type(error) for error in errors} <= {
            type(None),
            type(None) if drain else QueueShutDownError,
        }
        if pool is not None:
            pool.shutdown()


def submitted_last(queue: SingularUpdateQueue[str, str]) -> list[Any]:
    """Let the worker find nothing, and submit and drain before it looks whether that is all."""
    replies: list[Any] = []
    take = queue.work.line.take

    def find_nothing() -> Any:
        found = take()
        if found is None and not replies:
            replies.append(queue.submit_nowait("last"))
            queue.shutdown(drain=True, wait=False)
        return found

    queue.work.line.take = find_nothing  # type: ignore[method-assign]
    return replies


@pytest.mark.parametrize("drives", ["thread", "pool", "loop"])
async def test_a_request_that_comes_right_before_the_shutdown_is_handled(drives: str) -> None:
    """SU-17: also where the worker has just found nothing to do."""
    pool = WorkerPool(1) if drives == "pool" else None
    queue: SingularUpdateQueue[str, str] = SingularUpdateQueue(str.upper, pool=pool)
    replies = submitted_last(queue)
    if drives == "loop":
        await queue.aio.start()
    else:
        queue.start()
    await asyncio.wait_for(asyncio.wrap_future(queue.work.ended), 10)
    assert [reply.result(10) for reply in replies] == ["LAST"]
    if pool is not None:
        pool.shutdown()
