"""A first-in, first-out queue whose takers wait in a line and get their item handed over."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Generic, TypeVar, get_args

from spark_queue import checks
from spark_queue.errors import QueueShutDownError
from spark_queue.memory.waiting.aio import take_result
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer, nothing_came, seconds
from spark_queue.memory.waiting.waiters import LineFuture, WaiterLine
from spark_queue.reader_config import FullPolicy
from spark_queue.wording import shorten

T = TypeVar("T")


class BlockingQueue(Generic[T]):
    """A queue for threads and coroutines, bounded or not.

    Items come out in the order in which they were put. Who finds the queue empty waits in a line
    and is served first come, first served: an item is either stored or handed to the first who
    waits, under one lock, so that no taker waits while an item is there. The lock is never held
    while foreign code runs, so no producer is held up by a slow taker.

    *Nothing* is :class:`queue.Empty`, never ``None``: ``None`` is an item like any other.

    Parameters
    ----------
    max_items : int or None
        How many items fit; ``None`` (default) for no limit.
    full_policy : {"refuse", "drop_oldest"}
        What a put does when the queue is full: it is refused (default), or the oldest goes.
    timer : Timer
        What the timeouts are counted by. Default: one shared by the process.

    Raises
    ------
    InvalidArgumentError
        When the limit is below 1 or the policy unknown.

    Examples
    --------
    >>> line = BlockingQueue(max_items=2)
    >>> line.put("a"), line.put("b"), line.put("c")
    (True, True, False)
    >>> line.get(), line.get(timeout=1)
    ('a', 'b')
    >>> waiting = line.get_future()
    >>> line.put("d")
    True
    >>> waiting.result()
    'd'
    """

    def __init__(
        self,
        max_items: int | None = None,
        full_policy: FullPolicy = "refuse",
        *,
        timer: Timer = SHARED_TIMER,
    ) -> None:
        checks.require_choice("full_policy", full_policy, get_args(FullPolicy))
        self._max_items = checks.limit_of("max_items", max_items)
        self._drops = full_policy == "drop_oldest"
        # The lock guards the items and the joining of the line: who joins it has seen no item, and
        # who stores an item has seen an empty line.
        self._lock = threading.Lock()
        self._items: deque[T] = deque()
        self._waiters: WaiterLine[T] = WaiterLine(timer)
        self._closed = False
        self._dropped = 0

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        return f"<BlockingQueue {state} items={self.size()} waiters={self.waiter_count}>"

    @property
    def aio(self) -> AioBlockingQueue[T]:
        """The same queue, for coroutines."""
        return AioBlockingQueue(self)

    @property
    def waiter_count(self) -> int:
        """How many wait for an item."""
        return len(self._waiters)

    @property
    def dropped(self) -> int:
        """How many items were dropped to make room."""
        return self._dropped

    def size(self) -> int:
        """Return how many items are queued."""
        return len(self._items)

    __len__ = size

    def put(self, item: T) -> bool:
        """Add an item at the end, or hand it to the first who waits; never wait.

        Returns
        -------
        bool
            ``False`` when the queue is full and refuses.

        Raises
        ------
        QueueShutDownError
            When the queue is closed.
        """
        while True:
            with self._lock:
                self._require_open()
                waiter = None if self._items else self._waiters.take()
                if waiter is None:
                    if len(self._items) < self._max_items:
                        self._items.append(item)
                        return True
                    # They go when the lock is free: their finalizers are foreign code.
                    dropped = self._make_room()
                    if dropped:
                        self._items.append(item)
                    return bool(dropped)
            if waiter.deliver(item):
                return True

    def put_head(self, item: T) -> None:
        """Add an item in front of all others, even above the limit; the latest is served first.

        Raises
        ------
        QueueShutDownError
            When the queue is closed.
        """
        with self._lock:
            self._require_open()
        self._give_back(item)

    def get(self, timeout: Timeout = None) -> T:
        """Take the oldest item, and wait for one where there is none.

        Parameters
        ----------
        timeout : float, timedelta or None
            How long to wait at most; ``None`` (default) for ever, 0 not at all.

        Raises
        ------
        queue.Empty
            When the time is up, the waiters were evicted, or the queue was closed during the wait.
        QueueShutDownError
            When the queue is closed and nothing is left.
        """
        if timeout is not None:
            timeout = seconds("timeout", timeout)
        with self._lock:
            if self._items:
                return self._items.popleft()
        future = self.get_future(timeout)
        try:
            return future.result()
        except BaseException:
            self.withdraw(future)
            raise

    def get_future(self, timeout: Timeout = None) -> Future[T]:
        """Take the oldest item as a future, which is done already where there is one.

        Cancelling the future gives up the place in the line; dropping it does not, and swallows the
        item that comes to it. A wait that ends without an item, for the reasons that :meth:`get`
        names, fails the future with :class:`queue.Empty`.
        """
        patience = seconds("timeout", timeout)
        vain = partial(nothing_came, "item", patience)
        future: LineFuture[T] = LineFuture()
        with self._lock:
            is_empty = not self._items
            if is_empty:
                self._require_open()
                if patience != 0:
                    return future.join(self._waiters, vain, patience)
            else:
                item = self._items.popleft()
        # Not under the lock: futures have one of their own, under which a signal may put.
        if is_empty:
            future.set_exception(vain())
        else:
            future.deliver(item)
        return future

    def poll(self) -> T:
        """Take the oldest item without waiting.

        Raises
        ------
        queue.Empty
            When there is none.
        QueueShutDownError
            When the queue is closed and nothing is left.
        """
        with self._lock:
            return self._head(take=True)

    def poll_if(self, predicate: Callable[[T], object]) -> T:
        """Take the oldest item if a predicate says so; it looks at no other.

        The predicate runs without the lock and must be pure: it is called again when another taker
        was faster. When it raises, the item stays.

        Raises
        ------
        queue.Empty
            When there is no item, or the predicate refuses the oldest.
        """
        checks.require_callable("predicate", predicate)
        while True:
            with self._lock:
                head = self._head(take=False)
            if not predicate(head):
                raise queue.Empty(f"the oldest item is refused by the predicate: {shorten(head)}")
            with self._lock:
                if self._items and self._items[0] is head:
                    return self._items.popleft()

    def flush(self) -> int:
        """Drop everything that is queued, and return how many items that were."""
        with self._lock:
            dropped, self._items = self._items, deque()
        # They go when the lock is free: their finalizers are foreign code.
        return len(dropped)

    def evict_waiters(self) -> int:
        """End every wait with nothing, and return how many that were."""
        return self._waiters.evict_all()

    def close(self) -> None:
        """Refuse new items and end every wait; queued items can still be taken."""
        with self._lock:
            self._closed = True
        self._waiters.evict_all()

    def withdraw(self, future: Future[T]) -> None:
        """Give up a wait whose taker is gone; an item that came at the last moment goes back."""
        checks.require_kind("future", future, Future)
        if not future.cancel():
            future.add_done_callback(self._return_item)

    def _return_item(self, future: Future[T]) -> None:
        if future.exception() is None:
            self._give_back(future.result())

    def _give_back(self, item: T) -> None:
        while True:
            with self._lock:
                waiter = None if self._items else self._waiters.take()
                if waiter is None:
                    self._items.appendleft(item)
                    return
            if waiter.deliver(item):
                return

    def _make_room(self) -> list[T]:
        """Drop the oldest items for a new one, if allowed. Under the lock."""
        dropped: list[T] = []
        while self._drops and len(self._items) >= self._max_items:
            dropped.append(self._items.popleft())
        self._dropped += len(dropped)
        return dropped

    def _head(self, *, take: bool) -> T:
        if self._items:
            return self._items.popleft() if take else self._items[0]
        self._require_open()
        raise nothing_came("item", 0)

    def _require_open(self) -> None:
        if self._closed:
            raise QueueShutDownError("the queue is closed")


class AioBlockingQueue(Generic[T]):
    """The coroutines' front of a :class:`BlockingQueue`: the same items, the same line."""

    def __init__(self, blocking: BlockingQueue[T]) -> None:
        self._queue = blocking

    async def get(self, timeout: Timeout = None) -> T:
        """Take the oldest item as :meth:`BlockingQueue.get` does, without blocking the loop.

        A wait that is cancelled, or that ends with its loop, takes nothing: an item that came at
        the last moment goes back to the head.
        """
        return await take_result(self._queue.get_future(timeout), self._queue.withdraw)
