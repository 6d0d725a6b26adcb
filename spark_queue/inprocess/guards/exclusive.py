"""Guards: how many operations may be under way at once, one or any number."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from spark_queue import checks
from spark_queue.inprocess.broker import QueueBroker, Turn
from spark_queue.inprocess.broker.broker import is_coroutine_function
from spark_queue.waiting.abort import AbortSignal
from spark_queue.waiting.timer import SHARED_TIMER, Timeout, Timer

R = TypeVar("R")

#: An operation is told by a signal when it should stop.
Operation = Callable[[AbortSignal], R]


class Guard:
    """Runs operations on threads, or coroutine functions on the running loop, so many at once.

    What an operation raises is raised to its caller, and makes room for the next.
    """

    def __init__(
        self, max_active: int | None, max_waiting: int | None, timer: Timer = SHARED_TIMER
    ) -> None:
        self._broker = QueueBroker(max_active, max_waiting, timer=timer)

    @property
    def aio(self) -> AioGuard:
        """The same guard, for coroutines."""
        return AioGuard(self, self._broker)

    def submit(
        self, operation: Operation[Any], *, signal: AbortSignal | None = None
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
        if is_coroutine_function(operation):
            return self._broker.enqueue(_suspending(operation), signal=signal)

        def task(turn: Turn) -> Any:
            return operation(turn.signal)

        return self._broker.enqueue(task, signal=signal)

    def execute(self, operation: Operation[R], *, signal: AbortSignal | None = None) -> R:
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
        """Refuse new operations and reject those that wait; see :meth:`QueueBroker.stop`."""
        self._broker.stop(force=force, deadline=deadline)


class AioGuard:
    """The coroutines' front of a guard."""

    def __init__(self, guard: Guard, broker: QueueBroker) -> None:
        self._guard = guard
        self._broker = broker

    async def execute(
        self,
        operation: Callable[[AbortSignal], Awaitable[R]],
        *,
        signal: AbortSignal | None = None,
    ) -> R:
        """Run an operation as :meth:`Guard.execute` does, without blocking the loop."""
        future = self._guard.submit(operation, signal=signal)
        return cast("R", await self._broker.aio.awaitable(future))

    async def wait_for_idle(self, timeout: Timeout = None) -> None:
        """Wait until no operation runs or waits."""
        await self._broker.aio.wait_for_idle(timeout)

    async def stop(self, *, force: bool = False, deadline: Timeout = None) -> None:
        """Stop as :meth:`Guard.stop` does, without blocking the loop."""
        await self._broker.aio.stop(force=force, deadline=deadline)


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


def _suspending(operation: Operation[Any]) -> Callable[[Turn], Awaitable[Any]]:
    async def task(turn: Turn) -> Any:
        return await operation(turn.signal)

    return task
