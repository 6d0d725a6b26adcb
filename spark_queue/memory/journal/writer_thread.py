"""Writer thread of a journaled queue, which runs its calls in order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from spark_queue.errors import QueueShutDownError
from spark_queue.memory.singular.requests import ExecutionContext, Reply, require_elsewhere
from spark_queue.memory.singular.singular_queue import SingularUpdateQueue

R = TypeVar("R")


class WriterThread:
    """Runs calls in order, on a thread of its own.

    Parameters
    ----------
    name : str
        What the thread and messages call it.
    last_words : callable
        Called on the thread with what kills it: an error that is no ordinary exception.
    """

    def __init__(self, name: str, last_words: Callable[[BaseException], object]) -> None:
        self._last_words = last_words
        self._calls: SingularUpdateQueue[Callable[[], Any], Any] = SingularUpdateQueue(
            self._make, capacity=None, name=name
        )
        self.context: ExecutionContext = self._calls.work.context
        self._calls.start()

    def _make(self, call: Callable[[], R]) -> R:
        try:
            return call()
        except Exception:
            raise
        except BaseException as error:
            self._last_words(error)
            raise

    def run(self, call: Callable[[], R]) -> Reply[R]:
        """Have a call made, and return the future of its result.

        Raises
        ------
        QueueShutDownError
            When the thread has gone.
        """
        return cast("Reply[R]", self._calls.submit_nowait(call))

    def tell(self, call: Callable[[], object]) -> None:
        """Make a call without a reply, if the thread still exists."""
        with suppress(QueueShutDownError):
            self._calls.submit_nowait(call)

    def require_elsewhere(self) -> None:
        """Refuse to wait for this thread on itself.

        Raises
        ------
        DeadlockError
            When a callback of a future, which this thread runs, is about to wait for it.
        """
        require_elsewhere(self.context)

    def leave(self) -> None:
        """Make the calls that were asked for, take no more, and end the thread after them."""
        self._calls.shutdown(drain=True, wait=False)
