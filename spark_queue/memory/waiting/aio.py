"""Waiting without blocking an event loop: the one bridge from the threads' futures to asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import weakref
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Generic, TypeVar

#: Seconds after which a loop looks at a knell, which it never has to.
_NEVER = 10**9

_log = logging.getLogger(__name__)


class LoopEnd:
    """Calls for the end of an event loop, made on the thread that closes it.

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


#: By loop; the knell keeps each end alive, so that none outlives its loop.
_ENDS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, weakref.ref[LoopEnd]] = (
    weakref.WeakKeyDictionary()
)


def end_of(loop: asyncio.AbstractEventLoop) -> LoopEnd:
    """Return the calls for the end of a loop, on its thread."""
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


T = TypeVar("T")


async def outcome(future: Future[T]) -> T:
    """Wait for a future and return its result, or raise its error.

    A cancelled wait does not change the future: it stays the caller's.
    """
    if not future.done():
        await _wait_for(future)
    return future.result()


async def take_result(future: Future[T], withdraw: Callable[[Future[T]], object]) -> T:
    """Wait for a future of something that is given to one only, and return it.

    However the wait ends otherwise, by a cancel, by the end of the coroutine or by that of its
    loop, the future is withdrawn, once: what came at the last moment goes back.
    """
    if future.done():
        return future.result()
    calls = end_of(asyncio.get_running_loop()).calls
    calls[future] = withdraw
    try:
        await _wait_for(future)
        result = future.result()
    except BaseException:
        if calls.pop(future, None) is not None:
            withdraw(future)
        raise
    del calls[future]
    return result


async def resolve(value: Any) -> Any:
    """Return a value, or what comes of it where it is to be awaited."""
    return await value if inspect.isawaitable(value) else value


async def _wait_for(future: Future[Any]) -> None:
    loop = asyncio.get_running_loop()
    bell: asyncio.Future[None] = loop.create_future()

    def ring() -> None:
        if not bell.done():
            bell.set_result(None)

    def call_home(_: Future[Any]) -> None:
        # The loop may be closed by the time that a thread gets here; the wait has ended then.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ring)

    future.add_done_callback(call_home)
    await bell


class Awaitable(Generic[T]):
    """A future of the threads that a coroutine can await, once or often.

    Cancelling the coroutine that awaits it cancels the future, where that is still possible.

    Parameters
    ----------
    future : concurrent.futures.Future
        What to wait for.
    scope : callable
        Makes the scope of each wait; entering it raises when the wait could never end.
    """

    def __init__(
        self,
        future: Future[T],
        scope: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        self.future = future
        self._scope = scope

    def __await__(self) -> Generator[Any, None, T]:
        return self._wait().__await__()

    async def _wait(self) -> T:
        try:
            with self._scope():
                return await outcome(self.future)
        except (asyncio.CancelledError, GeneratorExit):
            self.future.cancel()
            raise

    def done(self) -> bool:
        """Whether there is a result, an error, or a cancel."""
        return self.future.done()

    def cancel(self) -> bool:
        """Cancel what has not begun; tell whether it is cancelled."""
        return self.future.cancel()
