"""Futures that are cheap to have many of; and lines of waiters, served first come, first served."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from concurrent.futures._base import (
    CANCELLED,
    CANCELLED_AND_NOTIFIED,
    FINISHED,
    PENDING,
    RUNNING,
)
from functools import partial
from typing import Any, Generic, TypeVar, cast

from spark_queue.memory.waiting.timer import SHARED_TIMER, Alarm, Timeout, Timer, seconds


def call_each(calls: Iterable[Callable[[], object]]) -> None:
    """Make every call in turn, also when one of them raises; the first error is raised in the end.

    So a callback that ends its thread, by ``sys.exit`` or an interrupt, still does, and the
    calls after it are made all the same.
    """
    first: BaseException | None = None
    for call in calls:
        try:
            call()
        except BaseException as error:  # noqa: BLE001, PERF203 - raised below
            first = first or error
    if first is not None:
        try:
            raise first
        finally:
            # Else the error would hold its own traceback, and so itself.
            del first


T = TypeVar("T")

#: That of the base class, which says the same of a callback that fails.
_log = logging.getLogger("concurrent.futures")

#: Held while a future gets a condition or a bell, and while one without a condition changes its
#: state; never for longer. A finalizer or a signal may settle a future in between, hence the R.
_MAKING = threading.RLock()


class LazyFuture(Future[T]):
    """A :class:`concurrent.futures.Future` that makes its condition on first use.

    A condition is a lock and ten more objects, 1.5 KB together, and most futures settle before
    a look at them: a backlog of 100,000 of them costs as much time in the garbage collector as in
    its queue. Callbacks, cancels and the functions of :mod:`concurrent.futures` that wait for
    several futures ask for it, and from then on the methods are those of the standard library.
    Without a condition only the bells need a call: a plain lock for each thread that waits for
    the result.
    """

    _has_condition = False
    _bells: tuple[threading.Lock, ...] = ()

    def __init__(self) -> None:
        # The attributes of the base class, without the ones that __getattr__ makes.
        self._state = PENDING
        self._result = None
        self._exception = None

    def __getattr__(self, name: str) -> Any:
        if name != "_condition":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        made: tuple[threading.Condition, list[Any], list[Any]] = (threading.Condition(), [], [])
        with _MAKING:
            if not self._has_condition:
                self._condition, self._waiters, self._done_callbacks = made
                self._has_condition = True
        return self._condition

    def done(self) -> bool:
        """Whether there is a result, an error, or a cancel."""
        return self._state not in (PENDING, RUNNING)

    def cancelled(self) -> bool:
        """Whether the future was cancelled."""
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)

    def running(self) -> bool:
        """Whether the work has begun and not ended."""
        return self._state == RUNNING

    def result(self, timeout: float | None = None) -> T:
        """Return the result; see :meth:`concurrent.futures.Future.result`."""
        if not self.done():
            self._wait(timeout)
        if self._state == FINISHED and self._exception is None:
            return cast("T", self._result)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error; see :meth:`concurrent.futures.Future.exception`."""
        if not self.done():
            self._wait(timeout)
        return self._exception if self._state == FINISHED else super().exception(0)

    def set_running_or_notify_cancel(self) -> bool:
        """Begin the work; ``False`` when it was cancelled first."""
        with _MAKING:
            if not self._has_condition and self._state == PENDING:
                self._state = RUNNING
                return True
        return super().set_running_or_notify_cancel()

    def set_result(self, result: T) -> None:
        """Settle with a result, and wake and call all waiters."""
        if not self._settle(result, None):
            super().set_result(result)

    def set_exception(self, exception: BaseException | None) -> None:
        """Settle with an error, and wake and call all waiters."""
        if not self._settle(None, exception):
            super().set_exception(exception)

    def _settle(self, result: T | None, exception: BaseException | None) -> bool:
        """Settle without the base class; ``False`` when that must do it."""
        with _MAKING:
            if self._has_condition or self.done():
                return False
            self._result, self._exception = result, exception
            self._state = FINISHED
        if self._bells:
            self._ring()
        return True

    def _wait(self, timeout: float | None) -> None:
        bell = threading.Lock()
        bell.acquire()
        with _MAKING:
            # First the bell, then the look: who settles does it the other way round.
            self._bells = (*self._bells, bell)
            is_done = self.done()
        if is_done or bell.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            return
        with _MAKING:
            self._bells = tuple(other for other in self._bells if other is not bell)

    def _ring(self) -> None:
        with _MAKING:
            bells, self._bells = self._bells, ()
        for bell in bells:
            bell.release()

    def _invoke_callbacks(self) -> None:
        # The base class comes here whenever it has settled or cancelled. Who waits goes first: a
        # callback may take its time.
        self._ring()
        call_each([partial(self._call, callback) for callback in self._done_callbacks])

    def _call(self, callback: Callable[[Future[T]], object]) -> None:
        try:
            callback(self)
        except Exception:  # noqa: BLE001 - as in the base class
            _log.exception("exception calling callback for %r", self)


class WaiterLine(Generic[T]):
    """Futures that wait for a value, in the order of their arrival.

    The invariant that every method keeps: a future is settled by the one who took it out of the
    line, and out of the line it can be taken only once. So it is given a value or has waited in
    vain, once, or neither when it is removed. No future is settled under the lock.

    Parameters
    ----------
    timer : Timer
        What the deadlines are counted by. Default: one shared by the process.

    Examples
    --------
    >>> line = WaiterLine()
    >>> waiting = LineFuture().join(line, TimeoutError)
    >>> line.trigger("an item"), line.trigger("another")
    (True, False)
    >>> waiting.result()
    'an item'
    """

    def __init__(self, timer: Timer = SHARED_TIMER) -> None:
        self._timer = timer
        self._lock = threading.Lock()
        self._line: OrderedDict[LineFuture[T], None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._line)

    def add(self, future: LineFuture[T], timeout: Timeout = None) -> None:
        """Put a future at the end of the line; with a timeout it is given up when that is over."""
        patience = seconds("timeout", timeout)
        with self._lock:
            self._line[future] = None
        if patience is not None:
            self._set_alarm(future, self._timer.now() + patience)

    def _set_alarm(self, future: LineFuture[T], when: float) -> None:
        alarm = self._timer.call_at(when, partial(self._expire, future))
        with self._lock:
            if future in self._line:
                future.alarm = alarm
                return
        # It left the line before its alarm was known to it, so the alarm is withdrawn here.
        alarm.cancel()

    def remove(self, future: LineFuture[T]) -> bool:
        """Take a future out unsettled; ``False`` when it has left the line before."""
        with self._lock:
            if future not in self._line:
                return False
            del self._line[future]
        _withdraw_alarm(future)
        return True

    def take(self) -> LineFuture[T] | None:
        """Take out the first future; ``None`` for an empty line."""
        with self._lock:
            if not self._line:
                return None
            future, _ = self._line.popitem(last=False)
        _withdraw_alarm(future)
        return future

    def trigger(self, value: T) -> bool:
        """Give a value to the first taker; ``False`` when there is none."""
        while (future := self.take()) is not None:
            if future.deliver(value):
                return True
        return False

    def trigger_all(self, value: T) -> int:
        """Give a value to everybody who waits now, and return how many that were."""
        futures = self._take_all()
        call_each([partial(future.deliver, value) for future in futures])
        return len(futures)

    def evict_all(self) -> int:
        """Let everybody who waits now have waited in vain, and return how many that were."""
        futures = self._take_all()
        call_each([future.lapse for future in futures])
        return len(futures)

    def _take_all(self) -> list[LineFuture[T]]:
        with self._lock:
            futures = list(self._line)
            self._line.clear()
        for future in futures:
            _withdraw_alarm(future)
        return futures

    def _expire(self, future: LineFuture[T]) -> None:
        if self.remove(future):
            future.lapse()


class LineFuture(LazyFuture[T]):
    """The future of one wait in a line; a cancel gives up the place.

    A thread waits by ``result()``, a coroutine by :func:`spark_queue.memory.waiting.aio.outcome`.
    """

    alarm: Alarm | None = None
    _line: WaiterLine[T] | None = None
    _nothing: Callable[[], BaseException]

    def join(
        self, line: WaiterLine[T], nothing: Callable[[], BaseException], timeout: Timeout = None
    ) -> LineFuture[T]:
        """Join the end of a line; ``nothing`` makes the error for one who waited in vain."""
        self._line = line
        self._nothing = nothing
        line.add(self, timeout)
        return self

    def deliver(self, value: T) -> bool:
        """Settle with a value; ``False`` when it was cancelled first."""
        if not self.set_running_or_notify_cancel():
            return False
        self.set_result(value)
        return True

    def lapse(self) -> None:
        """Settle with the error of one who waited in vain, unless it was cancelled first."""
        if self.set_running_or_notify_cancel():
            self.set_exception(self._nothing())

    def cancel(self) -> bool:
        """Leave the line; ``False`` when the wait is over, or about to be."""
        cancelled = super().cancel()
        if cancelled and self._line is not None and self._line.remove(self):
            self.set_running_or_notify_cancel()
        return cancelled


def _withdraw_alarm(future: LineFuture[T]) -> None:
    if future.alarm is not None:
        future.alarm.cancel()


N = TypeVar("N", bound=Hashable)


def leads_to(goal: N, start: N, waits_for: Callable[[N], N | None]) -> bool:
    """Whether a chain of waits leads to a goal.

    Parameters
    ----------
    goal, start : hashable
        Of those that wait; equal only when they are the same.
    waits_for : callable
        Returns what one of them waits for, or ``None``. A circle without the goal ends too.
    """
    seen = set[N]()
    at: N | None = start
    while at is not None and at not in seen:
        if at == goal:
            return True
        seen.add(at)
        at = waits_for(at)
    return False
