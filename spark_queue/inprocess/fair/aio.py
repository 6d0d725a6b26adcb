"""A fair queue in asyncio: its waits, without blocking the loop."""

from __future__ import annotations

from typing import Generic, TypeVar

from spark_queue.inprocess.fair.state import NOTHING, FairState
from spark_queue.waiting.tickets import TaskTicket
from spark_queue.waiting.timer import Timeout, seconds

T = TypeVar("T")


class AioFairQueue(Generic[T]):
    """The coroutines' front of a :class:`FairQueue`: the same items, the same lines.

    What does not wait is called on the queue itself. A wait that is cancelled changes nothing: an
    item that was handed over at the last moment goes back to its place, and so does a slot.

    Examples
    --------
    >>> import asyncio
    >>> from spark_queue.inprocess.fair import FairQueue
    >>> async def main():
    ...     queue = FairQueue(key=str.lower, limit=2)
    ...     taker = asyncio.create_task(queue.aio.get())
    ...     await queue.aio.put("a")
    ...     return await taker
    >>> asyncio.run(main())
    'a'
    """

    def __init__(self, state: FairState[T]) -> None:
        self._state = state

    async def put(self, item: T, timeout: Timeout = None) -> AioFairQueue[T]:
        """Add an item as :meth:`FairQueue.put` does, and return this front."""
        patience = seconds("timeout", timeout)
        if not self._state.offer(item):
            ticket = TaskTicket(self._state.producers, item)
            with ticket:
                self._state.ask_slot(ticket, patience)
                await ticket.wait()
                self._state.fill_slot(ticket)
        return self

    async def get(self, timeout: Timeout = None) -> T:
        """Take the next item as :meth:`FairQueue.get` does."""
        patience = seconds("timeout", timeout)
        item = self._state.poll()
        return await self._wait_to_get(patience) if item is NOTHING else item

    async def _wait_to_get(self, patience: float | None) -> T:
        ticket = TaskTicket(self._state.takers)
        with ticket:
            item = self._state.ask_item(ticket, patience)
            return (await ticket.wait())[2] if item is NOTHING else item

    async def join(self) -> None:
        """Wait as :meth:`FairQueue.join` does."""
        ticket = TaskTicket(self._state.joiners)
        with ticket:
            self._state.ask_idle(ticket)
            await ticket.wait()
