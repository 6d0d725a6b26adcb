"""When something is due: monotonic time and alarms, as an argument, so that tests drive both.

Waiting inside a process must not jump with the wall clock, so these queues count seconds of a
monotonic clock; :mod:`spark_queue.clock` tells the date where it is stored.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.waiting.processes import settle_in
from spark_queue.wording import shorten

#: Seconds as a number, or a duration. ``None``, infinity and centuries wait for ever.
Timeout = float | timedelta | None

_log = logging.getLogger(__name__)

#: Cancelled alarms that a timer keeps before it looks whether they are the larger part.
_TOLERATED = 64


class Alarm(Protocol):
    """A call that will be made, unless it is cancelled first."""

    def cancel(self) -> None:
        """Withdraw the call; without effect once it was made."""


class Timer(Protocol):
    """Tells monotonic time and makes calls when they are due."""

    def now(self) -> float:
        """Return the seconds since some fixed instant."""

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        """Make a call once ``when <= now``, on a thread of the timer's choice."""


class _Alarm:
    __slots__ = ("_timer", "callback")

    def __init__(self, timer: _AlarmHeap, callback: Callable[[], object]) -> None:
        self._timer = timer
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self._timer.withdraw(self)


class _AlarmHeap:
    """Alarms by time, then by the order in which they were set; not thread-safe by itself."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._heap: list[tuple[float, int, _Alarm]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def __len__(self) -> int:
        return len(self._heap) - self._cancelled

    def push(self, when: float, callback: Callable[[], object]) -> _Alarm:
        alarm = _Alarm(self, callback)
        heapq.heappush(self._heap, (when, next(self._order), alarm))
        return alarm

    def withdraw(self, alarm: _Alarm) -> None:
        with self.lock:
            if alarm.callback is None:
                return
            alarm.callback = None
            self._cancelled += 1
            if self._cancelled > _TOLERATED and self._cancelled * 2 > len(self._heap):
                self._heap = [entry for entry in self._heap if entry[2].callback is not None]
                heapq.heapify(self._heap)
                self._cancelled = 0

    def next_at(self) -> float | None:
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now: float) -> Callable[[], object] | None:
        when = self.next_at()
        if when is None or when > now:
            return None
        alarm = heapq.heappop(self._heap)[2]
        callback, alarm.callback = alarm.callback, None
        return callback


class ThreadTimer:
    """Alarms of the machine's monotonic clock, all called by one daemon thread.

    The thread starts with the first alarm. A call that raises is logged and harms no other.
    """

    def __init__(self) -> None:
        self._alarms = _AlarmHeap()
        self._changed = threading.Condition(self._alarms.lock)
        self._thread: threading.Thread | None = None

        settle_in(self)

    def __len__(self) -> int:
        """Return how many alarms are set."""
        return len(self._alarms)

    def at_exit(self) -> None:
        """Lose nothing: the thread ends with the process."""

    def after_fork(self) -> None:
        """Let go of what threads of the parent may hold; the next alarm begins a thread here."""
        self._alarms.lock = threading.Lock()
        self._changed = threading.Condition(self._alarms.lock)
        self._thread = None

    def now(self) -> float:
        """Return the seconds of the monotonic clock."""
        return time.monotonic()

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        """Make a call on the timer's thread once ``when <= now``."""
        with self._changed:
            alarm = self._alarms.push(when, callback)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="timer", daemon=True)
                self._thread.start()
            elif self._alarms.next_at() == when:
                self._changed.notify()
        return alarm

    def _run(self) -> None:
        while True:
            callback = self._wait_for_due()
            try:
                callback()
            except BaseException:  # noqa: BLE001 - one caller's error, or exit, is no other's
                _log.exception("a timer call failed")

    def _wait_for_due(self) -> Callable[[], object]:
        with self._changed:
            while (callback := self._alarms.pop_due(self.now())) is None:
                when = self._alarms.next_at()
                pause = None if when is None else min(when - self.now(), threading.TIMEOUT_MAX)
                self._changed.wait(pause)
            return callback


class ManualTimer:
    """A timer that stands still until it is moved, for tests and simulations.

    Examples
    --------
    >>> timer = ManualTimer()
    >>> alarm = timer.call_at(10, lambda: print("due"))
    >>> timer.advance(9)
    >>> timer.advance(timedelta(seconds=1))
    due
    """

    def __init__(self) -> None:
        self._alarms = _AlarmHeap()
        self._now = 0.0

    def __len__(self) -> int:
        """Return how many alarms are set."""
        return len(self._alarms)

    def now(self) -> float:
        """Return the seconds by which the timer was moved so far."""
        return self._now

    def call_at(self, when: float, callback: Callable[[], object]) -> Alarm:
        """Make a call when the timer is moved to ``when``, on the thread that moves it."""
        with self._alarms.lock:
            return self._alarms.push(when, callback)

    def advance(self, by: float | timedelta) -> None:
        """Move the time forward and make the calls that are due, in the order of their times."""
        self._now += by.total_seconds() if isinstance(by, timedelta) else by
        while True:
            with self._alarms.lock:
                callback = self._alarms.pop_due(self._now)
            if callback is None:
                return
            callback()


#: The timer of every queue that is given none: one thread for the whole process.
SHARED_TIMER = ThreadTimer()


def seconds(name: str, timeout: object) -> float | None:
    """Return a timeout in seconds; ``None`` for one longer than locks can wait.

    Raises
    ------
    InvalidArgumentError
        When it is negative or no duration; the message names the argument.
    """
    if timeout is None:
        return None
    value = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise InvalidArgumentError(
            f"{name} is {shorten(timeout)}: it must be a duration of at least 0"
        )
    return None if value >= threading.TIMEOUT_MAX else value


def nothing_came(what: str, patience: float | None) -> queue.Empty:
    """Return the error of a wait in vain.

    Parameters
    ----------
    what : str
        The thing waited for, as in "item".
    patience : float or None
        How many seconds at most; 0 for a call that does not wait, ``None`` for a wait that only
        others could end.
    """
    if patience == 0:
        return queue.Empty(f"there is no {what} now, and the call does not wait")
    most = "" if patience is None else f", which was to take at most {patience:g} s"
    return queue.Empty(f"no {what} came before the end of the wait{most}")
