"""Named locks of one process, for threads and coroutines, held by token."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from spark_queue import checks
from spark_queue.errors import DeadlockError
from spark_queue.memory.waiting.aio import take_result
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer, seconds
from spark_queue.memory.waiting.waiters import LineFuture, WaiterLine
from spark_queue.wording import shorten

R = TypeVar("R")


class LockToken:
    """Says who holds a lock. It can be handed on, and releases once."""

    __slots__ = ("lock_id", "owner")

    def __init__(self, lock_id: Hashable, owner: object | None = None) -> None:
        self.lock_id = lock_id
        #: The thread or the asyncio task of a scope, which must not wait for its own lock.
        self.owner = owner


class _Held:
    """A lock that is held, with those who wait for it."""

    __slots__ = ("line", "token")

    def __init__(self, token: LockToken, timer: Timer) -> None:
        self.token = token
        self.line: WaiterLine[LockToken] = WaiterLine(timer)


class InProcessLock:
    """Any number of locks, by id; each is held by one token at a time, first come, first served.

    A free lock leaves nothing behind.

    Parameters
    ----------
    timer : Timer
        What the timeouts are counted by. Default: one shared by the process.

    Examples
    --------
    >>> locks = InProcessLock()
    >>> with locks.hold("accounts"):
    ...     locks.try_acquire("accounts") is None
    True
    >>> token = locks.acquire("accounts")
    >>> locks.release("accounts", token)
    True
    """

    def __init__(self, *, timer: Timer = SHARED_TIMER) -> None:
        self._timer = timer
        # Guards the table: a lock is in it while it is held, and is handed over without leaving it.
        self._lock = threading.Lock()
        self._held: dict[Hashable, _Held] = {}

    def __len__(self) -> int:
        """Return how many locks are held."""
        return len(self._held)

    @property
    def aio(self) -> AioInProcessLock:
        """The same locks, for coroutines."""
        return AioInProcessLock(self)

    def waiter_count(self, lock_id: Hashable) -> int:
        """Return how many wait for a lock."""
        checks.require_key("lock_id", lock_id)
        held = self._held.get(lock_id)
        return 0 if held is None else len(held.line)

    def acquire(self, lock_id: Hashable, timeout: Timeout = None) -> LockToken:
        """Wait for a lock and hold it.

        Raises
        ------
        TimeoutError
            When the time is up before.
        DeadlockError
            When the calling thread holds it in a scope, and would wait for ever.
        InvalidArgumentError
            When the id cannot be hashed.
        """
        return self._wait(lock_id, timeout, owner=None)

    def acquire_future(
        self, lock_id: Hashable, timeout: Timeout = None, *, owner: object | None = None
    ) -> Future[LockToken]:
        """Return a future of the token, which is done already when the lock is free."""
        checks.require_key("lock_id", lock_id)
        patience = seconds("timeout", timeout)
        future: LineFuture[LockToken] = LineFuture()
        token = LockToken(lock_id, owner)
        with self._lock:
            held = self._held.get(lock_id)
            if held is not None:
                future.join(held.line, lambda: _too_late(lock_id), patience)
                return future
            self._held[lock_id] = _Held(token, self._timer)
        future.deliver(token)
        return future

    def try_acquire(self, lock_id: Hashable) -> LockToken | None:
        """Hold a lock if it is free: the token, or ``None``."""
        checks.require_key("lock_id", lock_id)
        with self._lock:
            if lock_id in self._held:
                return None
            token = LockToken(lock_id)
            self._held[lock_id] = _Held(token, self._timer)
        return token

    def release(self, lock_id: Hashable, token: LockToken) -> bool:
        """Free a lock, or hand it to the first who waits.

        Returns
        -------
        bool
            ``False`` when another caller holds it, which changes nothing; ``True`` when it is free.
        """
        checks.require_key("lock_id", lock_id)
        while True:
            with self._lock:
                held = self._held.get(lock_id)
                if held is None or held.token is not token:
                    return held is None
                waiter = held.line.take()
                if waiter is None:
                    del self._held[lock_id]
                    return True
                # Its own already when the waiter hears of it, and not under the lock.
                token = held.token = LockToken(lock_id)
            if waiter.deliver(token):
                return True

    @contextmanager
    def hold(self, lock_id: Hashable, timeout: Timeout = None) -> Iterator[LockToken]:
        """Hold a lock for a scope; see :meth:`acquire`."""
        token = self._wait(lock_id, timeout, owner=threading.current_thread())
        try:
            yield token
        finally:
            self.release(lock_id, token)

    def with_acquire(
        self, lock_id: Hashable, operation: Callable[[], R], timeout: Timeout = None
    ) -> R:
        """Call a function while holding a lock, and return its result."""
        checks.require_callable("operation", operation)
        with self.hold(lock_id, timeout):
            return operation()

    def _wait(self, lock_id: Hashable, timeout: Timeout, owner: object | None) -> LockToken:
        if timeout is None:
            self.require_other_owner(lock_id, threading.current_thread())
        future = self.acquire_future(lock_id, timeout, owner=owner)
        try:
            token = future.result()
        except BaseException:
            self.withdraw(future)
            raise
        token.owner = owner
        return token

    def require_other_owner(self, lock_id: Hashable, owner: object) -> None:
        """Raise :class:`DeadlockError` when a thread or task holds a lock in a scope of its own."""
        checks.require_key("lock_id", lock_id)
        held = self._held.get(lock_id)
        if held is not None and held.token.owner is owner:
            raise DeadlockError(f"lock {shorten(lock_id)} is held by a scope around this very call")

    def withdraw(self, future: Future[LockToken]) -> None:
        """Give up a wait; a lock that was handed over at the last moment is released."""
        checks.require_kind("future", future, Future)
        if not future.cancel():
            future.add_done_callback(self._return)

    def _return(self, future: Future[LockToken]) -> None:
        if future.exception() is None:
            token = future.result()
            self.release(token.lock_id, token)


class AioInProcessLock:
    """The coroutines' front of an :class:`InProcessLock`: the same locks, the same lines."""

    def __init__(self, locks: InProcessLock) -> None:
        self._locks = locks

    async def acquire(self, lock_id: Hashable, timeout: Timeout = None) -> LockToken:
        """Wait for a lock and hold it, without blocking the loop."""
        if timeout is None:
            self._locks.require_other_owner(lock_id, asyncio.current_task())
        return await take_result(self._locks.acquire_future(lock_id, timeout), self._locks.withdraw)

    @asynccontextmanager
    async def hold(self, lock_id: Hashable, timeout: Timeout = None) -> AsyncIterator[LockToken]:
        """Hold a lock for a scope; see :meth:`InProcessLock.acquire`."""
        token = await self.acquire(lock_id, timeout)
        token.owner = asyncio.current_task()
        try:
            yield token
        finally:
            self._locks.release(lock_id, token)

    async def with_acquire(
        self, lock_id: Hashable, operation: Callable[[], Awaitable[R]], timeout: Timeout = None
    ) -> R:
        """Await a coroutine function while holding a lock, and return its result."""
        async with self.hold(lock_id, timeout):
            return await operation()


def _too_late(lock_id: Hashable) -> Any:
    return TimeoutError(f"lock {shorten(lock_id)} was not free in time")
