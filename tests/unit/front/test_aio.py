"""A front for coroutines, over a queue without Spark."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator

import pytest

from spark_queue.errors import QueueFullError, QueueShutDownError, SchemaMismatchError
from spark_queue.front.durable import DurableQueue, FrontOptions
from spark_queue.local_queue import LocalQueue

PATIENCE = 60.0


@pytest.fixture
def made(queue_path: str) -> LocalQueue:
    """Return a queue of numbers."""
    return LocalQueue.create(queue_path, "n long", durability="process")


@pytest.fixture
def front(made: LocalQueue) -> Iterator[DurableQueue]:
    """Return a front of it."""
    with DurableQueue(made) as front:
        yield front


async def test_coroutines_do_all_that_threads_do(made: LocalQueue) -> None:
    """Items are put, taken, settled in each way, and written when the scope ends."""
    async with DurableQueue(made).aio as front:
        assert (await front.put({"n": 0})).seq == 1
        count, futures = await front.put_many([{"n": n} for n in range(1, 5)])
        assert (count, [one.result(0).seq for one in futures]) == (4, [2, 3, 4, 5])
        await front.release(await front.get(PATIENCE))
        await front.dead(await front.get(PATIENCE), "of no use")
        await front.ack(await front.get(PATIENCE))
        async with front.receive(PATIENCE) as delivery:
            assert delivery.item["n"] == 2
        with pytest.raises(ValueError, match="broken"):
            async with front.receive(PATIENCE):
                raise ValueError("broken")
        with pytest.raises(asyncio.CancelledError):
            async with front.receive(PATIENCE):
                raise asyncio.CancelledError
        await front.sync()
    with pytest.raises(QueueShutDownError):
        await front.put({"n": 9})
    stats = made.stats()

    assert (stats.acked, stats.dead, stats.claimed) == (2, 1, 0)


def test_of_many_the_bad_ones_fail_alone(front: DurableQueue) -> None:
    """Each of them has an answer of its own."""
    count, (good, bad) = asyncio.run(front.aio.put_many([{"n": 1}, {"n": "x"}]))

    assert (count, good.result(0).seq) == (2, 1)
    assert isinstance(bad.exception(0), SchemaMismatchError)


def test_a_coroutine_waits_for_room_so_long_at_most(
    made: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without patience it is told at once that there is none."""
    with DurableQueue(made, options=FrontOptions(max_pending=1)) as front:
        with monkeypatch.context() as patched:
            patched.setattr(front._puts, "_may_add", lambda: False)
            with pytest.raises(QueueFullError):
                asyncio.run(front.aio.put({"n": 1}, timeout=0))
            with pytest.raises(QueueFullError):
                asyncio.run(front.aio.put({"n": 1}, timeout=0.01))
            assert asyncio.run(front.aio.put_many([{"n": 1}], timeout=0)) == (0, [])

        assert asyncio.run(front.aio.put({"n": 2}, timeout=PATIENCE)).seq == 1


@pytest.mark.parametrize("timeout", [0, 0.01])
def test_a_wait_in_vain_names_the_queue_and_the_wait(front: DurableQueue, timeout: float) -> None:
    """Threads and coroutines read for what they waited, and how long."""
    wait = "within 0.01 s" if timeout else "that may run now"

    with pytest.raises(queue.Empty, match=f"queue '.*' had no item {wait}"):
        front.get(timeout)
    with pytest.raises(queue.Empty, match=f"had no item {wait}"), front.receive(timeout):
        pass
    with pytest.raises(queue.Empty, match=f"had no item {wait}"):
        asyncio.run(front.aio.get(timeout))
