"""A line of waiters, served first come, first served: woken once, timed out once, never both."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import partial
from typing import Generic, TypeVar

from spark_queue.waiting.futures import LazyFuture, call_each
from spark_queue.waiting.timer import SHARED_TIMER, Alarm, Timeout, Timer, seconds

T = TypeVar("T")


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
        # It left the line before its alarm was known to it, so nobody else will withdraw it.
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
        """Take the first future out, to be settled by the caller; ``None`` when nobody waits."""
        with self._lock:
            if not self._line:
                return None
            future, _ = self._line.popitem(last=False)
        _withdraw_alarm(future)
        return future

    def trigger(self, value: T) -> bool:
        """Give a value to the first who takes it; ``False`` when nobody does."""
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
    """What somebody in a line waits for; a cancel gives up the place.

    A thread waits by ``result()``, a coroutine by :func:`spark_queue.waiting.aio.outcome`.
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
    """Tell whether one that waits, waits for a goal in the end.

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
