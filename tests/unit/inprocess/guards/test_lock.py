from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from spark_queue.errors import DeadlockError, InvalidArgumentError
from spark_queue.memory.guards import InProcessLock, LockToken
from spark_queue.memory.waiting.timer import ManualTimer
from tests.unit.threads import together


@pytest.fixture
def locks() -> InProcessLock:
    """Make a set of locks on a standing clock."""
    return InProcessLock(timer=ManualTimer())


def test_acquire_and_release(locks: InProcessLock) -> None:
    """QL-01: a lock is held after acquire, and gone without a trace after release."""
    token = locks.acquire("a")
    assert len(locks) == 1
    assert locks.release("a", token)
    assert len(locks) == 0


def test_a_second_acquirer_waits(locks: InProcessLock) -> None:
    """QL-02: until the first releases; another id does not wait."""
    token = locks.acquire("a")
    second = locks.acquire_future("a")
    assert not second.done()
    locks.acquire("b")
    locks.release("a", token)
    assert second.result(timeout=10) is not token


def test_the_lock_is_handed_over_in_order(locks: InProcessLock) -> None:
    """QL-03: Task 1, then Task 2; nobody comes in between, and cancelled waiters are skipped."""
    first = locks.acquire("a")
    waiting = [locks.acquire_future("a") for _ in range(3)]
    assert locks.waiter_count("a") == 3
    waiting[0].cancel()
    locks.release("a", first)
    assert waiting[1].done()
    assert locks.try_acquire("a") is None
    assert not waiting[2].done()
    locks.release("a", waiting[1].result())
    locks.release("a", waiting[2].result(timeout=10))
    assert (len(locks), locks.waiter_count("a")) == (0, 0)


def test_trying_gives_a_token_or_nothing(locks: InProcessLock) -> None:
    """QL-04, QL-05: free gives a token, held gives none, and two at once give one."""
    token = locks.try_acquire("a")
    assert token
    assert locks.try_acquire("a") is None
    locks.release("a", token)
    barrier = threading.Barrier(8)
    tokens: list[Any] = []

    def try_it() -> None:
        barrier.wait(10)
        tokens.append(locks.try_acquire("a"))

    together(*[try_it] * 8)
    assert sum(token is not None for token in tokens) == 1


def test_a_scope_releases_after_an_exception(locks: InProcessLock) -> None:
    """QL-06: an error inside a scope frees the lock."""

    def fails() -> None:
        raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        locks.with_acquire("a", fails)
    assert locks.try_acquire("a")


def test_a_function_runs_under_a_lock(locks: InProcessLock) -> None:
    """QL-07: it runs while the lock is held, and its result is returned."""
    assert locks.with_acquire("a", lambda: len(locks)) == 1
    assert len(locks) == 0


def test_two_functions_under_one_lock_never_overlap() -> None:
    """QL-08: eight threads, each many times, are never inside together."""
    locks, inside, overlaps = InProcessLock(), list[int](), list[int]()

    def operation() -> None:
        inside.append(1)
        overlaps.append(len(inside))
        time.sleep(0)
        inside.pop()

    together(*[lambda: [locks.with_acquire("a", operation) for _ in range(50)]] * 8)
    assert overlaps == [1] * 400
    assert len(locks) == 0


def test_only_the_token_releases(locks: InProcessLock) -> None:
    """QL-01: another's token changes nothing and says so; a lock that nobody holds is released."""
    token = locks.acquire("a")
    assert not locks.release("a", LockToken("a"))
    assert locks.try_acquire("a") is None
    assert locks.release("a", token)
    assert locks.release("a", token)
    assert locks.release("unknown", token)
    newer = locks.acquire("a")
    assert not locks.release("a", token)
    assert locks.release("a", newer)


def test_a_wait_ends_at_its_time() -> None:
    """QL-02: who has waited long enough gets an error and leaves the line."""
    timer = ManualTimer()
    locks = InProcessLock(timer=timer)
    token = locks.acquire("a")
    waiting = locks.acquire_future("a", timeout=5)
    timer.advance(5)
    assert isinstance(waiting.exception(timeout=0), TimeoutError)
    assert locks.waiter_count("a") == 0
    locks.release("a", token)
    assert len(locks) == 0


def test_a_thread_that_waits_for_its_own_scope_is_told(locks: InProcessLock) -> None:
    """QL-08: inside a scope the same thread cannot wait for the same lock for ever."""
    with locks.hold("a"):
        with pytest.raises(DeadlockError):
            locks.acquire("a")
        with pytest.raises(DeadlockError), locks.hold("a"):
            pass
        assert locks.try_acquire("a") is None
    with locks.hold("a"), locks.hold("b"):
        assert len(locks) == 2


def test_callbacks_may_use_the_lock(locks: InProcessLock) -> None:
    """A callback of a waiting future runs outside of all locks, so it may release at once."""
    token = locks.acquire("a")
    waiting = locks.acquire_future("a")
    waiting.add_done_callback(lambda done: locks.release("a", done.result()))
    locks.release("a", token)
    assert len(locks) == 0


def test_an_unhashable_id_is_refused(locks: InProcessLock) -> None:
    """An id that cannot be a key is an error."""
    for call in (locks.acquire, locks.try_acquire):
        with pytest.raises(InvalidArgumentError):
            call([])  # type: ignore[arg-type]


async def test_coroutines_and_threads_wait_in_one_line() -> None:
    """QL-02, QL-07: a coroutine waits behind a thread, and a cancelled one lets the lock go on."""
    locks = InProcessLock()
    token = locks.acquire("a")
    first = asyncio.create_task(locks.aio.acquire("a"))
    await asyncio.sleep(0)
    second = locks.acquire_future("a")
    locks.release("a", token)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    locks.release("a", second.result(timeout=10))
    assert len(locks) == 0

    async def inside() -> int:
        with pytest.raises(DeadlockError):
            await locks.aio.acquire("a")
        return len(locks)

    assert await locks.aio.with_acquire("a", inside) == 1
    assert len(locks) == 0


@pytest.mark.parametrize("moment", ["before the lock", "after the lock"])
@pytest.mark.parametrize("end", ["loop", "coroutine"])
def test_a_coroutine_that_ends_without_a_word_holds_no_lock(
    locks: InProcessLock, moment: str, end: str
) -> None:
    """A lock that a waiter of a closed loop or coroutine would have got goes to the next."""
    token = locks.acquire("a")
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(locks.aio.acquire("a"))
    loop.run_until_complete(asyncio.sleep(0))
    coroutine = waiting.get_coro()
    assert coroutine is not None
    if moment == "after the lock":
        locks.release("a", token)
    if end == "coroutine":
        coroutine.close()
    loop.close()
    locks.release("a", token)
    assert len(locks) == 0
    coroutine.close()
    assert locks.try_acquire("a") is not None
