"""Detection of waits in a circle: a handler that would wait for itself is told so instead."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from spark_queue.errors import DeadlockError
from spark_queue.waiting.deadlock import leads_to

_CONTEXT: ContextVar[ExecutionContext | None] = ContextVar("spark_queue_context", default=None)


@dataclass(slots=True, eq=False)
class ExecutionContext:
    """Where the handler of one queue runs now, and which queue it waits for meanwhile."""

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
    over other queues whose handlers wait. A wait that nobody can see, such as one in a helper
    thread, is not found.
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
    """Tell whether a blocking wait needs a :class:`Wait`: a quick no for most threads."""
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
