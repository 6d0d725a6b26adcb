"""Where tasks run: on threads, or as tasks of an event loop."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

from spark_queue.core.abort import AbortedError
from spark_queue.core.broker.dispatcher import Dispatcher
from spark_queue.core.broker.turn import Turn


class ThreadRunner:
    """Runs tasks on threads. One that has ended its task goes on with the next at once.

    There are as many threads as tasks run at once, also those that were released early.
    """

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
    """Runs coroutine functions as tasks of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def launch(self, turn: Turn) -> None:
        """Have the loop run a task."""
        if _running_loop() is self._loop:
            self._spawn(turn)
        else:
            self._loop.call_soon_threadsafe(self._spawn, turn)

    def is_blocked_here(self) -> bool:
        """Tell whether the calling thread is the one that runs the loop."""
        return _running_loop() is self._loop

    def _spawn(self, turn: Turn) -> None:
        # The broker holds the turn while it runs, and so the task, which a loop would not.
        turn.aio_task = self._loop.create_task(_run_coroutine(turn))


def _run(turn: Turn) -> list[Turn]:
    turn.enter()
    try:
        result = turn.task(turn)
    except BaseException as error:  # noqa: BLE001 - it is the task's outcome
        return turn.dispatcher.finish(turn, None, error)
    return turn.dispatcher.finish(turn, result, None)


async def _run_coroutine(turn: Turn) -> None:
    turn.enter(asyncio.current_task())
    try:
        result = await turn.task(turn)
    except asyncio.CancelledError:
        cancelled = AbortedError("the asyncio task was cancelled")
        turn.dispatcher.launch(turn.dispatcher.finish(turn, None, cancelled))
        raise
    except BaseException as error:  # noqa: BLE001 - it is the task's outcome
        started = turn.dispatcher.finish(turn, None, error)
    else:
        started = turn.dispatcher.finish(turn, result, None)
    turn.dispatcher.launch(started)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
