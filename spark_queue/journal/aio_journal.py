"""Front of a journaled queue in asyncio: its waits, without blocking the loop."""

from __future__ import annotations

import queue
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from spark_queue.checks import require_count, require_flag, require_iterable
from spark_queue.durability import Durability
from spark_queue.errors import QueueFullError
from spark_queue.journal.deliveries import Read
from spark_queue.journal.engine.group_commit import Receipt
from spark_queue.journal.engine.puts import Offer, Puts
from spark_queue.journal.engine.reader_state import ReaderState
from spark_queue.journal.journal_options import ReaderHooks
from spark_queue.reader_config import ReaderConfig
from spark_queue.waiting.aio import outcome
from spark_queue.waiting.tickets import TaskTicket
from spark_queue.waiting.timer import Timeout, seconds

if TYPE_CHECKING:
    from spark_queue.journal.core import JournaledCore
    from spark_queue.journal.engine.reader_registry import ReaderStart
    from spark_queue.journal.journal_reader import JournalReader

T = TypeVar("T")


class AioJournalReader(Generic[T]):
    """The coroutines' front of a :class:`JournalReader`: the same items, the same line.

    What does not wait is called on the reader itself. A wait that is cancelled changes nothing: an
    item that was handed over at the last moment goes back to its place.
    """

    def __init__(self, state: ReaderState[T]) -> None:
        self._state = state

    async def get(self, timeout: Timeout = None, *, peek: bool = False) -> Read[T]:
        """Open the next item as :meth:`JournalReader.get` does."""
        if peek is not False:
            require_flag("peek", peek)
        patience = seconds("timeout", timeout)
        read = self._state.poll(peek=peek)
        return await self._wait(patience, peek=peek) if read is None else read

    async def get_many(self, max: int, timeout: Timeout = 0) -> list[Read[T]]:  # noqa: A002 - as there
        """Open several items as :meth:`JournalReader.get_many` does."""
        require_count("max", max)
        reads: list[Read[T]] = []
        with suppress(queue.Empty):
            reads.append(await self.get(timeout))
            while len(reads) < max and (read := await self._poll()) is not None:
                reads.append(read)
        return reads

    @asynccontextmanager
    async def open_one(self, timeout: Timeout = None) -> AsyncIterator[T]:
        """Open the next item in a scope that acks it at its end, or nacks it by an error."""
        read = await self.get(timeout)
        try:
            yield read.item
        except BaseException:
            self._state.settling.nack(read)
            raise
        self._state.settling.ack(read)

    async def _poll(self) -> Read[T] | None:
        read = self._state.poll()
        return await self.get(timeout=0) if read is None and self._state.awaits_load() else read

    async def _wait(self, patience: float | None, *, peek: bool) -> Read[T]:
        ticket = TaskTicket(self._state.waiters)
        with ticket:
            read = self._state.ask(ticket, patience, peek=peek)
            return await ticket.wait() if read is None else read


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
