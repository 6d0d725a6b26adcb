"""How a step is committed: by which lane, and what this process knows after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_queue.delta.replica.state import ENTERED, FOLLOWED, Replica, Row
from spark_queue.delta.store import fencing
from spark_queue.delta.store.newest import Newest
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.heads import QueueHead, StatusHead
from spark_queue.delta.tables.log import Log, promises_disk
from spark_queue.errors import FencedError

_Head = TypeVar("_Head", QueueHead, StatusHead)

#: What a step writes beside its head.
Rows: TypeAlias = DataFrame | pa.Table | None


def commit_items(store: Store, head: QueueHead, rows: Rows, *, small: bool = True) -> bool:
    """Append a step to the item log; False where it was lost to another writer.

    Raises
    ------
    FencedError
        When a front holds the queue, and it is not the one that writes.
    """
    head = _admitted(store, head)
    before = store.cache().queue
    ours = _append(store, "queue", store.queue, store.newest_items, head, rows, small=small)
    newest = head if ours else store.newest_items.winner(head)
    cache = store.cache()
    with cache.lock:
        cache.queue = _later(cache.queue, newest)
        if ours and before is not None:
            _enter(store, before, head, rows)
    return ours


def commit_status(store: Store, head: StatusHead, rows: Rows, *, small: bool = True) -> bool:
    """Append a step to the status log; False where it was lost to another writer.

    Raises
    ------
    FencedError
        When a front holds the queue, and it is not the one that writes.
    """
    head = _admitted(store, head)
    at = store.position()
    before, tail = at.head, at.tail
    staged = rows
    if small and isinstance(rows, DataFrame) and store.native("status") is not None:
        # The columns of that log are our own, and its rows are states, not items.
        staged = rows.toArrow()
    ours = _append(store, "status", store.status, store.newest_status, head, staged, small=small)
    newest = head if ours else store.newest_status.winner(head)
    cache = store.cache()
    with cache.lock:
        at.head, replica = _later(at.head, newest), at.replica
        if ours and replica and before is not None and replica.status == before.token:
            at.replica = _followed(replica, head, staged)
    # What came as a table is not for a fold: who wrote it has it in memory.
    frame = None if isinstance(rows, pa.Table) else rows
    is_newest = at.head is newest
    goes_on = ours and is_newest and frame is rows and tail is not None and store.fits(tail)
    at.tail = tail.followed_by(head, frame) if tail and goes_on else None
    return ours


def require_not_held(store: Store, head: QueueHead | StatusHead) -> None:
    """Raise where a step would follow upon one of a front that still holds the queue."""
    if head.hold.by in ("", store.handle.holder):
        return
    # A status log only names its holder; the item log says until when, or that it has left.
    hold = store.queue_head().hold
    if not fencing.is_over(hold, store.clock.now(), only_writer=store.is_only_writer()):
        raise FencedError(f"queue {store.name!r}", f"the front {hold.by}")


def _later(known: _Head | None, head: _Head) -> _Head:
    """Return the later of two heads: whoever committed first may come to tell of it last."""
    return head if known is None or known.step <= head.step else known


def _admitted(store: Store, head: _Head) -> _Head:
    """Return the head of a step that may be written now."""
    require_not_held(store, head)
    return replace(head, at=store.clock.now().isoformat())


def _append(
    store: Store,
    which: LogName,
    log: Log[_Head],
    newest: Newest[_Head],
    head: _Head,
    rows: Rows,
    *,
    small: bool,
) -> bool:
    """Commit a step the way the store commits."""
    if store.handle.hook is not None:
        store.handle.hook(which)
    natives, is_synced = store.handle.natives, promises_disk(store.spark)
    is_table = rows is None or isinstance(rows, pa.Table)
    if natives is not None and is_table:
        return natives.of(log).commit(head, rows, is_synced=is_synced)
    newest.require_end(head.step - 1)
    native_log = store.native(which) if small and is_table else None
    if native_log is not None:
        log.require_own_transactions()
        return native_log.commit(head, rows, is_synced=is_synced)
    if isinstance(rows, pa.Table):
        rows = store.spark.createDataFrame(rows)
    ours = log.commit(head, rows, small=small)
    if ours:
        log.force()
    return ours


def _enter(store: Store, before: QueueHead, head: QueueHead, rows: Rows) -> None:
    """Let the replicas of all readers follow a step; those that cannot are dropped."""
    known = None if isinstance(rows, DataFrame) else _rows(rows, ENTERED)
    for number, position in store.cache().positions.items():
        replica = position.replica
        if replica is None or known is None or replica.queue != before.token:
            position.replica = None
        elif number in head.readers:
            replica.enter(head.token, known)


def _followed(replica: Replica, head: StatusHead, rows: Rows) -> Replica | None:
    """Return a replica after a step; ``None`` where it is not at hand what that wrote."""
    if isinstance(rows, DataFrame):
        return None
    replica.follow(head.token, head.step, _rows(rows, FOLLOWED))
    return replica


def _rows(table: pa.Table | None, columns: Sequence[str]) -> list[Row]:
    """Return some columns of what a step wrote; those that it left out are null."""
    if table is None:
        return []
    known = table.select([name for name in table.column_names if name in columns])
    return [{**dict.fromkeys(columns), **row} for row in known.to_pylist()]
