"""The singular update queue: one thread applies all updates of a state, in their order."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from spark_queue import checks
from spark_queue.errors import (
    InvalidArgumentError,
    QueueShutDownError,
    SparkQueueError,
)
from spark_queue.memory.singular.aio_singular import AioSingularUpdateQueue
from spark_queue.memory.singular.request_log import WriteAheadLog
from spark_queue.memory.singular.requests import Reply, Wait, context_of_task
from spark_queue.memory.singular.work import PoolWorker, RequestWork, ThreadWorker, WorkerPool
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer, seconds

T = TypeVar("T")
R = TypeVar("R")


class SingularUpdateQueue(Generic[T, R]):
    """Requests from many threads, handled one at a time, in order, each with a reply.

    The handler owns its state: nothing else touches it, so it needs no lock. Requests wait in a
    bounded queue, which slows producers down instead of growing.

    An exception of the handler is the reply, and the next request is served. Anything worse
    (``SystemExit``, ``KeyboardInterrupt``) is the reply too, and stops the queue: all other
    requests fail. Every future resolves. Callbacks follow :mod:`concurrent.futures`: one
    that is added in time runs on the worker, and a slow one holds the queue up.

    Parameters
    ----------
    handler : callable
        Called with a request, returns the reply. A coroutine function needs ``aio.start()``.
    capacity : int or None
        How many requests may wait; ``None`` for no limit. Default 100.
    then : SingularUpdateQueue, optional
        Gets each result as a request, before the future is done. When it is full, this queue waits
        for it, and so do its producers.
    pool : WorkerPool, optional
        Threads to share with other queues. Default: a thread of its own.
    log : WriteAheadLog, optional
        Each request is written to it before it is handled. Starting first handles what it holds:
        without replies, and without feeding ``then``. The log stays the caller's, to close.
    name : str
        What threads and messages call the queue.
    timer : Timer
        What the timeouts are counted by. Default: one shared by the process.

    Raises
    ------
    InvalidArgumentError
        When the capacity is below 1, or a coroutine function is given a pool.

    Examples
    --------
    A bank account whose balance only one thread ever changes:

    >>> balance = 0
    >>> def move(amount):
    ...     global balance
    ...     if balance + amount < 0:
    ...         raise ValueError("Not enough balance")
    ...     balance += amount
    ...     return balance
    >>> with SingularUpdateQueue(move) as account:
    ...     replies = [account.submit(amount) for amount in (100, -30, -80, 10)]
    >>> [reply.exception() or reply.result() for reply in replies]
    [100, 70, ValueError('Not enough balance'), 80]

    A log that replies when a record is on disk:

    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> with WriteAheadLog(pathlib.Path(folder.name, "log")) as log:
    ...     with SingularUpdateQueue(log.append) as writer:
    ...         writer.submit("first").result()
    ...         writer.submit("second").result()
    ...     list(log.replay())
    ['first', 'second']
    >>> folder.cleanup()
    """

    def __init__(
        self,
        handler: Callable[[T], R],
        capacity: int | None = 100,
        *,
        then: SingularUpdateQueue[R, Any] | None = None,
        pool: WorkerPool | None = None,
        log: WriteAheadLog[T] | None = None,
        name: str = "singular update queue",
        timer: Timer = SHARED_TIMER,
    ) -> None:
        if pool is not None and inspect.iscoroutinefunction(handler):
            raise InvalidArgumentError("a pool runs functions: give a coroutine function no pool")
        checks.optional(checks.require_kind, "then", then, kind=SingularUpdateQueue)
        checks.optional(checks.require_kind, "pool", pool, kind=WorkerPool)
        checks.optional(checks.require_kind, "log", log, kind=WriteAheadLog)
        checks.require_callable("handler", handler)
        next_work = None if then is None else then.work
        self.work: RequestWork[T, R] = RequestWork(
            handler, capacity, name=name, timer=timer, then=next_work, log=log
        )
        self._pool = pool
        # Guards the one step from not started to started, or to shut down.
        self._lock = threading.Lock()
        self._started = False

    def __enter__(self) -> SingularUpdateQueue[T, R]:
        self.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.shutdown(drain=kind is None)

    def __repr__(self) -> str:
        return (
            f"<SingularUpdateQueue {self.work.name!r} running={self.is_running} "
            f"tasks={self.task_count} blocked={self.work.line.blocked}>"
        )

    @property
    def aio(self) -> AioSingularUpdateQueue[Any, Any]:
        """The same queue, for coroutines."""
        return AioSingularUpdateQueue(self.work, self.begin, self.shutdown)

    @property
    def task_count(self) -> int:
        """How many requests wait for the handler."""
        return len(self.work.line)

    @property
    def is_running(self) -> bool:
        """Whether the worker was started and has not ended."""
        return self._started and not self.work.ended.done()

    def start(self) -> None:
        """Replay the log, if there is one, and start the worker. Once only.

        Raises
        ------
        QueueShutDownError
            When the queue was shut down.
        SparkQueueError
            When it was started before.
        InvalidArgumentError
            When the handler is a coroutine function, which a thread cannot run.
        """
        if inspect.iscoroutinefunction(self.work.handler):
            raise InvalidArgumentError("the handler is a coroutine function: await aio.start()")
        self.begin()
        try:
            self.work.replay()
            self._set_to_work()
        except BaseException:
            self.work.end()
            raise

    def begin(self) -> None:
        """Take the one step from not started to started; see :meth:`start`."""
        with self._lock:
            if self.work.line.closed:
                raise QueueShutDownError(f"queue {self.work.name!r} is shut down")
            if self._started:
                raise SparkQueueError(f"queue {self.work.name!r} was started before")
            self._started = self.work.started = True

    def _set_to_work(self) -> None:
        if self._pool is None:
            ThreadWorker(self.work)
        else:
            PoolWorker(self.work, self._pool)

    def submit(self, item: T, timeout: Timeout = None) -> Future[R]:
        """Queue a request, and wait for a free slot where there is none.

        Requests are accepted before the start as well.

        Parameters
        ----------
        item : object
            The request.
        timeout : float, timedelta or None
            How long to wait at most; ``None`` (default) for ever.

        Returns
        -------
        concurrent.futures.Future
            The reply. A request that is cancelled before its turn is skipped.

        Raises
        ------
        QueueFullError
            When no slot came free in time.
        QueueShutDownError
            When the queue is shut down, before or while this waits.
        DeadlockError
            When all slots are taken and the queue's own handler waits here.
        """
        patience = None if timeout is None else seconds("timeout", timeout)
        entered = self.work.line.enter(item, patience)
        return entered if isinstance(entered, Reply) else entered.wait()

    def submit_nowait(self, item: T) -> Future[R]:
        """Queue a request if there is a free slot.

        Raises
        ------
        QueueFullError
            When there is none.
        QueueShutDownError
            When the queue is shut down.
        """
        return self.submit(item, timeout=0)

    def shutdown(self, *, drain: bool = True, wait: bool = True) -> None:
        """Refuse new requests, resolve all others, and end the worker.

        Producers that wait for a slot get an error at once. It may be called again, with
        ``drain=False`` to give a drain up. Called by the queue's own handler it does not wait.

        Parameters
        ----------
        drain : bool
            Whether queued requests are handled (default), or fail. A queue that was never started
            handles them too, unless its handler is a coroutine function.
        wait : bool
            Whether to return when the worker has ended (default) or at once.

        Raises
        ------
        DeadlockError
            When the wait would never end, as on the event loop that the worker runs on: await
            ``aio.shutdown()`` there.
        """
        checks.require_flag("drain", drain)
        checks.require_flag("wait", wait)
        self._close(drain=drain)
        if not wait or self.work.ended.done() or self._is_handler():
            return
        with Wait(self.work.context, blocks=True):
            self.work.ended.result()

    def _close(self, *, drain: bool) -> None:
        with self._lock:
            was_started, self._started = self._started, True
        self.work.line.close(f"queue {self.work.name!r} is shut down", drain=drain)
        if was_started:
            return
        if not self.task_count or inspect.iscoroutinefunction(self.work.handler):
            self.work.end()
            return
        try:
            self._set_to_work()
        except QueueShutDownError:
            self.work.end()

    def _is_handler(self) -> bool:
        context = self.work.context
        if context.task is not None:
            return context_of_task() is context
        return context.thread == threading.get_ident()
