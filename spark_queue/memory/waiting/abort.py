"""Asking work to stop: a scope that is aborted once, and the signal by which work hears of it."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from spark_queue.errors import AbortedError
from spark_queue.memory.waiting.aio import outcome
from spark_queue.memory.waiting.timer import Timeout, seconds
from spark_queue.memory.waiting.waiters import LazyFuture, call_each

AbortListener = Callable[[BaseException], object]

_log = logging.getLogger(__name__)


class _Switch:
    """Thrown once, with a reason; tells everybody who listens."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[int, AbortListener] = {}
        self._numbers = itertools.count()
        self.reason: BaseException | None = None

    def __len__(self) -> int:
        return len(self._listeners)

    def throw(self, reason: BaseException) -> bool:
        with self._lock:
            if self.reason is not None:
                return False
            self.reason = reason
            listeners = list(self._listeners.values())
            self._listeners.clear()
        call_each([partial(_tell, listener, reason) for listener in listeners])
        return True

    def listen(self, listener: AbortListener) -> Callable[[], object]:
        with self._lock:
            number = next(self._numbers)
            reason = self.reason
            if reason is None:
                self._listeners[number] = listener
        if reason is not None:
            _tell(listener, reason)
        return lambda: self._listeners.pop(number, None)


class AbortSignal:
    """Tells work whether it should stop, and why. Work looks at it, listens, or waits for it."""

    def __init__(self, switch: _Switch) -> None:
        self._switch = switch

    @property
    def aborted(self) -> bool:
        """Whether the work should stop."""
        return self._switch.reason is not None

    @property
    def reason(self) -> BaseException | None:
        """Why the work should stop: always an error, ``None`` while it should not."""
        return self._switch.reason

    @property
    def listener_count(self) -> int:
        """How many listen."""
        return len(self._switch)

    def raise_if_aborted(self) -> None:
        """Raise the reason, if there is one."""
        if self._switch.reason is not None:
            raise self._switch.reason

    def listen(self, listener: AbortListener) -> Callable[[], object]:
        """Have a function called with the reason, at once if it is there already.

        It is called on the thread that aborts, or on this one if that was before. An exception of
        it is logged; anything worse is raised there once all have been told.

        Returns
        -------
        callable
            Ends the listening.
        """
        return self._switch.listen(listener)

    def wait(self, timeout: Timeout = None) -> bool:
        """Block until the work should stop; ``False`` when the time is up before."""
        stop = threading.Event()
        leave = self.listen(lambda _: stop.set())
        try:
            return stop.wait(seconds("timeout", timeout))
        finally:
            leave()

    async def aio_wait(self) -> None:
        """Suspend until the work should stop."""
        stop: Future[None] = LazyFuture()
        leave = self.listen(lambda _: stop.set_result(None))
        try:
            await outcome(stop)
        finally:
            leave()


class AbortScope:
    """Something that can be aborted, alone or together with a parent.

    Parameters
    ----------
    parent : AbortSignal, optional
        Aborts this scope too, until it is disposed.

    Examples
    --------
    >>> outer = AbortScope()
    >>> inner = AbortScope(outer.signal)
    >>> outer.abort("enough")
    True
    >>> inner.signal.reason
    AbortedError('enough')
    """

    def __init__(self, parent: AbortSignal | None = None) -> None:
        self._switch = _Switch()
        self.signal = AbortSignal(self._switch)
        self._leave: Callable[[], object] = lambda: None
        if parent is not None:
            self._leave = parent.listen(self._switch.throw)

    def __enter__(self) -> AbortScope:  # noqa: PYI034 - Self is of 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.dispose()

    def abort(self, reason: BaseException | str | None = None) -> bool:
        """Ask for a stop; ``False`` when it was asked for before, whose reason then stays.

        Parameters
        ----------
        reason : error or str, optional
            An error is raised itself, a text as the message of an :class:`AbortedError`.
        """
        return self._switch.throw(_as_error(reason))

    def dispose(self) -> None:
        """Follow the parent no longer."""
        self._leave()


def _as_error(reason: BaseException | str | None) -> BaseException:
    if isinstance(reason, BaseException):
        return reason
    return AbortedError("the work was aborted" if reason is None else reason)


def _tell(listener: AbortListener, reason: BaseException) -> None:
    try:
        listener(reason)
    except Exception:  # noqa: BLE001 - one listener's error is no other's
        _log.exception("a listener to an abort failed")
