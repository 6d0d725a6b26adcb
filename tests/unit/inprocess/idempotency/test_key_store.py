from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.idempotency import (
    IdempotencyKeyStore,
    InMemoryIdempotencyKeyStore,
    KeyState,
    idempotent,
)
from tests.unit.threads import together

MINUTE, DAY = timedelta(minutes=1), timedelta(days=1)


@pytest.fixture
def clock() -> ManualClock:
    """Make a clock that stands still."""
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> InMemoryIdempotencyKeyStore:
    """Make a store with locks of a minute and memories of a day."""
    return InMemoryIdempotencyKeyStore(MINUTE, DAY, clock=clock)


def locked(store: IdempotencyKeyStore, key: Hashable = "k", **options: Any) -> str:
    """Lock a key that must be free."""
    token = store.try_lock(key, **options)
    assert token
    return token


def test_a_key_is_locked_once(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-01: a new key gives a token, a second time none."""
    locked(store)
    assert store.try_lock("k") is None


def test_an_accepted_key_stays_taken(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-02: after accept it is not locked again."""
    assert store.accept("k", locked(store))
    assert store.try_lock("k") is None


def test_a_released_key_is_free(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-03: after release it can be locked again, by another token."""
    token = locked(store)
    assert store.release("k", token)
    assert locked(store) != token


def test_unknown_keys_and_tokens_have_no_effect(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-04: accept and release of what is not held say so, and change nothing."""
    for change in (store.accept, store.release):
        assert not change("unknown", "token")
    assert len(store) == 0
    token = locked(store)
    for change in (store.accept, store.release):
        assert not change("k", "somebody else's")
    assert store.try_lock("k") is None
    assert store.accept("k", token)


def test_of_many_at_once_one_has_the_key() -> None:
    """IS-05: sixteen threads that lock one key at once: exactly one gets a token, every time."""
    for _ in range(20):
        store = InMemoryIdempotencyKeyStore()
        barrier = threading.Barrier(16)
        tokens: list[str | None] = []

        def lock(store: Any = store, barrier: Any = barrier, tokens: Any = tokens) -> None:
            barrier.wait(10)
            tokens.append(store.try_lock("k"))

        together(*[lock] * 16)
        assert sum(token is not None for token in tokens) == 1


def test_different_keys_do_not_wait_for_each_other(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-06: while one key's work runs, another's begins and ends; None and "" are keys too."""
    ran: list[Any] = []

    @idempotent(store=store, key=lambda key: key, default_result=lambda _: "default")
    def work(key: Hashable) -> str:
        if key == "outer":
            for inner in ("inner", None, ""):
                assert work(inner) == "done"
        ran.append(key)
        return "done"

    assert work("outer") == "done"
    assert ran == ["inner", None, "", "outer"]


def test_the_work_is_done_once(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-07: the first call gives its value, the second the default, without the work."""
    ran: list[int] = []

    @idempotent(store=store, key=lambda n, **_: n, default_result=lambda n, **_: f"had {n}")
    def work(n: int, *, suffix: str = "") -> str:
        ran.append(n)
        return f"did {n}{suffix}"

    assert work(1, suffix="!") == "did 1!"
    assert work(1, suffix="!") == "had 1"
    assert ran == [1]
    assert work.__name__ == "work"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_failed_work_frees_the_key(
    store: InMemoryIdempotencyKeyStore, error: type[BaseException]
) -> None:
    """IS-08: the very error is raised, and the next call does the work."""
    outcomes: list[Any] = [error("broken"), "done"]

    @idempotent(store=store, key=lambda: "k", default_result=lambda: "default")
    def work() -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    with pytest.raises(error, match="broken"):
        work()
    assert work() == "done"
    assert work() == "default"


def test_a_failing_default_leaves_the_key(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-09: the error of the default result is raised, and the key is as it was."""

    def no_default() -> None:
        raise LookupError("no default")

    @idempotent(store=store, key=lambda: "k", default_result=no_default)
    def work() -> str:
        return "done"

    assert work() == "done"
    before = store.snapshot()
    with pytest.raises(LookupError):
        work()
    assert store.snapshot() == before


def test_a_second_caller_does_not_wait(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-10: while the first still runs, the second has the default at once."""
    entered, leave = threading.Event(), threading.Event()

    @idempotent(store=store, key=lambda: "k", default_result=lambda: "default")
    def work() -> str:
        entered.set()
        assert leave.wait(10)
        return "done"

    results: list[str] = []
    first = threading.Thread(target=lambda: results.append(work()))
    first.start()
    assert entered.wait(10)
    assert work() == "default"
    leave.set()
    first.join()
    assert results == ["done"]


def test_a_lock_ends_at_its_time_and_its_token_with_it(
    store: InMemoryIdempotencyKeyStore, clock: ManualClock
) -> None:
    """IS-11: then another may lock; the late token neither accepts nor frees the other's lock."""
    first = locked(store)
    clock.advance(MINUTE - timedelta(microseconds=1))
    assert store.try_lock("k") is None
    clock.advance(timedelta(microseconds=1))
    assert not store.accept("k", first)
    second = locked(store, timeout=timedelta(seconds=5))
    assert not store.accept("k", first)
    assert not store.release("k", first)
    assert store.try_lock("k") is None
    assert store.accept("k", second)
    third = locked(store, "other", timeout=timedelta(seconds=5))
    clock.advance(timedelta(seconds=5))
    assert not store.release("other", third)


def test_work_that_outlives_its_lock_is_told(
    store: InMemoryIdempotencyKeyStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """IS-11: both callers' work runs, the late result is returned, a warning is logged."""
    results: list[str] = []

    @idempotent(store=store, key=lambda _: "k", default_result=lambda _: "default", timeout=MINUTE)
    def work(name: str) -> str:
        if name == "slow":
            clock.advance(MINUTE)
            results.append(work("fast"))
        return name

    with caplog.at_level(logging.WARNING):
        assert work("slow") == "slow"
    assert results == ["fast"]
    assert "may be done twice" in caplog.text
    assert work("third") == "default"


def test_a_failing_accept_does_not_free_the_key(clock: ManualClock) -> None:
    """IS-12: the work was done, so the key stays locked, and the error is raised."""

    class Failing(InMemoryIdempotencyKeyStore):
        """A store that is down when the work has ended."""

        def accept(self, key: Hashable, token: str) -> bool:
            """Fail."""
            raise ConnectionError(key, token)

    store = Failing(clock=clock)
    ran: list[int] = []

    @idempotent(store=store, key=lambda: "k", default_result=lambda: "default")
    def work() -> None:
        ran.append(1)

    with pytest.raises(ConnectionError):
        work()
    assert work() == "default"
    assert ran == [1]


def test_an_accepted_key_is_not_released(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-13: its own token does not free it, nor accept it a second time."""
    token = locked(store)
    store.accept("k", token)
    assert not store.release("k", token)
    assert not store.accept("k", token)
    assert store.try_lock("k") is None


def test_an_accepted_key_is_forgotten_at_its_own_time(
    store: InMemoryIdempotencyKeyStore, clock: ManualClock
) -> None:
    """IS-14: it outlives the lock's time by far, and ends a day after it was accepted."""
    token = locked(store)
    clock.advance(timedelta(seconds=30))
    store.accept("k", token)
    clock.advance(DAY - timedelta(seconds=1))
    assert store.try_lock("k") is None
    clock.advance(timedelta(seconds=1))
    assert len(store) == 0
    locked(store)


def test_keys_survive_a_restart(store: InMemoryIdempotencyKeyStore, clock: ManualClock) -> None:
    """IS-15: locks in progress and accepted keys come back from a file, with owners and times."""
    running, done = locked(store, "running"), locked(store, "done")
    store.accept("done", done)
    stored = json.dumps(
        [
            [key, state.token, state.accepted, state.ends_at.isoformat()]
            for key, state in store.snapshot().items()
        ]
    )
    later = InMemoryIdempotencyKeyStore(MINUTE, DAY, clock=clock)
    locked(later, "not in the file")
    later.restore(
        {
            key: KeyState(token=token, accepted=accepted, ends_at=datetime.fromisoformat(ends_at))
            for key, token, accepted, ends_at in json.loads(stored)
        }
    )
    assert len(later) == 2
    assert later.try_lock("done") is None
    assert later.try_lock("running") is None
    assert later.accept("running", running)
    clock.advance(DAY)
    assert len(later) == 0


def test_keys_that_have_gone_leave_no_memory_behind(
    store: InMemoryIdempotencyKeyStore, clock: ManualClock
) -> None:
    """IS-03: released keys are not remembered by their times; ended ones go by themselves."""
    for number in range(5000):
        store.release(number, locked(store, number))
    assert len(store._ends) < 200
    for number in range(1000):
        locked(store, number)
    clock.advance(MINUTE)
    locked(store, "one more")
    assert len(store._keys) == 1


async def test_coroutines_are_done_once(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-07, IS-08, IS-10: the same for a coroutine function, cancelled work included."""
    gate = asyncio.Event()

    @idempotent(store=store, key=lambda k: k, default_result=lambda _: asyncio.sleep(0, "default"))
    async def work(k: str) -> str:
        await gate.wait()
        if k == "fails":
            raise ValueError(k)
        return "done"

    first = asyncio.create_task(work("a"))
    await asyncio.sleep(0)
    assert await work("a") == "default"
    cancelled = asyncio.create_task(work("b"))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    gate.set()
    assert await first == "done"
    assert await work("b") == "done"
    for _ in range(2):
        with pytest.raises(ValueError, match="fails"):
            await work("fails")


@pytest.mark.parametrize("bad", [timedelta(0), timedelta(seconds=-1), 5, None])
def test_bad_times_are_refused(store: InMemoryIdempotencyKeyStore, bad: Any) -> None:
    """A time that is not above zero, or no time, is refused by its name."""
    with pytest.raises(InvalidArgumentError, match="lock_timeout"):
        InMemoryIdempotencyKeyStore(bad)
    with pytest.raises(InvalidArgumentError, match="accepted_for"):
        InMemoryIdempotencyKeyStore(accepted_for=bad)
    if bad is not None:
        with pytest.raises(InvalidArgumentError, match="timeout"):
            store.try_lock("k", bad)
    assert len(store) == 0


def test_unhashable_keys_are_refused(store: InMemoryIdempotencyKeyStore) -> None:
    """A key that cannot be a key is an error everywhere, and the store is as it was."""
    key: Any = ["not", "a", "key"]
    for call in (store.try_lock, lambda k: store.accept(k, "t"), lambda k: store.release(k, "t")):
        with pytest.raises(InvalidArgumentError, match="key"):
            call(key)
    locked(store)


def test_a_key_function_that_raises_locks_nothing(store: InMemoryIdempotencyKeyStore) -> None:
    """IS-08: its error reaches the caller, the work is not done, nothing is remembered."""
    ran: list[int] = []

    @idempotent(store=store, key=lambda n: 1 // n, default_result=lambda _: None)
    def work(n: int) -> None:
        ran.append(n)

    with pytest.raises(ZeroDivisionError):
        work(0)
    assert ran == []
    assert len(store) == 0
