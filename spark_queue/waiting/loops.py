"""The end of event loops: a loop that is closed tells nobody, and what it was to run never runs."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable
from typing import Any

#: Seconds after which a loop looks at a knell, which it never has to.
_NEVER = 10**9

_log = logging.getLogger(__name__)


class LoopEnd:
    """What is called when one event loop is closed, on the thread that closes it.

    Attributes
    ----------
    calls : dict
        The calls, each under what it is about and is called with. A thread that takes one out makes
        it, or knows that it is needed no more; so none is made twice.
    """

    __slots__ = ("__weakref__", "calls")

    def __init__(self) -> None:
        self.calls: dict[Any, Callable[[Any], object]] = {}

    def ring(self) -> None:
        """Make all calls."""
        for subject in list(self.calls):
            call = self.calls.pop(subject, None)
            if call is not None:
                _make(call, subject)


class _Knell:
    """Lies in the timetable of a loop, and nowhere else: it goes when that is cleared."""

    __slots__ = ("_end", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, end: LoopEnd) -> None:
        self._loop = weakref.ref(loop)
        self._end = end

    def __call__(self) -> None:
        # A loop whose time is moved by hand may get here; then it lies down again.
        loop = self._loop()
        if loop is not None:
            loop.call_later(_NEVER, self)

    def __del__(self) -> None:
        # A loop that is garbage takes with it what waits on it, and garbage must take no locks.
        loop = self._loop()
        if loop is not None and loop.is_closed():
            self._end.ring()


#: By loop; the knell keeps what is found here, so that nothing of it outlives the loop.
_ENDS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[LoopEnd]] = (
    weakref.WeakKeyDictionary()
)


def end_of(loop: asyncio.AbstractEventLoop) -> LoopEnd:
    """Return what is called when a loop is closed. Called on the thread that runs it."""
    known = _ENDS.get(loop)
    end = None if known is None else known()
    if end is None:
        end = LoopEnd()
        loop.call_later(_NEVER, _Knell(loop, end))
        _ENDS[loop] = weakref.ref(end)
    return end


def _make(call: Callable[[Any], object], subject: Any) -> None:
    try:
        call(subject)
    except BaseException:  # noqa: BLE001 - one's error is no other's, and a finalizer raises none
        _log.exception("a call at the end of an event loop failed")
