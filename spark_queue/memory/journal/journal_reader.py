"""A reader of a journaled queue, for threads."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from datetime import timedelta
from typing import Generic, TypeVar

from spark_queue.checks import limit_of, require_count, require_flag, require_iterable
from spark_queue.durability import Durability
from spark_queue.memory.journal.journal_views import AioJournalReader, AutoCommitReader, Transaction
from spark_queue.memory.journal.reader_state import ReaderState
from spark_queue.memory.journal.records import Read, ReaderStats
from spark_queue.memory.waiting.tickets import ThreadTicket
from spark_queue.memory.waiting.timer import Timeout, seconds
from spark_queue.reader_config import ReaderConfig

T = TypeVar("T")


class JournalReader(Generic[T]):
    """One reader of a :class:`JournaledQueue`: it has a position of its own among the items.

    An item that was got is *open* until it is settled: an ack ends it for this reader for ever, a
    nack returns it to its place in the order of ids with one more error, and a release returns it
    uncharged. Items that are open when the process ends come back.

    Any number of threads may get from one reader: each item goes to one of them, and those who wait
    are served first come, first served. *Nothing* is :class:`queue.Empty`.

    ``commit``, ``commit_many``, ``unget`` and ``unget_many``, the words of libkestrel, are other
    names of :meth:`ack`, :meth:`ack_many`, :meth:`nack` and :meth:`nack_many`.

    Made by :meth:`JournaledQueue.reader`.
    """

    def __init__(
        self, state: ReaderState[T], load: Callable[[ReaderState[T]], Future[None]]
    ) -> None:
        self._state = state
        self._load = load

    def __repr__(self) -> str:
        return f"<JournalReader {self.fullname!r} items={self.items} open={self.open_items}>"

    @property
    def aio(self) -> AioJournalReader[T]:
        """The same reader, for coroutines."""
        return AioJournalReader(self._state)

    @property
    def name(self) -> str:
        """Its name; empty for the default reader."""
        return self._state.line.name

    @property
    def fullname(self) -> str:
        """Its name among all queues."""
        return self._state.settling.fullname

    @property
    def config(self) -> ReaderConfig:
        """Its configuration; see :meth:`JournaledQueue.reader` for how to change it."""
        return self._state.line.config

    # Getting

    def get(self, timeout: Timeout = None, *, peek: bool = False) -> Read[T]:
        """Open the next item, and wait for one where there is none.

        Parameters
        ----------
        timeout : float, timedelta or None
            How long to wait at most; ``None`` (default) for ever. With 0 it ends at once where the
            reader has nothing, and waits where an item is there and has to be loaded.
        peek : bool
            Whether to look at the item only: it stays unread.

        Raises
        ------
        queue.Empty
            When no item came in time, or the waiters were evicted.
        FencedError
            When another process has taken over the journal.
        QueueShutDownError
            When the queue is closed, before or while this waits.
        ReaderNotFoundError
            When the reader was dropped.
        """
        if peek is not False:
            require_flag("peek", peek)
        patience = None if timeout is None else seconds("timeout", timeout)
        read = self._state.poll(peek=peek)
        return self._wait(patience, peek=peek) if read is None else read

    def _wait(self, patience: float | None, *, peek: bool) -> Read[T]:
        ticket = ThreadTicket(self._state.waiters)
        with ticket:
            read = self._state.ask(ticket, patience, peek=peek)
            return ticket.wait() if read is None else read

    def get_nowait(self) -> Read[T]:
        """Open the next item if there is one; see :meth:`get`."""
        return self.get(timeout=0)

    def peek(self) -> Read[T]:
        """Look at the next item if there is one; it cannot be settled. See :meth:`get`."""
        return self.get(timeout=0, peek=True)

    def get_many(self, max: int, timeout: Timeout = 0) -> list[Read[T]]:  # noqa: A002 - the word for it
        """Open as many items as are there, up to a number; wait for the first one, if at all."""
        require_count("max", max)
        reads: list[Read[T]] = []
        with suppress(queue.Empty):
            reads.append(self.get(timeout))
            while len(reads) < max and (read := self._poll()) is not None:
                reads.append(read)
        return reads

    def _poll(self) -> Read[T] | None:
        read = self._state.poll()
        return self.get(timeout=0) if read is None and self._state.awaits_load() else read

    # Settling

    def ack(self, read: Read[T] | int) -> bool:
        """Settle an open item as done. It is durable with the next group.

        Returns
        -------
        bool
            ``False``, and an error in the log, when the item is not open: settled before, of
            another reader, or of a closed queue. Nothing happens then.
        """
        return self._state.settling.ack(read)

    def ack_many(self, reads: Iterable[Read[T] | int]) -> int:
        """Settle open items as done, and return how many were open."""
        require_iterable("reads", reads)
        return sum(self.ack(read) for read in reads)

    def nack(self, read: Read[T] | int) -> bool:
        """Return an open item to its place as failed, or where failed ones go.

        Returns
        -------
        bool
            As :meth:`ack`.
        """
        return self._state.settling.nack(read)

    def nack_many(self, reads: Iterable[Read[T] | int]) -> int:
        """Return open items as failed, and return how many were open."""
        require_iterable("reads", reads)
        return sum(self.nack(read) for read in reads)

    def release(self, read: Read[T] | int) -> bool:
        """Give an open item back to its place, uncharged.

        Returns
        -------
        bool
            As :meth:`ack`.
        """
        return self._state.settling.release(read)

    def release_many(self, reads: Iterable[Read[T] | int]) -> int:
        """Give open items back, uncharged, and return how many were open."""
        require_iterable("reads", reads)
        return sum(self.release(read) for read in reads)

    commit = ack
    commit_many = ack_many
    unget = nack
    unget_many = nack_many

    def replace(
        self, read: Read[T] | int, item: T, durability: Durability | None = None
    ) -> Future[int] | None:
        """Put an item in the place of an open one, which is done then: both, or none of it.

        A crash cannot fall in between: the next process to open the queue finds the old item or the
        new one. The new one is put at the end, for all readers.

        Returns
        -------
        Future or None
            As of a put; ``None``, and an error in the log, when the old item is not open.

        Raises
        ------
        QueueFullError
            When another reader is full, and refuses; or the item is too large.
        SparkQueueError
            When the queue is closed.
        """
        offer = self._state.queue_state.puts.make_offer(item, durability=durability)
        return self._state.settling.replace(read, offer)

    def flush(self) -> int:
        """Drop the unread items, and return their number; open ones stay open."""
        return self._state.flush()

    def discard_expired(self, limit: int | None = None) -> int:
        """Let expired items go, from the head of the line up to the first that has not.

        Parameters
        ----------
        limit : int or None
            How many at most; ``None`` (default) for what ``max_expire_sweep`` says.

        Returns
        -------
        int
            How many have gone, or are on their way to another queue.

        Raises
        ------
        InvalidArgumentError
            When the limit is no whole number of at least 0.
        """
        limit_of("limit", limit, minimum=0)
        limit = self.config.max_expire_sweep if limit is None else min(limit, sys.maxsize)
        count, goes_on = self._state.discard_expired(limit)
        while goes_on and (limit is None or count < limit):
            self._load(self._state).result()
            more, goes_on = self._state.discard_expired(None if limit is None else limit - count)
            count += more
        return count

    # Control

    def pause(self) -> None:
        """Hand nothing out until :meth:`resume`; gets wait, as at an empty reader."""
        self._state.pause(paused=True)

    def resume(self) -> None:
        """Hand items out again."""
        self._state.pause(paused=False)

    def evict_waiters(self) -> int:
        """End every wait with nothing, and return how many that were."""
        return self._state.evict_waiters()

    # Views

    def auto_commit(self) -> AutoCommitReader[T]:
        """Return a view whose gets ack at once."""
        return AutoCommitReader(self, self._state.queue_state.puts)

    def open_one(self, timeout: Timeout = None) -> Transaction[T]:
        """Open the next item in a scope that acks it at its end, or nacks it by an error.

        Examples
        --------
        >>> from spark_queue.journal import JournaledQueue, MemoryJournal
        >>> with JournaledQueue(MemoryJournal()) as queue:
        ...     _ = queue.put("a")
        ...     reader = queue.reader()
        ...     with reader.open_one() as item:
        ...         print(item, reader.open_items)
        ...     reader.items
        a 1
        0
        """
        return Transaction(self, timeout)

    # What it looks like

    @property
    def items(self) -> int:
        """How many items are not done: unread, open, or on their way out."""
        return self._state.line.items

    @property
    def bytes(self) -> int:
        """How many bytes these count."""
        return self._state.line.bytes

    @property
    def open_items(self) -> int:
        """How many items are open."""
        return len(self._state.line.open)

    @property
    def open_bytes(self) -> int:
        """How many bytes these count."""
        with self._state.queue_state.lock:
            return self._state.line.open_bytes

    @property
    def head(self) -> int:
        """Every item up to this id is done."""
        return self._state.line.head

    @property
    def age(self) -> timedelta:
        """How long the oldest unread item has waited; 0 where none is in memory."""
        return self.stats().age

    @property
    def waiter_count(self) -> int:
        """How many wait for an item."""
        return len(self._state.waiters.tickets)

    def open_reads(self) -> list[Read[T]]:
        """Return the open reads, the longest open first."""
        with self._state.queue_state.lock:
            return list(self._state.line.open.values())

    def is_ready_for_expiration(self) -> bool:
        """Whether nothing is left, and the reader is older than ``max_idle``."""
        return self._state.is_idle()

    def stats(self) -> ReaderStats:
        """Return all that is counted, at one instant."""
        return self._state.stats()
