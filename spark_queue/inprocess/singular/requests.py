"""Requests in the order of their arrival, and the producers that wait for a free slot."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures._base import RUNNING
from functools import partial
from typing import Any, Generic, TypeVar

from spark_queue.errors import QueueFullError, QueueShutDownError
from spark_queue.inprocess.singular.waits import ExecutionContext, Wait, must_look
from spark_queue.waiting.callbacks import call_each
from spark_queue.waiting.futures import LazyFuture
from spark_queue.waiting.size_limits import limit_of
from spark_queue.waiting.timer import Timer
from spark_queue.waiting.waiters import LineFuture, WaiterLine

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
    """The future of what is on its way to be durable, with others; it cannot be cancelled.

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
        """Refuse new requests and waiting producers; fail what is queued unless it is drained."""
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
