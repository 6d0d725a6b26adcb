"""Guards: how many operations may be under way at once, and with which resources."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Generic, ParamSpec, TypeVar, cast

from spark_queue import checks
from spark_queue.memory.broker import QueueBroker, Turn
from spark_queue.memory.broker.broker import is_coroutine_function
from spark_queue.memory.waiting.abort import AbortSignal
from spark_queue.memory.waiting.aio import resolve
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer

A = TypeVar("A")
R = TypeVar("R")

#: The arguments of an operation; the last is its signal to stop.
P = ParamSpec("P")

_log = logging.getLogger(__name__)


class _BrokeredGuard(Generic[P]):
    """Operations that a broker admits, on threads or on the running loop."""

    def __init__(self, broker: QueueBroker) -> None:
        self._broker = broker

    @property
    def aio(self) -> AioGuard[P]:
        """The same guard, for coroutines."""
        return AioGuard(self, self._broker)

    def submit(
        self, operation: Callable[P, Any], *, signal: AbortSignal | None = None
    ) -> Future[Any]:
        """Run an operation when there is room for it; never wait.

        Parameters
        ----------
        operation : callable
            Called with the signal by which it hears that it should stop.
        signal : AbortSignal, optional
            Rejects the operation when it is aborted, and tells it to stop if it runs.

        Raises
        ------
        QueueFullError
            When too many operations wait.
        QueueShutDownError
            When the guard was stopped.
        BaseException
            The reason of a signal that is aborted already.
        """
        checks.require_callable("operation", operation)
        task = self._suspending if is_coroutine_function(operation) else self._blocking
        return self._broker.enqueue(task(operation), signal=signal)

    def execute(self, operation: Callable[P, R], *, signal: AbortSignal | None = None) -> R:
        """Run an operation when there is room for it, and return its result; see :meth:`submit`.

        Raises
        ------
        DeadlockError
            When an operation of this guard waits here for room that only its own end makes.
        """
        return cast("R", self.submit(operation, signal=signal).result())

    def wait_for_idle(self, timeout: Timeout = None) -> None:
        """Block until no operation runs or waits; see :meth:`QueueBroker.wait_for_idle`."""
        self._broker.wait_for_idle(timeout)

    def stop(self, *, force: bool = False, deadline: Timeout = None) -> None:
        """Refuse new operations and reject the waiting ones; see :meth:`QueueBroker.stop`."""
        self._broker.stop(force=force, deadline=deadline)
        self.close_free()

    def close_free(self) -> None:
        """Close what no operation uses; a guard without resources has nothing to close."""

    def _blocking(self, operation: Callable[P, Any]) -> Callable[[Turn], Any]:
        raise NotImplementedError

    def _suspending(self, operation: Callable[P, Any]) -> Callable[[Turn], Awaitable[Any]]:
        raise NotImplementedError


class AioGuard(Generic[P]):
    """The coroutines' front of a guard."""

    def __init__(self, guard: _BrokeredGuard[P], broker: QueueBroker) -> None:
        self._guard = guard
        self._broker = broker

    async def execute(
        self, operation: Callable[P, Awaitable[R]], *, signal: AbortSignal | None = None
    ) -> R:
        """Run an operation as the guard's ``execute`` does, without blocking the loop."""
        future = self._guard.submit(operation, signal=signal)
        return cast("R", await self._broker.aio.awaitable(future))

    async def wait_for_idle(self, timeout: Timeout = None) -> None:
        """Wait until no operation runs or waits."""
        await self._broker.aio.wait_for_idle(timeout)

    async def stop(self, *, force: bool = False, deadline: Timeout = None) -> None:
        """Stop as the guard's ``stop`` does, without blocking the loop."""
        await self._broker.aio.stop(force=force, deadline=deadline)
        self._guard.close_free()


class Guard(_BrokeredGuard[[AbortSignal]]):
    """Runs operations on threads, or coroutine functions on the running loop, so many at once.

    What an operation raises is raised to its caller, and makes room for the next.
    """

    def __init__(
        self, max_active: int | None, max_waiting: int | None, timer: Timer = SHARED_TIMER
    ) -> None:
        super().__init__(QueueBroker(max_active, max_waiting, timer=timer))

    def _blocking(self, operation: Callable[[AbortSignal], Any]) -> Callable[[Turn], Any]:
        return lambda turn: operation(turn.signal)

    def _suspending(
        self, operation: Callable[[AbortSignal], Any]
    ) -> Callable[[Turn], Awaitable[Any]]:
        async def task(turn: Turn) -> Any:
            return await operation(turn.signal)

        return task


class ExclusiveGuard(Guard):
    """One operation at a time, in the order in which they came.

    Parameters
    ----------
    max_waiting : int or None
        How many may wait. Default 1000.
    timer : Timer
        What the times are counted by. Default: one shared by the process.

    Examples
    --------
    >>> guard = ExclusiveGuard()
    >>> guard.execute(lambda signal: 42)
    42
    >>> guard.stop()
    """

    def __init__(self, max_waiting: int | None = 1000, *, timer: Timer = SHARED_TIMER) -> None:
        super().__init__(1, max_waiting, timer)


class ConcurrentGuard(Guard):
    """Any number of operations at once, which one call stops and waits for.

    Parameters
    ----------
    timer : Timer
        What the times are counted by. Default: one shared by the process.
    """

    def __init__(self, *, timer: Timer = SHARED_TIMER) -> None:
        super().__init__(None, None, timer)


class _FreeResources(Generic[A]):
    """The unused resources; once shut, it keeps no resource that comes back."""

    def __init__(self, *, reuse: bool) -> None:
        self._lock = threading.Lock()
        self._free: deque[A] = deque()
        self._keeps = reuse

    def take(self) -> list[A]:
        """Return a free resource in a list, or an empty one."""
        with self._lock:
            return [self._free.pop()] if self._free else []

    def put(self, resource: A) -> bool:
        """Keep a resource; ``False`` when it must be closed instead."""
        with self._lock:
            if self._keeps:
                self._free.append(resource)
            return self._keeps

    def shut(self) -> list[A]:
        with self._lock:
            self._keeps = False
            free = list(self._free)
            self._free.clear()
        return free


class BoundedGuard(_BrokeredGuard[[A, AbortSignal]], Generic[A]):
    """Runs operations with a resource each, and never makes more of them than a limit.

    Parameters
    ----------
    create : callable
        Makes a resource, when an operation needs one and none is free. A coroutine function serves
        coroutine operations only.
    max_resources : int
        How many operations run at once.
    reuse : bool
        Whether a resource serves one operation after another (default), or only one.
    close_resource : callable, optional
        Called with each resource that is not needed any more, after the operation that had it has
        ended. What it raises is logged.
    max_waiting : int or None
        How many operations may wait. Default 1000.
    timer : Timer
        What the times are counted by. Default: one shared by the process.

    Examples
    --------
    >>> import tempfile
    >>> guard = BoundedGuard(tempfile.TemporaryFile, 2, close_resource=lambda file: file.close())
    >>> guard.execute(lambda file, signal: file.write(b"hello"))
    5
    >>> guard.stop()
    """

    def __init__(
        self,
        create: Callable[[], A | Awaitable[A]],
        max_resources: int,
        *,
        reuse: bool = True,
        close_resource: Callable[[A], object] | None = None,
        max_waiting: int | None = 1000,
        timer: Timer = SHARED_TIMER,
    ) -> None:
        super().__init__(QueueBroker(max_resources, max_waiting, timer=timer))
        self._create = create
        self._close_resource = close_resource
        self._free: _FreeResources[A] = _FreeResources(reuse=reuse)

    def close_free(self) -> None:
        """Close the unused resources, and from now on each that comes back."""
        for resource in self._free.shut():
            self._close(resource)

    def _blocking(self, operation: Callable[[A, AbortSignal], Any]) -> Callable[[Turn], Any]:
        def task(turn: Turn) -> Any:
            free = self._free.take()
            resource = free[0] if free else cast("A", self._create())
            try:
                return operation(resource, turn.signal)
            finally:
                self._give_back(resource)

        return task

    def _suspending(
        self, operation: Callable[[A, AbortSignal], Any]
    ) -> Callable[[Turn], Awaitable[Any]]:
        async def task(turn: Turn) -> Any:
            free = self._free.take()
            resource = free[0] if free else await resolve(self._create())
            try:
                return await operation(resource, turn.signal)
            finally:
                self._give_back(resource)

        return task

    def _give_back(self, resource: A) -> None:
        if not self._free.put(resource):
            self._close(resource)

    def _close(self, resource: A) -> None:
        if self._close_resource is None:
            return
        try:
            self._close_resource(resource)
        except Exception:  # noqa: BLE001 - the operation has ended, its caller has its result
            _log.exception("closing a resource failed")
