"""Wait for steps of others.

On this machine's disk every step is a file whose name is known before it is there: the commit after
the newest one. To ask for it costs microseconds, for any writer, and needs nothing of the system
that some have and others have not. Elsewhere the queue is polled: on an object store the more
rarely, the longer the last write is ago.

Of those that wait for items of a reader on this machine's disk one looks. It follows what others
write, and claims when the rules give it something: a claim of others, which only takes, wakes none.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from spark_queue.errors import SparkQueueError
from spark_queue.log.delta.log import Log
from spark_queue.log.disk.first_waiter import FirstWaiter
from spark_queue.state import claim_decision, replica_choice
from spark_queue.state.catch_up import Seen
from spark_queue.state.claim_decision import Outlook
from spark_queue.state.schedulers import seconds
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.state.window import TooManyItemsError

if TYPE_CHECKING:
    from typing_extensions import Self

#: Seconds between two looks: most of the delay until a waiter wakes.
TICK = 0.02

#: The least seconds of a rest.
_LEAST = 0.000_5

#: Pauses after which who stands behind looks for itself: it may claim what the first one may not.
_BEHIND = 10

#: Is never set.
_UNSTOPPED = threading.Event()


class Countable(Protocol):
    """A result that may be empty."""

    count: int
    over: tuple[int, ...]


_Got = TypeVar("_Got", bound=Countable)


@dataclass(frozen=True, slots=True)
class Look:
    """Versions of a queue's logs when a wait began."""

    seen: tuple[tuple[Log[Any], int], ...]
    """The logs that cost nothing to look at, and their versions."""
    known: tuple[tuple[Seen[Any], int | None], ...] = ()
    """What this process knows of the others, and their versions as it has seen them."""

    def is_outdated(self) -> bool:
        """Whether there are new commits; of remote logs, known ones."""
        return any(log.newest(version) != version for log, version in self.seen) or any(
            seen.version != version for seen, version in self.known
        )


def look_at(store: Store) -> Look:
    """Note the versions of a queue's logs, for one of its readers."""
    known = ((store.queue, store.cache().queue), (store.status, store.position().status))
    found = ((log, log.newest(seen.version)) for log, seen in known if log.is_near())
    near = tuple((log, version) for log, version in found if version is not None)
    return Look(near, tuple((seen, seen.version) for log, seen in known if not log.is_near()))


def pause(store: Store) -> float:
    """Return the seconds after which a waiter looks anyhow.

    A process that ends writes nothing.
    """
    return min(store.queue.pause(), store.status.pause())


def rest_until_news(store: Store, look: Look, least: float, end: float) -> None:
    """Sleep for some seconds, and on until others may have written, or a monotonic instant.

    It also returns some seconds later, so that the caller learns of a queue that was dropped.
    """
    time.sleep(least)
    most = pause(store) * (1 if look.known else _BEHIND)
    _wait(look, min(most, end - time.monotonic()), lambda left: time.sleep(min(TICK, left)))


def rest(store: Store, most: float) -> float:
    """Return the seconds, so many at most, until time alone may bring an item."""
    ahead = _look_ahead(store)
    # Open is what became so since the claim that got nothing.
    return _rest(store, ahead, min(TICK, most) if ahead is not None and ahead.is_open else most)


def _rest(store: Store, ahead: Outlook | None, most: float) -> float:
    if ahead is None or ahead.until is None:
        return most
    return min(max(ahead.until - seconds(store.clock.now()), _LEAST), most)


def poll(store: Store, attempt: Callable[[], _Got], wait: timedelta) -> _Got:
    """Retry until an attempt gets items, or the time is up.

    Between two tries others have written, or an item has become due. A claim that is repeated
    waits for nothing, whether any of its items are left or not.
    """
    if not wait:
        return attempt()
    end = time.monotonic() + wait.total_seconds()
    with Waiter(store) as waiter:
        while True:
            waiter.look()
            got = attempt()
            if got.count or got.over or end <= time.monotonic():
                return got
            waiter.wait(end)


class Waiter:
    """One who waits for items: first of all who do, or behind one who is.

    Leaving the block lets another one be first.

    Parameters
    ----------
    store : Store
        The queue, as the reader sees it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._first = FirstWaiter(store.handle.place.directory_of(store.status))
        self._look: Look | None = None
        """The logs before the claim that got nothing; ``None`` where none was tried."""
        self._is_promised = False
        """Whether the rules have said that the next claim gets something."""

    def look(self) -> None:
        """Note the logs before a claim: what comes later wakes it, if that gets nothing."""
        self._look = look_at(self._store)

    def __enter__(self) -> Self:
        """Return the waiter."""
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Let another one be first, at once where this one leaves something."""
        self._look, self._is_promised = None, False
        leaves_some = False
        try:
            leaves_some = self._first.is_first and self._leaves_some()
        finally:
            self._first.leave(calls_next=leaves_some)

    def _leaves_some(self) -> bool:
        try:
            return _is_open(_look_ahead(self._store))
        except (SparkQueueError, OSError):
            # This one has its items. What fails here fails the next one, which says so.
            return True

    def wait(self, end: float = math.inf, stop: threading.Event = _UNSTOPPED) -> None:
        """Wait until a claim may get something, until a monotonic instant, or until a stop."""
        store, look, is_in_vain = self._store, self._look, self._is_promised
        self._look, self._is_promised = None, False
        most = pause(store)
        was_behind = self._stand_behind(min(end, time.monotonic() + _BEHIND * most), stop)
        anyhow = min(time.monotonic() + most, end)
        if time.monotonic() >= end or stop.is_set():
            # Nothing is followed to claim nothing.
            return
        is_new = was_behind or look is None
        look = look or look_at(store)
        ahead = _look_ahead(store)
        # Since a claim time has passed. One that had a promise, and got nothing, has no other.
        is_other = is_new or not (is_in_vain or ahead is None)
        self._is_promised = is_other and _is_open(ahead)
        while not self._is_promised and not stop.is_set() and time.monotonic() < anyhow:
            seconds = _rest(store, ahead, anyhow - time.monotonic())
            _wait(look, seconds, partial(self._tick, stop))
            look, ahead = look_at(store), _look_ahead(store)
            self._is_promised = _is_open(ahead)

    def _stand_behind(self, end: float, stop: threading.Event) -> bool:
        """Return as the first waiter, or when the time is up; whether another one was first."""
        was_behind = False
        while not self._first.take() and time.monotonic() < end and not stop.is_set():
            was_behind = True
            stop.wait(min(self._first.patience(), TICK))
        return was_behind

    def _tick(self, stop: threading.Event, seconds: float) -> bool:
        """Say that the first waiter lives, and sleep; True once it is to stop."""
        self._first.take()
        return stop.wait(min(TICK, seconds))


def _wait(look: Look, seconds: float, tick: Callable[[float], bool | None]) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not look.is_outdated():
        if tick(left):
            return


def _is_open(ahead: Outlook | None) -> bool:
    return ahead is None or ahead.is_open


def _look_ahead(store: Store) -> Outlook | None:
    """Return what a claim has before it; ``None`` where this process cannot tell by itself."""
    with store.queue.still(math.inf), store.status.still(math.inf):
        at = Snapshot(store)
        with at.cache.lock:
            if not at.has_to_give(at.status):
                return Outlook(is_open=False, until=None)
            # A large queue is read for a claim, if at all, and not to look ahead.
            replica = None if replica_choice.is_read_anew(at) else replica_choice.at_hand(at)
            if replica is None:
                return None
            try:
                return claim_decision.look_ahead(replica, at.status, at.terms, at.store.clock.now())
            except TooManyItemsError:
                return None
