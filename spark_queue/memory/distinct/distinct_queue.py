"""The distinct queue: each element once, taken in scopes that end well or give it back."""

from __future__ import annotations

import queue
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Generic, TypeVar

from spark_queue import checks
from spark_queue.errors import InvalidArgumentError, QueueShutDownError
from spark_queue.memory.distinct.distinct_state import DistinctState
from spark_queue.memory.distinct.take import (
    AioTake,
    DistinctSnapshot,
    Element,
    LiveEntry,
    ReadyTake,
    Take,
    aio_fill,
    fill,
    prepare,
    snapshot_of,
    wanted_of,
)
from spark_queue.memory.waiting.timer import SHARED_TIMER, Timeout, Timer, seconds
from spark_queue.wording import shorten

T = TypeVar("T")


class DistinctQueue(Generic[T]):
    """A first-in, first-out queue in which no two elements are equal.

    An element is queued, or in progress: held by a take. In either case an equal one is refused;
    once it is done it is forgotten, and an equal one may be added. A take is a scope. When it ends
    without an error its elements are done; when an exception leaves it they have failed, and when
    anything else does, such as ``KeyboardInterrupt`` or a cancelled coroutine, they were not tried.
    Unfinished elements return to their original places, in any order of the scopes' ends. See
    ``docs/distinct-queue.md``.

    Who waits is served first come, first served, and gets all at once that it may have. No wake-up
    is lost, and an add wakes no more takers than it has elements for.

    Elements must be hashable; ``None`` is one. One that changes its hash while it is here is
    delivered and settled all the same, but is not told from equal ones any more.

    Parameters
    ----------
    timer : Timer
        What timeouts and times are counted by. Default: one shared by the process.

    Examples
    --------
    >>> queue = DistinctQueue()
    >>> queue.add_all([1, 5, 2, 5])
    [5]
    >>> with queue.take(2) as items:
    ...     print(items, queue.queued, queue.add(1))
    [1, 5] [2] False
    >>> try:
    ...     with queue.take(1) as items:
    ...         queue.add(7) and 1 / 0
    ... except ZeroDivisionError:
    ...     print(queue.queued)
    [2, 7]
    """

    def __init__(self, *, timer: Timer = SHARED_TIMER) -> None:
        checks.require_methods("timer", timer, "now")
        self._state: DistinctState[T] = DistinctState(timer)

    def __repr__(self) -> str:
        state = "shut down" if self.is_shutdown else "open"
        queued = len(self._state.fresh) + len(self._state.returned)
        return f"<DistinctQueue {state} queued={queued} in_progress={len(self) - queued}>"

    def __len__(self) -> int:
        """Return how many elements are here, queued or in progress."""
        return len(self._state.live)

    def __contains__(self, item: object) -> bool:
        """Whether an equal element is here, queued or in progress."""
        return item in self._state.live

    @property
    def aio(self) -> AioDistinctQueue[T]:
        """The same queue, for coroutines."""
        return AioDistinctQueue(self._state)

    @property
    def queued(self) -> list[T]:
        """The elements that wait, in the order in which they will be taken."""
        return self._state.items(in_progress=False)

    @property
    def in_progress(self) -> list[T]:
        """The elements that takes hold, in the order in which they were added."""
        return self._state.items(in_progress=True)

    @property
    def waiter_count(self) -> int:
        """How many wait for an element."""
        return len(self._state.takers.tickets)

    @property
    def is_shutdown(self) -> bool:
        """Whether elements are refused for good."""
        return self._state.closed

    def add(self, item: T) -> bool:
        """Add an element at the end, unless an equal one is here; never wait.

        Returns
        -------
        bool
            ``False`` when an equal one is queued or in progress; it stays, and counts one more
            collision.

        Raises
        ------
        QueueShutDownError
            When the queue is shut down.
        InvalidArgumentError
            When the element cannot be hashed.
        """
        state = self._state
        try:
            state.lock.acquire()
            if item in state.live:
                return state.refuse(item)
            # What its state does to insert an element, without a call.
            now = state.now
            entry: LiveEntry[T] = LiveEntry()
            entry.item = item
            entry.facts = now()
            entry.take = None
            if state.alert:
                state.hand_over(entry)
            else:
                state.live[item] = entry
                state.fresh.append(entry)
        except TypeError as error:
            raise _no_element(item, error) from error
        finally:
            state.lock.release()
        return True

    def add_all(self, items: Iterable[T]) -> list[T]:
        """Add elements in their order, in one step that nothing comes between.

        Returns
        -------
        list
            Those that were refused as :meth:`add` refuses, in their order, each as often as it was.

        Raises
        ------
        QueueShutDownError
            When the queue is shut down.
        InvalidArgumentError
            When one of them cannot be hashed; nothing is added then.
        """
        checks.require_iterable("items", items)
        items = list(items)
        for item in items:
            _require_hashable(item)
        return self._state.admit(items)

    def take(self, max: int, timeout: Timeout = None) -> Take[T]:  # noqa: A002 - the word for it
        """Make the scope of a take; entering it takes up to so many elements, in their order.

        Where none is queued, entering waits for the first. It never waits for more than one.

        Parameters
        ----------
        max : int
            How many elements at most, at least 1.
        timeout : float, timedelta or None
            How long to wait at most; ``None`` (default) for ever, 0 not at all.

        Returns
        -------
        Take
            A context manager that becomes the list of its elements.

        Raises
        ------
        InvalidArgumentError
            When the number is below 1 or the timeout negative.
        queue.Empty
            By entering the scope, when no element came in time.
        QueueShutDownError
            By entering the scope, when nothing is queued and the queue is shut down, before or
            while it waits.
        """
        # As `prepare` does, without the price of its call.
        take: Take[T] = Take()
        take.queue_state = self._state
        take.wanted = 1 if max is True else wanted_of(max)
        take.patience = None if timeout is None else seconds("timeout", timeout)
        return take

    def batches(
        self,
        max: int,  # noqa: A002 - as in take()
        timeout: Timeout = None,
    ) -> Iterator[ReadyTake[T]]:
        """Take again and again: each turn of the loop gets a take, whose scope it is to enter.

        A turn that does not enter the scope, or does not come to it, leaves its elements queued.

        Parameters
        ----------
        max, timeout
            As in :meth:`take`.

        Yields
        ------
        ReadyTake
            A take with its elements. The loop ends where :meth:`take` would raise, because nothing
            came in time or the queue is shut down.

        Examples
        --------
        >>> queue = DistinctQueue()
        >>> _ = queue.add_all(range(1, 8))
        >>> queue.shutdown()
        >>> for take in queue.batches(3):
        ...     with take as items:
        ...         print(sum(items))
        6
        15
        7
        """
        prepare(ReadyTake(), self._state, max, timeout)
        return self._batches(max, timeout)

    def _batches(self, max: int, timeout: Timeout) -> Iterator[ReadyTake[T]]:  # noqa: A002
        while True:
            take: ReadyTake[T] = prepare(ReadyTake(), self._state, max, timeout)
            try:
                fill(take)
            except (queue.Empty, QueueShutDownError):
                return
            try:
                yield take
            finally:
                self._state.take_back(take)

    def snapshot(self) -> DistinctSnapshot:
        """Return all elements at one instant, with times and counts, as a copy.

        It holds everybody up for about a microsecond per element.
        """
        return snapshot_of(self._state.elements())

    def facts(self, item: T) -> Element[T]:
        """Return the times and counts of one element.

        Raises
        ------
        InvalidArgumentError
            When no equal element is here.
        """
        return self._state.element(item)

    def shutdown(self) -> None:
        """Refuse new elements, and end every wait with an error.

        Queued elements can still be taken, and so can elements that takes give back.
        """
        self._state.close()


class AioDistinctQueue(Generic[T]):
    """The coroutines' front of a :class:`DistinctQueue`: the same elements, the same line.

    What does not wait is called on the queue itself. A cancelled wait takes nothing: elements that
    were handed over at the last moment go back to their places.

    Examples
    --------
    >>> import asyncio
    >>> from spark_queue.inprocess import DistinctQueue
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


def _require_hashable(item: object) -> None:
    try:
        hash(item)
    except TypeError as error:
        raise _no_element(item, error) from error


def _no_element(item: object, why: TypeError) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"{shorten(item)} cannot be told from others ({why}): add something that can be hashed"
    )
