"""Runners of tasks: on threads, or as tasks of an event loop."""

from __future__ import annotations

import asyncio
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from spark_queue.errors import AbortedError
from spark_queue.memory.broker.dispatcher import Dispatcher
from spark_queue.memory.broker.turn import Turn, was_cancelled
from spark_queue.memory.waiting.aio import end_of


class ThreadRunner:
    """Runs tasks on threads; a thread goes on with the next task at once.

    There are as many threads as tasks run at once, also those that were released early.
    """

    loop = None

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._threads = ThreadPoolExecutor(sys.maxsize, thread_name_prefix="queue-broker")

    def launch(self, turn: Turn) -> None:
        """Have a thread run a task."""
        self._threads.submit(self._work, turn)

    def is_blocked_here(self) -> bool:
        """Tell that a thread that blocks keeps no other from running."""
        return False

    def close(self) -> None:
        """Let the threads end when they have nothing to do."""
        self._threads.shutdown(wait=False)

    def _work(self, turn: Turn | None) -> None:
        while turn is not None:
            turn = self._keep_one(_run(turn))

    def _keep_one(self, started: list[Turn]) -> Turn | None:
        for index, turn in enumerate(started):
            if turn.runner is self:
                self._dispatcher.launch(started[:index] + started[index + 1 :])
                return turn
        self._dispatcher.launch(started)
        return None


class LoopRunner:
    """Runs coroutine functions as tasks of one event loop, the running one when it is made.

    A task that the loop will not end is ended all the same: one that is cancelled before its first
    step, and one that is left when the loop is closed.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, dispatcher: Dispatcher) -> None:
        self.loop = loop
        calls = end_of(loop).calls
        # A loop may live long, and brokers come and go: it must not keep them.
        broker = weakref.ref(dispatcher, lambda gone: calls.pop(gone, None))
        calls[broker] = partial(_close_all, loop)

    def launch(self, turn: Turn) -> None:
        """Have the loop run a task."""
        if _running_loop() is self.loop:
            self._spawn(turn)
        else:
            self.loop.call_soon_threadsafe(self._spawn, turn)

    def is_blocked_here(self) -> bool:
        """Whether the calling thread runs the loop."""
        return _running_loop() is self.loop

    def _spawn(self, turn: Turn) -> None:
        # The broker holds the turn while it runs, and so the task, which a loop would not.
        turn.aio_task = self.loop.create_task(_run_coroutine(turn))
        turn.aio_task.add_done_callback(turn.on_task_done)


def _run(turn: Turn) -> list[Turn]:
    turn.enter()
    try:
        result = turn.task(turn)
    except BaseException as error:  # noqa: BLE001 - it is the task's outcome
        return turn.dispatcher.finish(turn, None, error)
    return turn.dispatcher.finish(turn, result, None)


async def _run_coroutine(turn: Turn) -> None:
    turn.enter(turn.aio_task or asyncio.current_task())
    try:
        result = await turn.task(turn)
    except (asyncio.CancelledError, GeneratorExit):
        turn.dispatcher.launch(turn.dispatcher.finish(turn, None, was_cancelled()))
        raise
    except BaseException as error:  # noqa: BLE001 - it is the task's outcome
        started = turn.dispatcher.finish(turn, None, error)
    else:
        started = turn.dispatcher.finish(turn, result, None)
    turn.dispatcher.launch(started)


def _close_all(loop: asyncio.AbstractEventLoop, broker: weakref.ref[Dispatcher]) -> None:
    dispatcher = broker()
    if dispatcher is not None:
        for turn in dispatcher.running():
            if turn.runner.loop is loop:
                _close(turn)


def _close(turn: Turn) -> None:
    """End a task whose loop is closed. Its cleaning up runs first, and now: no loop ever would."""
    coroutine = None if turn.aio_task is None else turn.aio_task.get_coro()
    if coroutine is not None:
        coroutine.close()
    turn.dispatcher.lose(turn, AbortedError("the event loop was closed before the task had ended"))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
