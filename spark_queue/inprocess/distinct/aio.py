"""A distinct queue in asyncio: its waits, without blocking the loop."""

from __future__ import annotations

import queue
from collections.abc import AsyncIterator
from typing import Generic, TypeVar

from spark_queue.errors import QueueShutDownError
from spark_queue.inprocess.distinct.state import DistinctState
from spark_queue.inprocess.distinct.take import AioTake, ReadyTake, aio_fill, prepare
from spark_queue.waiting.timer import Timeout

T = TypeVar("T")


class AioDistinctQueue(Generic[T]):
    """The coroutines' front of a :class:`DistinctQueue`: the same elements, the same line.

    What does not wait is called on the queue itself. A cancelled wait takes nothing: elements that
    were handed over at the last moment go back to their places.

    Examples
    --------
    >>> import asyncio
    >>> from spark_queue.inprocess.distinct import DistinctQueue
    >>> async def main():
    ...     queue = DistinctQueue()
    ...     queue.add_all("aba")
    ...     async with queue.aio.take(5) as items:
    ...         return items
    >>> asyncio.run(main())
    ['a', 'b']
    """

    def __init__(self, state: DistinctState[T]) -> None:
        self._state = state

    def take(self, max: int, timeout: Timeout = None) -> AioTake[T]:  # noqa: A002 - the word for it
        """Make the scope of a take as :meth:`DistinctQueue.take` does, for ``async with``."""
        return prepare(AioTake(), self._state, max, timeout)

    def batches(
        self,
        max: int,  # noqa: A002 - as in take()
        timeout: Timeout = None,
    ) -> AsyncIterator[ReadyTake[T]]:
        """Take again and again as :meth:`DistinctQueue.batches` does.

        Each turn of the ``async for`` enters its take by a plain ``with``, which does not wait.
        """
        prepare(ReadyTake(), self._state, max, timeout)
        return self._batches(max, timeout)

    async def _batches(
        self,
        max: int,  # noqa: A002 - as in take()
        timeout: Timeout,
    ) -> AsyncIterator[ReadyTake[T]]:
        while True:
            take: ReadyTake[T] = prepare(ReadyTake(), self._state, max, timeout)
            try:
                await aio_fill(take)
            except (queue.Empty, QueueShutDownError):
                return
            try:
                yield take
            finally:
                self._state.take_back(take)
