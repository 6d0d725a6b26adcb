"""A singular update queue in asyncio: waiting without blocking the loop, and a worker on it."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.singular.requests import Admission, Reply, Wait
from spark_queue.memory.singular.work import RequestWork
from spark_queue.memory.waiting.aio import end_of, outcome, resolve
from spark_queue.memory.waiting.timer import Timeout, seconds

T = TypeVar("T")
R = TypeVar("R")


class AioSingularUpdateQueue(Generic[T, R]):
    """The coroutines' front of a :class:`SingularUpdateQueue`: the same requests, the same line.

    Examples
    --------
    >>> import asyncio
    >>> from spark_queue.inprocess import SingularUpdateQueue
    >>> async def double(x):
    ...     return 2 * x
    >>> async def main():
    ...     async with SingularUpdateQueue(double).aio as queue:
    ...         return await queue.submit(21)
    >>> asyncio.run(main())
    42
    """

    def __init__(
        self,
        work: RequestWork[T, R],
        begin: Callable[[], None],
        shutdown: Callable[..., None],
    ) -> None:
        self._work, self._begin, self._shutdown = work, begin, shutdown

    async def __aenter__(self) -> AioSingularUpdateQueue[T, R]:
        await self.start()
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        await self.shutdown(drain=kind is None)

    async def start(self) -> None:
        """Start a worker on the running loop; the handler may be a coroutine function.

        Raises
        ------
        QueueShutDownError, SparkQueueError
            When the queue was shut down, or started before.
        """
        self._begin()
        calls = end_of(asyncio.get_running_loop()).calls
        calls[self._work] = RequestWork.end
        try:
            await _replay(self._work)
            TaskWorker(self._work, calls)
        except BaseException:
            calls.pop(self._work, None)
            self._work.end()
            raise

    async def submit(self, item: T, timeout: Timeout = None) -> R:
        """Wait for a free slot, and then for the reply.

        Parameters
        ----------
        item : object
            The request.
        timeout : float, timedelta or None
            How long to wait for a slot at most; ``None`` (default) for ever.

        Raises
        ------
        QueueFullError
            When no slot came free in time.
        QueueShutDownError
            When the queue is shut down, or is before the request is handled.
        DeadlockError
            When the handler of the queue itself waits here.
        """
        entered = self._work.line.enter(item, seconds("timeout", timeout))
        try:
            with Wait(self._work.context, blocks=False):
                reply = entered if isinstance(entered, Reply) else await outcome(entered)
                return await outcome(reply)
        except BaseException:
            # The caller is gone: a request that has not begun is not begun.
            entered.cancel()
            raise

    async def shutdown(self, *, drain: bool = True) -> None:
        """Shut the queue down as :meth:`SingularUpdateQueue.shutdown` does, and wait for it."""
        context = self._work.context
        is_handler = context.task is not None and context.task is asyncio.current_task()
        self._shutdown(drain=drain, wait=False)
        if not is_handler:
            await outcome(self._work.ended)


class TaskWorker(Generic[T, R]):
    """Handles the requests of one queue, one after another, in one task of the running loop.

    However that task ends, by a cancel before its first step or with its loop, no caller is
    left waiting.
    """

    def __init__(
        self, work: RequestWork[T, R], when_closed: dict[Any, Callable[[Any], object]]
    ) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self._bell = asyncio.Event()
        work.line.wake = self._wake
        self._task = self._loop.create_task(self._run(), name=work.name)
        self._when_closed = when_closed
        when_closed[work] = self._close
        self._task.add_done_callback(self._leave)

    def _wake(self) -> None:
        # A loop that is closed just now ends the queue itself.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._bell.set)

    def _leave(self, _: asyncio.Task[None]) -> None:
        self._when_closed.pop(self._work, None)
        if not self._work.ended.done():
            self._work.abort(asyncio.CancelledError())
            self._work.end()

    def _close(self, work: RequestWork[T, R]) -> None:
        """End the queue with its loop. What the handler cleans up, it cleans up first, and now."""
        coroutine = self._task.get_coro()
        if coroutine is not None:
            coroutine.close()
        work.end()

    async def _run(self) -> None:
        self._work.context.enter(asyncio.current_task())
        try:
            while await self._serve_next():
                pass
        except BaseException as error:
            self._work.abort(error)
            raise
        finally:
            self._work.end()

    async def _serve_next(self) -> bool:
        request = self._work.line.take()
        if request is not None:
            await self._answer(*request)
            # Others on the loop have a turn, also when no handler ever suspends.
            await asyncio.sleep(0)
        elif self._work.line.is_over:
            return False
        else:
            await self._bell.wait()
            self._bell.clear()
        return True

    async def _answer(self, item: T, reply: Reply[R]) -> None:
        if not reply.set_running_or_notify_cancel():
            return
        try:
            result = await resolve(self._work.handle(item))
            admission = self._work.pass_on(result)
            if admission is not None:
                await _admit(admission)
        except BaseException as error:
            if not self._is_cancelled(error):
                self._work.fail(reply, error)
                return
            # The worker itself is cancelled, as a closing loop does; the reply must not seem so.
            self._work.abort(error)
            why = f"queue {self._work.name!r} was cancelled, or its event loop closed"
            reply.set_exception(QueueShutDownError(why))
            raise
        reply.set_result(result)

    def _is_cancelled(self, error: BaseException) -> bool:
        return isinstance(error, asyncio.CancelledError) or self._loop.is_closed()


async def _replay(work: RequestWork[Any, Any]) -> None:
    if not inspect.iscoroutinefunction(work.handler):
        work.replay()
        return
    for item in work.log.replay() if work.log is not None else ():
        await asyncio.gather(work.handler(item), return_exceptions=True)


async def _admit(admission: Admission[Any, Any]) -> None:
    try:
        with Wait(admission.context, blocks=False):
            await outcome(admission)
    finally:
        admission.cancel()
