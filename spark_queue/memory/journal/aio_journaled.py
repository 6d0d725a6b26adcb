"""Coroutines' front of a journaled queue."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from spark_queue.checks import require_iterable
from spark_queue.durability import Durability
from spark_queue.errors import QueueFullError
from spark_queue.memory.journal.core import JournaledCore
from spark_queue.memory.journal.group_commit import Receipt
from spark_queue.memory.journal.journal_options import ReaderHooks
from spark_queue.memory.journal.journal_reader import JournalReader
from spark_queue.memory.journal.puts import Offer, Puts
from spark_queue.memory.journal.reader_registry import ReaderStart
from spark_queue.memory.waiting.aio import outcome
from spark_queue.memory.waiting.tickets import TaskTicket
from spark_queue.memory.waiting.timer import Timeout, seconds
from spark_queue.reader_config import ReaderConfig

T = TypeVar("T")


class AioJournaledQueue(Generic[T]):
    """The coroutines' front of a :class:`JournaledQueue`: the same items, the same readers.

    What does not wait is called on the queue itself.

    Examples
    --------
    >>> import asyncio
    >>> from spark_queue.journal import JournaledQueue, MemoryJournal
    >>> async def main():
    ...     queue = JournaledQueue(MemoryJournal())
    ...     reader = await queue.aio.reader("worker")
    ...     await queue.aio.put("a")
    ...     read = await reader.aio.get()
    ...     reader.ack(read)
    ...     await queue.aio.close()
    ...     return read.item
    >>> asyncio.run(main())
    'a'
    """

    def __init__(self, core: JournaledCore[T]) -> None:
        self._core = core
        self._puts: Puts[T] = core.state.puts

    async def put(
        self,
        item: T,
        *,
        expires_at: datetime | None = None,
        errors: int = 0,
        origin: str | None = None,
        durability: Durability | None = None,
        timeout: Timeout = None,
    ) -> int:
        """Add an item as :meth:`JournaledQueue.put` does, and return its id once it is durable.

        A wait that is cancelled while there was no room puts nothing; after that, the item is in
        the queue.
        """
        offer = self._puts.make_offer(item, expires_at, errors, origin, durability)
        return await outcome(await self._accept(offer, seconds("timeout", timeout)))

    async def put_many(
        self,
        items: Iterable[T],
        *,
        expires_at: datetime | None = None,
        durability: Durability | None = None,
        timeout: Timeout = None,
    ) -> tuple[int, list[int]]:
        """Add items as :meth:`JournaledQueue.put_many` does, and return their ids once durable."""
        require_iterable("items", items)
        patience = seconds("timeout", timeout)
        receipts: list[Receipt] = []
        with suppress(QueueFullError):
            for item in items:
                offer = self._puts.make_offer(item, expires_at, durability=durability)
                receipts.append(await self._accept(offer, patience))
        return len(receipts), [await outcome(receipt) for receipt in receipts]

    async def _accept(self, offer: Offer[T], patience: float | None) -> Receipt:
        receipt = self._puts.offer(offer)
        if receipt is None:
            receipt = await self._wait_for_room(TaskTicket(self._puts.producers, offer), patience)
        return receipt

    async def _wait_for_room(self, ticket: TaskTicket[Receipt], patience: float | None) -> Receipt:
        with ticket:
            receipt = self._puts.ask_room(ticket, patience)
            return await ticket.wait() if receipt is None else receipt

    async def reader(
        self,
        name: str = "",
        config: ReaderConfig | None = None,
        *,
        start: ReaderStart = "tail",
        hooks: ReaderHooks[T] | None = None,
    ) -> JournalReader[T]:
        """Return a reader as :meth:`JournaledQueue.reader` does."""
        call = partial(self._core.registry.make, name, config, start, hooks)
        return self._core.front(await outcome(self._core.run(call)))

    async def drop_reader(self, name: str) -> None:
        """Forget a reader as :meth:`JournaledQueue.drop_reader` does."""
        await outcome(self._core.drop_reader(name))

    async def sync(self) -> None:
        """Wait as :meth:`JournaledQueue.sync` does."""
        await outcome(self._core.run(self._core.journal_writer.sync))

    async def checkpoint(self) -> None:
        """Write a checkpoint as :meth:`JournaledQueue.checkpoint` does."""
        await outcome(self._core.run(self._core.journal_writer.checkpoint))

    async def close(self, *, drain: bool = True) -> None:
        """Close the queue as :meth:`JournaledQueue.close` does."""
        await outcome(self._core.close(drain=drain))
