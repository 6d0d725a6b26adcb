"""Views of a reader: for coroutines, for a scope, and as a plain queue."""

from __future__ import annotations

import queue
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Generic, NoReturn, Protocol, TypeVar

from spark_queue.checks import require_count, require_flag
from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.journal.puts import Puts
from spark_queue.memory.journal.reader_state import ReaderState
from spark_queue.memory.journal.records import Read
from spark_queue.memory.waiting.tickets import TaskTicket
from spark_queue.memory.waiting.timer import Timeout, seconds
from spark_queue.wording import shorten

T = TypeVar("T")


class ReadVerbs(Protocol[T]):
    """The verbs of :class:`JournalReader` that its views call."""

    def get(self, timeout: Timeout = None) -> Read[T]:
        """Open the next item."""

    def ack(self, read: Read[T]) -> bool:
        """Settle a read as done."""

    def nack(self, read: Read[T]) -> bool:
        """Return the item of a read to its place as failed."""

    def release(self, read: Read[T]) -> bool:
        """Return the item of a read to its place, uncharged."""


class AutoCommitReader(Generic[T]):
    """A reader as a plain queue: gets ack, and puts wait until durable.

    An item that was got and not yet worked on when the process ends is lost.
    """

    def __init__(self, reader: ReadVerbs[T], puts: Puts[T]) -> None:
        self._reader = reader
        self._puts = puts

    def put(self, item: T, timeout: Timeout = None) -> int:
        """Put an item for all readers of the queue, and wait until it is durable; return its id."""
        offer = self._puts.make_offer(item, durability="commit")
        receipt = self._puts.offer(offer)
        if receipt is None:
            receipt = self._puts.wait_for_room(offer, seconds("timeout", timeout))
        return receipt.result()

    def get(self, timeout: Timeout = None) -> T:
        """Get the next item and ack it; see :meth:`JournalReader.get`."""
        read = self._reader.get(timeout)
        self._reader.ack(read)
        return read.item

    def poll(self) -> T:
        """Get the next item if there is one, and ack it; see :meth:`JournalReader.get`."""
        return self.get(timeout=0)

    def put_head(self, item: T) -> NoReturn:
        """Refuse: a journal has no place in front of what it has.

        Raises
        ------
        InvalidArgumentError
            Always.
        """
        raise InvalidArgumentError(
            f"{shorten(item)} cannot be put at the head: a journal only grows"
        )

    def poll_if(self, predicate: Callable[[T], object]) -> NoReturn:
        """Refuse: who wants to look before taking peeks, or releases.

        Raises
        ------
        InvalidArgumentError
            Always.
        """
        raise InvalidArgumentError(
            f"{shorten(predicate)} is not asked: a journaled queue has no poll_if"
        )


class Transaction(Generic[T]):
    """The scope of one open item: its normal end acks, an error nacks.

    Either, or a release, may be said earlier, by hand; the end of the scope changes nothing then.
    It can be used without the scope, by :meth:`begin`. ``commit`` and ``rollback`` are other names
    of :meth:`ack` and :meth:`nack`.
    """

    def __init__(self, reader: ReadVerbs[T], timeout: Timeout) -> None:
        seconds("timeout", timeout)
        self._reader = reader
        self._timeout = timeout
        self._read: Read[T] | None = None

    def __enter__(self) -> T:
        return self.begin()

    def __exit__(self, kind: object, *_: object) -> None:
        if self._read is None:
            return
        if kind is None:
            self.ack()
        else:
            self.nack()

    def begin(self) -> T:
        """Open the next item and return it; see :meth:`JournalReader.get`.

        Raises
        ------
        InvalidArgumentError
            When it was begun before.
        """
        if self._read is not None:
            raise InvalidArgumentError(f"{self._read!r} is open in this transaction already")
        self._read = self._reader.get(self._timeout)
        return self._read.item

    def ack(self) -> bool:
        """Settle the item as done; see :meth:`JournalReader.ack`."""
        return self._reader.ack(self._end())

    def nack(self) -> bool:
        """Return the item to its place as failed; see :meth:`JournalReader.nack`."""
        return self._reader.nack(self._end())

    def release(self) -> bool:
        """Give the item back to its place, uncharged; see :meth:`JournalReader.release`."""
        return self._reader.release(self._end())

    commit = ack
    rollback = nack

    def _end(self) -> Read[T]:
        read, self._read = self._read, None
        if read is None:
            raise InvalidArgumentError("this transaction has ended, or was not begun")
        return read


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
