"""Catch-up of a process with the tables of a queue.

The commits of all processes since then are read: the rows of a step are applied to the replicas
as they are to those of the process that made it. On this machine's disk the rows are those of the
files; on a shared store a query brings them, if there are new steps. Where commits do not say all
(rows were removed, or are too many to bring here; commits were cleaned up) the replicas are
dropped, and the newest head is looked for: each time, where commits cannot be looked at.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from spark_queue.log.delta import completeness
from spark_queue.log.delta.commits import Commit
from spark_queue.log.delta.log import Log
from spark_queue.log.disk.forks import is_stuck
from spark_queue.log.heads import QueueHead, Registered, StatusHead
from spark_queue.log.schema import HEAD
from spark_queue.log.settings import Settings
from spark_queue.log.step_events import LogName
from spark_queue.reader_config import ReaderConfig
from spark_queue.state.handle import Handle
from spark_queue.state.open_items import ENTERED, FOLLOWED, Row

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_queue.state.replica import Replica
    from spark_queue.state.schedulers import ReaderTerms

_Head = TypeVar("_Head", QueueHead, StatusHead)


class FollowedQueue(Protocol):
    """Both logs of a reader, and how their rows are read; see :class:`Store`."""

    queue: Log[QueueHead]
    status: Log[StatusHead]

    @property
    def name(self) -> str:
        """The name of the queue."""

    @property
    def handle(self) -> Handle:
        """The place of its tables."""

    def native(self, which: LogName) -> Log[Any] | None:
        """Return a log that is read without Spark; ``None`` where it cannot be."""

    def is_local(self) -> bool:
        """Whether the queue is on this machine's disk."""

    def rows_since(self, which: LogName, step: int, columns: Sequence[str]) -> pa.Table:
        """Return some columns of the rows of a log's steps after one, by a query."""


#: Items of a group that the first claim of a process takes together.
FIRST_RUN = 500


@dataclass(slots=True)
class Seen(Generic[_Head]):
    """How far a log is known in this process."""

    head: _Head | None = None
    """The newest step that was seen."""
    version: int | None = None
    """The version of the table up to which every commit was looked at; ``None`` if unknown."""


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A step that needed more items than fit into memory."""

    until: int = 0
    """The step of both logs together up to which that is not tried again."""
    claimed: int = 0
    """How many items were in flight then: half of them, and it is another queue."""
    is_put_off: bool = False
    """Whether they may fit, and were not read for the first steps of a process."""

    def is_now(self, queue: QueueHead, status: StatusHead) -> bool:
        """Whether it would not fit as of two heads, for all that is known."""
        return queue.step + status.step < self.until and 2 * status.claimed >= self.claimed


@dataclass(frozen=True, slots=True)
class Sent:
    """How many of a log's ended items are in another queue."""

    whose: tuple[ReaderConfig, str, str]
    """The configuration by which items go there, which queue that is, and of which one they are."""
    log: str
    """The id of the log."""
    step: int = 0
    """Up to which step all is there."""
    token: str = ""
    """The token of the step's head: a log restored to before the step has another one."""
    refused: str = ""
    """The kind of error by which the rest is not there, which was told."""


@dataclass
class Position:
    """The status log of one reader, as this process knows it."""

    status: Seen[StatusHead] = field(default_factory=Seen)
    settings: dict[int, Settings] = field(default_factory=dict)
    replica: Replica | None = None
    too_large: TooLarge = field(default_factory=TooLarge)
    sent: dict[str, Sent] = field(default_factory=dict)
    """How much of what ended is in each other queue that it goes to."""
    run_length: float = FIRST_RUN
    """How many items of a group a claim probably finishes, as earlier ones taught."""
    claim_lengths: dict[tuple[str, timedelta | None], float] = field(default_factory=dict)
    """How many items in all, by handler, and by the time in which they are to begin."""
    _limits: tuple[Registered, ReaderConfig] | None = None
    _terms: ReaderTerms | None = None

    def reader_config_of(self, facts: Registered) -> ReaderConfig:
        """Return a reader's configuration, cached while it stays the same."""
        known = self._limits
        if known is None or known[0].config != facts.config:
            known = self._limits = facts, ReaderConfig.from_dict(facts.config)
        return known[1]

    def terms_of(self, settings: Settings, reader_config: ReaderConfig) -> ReaderTerms:
        """Return a reader's terms, cached while they stay the same."""
        from spark_queue.state.schedulers import ReaderTerms  # noqa: PLC0415 - takes a while

        known = self._terms
        if known is None or (known.settings, known.reader_config) != (settings, reader_config):
            known = self._terms = ReaderTerms(settings, reader_config)
        return known


@dataclass
class Cache:
    """A queue as this process knows it, shared by all its handles."""

    queue: Seen[QueueHead] = field(default_factory=Seen)
    positions: dict[int, Position] = field(default_factory=dict)
    columns: str | None = None
    """The columns of the item log on a shared store, until a commit changes more than rows."""
    lock: RLock = field(default_factory=RLock)
    """Held to read a replica, or to change it together with a head."""

    def position(self, reader: int) -> Position:
        """Return the known position of a reader's log."""
        return self.positions.setdefault(reader, Position())

    def has_replicas(self) -> bool:
        """Whether the state of the items is known for some reader."""
        return any(position.replica is not None for position in self.positions.values())

    def drop_replicas(self) -> None:
        """Forget the state of the items: the tables were changed by more than a step."""
        with self.lock:
            for position in self.positions.values():
                position.replica = None


_caches: dict[str, Cache] = {}


def cache_of(queue: str) -> Cache:
    """Return this process's view of the queue at a place."""
    return _caches.get(queue) or _caches.setdefault(queue, Cache())


def forget(queue: str) -> None:
    """Drop this process's view of the queue at a place."""
    _caches.pop(queue, None)


def _part_from_parent() -> None:
    """Forget caches that a parent's thread was changing: it is not in this child."""
    for queue, cache in list(_caches.items()):
        if is_stuck(cache.lock):
            forget(queue)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part_from_parent)


#: Commits that are read one by one at most; to begin anew costs less then.
_FAR = 500

#: Bytes of files that are read at most to follow a log.
_LARGE = 8 * 1024 * 1024


@dataclass(frozen=True)
class _Followed(Generic[_Head]):
    """A step of another process."""

    head: _Head
    rows: list[Row]


def items(store: FollowedQueue, cache: Cache) -> QueueHead:
    """Return the newest head of the item log, after following it.

    Raises
    ------
    LogDamagedError
        When the log has not all the steps that something names.
    """

    def enter(step: _Followed[QueueHead]) -> None:
        apply_items(cache, step.head, step.rows)

    log = _Follow(store, "queue", store.queue, cache.queue, cache)
    with cache.lock:
        return log.up_to_date(ENTERED, enter, cache.drop_replicas) or QueueHead()


def status(store: FollowedQueue, cache: Cache, at: Position) -> StatusHead:
    """Return the newest head of a reader's status log; as :func:`items`."""
    is_looked_at = False

    def look_at_items() -> None:
        # Also by who keeps that log as he has seen it: later it would tell of these as of new.
        nonlocal is_looked_at
        if not is_looked_at:
            is_looked_at = True
            store.queue.look()

    def follow(step: _Followed[StatusHead]) -> None:
        # What a step moves has entered before it, and would else enter here after it, as new: also
        # where the item log was looked at just before another process made both.
        look_at_items()
        items(store, cache)
        apply_status(at, step.head, step.rows)

    def drop() -> None:
        at.replica = None
        look_at_items()

    log = _Follow(store, "status", store.status, at.status, cache)
    with cache.lock:
        return log.up_to_date(FOLLOWED, follow, drop) or StatusHead()


def apply_items(cache: Cache, head: QueueHead, rows: Iterable[Row]) -> None:
    """Apply the next step of the item log, under the cache's lock."""
    before = "" if cache.queue.head is None else cache.queue.head.token
    known = list(rows)
    for number, position in cache.positions.items():
        replica = position.replica
        if replica is None or replica.queue != before:
            position.replica = None
        elif number in head.readers:
            replica.enter(head.token, known)
    cache.queue.head = head


def apply_status(at: Position, head: StatusHead, rows: Iterable[Row]) -> None:
    """Apply the next step of a status log, under the cache's lock."""
    before = "" if at.status.head is None else at.status.head.token
    if at.replica is not None and at.replica.status == before:
        at.replica.follow(head.token, head.step, rows)
    else:
        at.replica = None
    at.status.head = head


class _Follow(Generic[_Head]):
    """One log of a queue, and how far it is known."""

    def __init__(
        self,
        store: FollowedQueue,
        which: LogName,
        log: Log[_Head],
        seen: Seen[_Head],
        cache: Cache,
    ) -> None:
        self._store = store
        self._cache = cache
        self._which: LogName = which
        self._log: Log[_Head] = log
        self._seen: Seen[_Head] = seen

    def up_to_date(
        self,
        columns: Sequence[str],
        apply: Callable[[_Followed[_Head]], None],
        drop: Callable[[], None],
    ) -> _Head | None:
        """Apply newer steps, or drop the known state and look for the newest head."""
        seen, version = self._seen, self._log.newest(self._seen.version)
        if version is not None and version == seen.version:
            return seen.head
        steps = None if version is None else self._steps(version, columns)
        if steps is None:
            drop()
            if self._log.is_followed():
                self._cache.columns = None
            seen.head = self._find_head(seen.head)
        else:
            for step in steps:
                apply(step)
        seen.version = version
        return seen.head

    def _find_head(self, known: _Head | None) -> _Head | None:
        store, log = self._store, self._log
        directory = store.handle.place.directory_of(log)
        return completeness.newest_head(store.name, self._which, log, directory, known)

    def _steps(self, version: int, columns: Sequence[str]) -> list[_Followed[_Head]] | None:
        """Return the steps of the commits up to a version; ``None`` if they are incomplete."""
        seen = self._seen
        if seen.head is None or seen.version is None or not 0 < version - seen.version <= _FAR:
            return None
        names = list(dict.fromkeys([*columns, "_kind", "_step", "_body"]))
        try:
            made = self._steps_among(seen.version, version)
            found = None if made is None else self._read(made, seen.head.step, names)
        except (OSError, LookupError, ValueError):
            # Cleaned up, compacted or cut since: whoever looks for the head finds out.
            return None
        if found is None:
            return None
        is_whole = all(step.head.step == at for at, step in enumerate(found, seen.head.step + 1))
        return found if is_whole else None

    def _steps_among(self, since: int, until: int) -> list[Commit] | None:
        """Return the steps among some commits; ``None`` where one did something else to rows."""
        found = self._log.follow(since, until)
        if any(commit.redefines for commit in found):
            # A newer format may have come with a column.
            self._cache.columns = None
        steps = [commit for commit in found if not commit.is_quiet()]
        size = sum(file.size for commit in steps for file in commit.files)
        return steps if size <= _LARGE and all(commit.is_step() for commit in steps) else None

    def _read(
        self, made: Sequence[Commit], known: int, columns: Sequence[str]
    ) -> list[_Followed[_Head]] | None:
        """Return the steps after a known one; ``None`` where their rows cannot be had."""
        store, new = self._store, [commit for commit in made if (commit.step or 0) > known]
        log = store.native(self._which)
        if log is not None:
            rows = log.rows_of([file for commit in new for file in commit.files], columns)
        elif store.is_local():
            return None
        elif new:
            rows = store.rows_since(self._which, known, columns)
        else:
            return []
        of_steps: dict[int | None, list[Row]] = {commit.step: [] for commit in new}
        for row in rows.to_pylist():
            # A query may see steps that others have made since.
            if (step := of_steps.get(row["_step"])) is not None:
                step.append(row)
        return [self._step(rows) for rows in of_steps.values()]

    def _step(self, rows: Sequence[Row]) -> _Followed[_Head]:
        (body,) = [row["_body"] for row in rows if row["_kind"] == HEAD]
        return _Followed(self._log.parse(body), [row for row in rows if row["_kind"] != HEAD])
