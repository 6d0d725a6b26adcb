"""Work of a queue on one request, by a thread of its own or by those of a pool."""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spark_queue.checks import require_count
from spark_queue.errors import DeadlockError, QueueShutDownError
from spark_queue.memory.singular.request_log import WriteAheadLog
from spark_queue.memory.singular.requests import Admission, ExecutionContext, Reply, RequestLine
from spark_queue.memory.waiting.processes import settle_in
from spark_queue.memory.waiting.timer import Timer
from spark_queue.memory.waiting.waiters import LazyFuture, call_each

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger(__name__)


class RequestWork(Generic[T, R]):
    """The requests of one queue, their handler, and where the results go."""

    def __init__(
        self,
        handler: Callable[[T], R],
        capacity: int | None,
        *,
        name: str,
        timer: Timer,
        then: RequestWork[R, Any] | None,
        log: WriteAheadLog[T] | None,
    ) -> None:
        self.handler = handler
        self.name = name
        self.then = then
        self.log = log
        self.context = ExecutionContext(name)
        self.line: RequestLine[T, R] = RequestLine(capacity, self.context, timer)
        #: Done when the worker has left and will not come back.
        self.ended: Future[None] = LazyFuture()
        self.started = False
        settle_in(self)

    def at_exit(self) -> None:
        """Say which requests are lost: the worker ends with the process, wherever it is."""
        if len(self.line):
            _log.warning(
                "queue %r ends with its process: %d accepted request(s) are not handled; "
                "call shutdown() before the end",
                self.name,
                len(self.line),
            )

    def after_fork(self) -> None:
        """Refuse requests once the queue was started: its worker, and its state, are the parent's.

        A future of before the fork gets no reply in the child.
        """
        why = f"queue {self.name!r} was started before this process was forked: make one here"
        self.line.after_fork(why if self.started else None)
        if self.started:
            self.ended = LazyFuture()
            self.ended.set_result(None)

    def handle(self, item: T) -> R:
        """Write a request to the log, if there is one, and call the handler."""
        if self.log is not None:
            self.log.append(item)
        return self.handler(item)

    def pass_on(self, result: R) -> Admission[R, Any] | None:
        """Submit a result to the next queue; an admission is what to wait for when it is full.

        Raises
        ------
        QueueShutDownError
            When the next queue is shut down.
        """
        if self.then is None:
            return None
        entered = self.then.line.enter(result, None)
        return entered if isinstance(entered, Admission) else None

    def fail(self, reply: Reply[R], error: BaseException) -> None:
        """Fail one request; an error that is no ordinary exception stops the queue as well."""
        if isinstance(error, Exception):
            reply.set_exception(error)
        else:
            call_each([partial(self.abort, error), partial(reply.set_exception, error)])

    def abort(self, error: BaseException) -> None:
        """Stop the queue for good and fail what it has not handled."""
        _log.critical("queue %r was stopped by %r", self.name, error)
        try:
            self.line.close(f"queue {self.name!r} was stopped by {error!r}", drain=False)
        except BaseException:  # noqa: BLE001 - one more callback that ends the worker, which ends
            _log.critical("a callback failed while queue %r was stopped", self.name, exc_info=True)

    def end(self) -> None:
        """Say that the worker has left; nothing that is queued is left unresolved."""
        try:
            self.line.close(f"queue {self.name!r} is shut down", drain=False)
        finally:
            self.context.leave()
            if not self.ended.done():
                self.ended.set_result(None)

    def replay(self) -> None:
        """Handle what the log holds; errors were answered when they were made, and are passed."""
        for item in self.log.replay() if self.log is not None else ():
            try:
                self.handler(item)
            except Exception:  # noqa: BLE001, PERF203 - it failed the same way the first time
                _log.debug("queue %r: a replayed request failed", self.name, exc_info=True)


class ThreadWorker(Generic[T, R]):
    """Handles the requests of one queue, one after another, on one daemon thread."""

    def __init__(self, work: RequestWork[T, R]) -> None:
        self._work = work
        self._bell = threading.Lock()
        self._bell.acquire()
        work.line.wake = self._ring
        self._thread = threading.Thread(target=self._run, name=work.name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._work.context.enter()
        try:
            while self._serve_next():
                pass
        except BaseException as error:  # noqa: BLE001 - a callback's; nobody may be left waiting
            self._work.abort(error)
        finally:
            self._work.end()

    def _serve_next(self) -> bool:
        request = self._work.line.take()
        if request is not None:
            self._answer(*request)
        elif self._work.line.is_over:
            return False
        else:
            self._sleep()
        return True

    def _ring(self) -> None:
        # It rings already where an interrupted sleep has not heard it.
        with contextlib.suppress(RuntimeError):
            self._bell.release()

    def _sleep(self) -> None:
        try:
            self._bell.acquire()
        except Exception:  # noqa: BLE001 - raised into the idle thread: no request is concerned
            _log.warning("queue %r was interrupted while idle", self._work.name, exc_info=True)

    def _answer(self, item: T, reply: Reply[R]) -> None:
        if not reply.set_running_or_notify_cancel():
            return
        try:
            result = self._work.handle(item)
            admission = self._work.pass_on(result)
            if admission is not None:
                admission.wait()
        except BaseException as error:  # noqa: BLE001 - it is the reply
            self._work.fail(reply, error)
        else:
            reply.set_result(result)


P = TypeVar("P", bound="WorkerPool")


#: Threads beyond this are a mistake.
_MOST_THREADS = 10_000


class WorkerPool:
    """Threads that singular update queues share.

    A queue with requests takes one turn, handles one of them, and joins the end of the line of
    queues again. A queue whose next one is full gives its thread back while it waits. A *handler*
    that waits holds its thread, so a pool needs more threads than there are handlers that wait
    for queues of the same pool.

    Parameters
    ----------
    threads : int
        How many handlers may run at once.

    Examples
    --------
    >>> from spark_queue.inprocess import SingularUpdateQueue
    >>> with WorkerPool(2) as pool:
    ...     double = SingularUpdateQueue(lambda x: 2 * x, pool=pool)
    ...     square = SingularUpdateQueue(lambda x: x * x, pool=pool)
    ...     double.start(), square.start()
    ...     double.submit(3).result(), square.submit(3).result()
    (None, None)
    (6, 9)
    """

    def __init__(self, threads: int) -> None:
        require_count("threads", threads, most=_MOST_THREADS)
        self._turns: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._works: set[RequestWork[Any, Any]] = set()
        self._open = True
        self._threads = [
            threading.Thread(target=self._run, name=f"queue-pool-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()
        settle_in(self)

    def at_exit(self) -> None:
        """Do nothing: each queue says itself what it loses."""

    def after_fork(self) -> None:
        """Take no queues any more: the threads are the parent's."""
        self._lock = threading.Lock()
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.shutdown(drain=kind is None)

    def schedule(self, turn: Callable[[], object]) -> None:
        """Let a thread take a turn; turns are taken in the order in which they are scheduled."""
        self._turns.put(turn)

    def attach(self, work: RequestWork[Any, Any]) -> None:
        """Take a queue in, until it has ended.

        Raises
        ------
        QueueShutDownError
            When the pool is shut down.
        """
        with self._lock:
            if not self._open:
                raise QueueShutDownError("the pool is shut down, or is that of a parent process")
            self._works.add(work)
        work.ended.add_done_callback(lambda _: self._works.discard(work))

    def shutdown(self, *, drain: bool = True) -> None:
        """Shut all queues of the pool down, wait for them, and end the threads.

        Raises
        ------
        DeadlockError
            When a handler on one of these threads calls it.
        """
        if threading.current_thread() in self._threads:
            raise DeadlockError("a handler cannot wait for the end of its own pool")
        with self._lock:
            self._open = False
            works = list(self._works)
        for work in works:
            work.line.close(f"queue {work.name!r} is shut down with its pool", drain=drain)
        for work in works:
            work.ended.result()
        for _ in self._threads:
            self._turns.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while (turn := self._turns.get()) is not None:
            try:
                turn()
            except BaseException:  # noqa: BLE001, PERF203 - one queue's callback ends no other's
                _log.exception("a callback of a queue of the pool failed")


class PoolWorker(Generic[T, R]):
    """Handles the requests of one queue on the threads of a pool, never two at once."""

    def __init__(self, work: RequestWork[T, R], pool: WorkerPool) -> None:
        self._work = work
        self._pool = pool
        pool.attach(work)
        work.line.wake = partial(pool.schedule, self._turn)
        pool.schedule(self._turn)

    def _turn(self) -> None:
        self._guard(self._serve_next)

    def _guard(self, step: Callable[[], bool]) -> None:
        """Run a step; ``False`` from it says that another one will be scheduled later."""
        self._work.context.enter()
        goes_on = True
        try:
            goes_on = step()
        except BaseException as error:  # noqa: BLE001 - a callback's; nobody may be left waiting
            self._work.abort(error)
        finally:
            self._work.context.leave()
            if goes_on:
                self._pool.schedule(self._turn)

    def _serve_next(self) -> bool:
        request = self._work.line.take()
        if request is not None:
            return self._answer(*request)
        if self._work.line.is_over:
            self._work.end()
        return False

    def _answer(self, item: T, reply: Reply[R]) -> bool:
        if not reply.set_running_or_notify_cancel():
            return True
        try:
            result = self._work.handle(item)
            admission = self._work.pass_on(result)
        except BaseException as error:  # noqa: BLE001 - it is the reply
            self._work.fail(reply, error)
            return True
        if admission is not None:
            self._park(admission, reply, result)
            return False
        reply.set_result(result)
        return True

    def _park(self, admission: Admission[R, Any], reply: Reply[R], result: R) -> None:
        # The callback runs where the next queue frees a slot, so it only schedules.
        step = partial(self._finish, admission, reply, result)
        turn = partial(self._guard, step)
        admission.add_done_callback(lambda _: self._pool.schedule(turn))

    def _finish(self, admission: Admission[R, Any], reply: Reply[R], result: R) -> bool:
        try:
            admission.result()
        except BaseException as error:  # noqa: BLE001 - it is the reply
            self._work.fail(reply, error)
        else:
            reply.set_result(result)
        return True
