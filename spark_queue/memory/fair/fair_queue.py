"""The fair queue: first in, first out, for threads and coroutines, and keys take turns."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from spark_queue import checks
from spark_queue.errors import InvalidArgumentError
from spark_queue.memory.fair.fair_state import NOTHING, FairState
from spark_queue.memory.fair.rounds import FairSnapshot, snapshot_of
from spark_queue.memory.waiting.tickets import TaskTicket, ThreadTicket
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer, seconds
from spark_queue.wording import shorten

T = TypeVar("T")


class FairQueue(Generic[T]):
    """A :class:`queue.Queue` whose items are taken in rounds: one item of each key at a time.

    A round is a snapshot: when the one before is used up, the head of every key, in the order in
    which these heads were put. An item of a new key waits for the next round, and no longer,
    however many items other keys have. Within a key items keep the order of their puts, so that
    with a constant key this is a plain first-in, first-out queue. See ``docs/fair-queue.md``.

    Everything else is as with :class:`queue.Queue`: ``block`` and ``timeout``, ``task_done`` and
    ``join``, ``shutdown`` as of Python 3.13, :class:`queue.Empty` and :class:`queue.Full`. What
    differs is the ``limit``, where ``None`` is unbounded and 0 is not. Like a
    :class:`queue.Queue`, it is true when it is empty.

    Who waits is served first come, first served. An item is in the queue or handed to one taker,
    under one lock; no wake-up is lost, and ``get`` never ends empty-handed while an item is queued.

    Parameters
    ----------
    key : callable
        Called with an item, returns the key whose turns it uses; any value that can be hashed, and
        ``None`` is one. It is called once for an item, before that is queued and outside of the
        lock; for a refused item it is not called, unless another producer took the last slot
        during the call. An error in it is the caller's, and leaves the queue as it was.
    limit : int or None
        How many items fit; ``None`` for no limit, below 1 none at all. Default 128.
    timer : Timer
        What the timeouts are counted by. Default: one shared by the process.

    Raises
    ------
    InvalidArgumentError
        When the key is no function, or the limit no whole number.

    Examples
    --------
    >>> queue = FairQueue(key=lambda task: task[0])
    >>> for task in ["A1", "A2", "A3", "B1"]:
    ...     _ = queue.put(task)
    >>> [queue.get() for _ in range(queue.qsize())]
    ['A1', 'B1', 'A2', 'A3']

    The key of a late item has its turn in the next round:

    >>> _ = queue.put("A1").put("A2").put("A3")
    >>> queue.get()
    'A1'
    >>> _ = queue.put("B1")
    >>> queue.snapshot()
    FairSnapshot(selected=(), queued=mappingproxy({'A': ('A2', 'A3'), 'B': ('B1',)}))
    >>> [queue.get() for _ in range(queue.qsize())]
    ['A2', 'B1', 'A3']
    """

    def __init__(
        self,
        key: Callable[[T], Hashable],
        limit: int | None = 128,
        *,
        timer: Timer = SHARED_TIMER,
    ) -> None:
        if not callable(key):
            raise InvalidArgumentError(f"key is {shorten(key)}: it must be a function of an item")
        self._limit = _limit(limit)
        self._state: FairState[T] = FairState(key, limit, timer)

    def __repr__(self) -> str:
        state = "shut down" if self.is_shutdown else "open"
        return f"<FairQueue {state} items={self.qsize()} limit={self._limit}>"

    def __len__(self) -> int:
        """Return how many items are queued."""
        return self._state.size()

    def __bool__(self) -> bool:
        """Return true: ``queue or other`` is a queue that is given, empty or not."""
        return True

    @property
    def aio(self) -> AioFairQueue[T]:
        """The same queue, for coroutines."""
        return AioFairQueue(self._state)

    @property
    def limit(self) -> int | None:
        """How many items fit; ``None`` for no limit.

        It may be changed at any time: producers who fit are let in, and excess items stay until
        they are taken.
        """
        return self._limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        self._limit = _limit(limit)
        self._state.resize(limit)

    @property
    def maxsize(self) -> int:
        """The limit as :class:`queue.Queue` names it: 0 where there is none.

        It may be changed as :attr:`limit` may; a number below 1 is no limit, as there.
        """
        return 0 if self._limit is None else self._limit

    @maxsize.setter
    def maxsize(self, maxsize: int) -> None:
        if isinstance(maxsize, bool) or not isinstance(maxsize, int):
            raise InvalidArgumentError(f"maxsize is {shorten(maxsize)}: it must be a whole number")
        self.limit = maxsize if maxsize > 0 else None

    @property
    def is_shutdown(self) -> bool:
        """Whether items are refused for good."""
        return self._state.closed

    @property
    def unfinished_tasks(self) -> int:
        """How many items were put and not said to be done, by :meth:`task_done`."""
        return self._state.count_unfinished()

    def put(
        self,
        item: T,
        block: bool = True,  # noqa: FBT001, FBT002 - queue.Queue's signature
        timeout: Timeout = None,
    ) -> FairQueue[T]:
        """Add an item at the end of its key, and wait for a free slot where there is none.

        Parameters
        ----------
        item : object
            One item; a list is one item, too.
        block : bool
            Whether to wait (default), or to refuse the item when there is no slot. A queue whose
            limit is below 1 refuses it in any case.
        timeout : float, timedelta or None
            How long to wait at most; ``None`` (default) for ever. Without ``block`` it is ignored.

        Returns
        -------
        FairQueue
            This queue, so that puts can be chained.

        Raises
        ------
        QueueFullError
            When no slot came free in time: a :class:`queue.Full` with the item and the size.
        QueueShutDownError
            When the queue is shut down, before or while this waits.
        InvalidArgumentError
            When the key cannot be hashed, the timeout is negative, or ``block`` is no bool, as when
            two items were given.
        """
        patience = None if block is True and timeout is None else _patience(block, timeout)
        if not self._state.offer(item):
            ticket = ThreadTicket(self._state.producers, item)
            with ticket:
                self._state.ask_slot(ticket, patience)
                ticket.wait()
                self._state.fill_slot(ticket)
        return self

    def put_nowait(self, item: T) -> FairQueue[T]:
        """Add an item if there is a slot for it; see :meth:`put`."""
        return self.put(item, block=False)

    def get(
        self,
        block: bool = True,  # noqa: FBT001, FBT002 - queue.Queue's signature
        timeout: Timeout = None,
    ) -> T:
        """Take the next item, and wait for one where there is none.

        Parameters
        ----------
        block : bool
            Whether to wait (default), or to end at once.
        timeout : float, timedelta or None
            How long to wait at most; ``None`` (default) for ever. Without ``block`` it is ignored.

        Raises
        ------
        queue.Empty
            When no item came in time.
        QueueShutDownError
            When the queue is empty and shut down, before or while this waits.
        InvalidArgumentError
            When the timeout is negative, or ``block`` is no bool.
        """
        patience = None if block is True and timeout is None else _patience(block, timeout)
        item = self._state.poll()
        return self._wait_to_get(patience) if item is NOTHING else item

    def _wait_to_get(self, patience: float | None) -> T:
        ticket = ThreadTicket(self._state.takers)
        with ticket:
            item = self._state.ask_item(ticket, patience)
            return ticket.wait()[2] if item is NOTHING else item

    def get_nowait(self) -> T:
        """Take the next item if there is one; see :meth:`get`."""
        return self.get(block=False)

    def qsize(self) -> int:
        """Return how many items are queued: those of the present round and all others."""
        return self._state.size()

    def empty(self) -> bool:
        """Whether nothing is queued now."""
        return not self.qsize()

    def full(self) -> bool:
        """Whether as many items are queued now as the limit says, or more."""
        return self._limit is not None and self.qsize() >= self._limit

    def snapshot(self) -> FairSnapshot:
        """Return the queued items at one instant, as a copy that never changes.

        It takes time in proportion to the items, most of it without the lock.
        """
        return snapshot_of(self._state.copy())

    def task_done(self) -> None:
        """Say that an item which was taken is done; see :meth:`queue.Queue.task_done`.

        Raises
        ------
        InvalidArgumentError
            When it is called more often than items were put.
        """
        self._state.task_done()

    def join(self) -> None:
        """Wait until every item that was put is done, by :meth:`task_done` or by being dropped."""
        ticket = ThreadTicket(self._state.joiners)
        with ticket:
            self._state.ask_idle(ticket)
            ticket.wait()

    def shutdown(
        self,
        immediate: bool = False,  # noqa: FBT001, FBT002 - queue.Queue's signature
    ) -> None:
        """Refuse new items, and end every wait for an item or a slot with an error.

        It may be called again, to drop the queued items after all.

        Parameters
        ----------
        immediate : bool
            Whether queued items are dropped, and count as done, or can still be taken (default).
        """
        checks.require_flag("immediate", immediate)
        self._state.close(drop=immediate)


class AioFairQueue(Generic[T]):
    """The coroutines' front of a :class:`FairQueue`: the same items, the same lines.

    What does not wait is called on the queue itself. A wait that is cancelled changes nothing: an
    item that was handed over at the last moment goes back to its place, and so does a slot.

    Examples
    --------
    >>> import asyncio
    >>> from spark_queue.inprocess import FairQueue
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


def _limit(limit: object) -> int | None:
    if limit is None:
        return None
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise InvalidArgumentError(f"limit is {shorten(limit)}: it must be a whole number, or None")
    return limit


def _patience(block: object, timeout: object) -> float | None:
    if not isinstance(block, int) or block not in (0, 1):
        raise InvalidArgumentError(
            f"block is {shorten(block)}: it must be True or False; one call takes one item, and a "
            "timeout "
            "is given as timeout=..."
        )
    return seconds("timeout", timeout) if block else 0
