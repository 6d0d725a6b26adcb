"""Small queues of a session of Spark that this process keeps in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from spark_queue.delta.commands import readers
from spark_queue.delta.store.handle import Handle
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.wishes import PlainSession, kept_by, small_steps
from spark_queue.session import DURABILITY

#: Rows of all logs of a queue up to which this process looks at them sooner than Spark does.
_MOST_ROWS = 1_000_000


def without_spark(store: Store) -> Store | None:
    """Return a small queue as a process without Spark sees it; ``None`` where Spark is needed."""
    # A session that asks for decisions by Spark, or by both, has its upkeep done there, too.
    if not Snapshot(store).are_files_read or small_steps(store.session) != "memory":
        return None
    if not store.handle.address.is_path or _sends_items(store) or not _is_small(store):
        return None
    mine = store.handle
    session = PlainSession({DURABILITY: kept_by(store.session)})
    handle = Handle(session, mine.address, mine.clock, mine.listener, mine.hook, mine.holder)
    # Both have to share what the process knows of the queue.
    is_same = handle.place.identity() == mine.place.identity()
    return Store(handle, store.reader) if is_same else None


def _sends_items(store: Store) -> bool:
    """Tell whether a reader sends items to other queues, for which their keys are compared."""
    limits = (reader.limits() for reader in readers.claiming(store))
    return any(one.expire_to or one.punt_to or one.punt_many_to for one in limits)


def _is_small(store: Store) -> bool:
    rows = 0.0
    for log in _logs(store):
        if log is None:
            return False
        rows += sum(file.rows for file in log.files())
    return rows <= _MOST_ROWS


def _logs(store: Store) -> Iterator[Log[Any] | None]:
    yield store.native("queue")
    yield from (reader.native("status") for reader in readers.with_logs(store))
