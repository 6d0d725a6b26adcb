"""Wait for steps of others.

On this machine's disk every step is a file whose name is known before it is there: the commit after
the newest one. To ask for it costs microseconds, for any writer, and needs nothing of the system
that some have and others have not. Elsewhere the queue is polled: on an object store the more
rarely, the longer the last write is ago.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from spark_queue.log.delta.log import Log
from spark_queue.log.schema import CLAIMED
from spark_queue.rules.places import freed_at
from spark_queue.state.catch_up import Seen
from spark_queue.state.schedulers import next_units
from spark_queue.state.store import Store

#: Seconds between two looks: most of the delay until a waiter wakes.
TICK = 0.02


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


def rest(store: Store, most: float) -> float:
    """Return the seconds, so many at most, until time alone may bring an item."""
    now = store.clock.now()
    due = _due(store, now)
    return most if due is None else min(max((due - now).total_seconds(), TICK), most)


def poll(store: Store, attempt: Callable[[], _Got], wait: timedelta) -> _Got:
    """Retry until an attempt gets items, or the time is up.

    Between two tries others have written, or an item has become due. A claim that is repeated
    waits for nothing, whether any of its items are left or not.
    """
    if not wait:
        return attempt()
    end = time.monotonic() + wait.total_seconds()
    while True:
        look = look_at(store)
        got = attempt()
        left = end - time.monotonic()
        if got.count or got.over or left <= 0:
            return got
        _wait(look, min(left, rest(store, pause(store))))


def wait_until(store: Store, look: Look, end: float | None, stop: threading.Event) -> None:
    """Wait until there may be an item, until an instant, or until a stop."""
    most = pause(store)
    left = most if end is None else min(most, end - time.monotonic())
    until = time.monotonic() + rest(store, left)
    while (left := until - time.monotonic()) > 0 and not look.is_outdated():
        if stop.wait(min(TICK, left)):
            return


def _wait(look: Look, seconds: float) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0 and not look.is_outdated():
        time.sleep(min(TICK, left))


def _due(store: Store, now: datetime) -> datetime | None:
    """Return when the next known delay or lease ends."""
    with store.cache().lock:
        at = store.position()
        if at.replica is None or at.status.head is None:
            return None
        items, config = list(at.replica.items.values()), store.settings(at.status.head, at).config
        paced = next_units(at.replica, config, items, now)
    ends = (
        freed_at(row["_lease_expires_at"], config)
        if row["_state"] == CLAIMED
        else row["_available_at"]
        for row in items
    )
    return min((end for end in (paced, *ends) if end is not None and end > now), default=None)
