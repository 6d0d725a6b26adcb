"""A line of waiters, served first come, first served: woken once, timed out once, never both."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from spark_queue.waiting.calling import call_each
from spark_queue.waiting.futures import LazyFuture
from spark_queue.waiting.timer import SHARED_TIMER, Alarm, Timeout, Timer, seconds

T = TypeVar("T")


class Waiter(Generic[T]):
    """A place in a line; whoever takes it out of the line owns it and calls it, once."""

    __slots__ = ("alarm", "awaken", "timed_out")

    def __init__(self, awaken: Callable[[T], bool | None], timed_out: Callable[[], object]) -> None:
        self.awaken = awaken
        self.timed_out = timed_out
        self.alarm: Alarm | None = None


class WaiterLine(Generic[T]):
    """Waiters in the order of their arrival.

    The invariant that every method keeps: a waiter is called by the one who took it out of the
    line, and out of the line it can be taken only once. So exactly one of *awaken* and
    *timed out* ever runs for it, or neither once it is removed. No call is made under the lock.

    Parameters
    ----------
    timer : Timer
        What the deadlines are counted by. Default: one shared by the process.

    Examples
    --------
    >>> line = WaiterLine()
    >>> waiter = line.add(awaken=print, timed_out=lambda: print("nothing came"))
    >>> line.trigger("an item")
    an item
    True
    >>> line.trigger("another")
    False
    """

    def __init__(self, timer: Timer = SHARED_TIMER) -> None:
        self._timer = timer
        self._lock = threading.Lock()
        self._line: OrderedDict[Waiter[T], None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._line)

    def add(
        self,
        awaken: Callable[[T], bool | None],
        timed_out: Callable[[], object],
        timeout: Timeout = None,
    ) -> Waiter[T]:
        """Join the end of the line.

        Parameters
        ----------
        awaken : callable
            Called with what the waiter is given. ``False`` says that it was not taken, so that the
            next in line gets it.
        timed_out : callable
            Called when the time is up, or the waiter is evicted.
        timeout : float, timedelta or None
            How long to wait at most; ``None`` for ever, which sets no alarm.
        """
        patience = seconds("timeout", timeout)
        waiter = Waiter(awaken, timed_out)
        with self._lock:
            self._line[waiter] = None
        if patience is not None:
            self._set_alarm(waiter, self._timer.now() + patience)
        return waiter

    def _set_alarm(self, waiter: Waiter[T], when: float) -> None:
        alarm = self._timer.call_at(when, lambda: self._expire(waiter))
        with self._lock:
            if waiter in self._line:
                waiter.alarm = alarm
                return
        # It left the line before its alarm was known to it, so nobody else will withdraw it.
        alarm.cancel()

    def remove(self, waiter: Waiter[T]) -> bool:
        """Take a waiter out without a call; ``False`` when it has left the line before."""
        with self._lock:
            if waiter not in self._line:
                return False
            del self._line[waiter]
        _withdraw_alarm(waiter)
        return True

    def take(self) -> Waiter[T] | None:
        """Take the first waiter out, to be called by the caller; ``None`` when nobody waits."""
        with self._lock:
            if not self._line:
                return None
            waiter, _ = self._line.popitem(last=False)
        _withdraw_alarm(waiter)
        return waiter

    def trigger(self, value: T) -> bool:
        """Wake the first waiter that takes the value; ``False`` when nobody does."""
        while (waiter := self.take()) is not None:
            if waiter.awaken(value) is not False:
                return True
        return False

    def trigger_all(self, value: T) -> int:
        """Wake everybody who waits now, and return how many that were."""
        waiters = self._take_all()
        call_each([partial(waiter.awaken, value) for waiter in waiters])
        return len(waiters)

    def evict_all(self) -> int:
        """Time everybody out who waits now, and return how many that were."""
        waiters = self._take_all()
        call_each([waiter.timed_out for waiter in waiters])
        return len(waiters)

    def _take_all(self) -> list[Waiter[T]]:
        with self._lock:
            waiters = list(self._line)
            self._line.clear()
        for waiter in waiters:
            _withdraw_alarm(waiter)
        return waiters

    def _expire(self, waiter: Waiter[T]) -> None:
        if self.remove(waiter):
            waiter.timed_out()


class LineFuture(LazyFuture[T]):
    """What somebody in a line waits for; a cancel gives up the place.

    A thread waits by ``result()``, a coroutine by :func:`spark_queue.waiting.aio.outcome`.
    """

    _line: WaiterLine[T] | None = None
    _waiter: Waiter[T] | None = None

    def join(
        self, line: WaiterLine[T], nothing: Callable[[], BaseException], timeout: Timeout = None
    ) -> LineFuture[T]:
        """Join the end of a line; ``nothing`` makes the error for one who waited in vain."""
        self._line = line
        self._waiter = line.add(self.deliver, lambda: self._lapse(nothing()), timeout)
        return self

    def deliver(self, value: T) -> bool:
        """Settle with a value; ``False`` when it was cancelled first."""
        if not self.set_running_or_notify_cancel():
            return False
        self.set_result(value)
        return True

    def cancel(self) -> bool:
        """Leave the line; ``False`` when the wait is over, or about to be."""
        cancelled = super().cancel()
        line, waiter = self._line, self._waiter
        if cancelled and line is not None and waiter is not None and line.remove(waiter):
            self.set_running_or_notify_cancel()
        return cancelled

    def _lapse(self, error: BaseException) -> None:
        if self.set_running_or_notify_cancel():
            self.set_exception(error)


def _withdraw_alarm(waiter: Waiter[T]) -> None:
    if waiter.alarm is not None:
        waiter.alarm.cancel()
