"""Futures that are cheap to have many of, and to wait for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from concurrent.futures._base import (
    CANCELLED,
    CANCELLED_AND_NOTIFIED,
    FINISHED,
    PENDING,
    RUNNING,
)
from functools import partial
from typing import Any, TypeVar, cast


def call_each(calls: Iterable[Callable[[], object]]) -> None:
    """Make every call in turn, also when one of them raises; the first error is raised in the end.

    So a callback that ends its thread, by ``sys.exit`` or an interrupt, still does, and leaves
    nobody waiting who was to be told after it.
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
#: state; never for longer. A finalizer or a signal may settle a future meanwhile, hence the R.
_MAKING = threading.RLock()


class LazyFuture(Future[T]):
    """A :class:`concurrent.futures.Future` that gets its condition when somebody asks for it.

    A condition is a lock and ten more objects, 1.5 KB together, and most futures settle before
    anybody looks: a backlog of 100,000 of them costs as much time in the garbage collector as in
    its queue. Callbacks, cancels and the functions of :mod:`concurrent.futures` that wait for
    several futures ask for it, and from then on the methods are those of the standard library.
    Without one nobody listens, so there is nobody to tell but the bells: a plain lock for
    each thread that waits for the result.
    """

    _has_condition = False
    _bells: tuple[threading.Lock, ...] = ()

    def __init__(self) -> None:
        # What the base class sets, except for what is made by __getattr__.
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
        """Tell whether there is a result, an error, or a cancel."""
        return self._state not in (PENDING, RUNNING)

    def cancelled(self) -> bool:
        """Tell whether the future was cancelled."""
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)

    def running(self) -> bool:
        """Tell whether the work has begun and not ended."""
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
