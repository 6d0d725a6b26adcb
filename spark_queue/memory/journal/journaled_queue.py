"""The journaled queue: a queue for threads, with many readers, that outlives its process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from spark_queue.checks import require_callable, require_iterable, require_methods
from spark_queue.clock import Clock, SystemClock
from spark_queue.durability import Durability
from spark_queue.errors import QueueFullError
from spark_queue.memory.journal import journal_options as opts
from spark_queue.memory.journal.aio_journaled import AioJournaledQueue
from spark_queue.memory.journal.core import JournaledCore
from spark_queue.memory.journal.journal_options import QueueOptions, ReaderHooks
from spark_queue.memory.journal.journal_reader import JournalReader
from spark_queue.memory.journal.journal_state import Target
from spark_queue.memory.journal.reader_registry import ReaderStart, require_reader
from spark_queue.memory.journal.records import Journal, JournalStats
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer, seconds
from spark_queue.memory.waiting.waiters import LazyFuture
from spark_queue.reader_config import ReaderConfig

T = TypeVar("T")

_SYSTEM_CLOCK = SystemClock()


class JournaledQueue(Generic[T]):
    """A queue whose items are in a journal, and which any number of readers read, each in full.

    Items have ids that grow, and every reader gets them in the order of ids, also those that
    come back. A reader settles an item by an ack; items that it had open when the process ended
    come back to it, and items that it acked durably never do.

    Puts gather in groups, which one thread makes durable, one after another: as long as a commit
    takes, so long the next group gathers. See :class:`QueueOptions` for what a put promises.

    A queue has one reader at least: the default one, without a name, until a first reader with a
    name takes it over, with its position. Readers that are made later start at the tail.

    Parameters
    ----------
    journal : Journal
        The durable half, which this queue has to itself from now on.
    name : str
        Letters, digits, ``:``, ``_`` and ``-``. It says where items come from that go to other
        queues.
    options : QueueOptions
        Durability, groups and memory.
    config : ReaderConfig
        The configuration of readers that are given none.
    hooks : ReaderHooks
        Those of readers that are given none.
    size_of : callable
        Called with an item, returns how many bytes it counts. Default: the length of text and
        bytes, 0 for all else.
    queues : callable, optional
        Called with a name, returns the queue that ``expire_to``, ``punt_to`` and ``punt_many_to``
        mean by it.
    clock : Clock
        What tells when items were put, and whether they have expired.
    timer : Timer
        What the timeouts are counted by. Default: one shared by the process.

    Raises
    ------
    InvalidArgumentError
        When the name has other characters, or options are not of their class.

    Examples
    --------
    >>> from spark_queue.journal import MemoryJournal
    >>> journal = MemoryJournal()
    >>> with JournaledQueue(journal) as queue:
    ...     billing, mail = queue.reader("billing"), queue.reader("mail")
    ...     _ = queue.put_many(["a", "b"])
    ...     read = billing.get()
    ...     billing.ack(read), billing.get().item, mail.peek().item
    (True, 'b', 'a')

    Where the process ended, the next one goes on: ``b`` was open, and comes back.

    >>> with JournaledQueue(journal.successor()) as queue:
    ...     queue.reader("billing").get().item, queue.reader("mail").items
    ('b', 2)
    """

    def __init__(
        self,
        journal: Journal[T],
        name: str = "queue",
        *,
        options: QueueOptions | None = None,
        config: ReaderConfig | None = None,
        hooks: ReaderHooks[T] | None = None,
        size_of: Callable[[T], int] = opts.size_of,
        queues: Callable[[str], Target] | None = None,
        clock: Clock = _SYSTEM_CLOCK,
        timer: Timer = SHARED_TIMER,
    ) -> None:
        require_callable("size_of", size_of)
        require_methods("journal", journal, "recover", "commit", "load")
        require_methods("clock", clock, "now")
        require_methods("timer", timer, "now", "call_at")
        opts.require_options(options, config, hooks, queues)
        self._core: JournaledCore[T] = JournaledCore(
            journal,
            opts.require_name(name),
            options or QueueOptions(),
            config or ReaderConfig(),
            hooks or ReaderHooks(),
            size_of,
            queues,
            clock,
            timer,
        )
        self._state = self._core.state
        self._puts = self._state.puts

    def __enter__(self) -> JournaledQueue[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self._state.closed is None else "closed"
        return f"<JournaledQueue {self.name!r} {state} readers={self.readers()}>"

    @property
    def aio(self) -> AioJournaledQueue[T]:
        """The same queue, for coroutines."""
        return AioJournaledQueue(self._core)

    @property
    def name(self) -> str:
        """What the queue is called."""
        return self._state.name

    # Puts

    def put(
        self,
        item: T,
        *,
        expires_at: datetime | None = None,
        errors: int = 0,
        origin: str | None = None,
        durability: Durability | None = None,
        timeout: Timeout = None,
    ) -> Future[int]:
        """Add an item at the end, for every reader.

        It waits where as many items as may be wait to be durable.

        Parameters
        ----------
        item : object
            The item.
        expires_at : datetime, optional
            When it expires for every reader, if they have not read it by then.
        errors : int
            How often it has failed elsewhere.
        origin : str, optional
            What it stands for. As long as some reader has not passed an item of the same origin,
            this one is not put, and the future is that of the other.
        durability : {"disk", "process", "commit", "interval", "memory"}, optional
            What survives when the future is done: a power cut, the end of the process, or what a
            step of the queue does; or it is done at once. Default: what the queue's options say.
        timeout : float, timedelta or None
            How long to wait for room at most; ``None`` (default) for ever.

        Returns
        -------
        concurrent.futures.Future
            The id of the item, once it is durable; or why it is not.

        Raises
        ------
        InvalidArgumentError
            When the durability is no word of it, or more than a step of the queue survives.
        QueueFullError
            When some reader is full and refuses, the item is too large, or no room came in time:
            a :class:`queue.Full`. The item is not put then.
        FencedError
            When another process has taken over the journal.
        QueueShutDownError
            When the queue is closed, before or while this waits.
        DeadlockError
            When the callback of a future would have to wait for room, which it holds up.
        """
        puts = self._puts
        offer = puts.make_offer(item, expires_at, errors, origin, durability)
        receipt = puts.offer(offer)
        if receipt is not None:
            return receipt
        return puts.wait_for_room(offer, seconds("timeout", timeout))

    def put_many(
        self,
        items: Iterable[T],
        *,
        expires_at: datetime | None = None,
        durability: Durability | None = None,
        timeout: Timeout = None,
    ) -> tuple[int, Future[list[int]]]:
        """Add items up to the first that is refused.

        Returns
        -------
        tuple of int and Future
            How many were accepted, and the ids of these once all of them are durable.

        Raises
        ------
        SparkQueueError
            As :meth:`put`, except for :class:`QueueFullError`.
        """
        require_iterable("items", items)
        receipts: list[Future[int]] = []
        with suppress(QueueFullError):
            for item in items:
                receipts.append(  # noqa: PERF401 - what was accepted before a failure counts
                    self.put(item, expires_at=expires_at, durability=durability, timeout=timeout)
                )
        return len(receipts), _together(receipts)

    # Readers

    def reader(
        self,
        name: str = "",
        config: ReaderConfig | None = None,
        *,
        start: ReaderStart = "tail",
        hooks: ReaderHooks[T] | None = None,
    ) -> JournalReader[T]:
        """Return a reader, which is made where there is none of this name.

        The first reader with a name takes over the default one: its position, and what it has not
        read; what it had open is unread again.

        Parameters
        ----------
        name : str
            Its name; empty (default) for the default reader.
        config : ReaderConfig, optional
            Its configuration, from now on. Default: the one that it has, or the queue's.
        start : {"tail", "beginning"} or int
            Where a new reader begins: behind everything that was put (default), at the oldest item
            that the journal has, or at an id. The first one goes on where the default one was.
        hooks : ReaderHooks, optional
            What happens to items on their way out. Default: what it has, or the queue's.

        Raises
        ------
        InvalidArgumentError
            When the name is no text of up to 200 characters that can be printed, or the start is
            neither known by its name nor an id.
        ReaderNotFoundError
            When the default reader is wanted while there are readers with names.
        SparkQueueError
            When the queue is closed.
        """
        require_reader(name, config, start, hooks)
        found = self._core.registry.find(name)
        if found is None or config is not None or hooks is not None:
            make = partial(self._core.registry.make, name, config, start, hooks)
            found = self._core.run(make).result()
        return self._core.front(found)

    def readers(self) -> list[str]:
        """Return the names of all readers; the default one has the empty name."""
        return self._core.registry.names()

    def drop_reader(self, name: str) -> None:
        """Forget a reader and its position; who waits at it gets a :class:`ReaderNotFoundError`.

        Items that only it had not read are gone with the next checkpoint.

        Raises
        ------
        ReaderNotFoundError
            When there is none of this name.
        """
        self._core.drop_reader(name).result()

    # All readers at once

    @property
    def items(self) -> int:
        """How many items the readers have to do, together."""
        return self._state.items()

    @property
    def bytes(self) -> int:
        """How many bytes these count."""
        return self.stats().bytes

    def flush(self) -> int:
        """Drop the unread items of every reader; return their number, added up."""
        return sum(reader.flush() for reader in self._fronts())

    def discard_expired(self, limit: int | None = None) -> int:
        """Let expired items go, for every reader; see :meth:`JournalReader.discard_expired`."""
        return sum(reader.discard_expired(limit) for reader in self._fronts())

    def evict_waiters(self) -> int:
        """End every wait for an item with nothing, and return how many that were."""
        return sum(reader.evict_waiters() for reader in self._fronts())

    def _fronts(self) -> list[JournalReader[T]]:
        with self._state.lock:
            return [self._core.front(reader) for reader in self._core.registry.readers]

    # The journal

    def sync(self) -> None:
        """Wait until everything is durable that was done before this call.

        Raises
        ------
        SparkQueueError
            When it will not be: another process has the journal, or it could not be written.
        """
        self._core.run(self._core.journal_writer.sync).result()

    def checkpoint(self) -> None:
        """Make everything durable, and let the journal drop what every reader has passed."""
        self._core.run(self._core.journal_writer.checkpoint).result()

    def close(self, *, drain: bool = True) -> None:
        """End every wait with an error, refuse every call from now on, and give the journal up.

        Parameters
        ----------
        drain : bool
            Whether pending puts and settlements are made durable first (default), or fail.

        Raises
        ------
        SparkQueueError
            When it could not be made durable.
        """
        self._core.close(drain=drain).result()

    def erase(self) -> None:
        """Close the queue and remove its journal, with everything in it."""
        self._core.erase().result()

    def stats(self) -> JournalStats:
        """Return all that is counted, at one instant."""
        return self._core.stats()


def _together(receipts: list[Future[int]]) -> Future[list[int]]:
    """Return the future of many that settle in order."""
    together: LazyFuture[list[int]] = LazyFuture()
    together.set_running_or_notify_cancel()

    def settle(_: object) -> None:
        try:
            together.set_result([receipt.result() for receipt in receipts])
        except Exception as error:  # noqa: BLE001 - it is the outcome of all
            together.set_exception(error)

    if receipts:
        receipts[-1].add_done_callback(settle)
    else:
        together.set_result([])
    return together
