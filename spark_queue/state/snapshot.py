"""A queue at one position in each of its two logs, on which a step is decided."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from spark_queue.log.delta.log import Log
from spark_queue.log.heads import QueueHead, Registered, StatusHead
from spark_queue.log.session_options import PlainSession, small_steps
from spark_queue.log.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.state import existence
from spark_queue.state.catch_up import Cache, Position
from spark_queue.state.schedulers import ReaderTerms
from spark_queue.state.store import Store

_T = TypeVar("_T")
_Head = TypeVar("_Head", QueueHead, StatusHead)

#: What a snapshot knows of its pair of steps; and what it shares with those of other readers.
_WHEN = frozenset(
    {"status", "queue", "settings", "reader", "facts", "reader_config", "terms", "outstanding"}
)
_SHARED = frozenset({"queue", "item_log", "cache"})

#: Seconds in which others have hardly written.
_RECENT = 1.0


class _LazyProperty(Generic[_T]):
    """A property that is computed on first use, and then cached.

    Before Python 3.12, ``functools.cached_property`` holds one lock for all instances while it
    computes: a thread that has it and waits for a log would stop every other.
    """

    def __init__(self, compute: Callable[[Any], _T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type) -> _T:
        value = instance.__dict__[self._name] = self._compute(instance)
        return value


class Snapshot:
    """A queue for one of its readers, at one step of each of its logs.

    Each try of a step takes one and decides by it alone: the logs are looked at once, when they
    are first asked for, however many parts of a decision ask.

    Parameters
    ----------
    store : Store
        The queue, as the reader sees it.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        #: What all readers share.
        self.handle = store.handle
        self._began = time.monotonic()

    @_LazyProperty
    def cache(self) -> Cache:
        """Return this process's view of the queue."""
        return self.store.cache()

    @_LazyProperty
    def position(self) -> Position:
        """Return this process's view of the reader's log."""
        return self.cache.position(self.store.reader)

    @_LazyProperty
    def status(self) -> StatusHead:
        """Return the newest step of the reader's status log."""
        return self.store.status_head(self.cache, self.position)

    @_LazyProperty
    def queue(self) -> QueueHead:
        """Return the newest step of the item log."""
        return self.store.queue_head(self.cache)

    @_LazyProperty
    def settings(self) -> Settings:
        """Return the configuration in force."""
        return self.store.settings(self.status, self.position)

    @_LazyProperty
    def reader(self) -> Registered | None:
        """Return the reader's facts; ``None`` where it is not registered."""
        return self.queue.readers.get(self.store.reader)

    @_LazyProperty
    def facts(self) -> Registered:
        """Return the facts of the reader; of a dropped one those known last."""
        return self.reader or self.registered()

    @_LazyProperty
    def reader_config(self) -> ReaderConfig:
        """Return the reader's configuration."""
        return self.position.reader_config_of(self.facts)

    @_LazyProperty
    def terms(self) -> ReaderTerms:
        """Return the settings and the reader's own, which judge items."""
        return self.position.terms_of(self.settings, self.reader_config)

    @_LazyProperty
    def outstanding(self) -> int:
        """Return the number of items that are not over yet for the reader."""
        return self.count_left(self.status)

    @_LazyProperty
    def item_log(self) -> Log[QueueHead] | None:
        """Return the item log, where it is read and written without Spark."""
        known = self.cache.queue.version if "queue" in self.__dict__ else None
        return self._readable(self.store.queue, known)

    @_LazyProperty
    def status_log(self) -> Log[StatusHead] | None:
        """Return the status log, where it is read and written without Spark."""
        known = self.position.status.version if "status" in self.__dict__ else None
        return self._readable(self.store.status, known)

    def _readable(self, log: Log[_Head], known: int | None) -> Log[_Head] | None:
        # A queue that was made in the place of another is opened again.
        _ = self.cache
        return log if log.is_readable(known) else None

    @_LazyProperty
    def columns(self) -> str:
        """Return the columns of the item log, as Spark writes a schema in JSON."""
        return self.store.columns() if self.item_log is None else self.item_log.schema()

    @_LazyProperty
    def is_decidable(self) -> bool:
        """Whether the session and the place of the queue let this process decide.

        Where steps of others do not come one by one, all would have to be read for each of our own.
        """
        if self.handle.is_native or self.small_steps == "spark":
            return False
        return self.is_local or self.store.is_followed()

    @_LazyProperty
    def small_steps(self) -> str:
        """Return the engine of small steps in this session: memory or spark."""
        return small_steps(self.handle.session)

    @_LazyProperty
    def is_local(self) -> bool:
        """Whether the queue is on this machine's disk."""
        return self.handle.place.is_local()

    @_LazyProperty
    def are_files_read(self) -> bool:
        """Whether this process reads the files of both logs, so that SQL decides here."""
        logs = (self.item_log, self.status_log)
        return self.is_decidable and all(log is not None and log.has_files() for log in logs)

    @property
    def has_spark(self) -> bool:
        """Whether a session of Spark can decide, too."""
        return not isinstance(self.handle.session, PlainSession)

    # rule again: paused queue
    def has_to_give(self, head: StatusHead) -> bool:
        """Tell whether a claim may get or end anything, as of a head of the reader."""
        return not self.settings.paused and self.count_left(head) > 0

    def count_left(self, head: StatusHead) -> int:
        """Return the number of open items as of another head of the reader."""
        return self.queue.items - self.facts.since_items - sum(head.finished.values())

    def registered(self) -> Registered:
        """Return the reader's facts as of the head that was seen last; see the store's."""
        return self.store.registered(self.cache)

    def require_whole(self) -> None:
        """Check that the item log on this machine's disk has all steps known here.

        Raises
        ------
        LogDamagedError
            When it is not.
        """
        seen = self.cache.queue
        last = seen.head.step if seen.head else 0
        if self.is_local:
            # Asked for anyhow; by it the newest commit is known, and not looked for again.
            _ = self.queue
        is_readable = self.item_log is not None
        existence.require_steps(self.store, "queue", seen, last, is_readable=is_readable)

    def is_recent(self) -> bool:
        """Whether it was taken so shortly before that others have hardly written since."""
        return time.monotonic() - self._began < _RECENT

    def has_followed(self, within: float) -> bool:
        """Whether it has the status log's newest step, of so many seconds ago at most."""
        return "status" in self.__dict__ and time.monotonic() - self._began < within

    def of_reader(self, store: Store) -> Snapshot:
        """Return the snapshot of another reader, at the same step of the item log."""
        if store.reader == self.store.reader:
            return self
        other = Snapshot(store)
        other.__dict__.update((n, self.__dict__[n]) for n in _SHARED & self.__dict__.keys())
        return other

    def renew(self) -> None:
        """Take the newest steps instead, where another thread has made or followed some since.

        Under the cache's lock. The own log is held by the caller of a step, or its commit is lost.
        """
        # In this order: what a status step moves has entered by then, whatever is committed
        # meanwhile.
        mine = self.status.token, self.queue.token
        seen = self.position.status.head, self.cache.queue.head
        if mine == tuple("" if head is None else head.token for head in seen):
            return
        for name in self.__dict__.keys() & _WHEN:
            del self.__dict__[name]
        _ = self.status, self.queue


# rule: reach of a claim
def look_as_far(at: Snapshot) -> None:
    """Look at the item log again where a claim before this one has looked further."""
    if at.queue.step < at.status.looked:
        at.store.queue.look()
        for name in at.__dict__.keys() & (_WHEN - {"status", "settings"}):
            del at.__dict__[name]
