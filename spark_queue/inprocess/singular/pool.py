"""Thread pool for many queues: one item a turn, so that no queue holds a thread for long."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from typing_extensions import Self

from spark_queue.checks import require_count
from spark_queue.errors import DeadlockError, QueueShutDownError
from spark_queue.inprocess.singular.requests import Admission, Reply
from spark_queue.inprocess.singular.work import RequestWork
from spark_queue.waiting.processes import settle_in

T = TypeVar("T")
R = TypeVar("R")
P = TypeVar("P", bound="WorkerPool")

_log = logging.getLogger(__name__)


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
    >>> from spark_queue.inprocess.singular import SingularUpdateQueue
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
        """Leave it to the queues to say what is lost."""

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
        if self._work.line.closed:
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
