"""A value that is made once, however many ask for it at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar, overload

from spark_queue import checks
from spark_queue.errors import QueueShutDownError
from spark_queue.memory.broker import QueueBroker, Turn
from spark_queue.memory.broker.broker import is_coroutine_function
from spark_queue.memory.waiting.abort import AbortScope, AbortSignal
from spark_queue.memory.waiting.aio import outcome
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer
from spark_queue.memory.waiting.waiters import LazyFuture, call_each

R = TypeVar("R")


class _Attempt(Generic[R]):
    """One making of the value, and those who wait for it. The last to leave aborts it."""

    def __init__(self) -> None:
        self.scope = AbortScope()
        self.callers: set[Future[R]] = set()


class OnceGuard(Generic[R]):
    """Makes a value when it is first asked for, and keeps it.

    Callers that ask while it is being made wait for the same attempt. One that fails is tried
    again, so often; then all who wait get the last error, and the next to ask starts afresh.

    Parameters
    ----------
    make : callable
        Called with a signal that is aborted when all waits have ended, or by a forced stop.
        A coroutine function runs on the loop of the caller who starts it.
    max_retries : int
        How often a failed attempt is repeated. Default 3, which is 4 attempts.
    timer : Timer
        What the times are counted by. Default: one shared by the process.

    Examples
    --------
    >>> guard = OnceGuard(lambda signal: print("connecting") or "connection")
    >>> guard.get(), guard.get()
    connecting
    ('connection', 'connection')
    >>> guard.stop()
    """

    @overload
    def __init__(
        self,
        make: Callable[[AbortSignal], Coroutine[Any, Any, R]],
        max_retries: int = 3,
        *,
        timer: Timer = SHARED_TIMER,
    ) -> None: ...

    @overload
    def __init__(
        self,
        make: Callable[[AbortSignal], R],
        max_retries: int = 3,
        *,
        timer: Timer = SHARED_TIMER,
    ) -> None: ...

    def __init__(
        self,
        make: Callable[[AbortSignal], Any],
        max_retries: int = 3,
        *,
        timer: Timer = SHARED_TIMER,
    ) -> None:
        checks.limit_of("max_retries", max_retries, minimum=0)
        self._make = make
        self._max_retries = max_retries
        self._broker = QueueBroker(1, timer=timer)
        # Guards what follows and the callers of every attempt: a thread that takes one out settles
        # it. There is a value, or an attempt, or neither.
        self._lock = threading.Lock()
        self._value: tuple[R] | None = None
        self._attempt: _Attempt[R] | None = None
        self._stopped = False

    @property
    def aio(self) -> AioOnceGuard[R]:
        """The same guard, for coroutines."""
        return AioOnceGuard(self)

    def get(self, *, signal: AbortSignal | None = None) -> R:
        """Return the value, and make it where there is none.

        Parameters
        ----------
        signal : AbortSignal, optional
            Ends the wait when it is aborted, and the making too if it was the last wait.

        Raises
        ------
        QueueShutDownError
            When the guard was stopped.
        DeadlockError
            When the function that makes the value asks for it.
        BaseException
            What the last attempt raised, or the reason of the signal.
        """
        future = self.get_future(signal=signal)
        try:
            return future.result()
        finally:
            future.cancel()

    def get_future(self, *, signal: AbortSignal | None = None) -> Future[R]:
        """Return the value as a future, which is done already where there is one.

        Cancelling the future ends the wait, and the making too if it was the last wait.
        """
        if signal is not None:
            checks.require_kind("signal", signal, AbortSignal)
            signal.raise_if_aborted()
        if self._value is None:
            self._broker.require_outside()
        future: Future[R] = LazyFuture()
        attempt, begins = self._join(future)
        if attempt is None:
            return future
        future.add_done_callback(lambda _: self._leave(attempt, future))
        if signal is not None:
            leave = signal.listen(lambda reason: self._reject(attempt, future, reason))
            future.add_done_callback(lambda _: leave())
        if begins:
            self._begin(attempt)
        return future

    def _join(self, future: Future[R]) -> tuple[_Attempt[R] | None, bool]:
        with self._lock:
            if self._stopped:
                raise QueueShutDownError("the guard was stopped")
            if self._value is not None:
                future.set_result(self._value[0])
                return None, False
            begins = self._attempt is None
            attempt = self._attempt = self._attempt or _Attempt()
            attempt.callers.add(future)
            return attempt, begins

    def _begin(self, attempt: _Attempt[R]) -> None:
        task = self._suspending if is_coroutine_function(self._make) else self._blocking
        try:
            made = self._broker.enqueue(task, signal=attempt.scope.signal)
        except BaseException as error:
            self._end(attempt, None, error)
            raise
        made.add_done_callback(lambda done: self._finish(attempt, done))

    def _finish(self, attempt: _Attempt[R], made: Future[Any]) -> None:
        error = made.exception()
        self._end(attempt, None if error is not None else (made.result(),), error)

    def _blocking(self, turn: Turn) -> Any:
        for _ in range(self._max_retries):
            try:
                return self._make(turn.signal)
            except Exception:  # noqa: BLE001, PERF203 - it is tried again
                turn.signal.raise_if_aborted()
        return self._make(turn.signal)

    async def _suspending(self, turn: Turn) -> Any:
        make = self._make
        for _ in range(self._max_retries):
            try:
                return await make(turn.signal)
            except Exception:  # noqa: BLE001, PERF203 - it is tried again
                turn.signal.raise_if_aborted()
        return await make(turn.signal)

    def _end(
        self, attempt: _Attempt[R], value: tuple[R] | None, error: BaseException | None
    ) -> None:
        with self._lock:
            callers, attempt.callers = attempt.callers, set()
            if self._attempt is attempt:
                self._attempt = None
                self._value = value
        call_each([partial(_answer, future, value, error) for future in callers])

    def _reject(self, attempt: _Attempt[R], future: Future[R], reason: BaseException) -> None:
        if self._take_out(attempt, future, reason):
            future.set_exception(reason)

    def _leave(self, attempt: _Attempt[R], future: Future[R]) -> None:
        # Settled callers were taken out before; this one was cancelled.
        self._take_out(attempt, future, None)

    def _take_out(
        self, attempt: _Attempt[R], future: Future[R], reason: BaseException | None
    ) -> bool:
        with self._lock:
            if future not in attempt.callers:
                return False
            attempt.callers.discard(future)
            is_last = not attempt.callers
            if is_last and self._attempt is attempt:
                self._attempt = None
        if is_last:
            attempt.scope.abort(reason)
        return True

    def reset(self) -> None:
        """Forget the value, so that the next to ask has it made again."""
        with self._lock:
            self._value = self._attempt = None

    def stop(self, *, force: bool = False, deadline: Timeout = None) -> None:
        """Give out the value no more, and stop as :meth:`QueueBroker.stop` does."""
        self.refuse()
        self._broker.stop(force=force, deadline=deadline)

    def refuse(self) -> QueueBroker:
        """Give out the value no more, and return the broker for its stop."""
        with self._lock:
            self._stopped = True
        return self._broker


class AioOnceGuard(Generic[R]):
    """The coroutines' front of a :class:`OnceGuard`."""

    def __init__(self, guard: OnceGuard[R]) -> None:
        self._guard = guard

    async def get(self, *, signal: AbortSignal | None = None) -> R:
        """Return the value as :meth:`OnceGuard.get` does, without blocking the loop."""
        future = self._guard.get_future(signal=signal)
        try:
            return await outcome(future)
        finally:
            future.cancel()

    async def stop(self, *, force: bool = False, deadline: Timeout = None) -> None:
        """Stop as :meth:`OnceGuard.stop` does, without blocking the loop."""
        await self._guard.refuse().aio.stop(force=force, deadline=deadline)


def _answer(future: Future[R], value: tuple[R] | None, error: BaseException | None) -> None:
    if not future.set_running_or_notify_cancel():
        return
    if value is not None:
        future.set_result(value[0])
    else:
        future.set_exception(error)
