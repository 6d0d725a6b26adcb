"""Memory of a process about its queues, which saves reads."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Generic, TypeVar

from spark_queue.delta.replica.rules import ReaderTerms
from spark_queue.delta.replica.state import Replica
from spark_queue.delta.tables.forks import is_stuck
from spark_queue.delta.tables.heads import QueueHead, Registered, StatusHead
from spark_queue.delta.tables.settings import Settings
from spark_queue.reader_config import ReaderConfig

if TYPE_CHECKING:
    from spark_queue.delta.store.by_spark import Tail

_Head = TypeVar("_Head", QueueHead, StatusHead)


#: How many rows of the status log a process remembers at most.
MAX_TAIL = 200_000


def is_long(head: StatusHead) -> bool:
    """Tell whether more was written since the checkpoint than a process keeps at hand."""
    return head.log_rows > MAX_TAIL


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
    """That what a step had to look at did not fit into memory."""

    until: int = 0
    """The step of both logs together up to which that is not tried again."""
    claimed: int = 0
    """How many items were in flight then: half of them, and it is another queue."""

    def is_now(self, queue: QueueHead, status: StatusHead) -> bool:
        """Tell whether it would not fit as of two heads, for all that is known."""
        return queue.step + status.step < self.until and 2 * status.claimed >= self.claimed


@dataclass
class Position:
    """What this process has seen of the status log of one reader."""

    status: Seen[StatusHead] = field(default_factory=Seen)
    tail: Tail | None = None
    settings: dict[int, Settings] = field(default_factory=dict)
    replica: Replica | None = None
    too_large: TooLarge = field(default_factory=TooLarge)
    run_length: float = FIRST_RUN
    """How many items of a group a claim probably finishes, as earlier ones taught."""
    _limits: tuple[Registered, ReaderConfig] | None = None
    _terms: ReaderTerms | None = None

    def limits_of(self, facts: Registered) -> ReaderConfig:
        """Return what a reader allows, which is read once as long as it stays the same."""
        known = self._limits
        if known is None or known[0].config != facts.config:
            known = self._limits = facts, ReaderConfig.from_dict(facts.config)
        return known[1]

    def terms_of(self, settings: Settings, limits: ReaderConfig) -> ReaderTerms:
        """Return the terms by which items are judged, made once as long as they stay the same."""
        known = self._terms
        if known is None or (known.settings, known.limits) != (settings, limits):
            known = self._terms = ReaderTerms(settings, limits)
        return known


@dataclass
class Cache:
    """What this process has seen of a queue, shared by all handles of it."""

    queue: Seen[QueueHead] = field(default_factory=Seen)
    positions: dict[int, Position] = field(default_factory=dict)
    columns: str | None = None
    """The columns of the item log on a shared store, until a commit changes more than rows."""
    lock: RLock = field(default_factory=RLock)
    """Held while somebody looks at a replica, or changes it together with a head."""

    def position(self, reader: int) -> Position:
        """Return what was seen of a reader's log."""
        return self.positions.setdefault(reader, Position())

    def has_replicas(self) -> bool:
        """Tell whether the state of the items is known for some reader."""
        return any(position.replica is not None for position in self.positions.values())

    def drop_replicas(self) -> None:
        """Forget the state of the items: the tables were changed by more than a step."""
        with self.lock:
            for position in self.positions.values():
                position.replica = None


_caches: dict[str, Cache] = {}


def cache_of(queue: str) -> Cache:
    """Return what this process knows of the queue at a place."""
    return _caches.get(queue) or _caches.setdefault(queue, Cache())


def forget(queue: str) -> None:
    """Drop what this process knows of the queue at a place."""
    _caches.pop(queue, None)


def _part_from_parent() -> None:
    """Forget what a thread of the parent was about to change: it is not in this child."""
    for queue, cache in list(_caches.items()):
        if is_stuck(cache.lock):
            forget(queue)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part_from_parent)
