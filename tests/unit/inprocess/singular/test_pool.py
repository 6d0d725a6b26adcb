from __future__ import annotations

import threading
from typing import Any

import pytest

from spark_queue.errors import DeadlockError, InvalidArgumentError, QueueShutDownError
from spark_queue.memory.singular import SingularUpdateQueue, WorkerPool


def test_a_deep_queue_does_not_hold_up_a_short_one() -> None:
    """SU-02: queues of a pool take turns of one item, so two requests do not wait for 50."""
    order: list[str] = []
    gate = threading.Event()
    with WorkerPool(1) as pool:
        deep: SingularUpdateQueue[Any, None] = SingularUpdateQueue(
            lambda _: order.append("deep"), pool=pool
        )
        short: SingularUpdateQueue[Any, None] = SingularUpdateQueue(
            lambda _: order.append("short"), pool=pool
        )
        pool.schedule(lambda: gate.wait(10))
        for number in range(50):
            deep.submit(number)
        short.submit(1)
        short.submit(2)
        deep.start()
        short.start()
        gate.set()
        short.shutdown()
        deep.shutdown()
    assert order[:4] == ["deep", "short", "deep", "short"]
    assert order.count("deep") == 50


def test_a_queue_never_runs_on_two_threads_at_once() -> None:
    """SU-02: over four threads each queue handles one request at a time, in order."""
    seen: dict[int, list[int]] = {number: [] for number in range(5)}
    inside = dict.fromkeys(seen, 0)
    overlaps: list[int] = []

    def handler_of(number: int) -> Any:
        def handler(item: int) -> None:
            inside[number] += 1
            overlaps.append(inside[number])
            seen[number].append(item)
            inside[number] -= 1

        return handler

    with WorkerPool(4) as pool:
        queues = [SingularUpdateQueue[int, None](handler_of(n), pool=pool) for n in seen]
        for queue in queues:
            queue.start()
        for item in range(400):
            for queue in queues:
                queue.submit(item)
    assert set(overlaps) == {1}
    assert all(items == list(range(400)) for items in seen.values())


def test_a_pool_takes_its_queues_down_with_it() -> None:
    """Leaving the pool's scope drains its queues, and refuses new ones."""
    with WorkerPool(2) as pool:
        queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x, pool=pool)
        queue.start()
        replies = [queue.submit(number) for number in range(50)]
    assert [reply.result(timeout=0) for reply in replies] == list(range(50))
    assert not queue.is_running
    late: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x, pool=pool)
    reply = late.submit(1)
    with pytest.raises(QueueShutDownError):
        late.start()
    assert isinstance(reply.exception(timeout=0), QueueShutDownError)


def test_a_queue_never_started_on_a_pool_that_is_gone_resolves() -> None:
    """SU-16: a drain that finds no threads any more fails what is queued instead of hanging."""
    pool = WorkerPool(1)
    queue: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x, pool=pool)
    reply = queue.submit(1)
    pool.shutdown()
    queue.shutdown()
    assert isinstance(reply.exception(timeout=0), QueueShutDownError)


def test_a_fatal_error_stops_one_queue_of_the_pool() -> None:
    """SU-13: the threads of the pool survive, and other queues go on."""

    def fatal(_: Any) -> None:
        raise SystemExit

    with WorkerPool(1) as pool:
        dying = SingularUpdateQueue(fatal, pool=pool)
        living: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x, pool=pool)
        dying.start()
        living.start()
        assert isinstance(dying.submit(1).exception(timeout=10), SystemExit)
        reply = living.submit(1)
        reply.add_done_callback(fatal)
        assert reply.result(timeout=10) == 1
        dying.shutdown()
        living.shutdown()
        third: SingularUpdateQueue[int, int] = SingularUpdateQueue(lambda x: x, pool=pool)
        with third:
            assert third.submit(3).result(timeout=10) == 3


def test_a_handler_cannot_end_its_own_pool() -> None:
    """A shutdown of the pool from one of its threads is an error, not a deadlock."""
    with WorkerPool(1) as pool:
        queue: SingularUpdateQueue[Any, Any] = SingularUpdateQueue(
            lambda _: pool.shutdown(), pool=pool
        )
        with queue:
            assert isinstance(queue.submit(1).exception(timeout=10), DeadlockError)


def test_a_pool_cannot_run_coroutines() -> None:
    """A coroutine function needs a loop, not a pool."""

    async def handler(item: int) -> int:
        return item

    with WorkerPool(1) as pool, pytest.raises(InvalidArgumentError, match="coroutine"):
        SingularUpdateQueue(handler, pool=pool)
