"""Places in the lines of a queue: threads and coroutines wait in one, first come, first served.

A queue has one lock, and its lines live under it. So a taker that finds nothing joins a line in the
same step, a giver sees the line in the same step, and no wake-up is lost between. Values are given
under that lock too, so that an interrupted wait finds out at once whether it must give one
back. (A line of :mod:`spark_queue.memory.waiting.waiters` has a lock of its own and makes calls
without it: for waits that are futures, with callbacks.)
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from threading import Lock
from typing import Any, Generic, NoReturn, TypeVar

from spark_queue.memory.waiting.aio import end_of
from spark_queue.memory.waiting.timer import Alarm, Timer

T = TypeVar("T")

#: What a ticket holds that was given nothing; ``None`` may be given.
_NOTHING: Any = object()


class Ticket(Generic[T]):
    """One place in a line, and the scope in which it joins the line and is waited for.

    A thread that takes it out of the line settles it, once, under the lock of the queue. When the
    scope is left by an error, such as an interrupt of the wait, the ticket leaves the line, or what
    it was given goes back.

    Attributes
    ----------
    wants : object
        What it is there for, as far as the server of the line must know.
    """

    __slots__ = ("_alarm", "_line", "error", "value", "wants")

    def __init__(self, line: TicketLine[T], wants: Any = None) -> None:
        self._line = line
        self._alarm: Alarm | None = None
        self.wants = wants
        self.value: T = _NOTHING
        self.error: BaseException | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        if kind is not None:
            self._line.abandon(self)

    def expect(self, patience: float) -> None:
        """Wait for so many seconds at most. Called without the lock, after the joining."""
        self._alarm = self._line.set_alarm(self, patience)

    def give(self, value: T) -> bool:
        """Settle with a value; ``False`` when its waiter is gone."""
        self.value = value
        if self._ring():
            return True
        self.value = _NOTHING
        return False

    def spend(self) -> None:
        """Mark the value as used, so that it does not go back."""
        self.value = _NOTHING

    def fail(self, error: BaseException) -> None:
        """Settle with an error."""
        self.error = error
        self._ring()

    def _raise(self) -> NoReturn:
        error: Any = self.error
        self.error = None
        try:
            raise error
        finally:
            # Else the error would hold its own traceback, and so itself.
            del error

    def _ring(self) -> bool:
        raise NotImplementedError


class ThreadTicket(Ticket[T]):
    """The ticket of a thread."""

    __slots__ = ("_bell",)

    def __init__(self, line: TicketLine[T], wants: Any = None) -> None:
        # What the base class does, without its call, which would be a tenth of handing over.
        self._line = line
        self._alarm = None
        self.wants = wants
        self.value = _NOTHING
        self.error = None
        self._bell = bell = Lock()
        bell.acquire()

    def wait(self) -> T:
        """Block until the ticket is settled; return its value or raise its error."""
        self._bell.acquire()
        if self.error is not None:
            self._raise()
        return self.value

    def _ring(self) -> bool:
        self._bell.release()
        return True


class TaskTicket(Ticket[T]):
    """The ticket of a coroutine on the running event loop; it ends with that loop."""

    __slots__ = ("_bell", "_loop", "_when_closed")

    def __init__(self, line: TicketLine[T], wants: Any = None) -> None:
        super().__init__(line, wants)
        self._loop = asyncio.get_running_loop()
        self._bell: asyncio.Future[None] = self._loop.create_future()
        self._when_closed = end_of(self._loop).calls

    def __enter__(self) -> None:
        self._when_closed[self] = self._line.abandon

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._when_closed.pop(self, None)
        super().__exit__(kind, error, trace)

    async def wait(self) -> T:
        """Suspend until the ticket is settled; return its value or raise its error."""
        if self.value is _NOTHING and self.error is None:
            await self._bell
        if self.error is not None:
            self._raise()
        return self.value

    def _ring(self) -> bool:
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            # The loop was closed while its coroutine waited, which will never run again.
            return False
        return True

    def _wake(self) -> None:
        if not self._bell.done():
            self._bell.set_result(None)


class TicketLine(Generic[T]):
    """Tickets in the order of their arrival. Who joins, pops or settles holds the queue's lock.

    Parameters
    ----------
    lock : lock
        That of the queue.
    timer : Timer
        What the deadlines are counted by.
    in_vain : callable
        Makes the error of a ticket whose time is up, after so many seconds.
    give_back : callable
        Called under the lock with a value that was given when its ticket was waited for no more.
    """

    __slots__ = ("_give_back", "_in_vain", "_lock", "_timer", "tickets")

    def __init__(
        self,
        lock: AbstractContextManager[Any],
        timer: Timer,
        in_vain: Callable[[Ticket[T], float], BaseException],
        give_back: Callable[[T], object],
    ) -> None:
        self._lock = lock
        self._timer = timer
        self._in_vain = in_vain
        self._give_back = give_back
        #: Always the same object, so that a queue may keep it and look at it without a call.
        self.tickets: OrderedDict[Ticket[T], None] = OrderedDict()

    def join(self, ticket: Ticket[T]) -> None:
        """Put a ticket at the end of the line."""
        self.tickets[ticket] = None

    def give(self, value: T) -> bool:
        """Settle the first ticket that is waited for with a value; ``False`` when none is."""
        while self.tickets:
            if self.tickets.popitem(last=False)[0].give(value):
                return True
        return False

    def fail_all(self, error: Callable[[], BaseException]) -> None:
        """Settle every ticket with an error of its own."""
        while self.tickets:
            self.tickets.popitem(last=False)[0].fail(error())

    def set_alarm(self, ticket: Ticket[T], patience: float) -> Alarm:
        """End the wait of a ticket in vain after so many seconds, if it is in the line then."""
        return self._timer.call_at(
            self._timer.now() + patience, partial(self._lapse, ticket, patience)
        )

    def abandon(self, ticket: Ticket[T]) -> None:
        """Take a ticket out that is waited for no more, or give back what it was given."""
        with self._lock:
            if ticket in self.tickets:
                del self.tickets[ticket]
            elif ticket.value is not _NOTHING:
                value = ticket.value
                # It has ended with its loop, and perhaps its scope will be left after all.
                ticket.spend()
                self._give_back(value)

    def _lapse(self, ticket: Ticket[T], patience: float) -> None:
        with self._lock:
            if ticket in self.tickets:
                del self.tickets[ticket]
                ticket.fail(self._in_vain(ticket, patience))
