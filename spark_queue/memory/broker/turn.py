"""A task's turn: what it gets to run with, and the future of what comes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from spark_queue.errors import AbortedError, DeadlockError
from spark_queue.memory.waiting.abort import AbortScope, AbortSignal
from spark_queue.memory.waiting.waiters import LazyFuture, call_each

R = TypeVar("R")

_TURN: ContextVar[Turn | None] = ContextVar("spark_queue_turn", default=None)


class TaskRunner(Protocol):
    """Runs tasks somewhere."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that runs them, if one does."""

    def launch(self, turn: Turn) -> None:
        """Have a task run soon; raises where that is impossible."""

    def is_blocked_here(self) -> bool:
        """Whether nothing can run there while the calling thread blocks."""


class TurnKeeper(Protocol):
    """Starts and ends turns, and knows their waits for each other; see :class:`Dispatcher`."""

    lock: threading.Lock

    def launch(self, turns: Iterable[Turn]) -> None:
        """Have turns run where they belong."""

    def finish(self, turn: Turn, result: object, error: BaseException | None) -> list[Turn]:
        """End a turn, and return the turns that may start now."""

    def release(self, turn: Turn) -> None:
        """Let others of its group go first."""

    def lose(self, turn: Turn, error: BaseException) -> None:
        """End a turn that could not run."""

    def withdraw(self, turn: Turn) -> bool:
        """Take back a turn that waits, and tell whether it did."""

    def tell_if_idle(self) -> None:
        """End the waits for idleness once nothing runs."""

    def begin_wait(self, mine: Turn, target: Turn) -> None:
        """Note that a turn waits for another."""


class TurnFuture(LazyFuture[R]):
    """The result of a task. A cancel withdraws a task that waits, and no other.

    Waiting for a task that could only start after the calling one has ended is a
    :class:`DeadlockError`.
    """

    #: Until the task has ended; it would keep the two alive for the garbage collector.
    turn: Turn | None = None
    watched = False

    def _wait(self, timeout: float | None) -> None:
        turn = self.turn
        with nullcontext() if turn is None else TurnWait(turn, blocks=True):
            super()._wait(timeout)

    def add_done_callback(self, fn: Callable[[Future[R]], object]) -> None:
        """Have a function called with the future once it is done."""
        self.watched = True
        super().add_done_callback(fn)

    def cancel(self) -> bool:
        """Withdraw the task, which frees its place; ``False`` when it was started or is done."""
        turn = self.turn
        if turn is not None and turn.dispatcher.withdraw(turn):
            call_each(
                [super().cancel, self.set_running_or_notify_cancel, turn.dispatcher.tell_if_idle]
            )
        return self.cancelled()


@dataclass(slots=True, eq=False, repr=False)
class Turn:
    """What a task is called with: how it hears of an abort, and how it lets others go first."""

    dispatcher: TurnKeeper
    runner: TaskRunner
    task: Callable[[Turn], Any]
    group: Hashable | None
    parent: AbortSignal | None
    future: TurnFuture[Any] = field(init=False)
    _scope: AbortScope | None = field(init=False, default=None)
    #: Ends the listening to the caller's signal.
    leave: Callable[[], object] | None = field(init=False, default=None)
    started: bool = field(init=False, default=False)
    released: bool = field(init=False, default=False)
    settled: bool = field(init=False, default=False)
    ended: bool = field(init=False, default=False)
    thread: int | None = field(init=False, default=None)
    aio_task: asyncio.Task[None] | None = field(init=False, default=None)
    waits_for: Turn | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.future = TurnFuture()
        self.future.turn = self

    @property
    def signal(self) -> AbortSignal:
        """Tells the task whether it should stop: its caller says so, or a forced stop."""
        return self.scope().signal

    def scope(self) -> AbortScope:
        """Return the scope that is aborted to stop the task; made when it is first asked for."""
        with self.dispatcher.lock:
            scope, is_new = self._scope or AbortScope(), self._scope is None
            self._scope = scope
        if is_new and self.parent is not None:
            self.leave = self.parent.listen(scope.abort)
        return scope

    def release(self) -> None:
        """Free the slot and the group before the task ends; again without effect.

        The rest of the task may run together with its successors, also of its group.
        """
        self.dispatcher.release(self)

    def enter(self, aio_task: asyncio.Task[None] | None = None) -> None:
        """Say that the task runs on this thread, in this asyncio task if it is given."""
        self.thread = threading.get_ident()
        self.aio_task = aio_task
        _TURN.set(self)

    def exit(self) -> None:
        """Say that the task has ended."""
        if _TURN.get() is self:
            _TURN.set(None)
        if self.leave is not None:
            self.leave()

    def on_task_done(self, _: asyncio.Task[None]) -> None:
        """End the turn of an asyncio task that ended early."""
        if not self.ended:
            self.dispatcher.lose(self, was_cancelled())

    def is_here(self) -> bool:
        """Whether the caller is the task itself, not something that it started."""
        if self.thread != threading.get_ident():
            return False
        return self.aio_task is None or _running_task() is self.aio_task


class TurnWait:
    """Waiting for a task; entering raises :class:`DeadlockError` where the wait cannot end."""

    __slots__ = ("_blocks", "_mine", "_target")

    def __init__(self, target: Turn, *, blocks: bool) -> None:
        self._target = target
        self._blocks = blocks
        self._mine: Turn | None = None

    def __enter__(self) -> None:
        if self._blocks and self._target.runner.is_blocked_here():
            raise DeadlockError("this wait blocks the event loop that is to run the task: await it")
        mine = current_turn()
        if mine is not None and mine.dispatcher is self._target.dispatcher:
            mine.dispatcher.begin_wait(mine, self._target)
            self._mine = mine

    def __exit__(self, *_: object) -> None:
        if self._mine is not None:
            self._mine.waits_for = None


def was_cancelled() -> AbortedError:
    """Make the error of a task whose asyncio task was cancelled."""
    return AbortedError("the asyncio task was cancelled")


def current_turn() -> Turn | None:
    """Return the turn of the task that calls; ``None`` outside of tasks."""
    turn = _TURN.get()
    return turn if turn is not None and turn.is_here() else None


def _running_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
