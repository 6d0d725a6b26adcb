"""The queue broker: tasks of a group run one after another, and a limit holds for all."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future
from functools import partial
from types import FunctionType
from typing import Any, Literal, TypeVar, get_args, overload

from spark_queue import checks
from spark_queue.errors import DeadlockError, InvalidArgumentError
from spark_queue.memory.broker.dispatcher import Dispatcher
from spark_queue.memory.broker.runners import LoopRunner, ThreadRunner
from spark_queue.memory.broker.turn import TaskRunner, Turn, TurnFuture, TurnWait, current_turn
from spark_queue.memory.broker.turn_scheduler import TaskOrder, TaskScheduler
from spark_queue.memory.waiting.abort import AbortSignal
from spark_queue.memory.waiting.aio import Awaitable as AioResult, outcome
from spark_queue.memory.waiting.processes import settle_in
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer, seconds

R = TypeVar("R")

Mode = Literal["auto", "manual"]


class QueueBroker:
    """Runs tasks on threads, or coroutine functions on an event loop, so many at once.

    Whenever a slot is free, the earliest waiting task starts whose group is not active. Tasks of
    one group so run one at a time, in the order of their arrival, and a busy group holds up no
    other task. A task that is passed keeps its place. Its slot and its group are free again when
    it ends, whether it returns or raises; it is never run again.

    Parameters
    ----------
    max_active : int or None
        How many tasks run at once; ``None`` for no limit.
    max_waiting : int or None
        How many may wait; a task that can start at once never counts. ``None`` (default): no limit.
    max_idle : float, timedelta or None
        How long a task may wait to start: longer, and it is rejected and never runs. ``None``
        (default) for ever.
    order : {"arrival", "ungrouped_first", "least_congested"}
        Which of the tasks that may start comes first; see :class:`TaskScheduler`.
    mode : {"auto", "manual"}
        ``"manual"``: a slot and a group are freed by ``turn.release()`` only, not by the end of the
        task; one that never releases holds them for good.
    timer : Timer
        What the times are counted by. Default: one shared by the process.

    Raises
    ------
    InvalidArgumentError
        When a limit is out of its range, or an order or a mode unknown.

    Examples
    --------
    >>> with QueueBroker(max_active=4) as broker:
    ...     first = broker.enqueue(lambda turn: "a", group="g")
    ...     second = broker.enqueue(lambda turn: first.result() + "b", group="g")
    >>> second.result()
    'ab'
    """

    def __init__(
        self,
        max_active: int | None,
        max_waiting: int | None = None,
        max_idle: Timeout = None,
        *,
        order: TaskOrder = "arrival",
        mode: Mode = "auto",
        timer: Timer = SHARED_TIMER,
    ) -> None:
        checks.require_choice("mode", mode, get_args(Mode))
        patience = seconds("max_idle", max_idle)
        if patience == 0:
            raise InvalidArgumentError("max_idle is 0: no task could ever wait; use max_waiting=0")
        self._make_dispatcher = partial(
            _dispatcher,
            order,
            max_active=checks.limit_of("max_active", max_active),
            max_waiting=checks.limit_of("max_waiting", max_waiting, minimum=0),
            max_idle=patience,
            manual=mode == "manual",
            timer=timer,
        )
        self.after_fork()
        settle_in(self)

    def after_fork(self) -> None:
        """Begin afresh: the tasks of the parent, and their futures, are the parent's."""
        self._dispatcher = self._make_dispatcher()
        self._threads = ThreadRunner(self._dispatcher)
        #: Of the loop that was used last, most often the only one.
        self._loop: LoopRunner | None = None

    def at_exit(self) -> None:
        """Lose nothing: the interpreter waits for the threads, which run all tasks first."""

    def __enter__(self) -> QueueBroker:  # noqa: PYI034 - Self is of 3.11
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.wait_for_idle()
        self.stop()

    @property
    def aio(self) -> AioQueueBroker:
        """The same broker, for coroutines."""
        return AioQueueBroker(self)

    @property
    def active_count(self) -> int:
        """How many slots are taken."""
        return self._dispatcher.scheduler.active_count

    @property
    def waiting_count(self) -> int:
        """How many tasks wait to start."""
        return len(self._dispatcher.scheduler)

    @property
    def running_count(self) -> int:
        """How many tasks have started and not ended; more than the slots after early releases."""
        return self._dispatcher.running_count

    @overload
    def enqueue(
        self,
        task: Callable[[Turn], Coroutine[Any, Any, R]],
        group: Hashable | None = None,
        *,
        signal: AbortSignal | None = None,
    ) -> Future[R]: ...

    @overload
    def enqueue(
        self,
        task: Callable[[Turn], R],
        group: Hashable | None = None,
        *,
        signal: AbortSignal | None = None,
    ) -> Future[R]: ...

    def enqueue(
        self,
        task: Callable[[Turn], Any],
        group: Hashable | None = None,
        *,
        signal: AbortSignal | None = None,
    ) -> Future[Any]:
        """Run a task when its turn comes; never wait.

        Parameters
        ----------
        task : callable
            Called with its :class:`Turn`, on a thread; a coroutine function on the running loop.
        group : hashable or None
            Of one group one task runs at a time; ``None`` (default) is no group, ``""`` is one.
        signal : AbortSignal, optional
            When it is aborted, the future fails with its reason at once. A task that waits never
            runs; one that runs hears of it by ``turn.signal``, and holds its slot till it ends.

        Returns
        -------
        concurrent.futures.Future
            The result. Cancelling it withdraws a task that has not started.

        Raises
        ------
        QueueFullError
            When the task cannot start at once and too many wait.
        QueueShutDownError
            When the broker was stopped.
        InvalidArgumentError
            When the group cannot be hashed, or there is no loop to run a coroutine function on.
        BaseException
            The reason of a signal that is aborted already.
        """
        if signal is not None:
            checks.require_kind("signal", signal, AbortSignal)
        turn = Turn(self._dispatcher, self._runner(task), task, group, signal)
        self._dispatcher.admit(turn)
        return turn.future

    def _runner(self, task: Callable[..., Any]) -> TaskRunner:
        checks.require_callable("task", task)
        if not is_coroutine_function(task):
            return self._threads
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            why = "the task is a coroutine function and no event loop runs here"
            raise InvalidArgumentError(why) from error
        runner = self._loop
        if runner is None or runner.loop is not loop:
            self._loop = runner = LoopRunner(loop, self._dispatcher)
        return runner

    def wait_for_idle(self, timeout: Timeout = None) -> None:
        """Block until nothing runs and nothing waits.

        In manual mode a task that has ended may still hold its slot; that is not waited for.

        Raises
        ------
        TimeoutError
            When the time is up before.
        DeadlockError
            When a task of this broker calls it.
        """
        self.require_outside()
        self._dispatcher.idle(timeout).result()

    def stop(self, *, force: bool = False, deadline: Timeout = None) -> None:
        """Refuse new tasks, reject the waiting ones, and wait for the running ones.

        It may be called again, with ``force`` to stop waiting.

        Parameters
        ----------
        force : bool
            Tell the running tasks to stop, and return at once. They hear of it through
            ``turn.signal``; one that does not listen ends as it would have.
        deadline : float, timedelta or None
            Do so when they have not ended after this time. ``None`` (default): wait till they end.

        Raises
        ------
        DeadlockError
            When a task of this broker calls it and would wait for itself; nothing has changed.
        """
        checks.require_flag("force", force)
        patience = seconds("deadline", deadline)
        self.begin_stop(force=force)
        if force:
            return
        try:
            self._dispatcher.idle(patience).result()
        except TimeoutError:
            self.begin_stop(force=True)

    def begin_stop(self, *, force: bool) -> None:
        """Do what :meth:`stop` does, without waiting."""
        if not force:
            self.require_outside()
        self._dispatcher.close(force=force)
        self._dispatcher.idle().add_done_callback(lambda _: self._threads.close())

    def idle(self, timeout: Timeout = None) -> Future[None]:
        """Return a future that is done when nothing runs and nothing waits."""
        return self._dispatcher.idle(timeout)

    def require_outside(self) -> None:
        """Raise :class:`DeadlockError` when a task of this broker calls."""
        turn = current_turn()
        if turn is not None and turn.dispatcher is self._dispatcher:
            raise DeadlockError("a task cannot wait for the end of all tasks, its own included")


class AioQueueBroker:
    """The coroutines' front of a :class:`QueueBroker`: the same tasks, the same slots.

    Examples
    --------
    >>> async def main():
    ...     async def task(turn):
    ...         return "done"
    ...     return await QueueBroker(max_active=2).aio.enqueue(task, group="g")
    >>> asyncio.run(main())
    'done'
    """

    def __init__(self, broker: QueueBroker) -> None:
        self._broker = broker

    @overload
    def enqueue(
        self,
        task: Callable[[Turn], Coroutine[Any, Any, R]],
        group: Hashable | None = None,
        *,
        signal: AbortSignal | None = None,
    ) -> AioResult[R]: ...

    @overload
    def enqueue(
        self,
        task: Callable[[Turn], R],
        group: Hashable | None = None,
        *,
        signal: AbortSignal | None = None,
    ) -> AioResult[R]: ...

    def enqueue(
        self,
        task: Callable[[Turn], Any],
        group: Hashable | None = None,
        *,
        signal: AbortSignal | None = None,
    ) -> AioResult[Any]:
        """Run a task as :meth:`QueueBroker.enqueue` does, at once, and return what to await.

        Cancelling the coroutine that awaits it withdraws a task that has not started.
        """
        return self.awaitable(self._broker.enqueue(task, group, signal=signal))

    def awaitable(self, future: Future[Any]) -> AioResult[Any]:
        """Make what :meth:`QueueBroker.enqueue` returned awaitable."""
        turn = future.turn if isinstance(future, TurnFuture) else None
        if turn is None:
            return AioResult(future)
        return AioResult(future, partial(TurnWait, turn, blocks=False))

    async def wait_for_idle(self, timeout: Timeout = None) -> None:
        """Wait as :meth:`QueueBroker.wait_for_idle` does, without blocking the loop."""
        self._broker.require_outside()
        await outcome(self._broker.idle(timeout))

    async def stop(self, *, force: bool = False, deadline: Timeout = None) -> None:
        """Stop as :meth:`QueueBroker.stop` does, without blocking the loop."""
        patience = seconds("deadline", deadline)
        self._broker.begin_stop(force=force)
        if force:
            return
        try:
            await outcome(self._broker.idle(patience))
        except TimeoutError:
            self._broker.begin_stop(force=True)


def _dispatcher(order: TaskOrder, **options: Any) -> Dispatcher:
    return Dispatcher(TaskScheduler(order), **options)


def is_coroutine_function(task: Callable[..., Any]) -> bool:
    """Whether calling something gives a coroutine: a function, a partial, an object."""
    if type(task) is FunctionType and not task.__dict__:
        # What most tasks are, answered without the long way round.
        return bool(task.__code__.co_flags & inspect.CO_COROUTINE)
    if isinstance(task, partial):
        return is_coroutine_function(task.func)
    return inspect.iscoroutinefunction(task) or inspect.iscoroutinefunction(type(task).__call__)
