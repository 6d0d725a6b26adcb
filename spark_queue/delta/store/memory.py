"""What a process remembers of the queues it works with, so that a step need not read it again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import RLock

from pyspark.sql import DataFrame

from spark_queue.delta.replica.state import Replica
from spark_queue.delta.tables import recent
from spark_queue.delta.tables.heads import QueueHead, StatusHead
from spark_queue.delta.tables.native import Natives
from spark_queue.delta.tables.settings import Settings

#: How many rows of the status log a process remembers at most.
MAX_TAIL = 200_000


@dataclass(frozen=True, slots=True)
class Tail:
    """The rows of the status log since its checkpoint, as of a step.

    Kept by a process that is the only writer: its own steps are all that can follow, and it has
    their rows at hand, so that the next fold needs no read of the table.
    """

    head: StatusHead
    rows: DataFrame
    count: int
    is_staged: bool = True

    def followed_by(self, head: StatusHead, rows: DataFrame | None) -> Tail | None:
        """Return the tail after a step; ``None`` where it is better read from the table."""
        if head.step != self.head.step + 1 or head.checkpoint != self.head.checkpoint:
            return None
        if rows is None:
            return replace(self, head=head)
        count = self.count + head.log_rows - self.head.log_rows
        if count > MAX_TAIL:
            return None
        union = self.rows.unionByName(recent.of_step(rows, head.step))
        return Tail(head, union, count, is_staged=False)

    def staged(self) -> Tail:
        """Return the tail with its rows computed.

        What Spark estimates of a frame is the product of what it estimates of the frames that were
        joined for it, and a computed frame keeps its estimate: from step to step its digits would
        double. A limit, far beyond the rows there are, is the end of that.
        """
        if self.is_staged:
            return self
        bounded = self.rows.coalesce(1).limit(2 * self.count + MAX_TAIL)
        return replace(self, rows=bounded.localCheckpoint(), is_staged=True)


@dataclass
class Position:
    """What this process has seen of the status log of one reader."""

    head: StatusHead | None = None
    tail: Tail | None = None
    settings: dict[int, Settings] = field(default_factory=dict)
    replica: Replica | None = None
    too_large_until: int = 0
    """The step of both logs together up to which a replica would not fit into memory."""


@dataclass
class Cache:
    """What this process has seen of a queue, shared by all handles of it."""

    queue: QueueHead | None = None
    positions: dict[int, Position] = field(default_factory=dict)
    natives: Natives = field(default_factory=Natives)
    lock: RLock = field(default_factory=RLock)
    """Held while somebody looks at a replica, or changes it together with a head."""

    def position(self, reader: int) -> Position:
        """Return what was seen of a reader's log."""
        return self.positions.setdefault(reader, Position())

    def drop_replicas(self) -> None:
        """Forget the state of the items: the tables were changed by more than a step."""
        with self.lock:
            for position in self.positions.values():
                position.replica = None


_caches: dict[str, Cache] = {}


def cache_of(queue: str) -> Cache:
    """Return what this process knows of the queue at a place."""
    return _caches.setdefault(queue, Cache())


def forget(queue: str) -> None:
    """Drop what this process knows of the queue at a place."""
    _caches.pop(queue, None)
