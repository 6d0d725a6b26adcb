"""Requests in the order of their arrival, and the producers that wait for a free slot."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures._base import RUNNING
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

from spark_queue.checks import limit_of, require_seq
from spark_queue.errors import (
    DeadlockError,
    InvalidArgumentError,
    QueueFullError,
    QueueShutDownError,
)
from spark_queue.memory.waiting.timer import Timer
from spark_queue.memory.waiting.waiters import (
    LazyFuture,
    LineFuture,
    WaiterLine,
    call_each,
    leads_to,
)
from spark_queue.wording import shorten

S = TypeVar("S")


class PendingCalls(Generic[S]):
    """What a handler must remember until the reply to an outgoing call comes.

    A handler must not wait for the outside: it would stop its queue. It stores what it needs under
    a correlation id, sends the id out, and returns; the receiver of the reply submits it to the
    same queue, whose handler ends the call. All of it happens in the handler, so there is no lock.

    Examples
    --------
    >>> calls = PendingCalls()
    >>> sent = calls.begin({"credit": 100})
    >>> calls.end(sent)
    {'credit': 100}
    >>> len(calls)
    0
    """

    def __init__(self) -> None:
        self._last = 0
        self._pending: dict[int, S] = {}

    def __len__(self) -> int:
        """Return how many calls are under way."""
        return len(self._pending)

    def begin(self, state: S) -> int:
        """Remember what a call is about, and return its correlation id."""
        self._last += 1
        self._pending[self._last] = state
        return self._last

    def end(self, correlation_id: int) -> S:
        """Forget a call, whether it went well or not, and return what it was about.

        Raises
        ------
        InvalidArgumentError
            When no such call is under way: it never was, or its reply came before.
        """
        require_seq("correlation_id", correlation_id)
        if correlation_id not in self._pending:
            raise InvalidArgumentError(
                f"no call with the id {shorten(correlation_id)} is under way"
            )
        return self._pending.pop(correlation_id)


_CONTEXT: ContextVar[ExecutionContext | None] = ContextVar("spark_queue_context", default=None)


@dataclass(slots=True, eq=False)
class ExecutionContext:
    """Where the handler of one queue runs now, and which queue it waits for."""

    name: str
    thread: int | None = None
    task: asyncio.Task[Any] | None = None
    waits_for: ExecutionContext | None = None

    def enter(self, task: asyncio.Task[Any] | None = None) -> None:
        """Say that the handler runs on this thread, in this task if it is given."""
        self.thread = threading.get_ident()
        self.task = task
        _CONTEXT.set(self)

    def leave(self) -> None:
        """Say that the handler has left this thread; it may run on another by now."""
        if self.thread == threading.get_ident():
            self.thread = self.task = None
        if _CONTEXT.get() is self:
            _CONTEXT.set(None)


class Wait:
    """Waiting for another queue: blocking a thread, or suspending a task.

    Entering raises :class:`DeadlockError` when the wait could only end after itself: directly, or
    over other queues whose handlers wait. A hidden wait, such as one in a helper thread, is not
    found.
    """

    __slots__ = ("_blocks", "_mine", "_target")

    def __init__(self, target: ExecutionContext, *, blocks: bool) -> None:
        self._target = target
        self._blocks = blocks
        self._mine: ExecutionContext | None = None

    def __enter__(self) -> None:
        mine = self._mine = _CONTEXT.get() if self._blocks else context_of_task()
        if mine is not None:
            # Told before the check, so that of two who close a circle at once one sees the other.
            mine.waits_for = self._target
        if self._is_circle(mine):
            self.__exit__()
            raise DeadlockError(
                f"waiting for the queue {self._target.name!r} would never end: "
                "it waits for the handler that waits here; do not wait, or wait elsewhere"
            )

    def __exit__(self, *_: object) -> None:
        if self._mine is not None:
            self._mine.waits_for = None

    def _is_circle(self, mine: ExecutionContext | None) -> bool:
        if self._blocks and self._target.thread == threading.get_ident():
            return True
        return mine is not None and leads_to(mine, self._target, attrgetter("waits_for"))


def must_look(target: ExecutionContext) -> bool:
    """Whether a blocking wait needs a :class:`Wait`: a quick no for most threads."""
    return _CONTEXT.get() is not None or target.thread == threading.get_ident()


def require_elsewhere(target: ExecutionContext) -> None:
    """Refuse to wait for a handler in itself, or in what it waits for.

    Raises
    ------
    DeadlockError
        When a callback that the handler calls is about to wait for it.
    """
    if must_look(target):
        with Wait(target, blocks=True):
            pass


def context_of_task() -> ExecutionContext | None:
    """Return the context whose handler the running task is; a task that it started is another."""
    context = _CONTEXT.get()
    if context is None or context.task is None or context.thread != threading.get_ident():
        return None
    return context if context.task is asyncio.current_task() else None


T = TypeVar("T")
R = TypeVar("R")


class Reply(LazyFuture[R]):
    """The future of one request, which is skipped when it is cancelled before its turn.

    Waiting for it in the handler that would have to answer first is a :class:`DeadlockError`.
    """

    context: ExecutionContext

    def _wait(self, timeout: float | None) -> None:
        if not must_look(self.context):
            super()._wait(timeout)
            return
        with Wait(self.context, blocks=True):
            super()._wait(timeout)


class Promise(Reply[R]):
    """The future of a durable write; it cannot be cancelled.

    Waiting for it on the thread that would have to write it is a :class:`DeadlockError`.

    Parameters
    ----------
    context : ExecutionContext
        Where it is written.
    """

    def __init__(self, context: ExecutionContext) -> None:
        super().__init__()
        self._state = RUNNING
        self.context = context


class Admission(LineFuture[Reply[R]], Generic[T, R]):
    """A producer that waits for a slot. The slot comes with its request in it already."""

    def __init__(self, queued: deque[tuple[T, Reply[R]]], item: T, reply: Reply[R]) -> None:
        super().__init__()
        self.context = reply.context
        self._queued = queued
        self._request = (item, reply)

    def wait(self) -> Reply[R]:
        """Block until the request is queued; a wait that fails gives the place up.

        Raises
        ------
        DeadlockError
            When the caller is the handler that would have to free the slot.
        """
        try:
            with Wait(self.context, blocks=True):
                return self.result()
        finally:
            self.cancel()

    def deliver(self, _: object) -> bool:
        """Queue the request and let the producer go; ``False`` when it has gone before."""
        if not self.set_running_or_notify_cancel():
            return False
        self._queued.append(self._request)
        self.set_result(self._request[1])
        return True


class RequestLine(Generic[T, R]):
    """What waits to be handled. One worker takes; any number of producers enter.

    The worker is woken by ``wake``, once for each time that it found nothing to take.
    """

    def __init__(self, capacity: int | None, context: ExecutionContext, timer: Timer) -> None:
        self._capacity = limit_of("capacity", capacity)
        self._context = context
        self._timer = timer
        # The lock guards everything below. Who finds no free slot joins the line under it, and who
        # frees a slot gives it to that line under it, so that no slot is free while one waits.
        self._lock = threading.Lock()
        self._queued: deque[tuple[T, Reply[R]]] = deque()
        self._blocked: WaiterLine[Any] = WaiterLine(timer)
        self._worker_sleeps = False
        self._closed_because: str | None = None
        self.wake: Callable[[], object] = lambda: None

    def __len__(self) -> int:
        return len(self._queued)

    @property
    def blocked(self) -> int:
        """How many producers wait for a slot."""
        return len(self._blocked)

    @property
    def closed(self) -> bool:
        """Whether new requests are refused."""
        return self._closed_because is not None

    @property
    def is_over(self) -> bool:
        """Whether new requests are refused, and none is left: one may come before the refusal."""
        with self._lock:
            return self._closed_because is not None and not self._queued

    def enter(self, item: T, patience: float | None) -> Reply[R] | Admission[T, R]:
        """Queue a request, or join the line of producers when all slots are taken.

        Raises
        ------
        QueueFullError
            When all slots are taken and the patience is 0.
        QueueShutDownError
            When the line is closed.
        """
        reply: Reply[R] = Reply()
        reply.context = self._context
        with self._lock:
            if self._closed_because is not None:
                raise QueueShutDownError(self._closed_because)
            if len(self._queued) >= self._capacity:
                return self._line_up(item, reply, patience)
            self._queued.append((item, reply))
            wakes, self._worker_sleeps = self._worker_sleeps, False
        if wakes:
            self.wake()
        return reply

    def _line_up(self, item: T, reply: Reply[R], patience: float | None) -> Admission[T, R]:
        if patience == 0:
            raise QueueFullError(item, len(self._queued))
        admission = Admission(self._queued, item, reply)
        admission.join(self._blocked, lambda: self._refusal(item), patience)
        return admission

    def _refusal(self, item: T) -> Exception:
        if self._closed_because is not None:
            return QueueShutDownError(self._closed_because)
        return QueueFullError(item, len(self._queued))

    def take(self) -> tuple[T, Reply[R]] | None:
        """Take the oldest request and admit who waits for its slot; ``None`` puts to sleep."""
        with self._lock:
            if not self._queued:
                self._worker_sleeps = True
                return None
            request = self._queued.popleft()
            if self._blocked:
                self._blocked.trigger(None)
            return request

    def after_fork(self, closed_because: str | None) -> None:
        """Let go of what the threads of the parent hold; refuse new requests if there is a why."""
        self._lock = threading.Lock()
        self._blocked = WaiterLine(self._timer)
        if closed_because is not None:
            self._closed_because = closed_because
            self._queued = deque()
            self.wake = lambda: None

    def close(self, why: str, *, drain: bool) -> None:
        """Refuse new requests and waiting producers; fail queued requests unless drained."""
        with self._lock:
            if self._closed_because is None:
                self._closed_because = why
            rejected = [] if drain else list(self._queued)
            if not drain:
                self._queued.clear()
            wakes, self._worker_sleeps = self._worker_sleeps, False
        rejects = [partial(_reject, reply, why) for _, reply in rejected]
        call_each([self._blocked.evict_all, *rejects, *([self.wake] if wakes else [])])


def _reject(reply: Reply[Any], why: str) -> None:
    if reply.set_running_or_notify_cancel():
        reply.set_exception(QueueShutDownError(why))
