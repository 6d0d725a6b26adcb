"""Commit of a step, and the memory of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import pyarrow as pa

from spark_queue.delta.replica.columns import rows_of
from spark_queue.delta.replica.state import ENTERED, FOLLOWED, Row
from spark_queue.delta.store import catching_up, fencing, replicas
from spark_queue.delta.store.memory import Seen
from spark_queue.delta.store.newest import Newest
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import tidying
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.heads import QueueHead, StatusHead
from spark_queue.delta.tables.local_log import LocalLog
from spark_queue.delta.tables.log import Log
from spark_queue.delta.tables.wishes import PlainSession, promises_disk
from spark_queue.errors import FencedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Head = TypeVar("_Head", QueueHead, StatusHead)

#: What a step writes beside its head.
Rows: TypeAlias = "DataFrame | pa.Table | None"


def commit_items(store: Store, head: QueueHead, rows: Rows, *, small: bool = True) -> bool:
    """Append a step to the item log; False where it was lost to another writer.

    Raises
    ------
    FencedError
        When a front holds the queue, and it is not the one that writes.
    """
    head = _admitted(store, head)
    ours = _append(store, "queue", store.queue, store.newest_items, head, rows, small=small)
    cache = store.cache()
    with cache.lock:
        if _is_large(store, rows):
            cache.drop_replicas()
        if ours and _follows(cache.queue, head) and not _is_frame(rows):
            catching_up.entered(cache, head, _rows(rows, ENTERED) if cache.has_replicas() else [])
            _note(store, "queue", cache.queue, head)
        elif store.is_local():
            _require_reached(catching_up.items(store), head, store.newest_items)
        elif not store.is_followed():
            cache.queue.head = head if ours else store.newest_items.winner(head)
        elif not ours:
            # Whoever looks next follows it; here it only has to be there.
            store.newest_items.winner(head)
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
    tail, staged = at.tail, rows
    if small and _is_frame(rows) and store.native("status") is not None:
        # The columns of that log are our own, and its rows are states, not items.
        staged = rows.toArrow()
    ours = _append(store, "status", store.status, store.newest_status, head, staged, small=small)
    with store.cache().lock:
        if _is_large(store, staged):
            at.replica = None
        if ours and _follows(at.status, head) and not _is_frame(staged):
            catching_up.followed(at, head, _rows(staged, FOLLOWED) if at.replica else [])
            _note(store, "status", at.status, head)
        elif store.is_local():
            _require_reached(catching_up.status(store), head, store.newest_status)
        elif not store.is_followed():
            at.status.head = head if ours else store.newest_status.winner(head)
        elif not ours:
            store.newest_status.winner(head)
        # What came as a table is not for a fold: who wrote it has it in memory.
        frame = None if isinstance(rows, pa.Table) else rows
        newest = at.status.head
        is_newest = newest is not None and newest.token == head.token
        goes_on = ours and is_newest and frame is rows and tail is not None and store.fits(tail)
        at.tail = tail.followed_by(head, frame) if tail and goes_on else None
    return ours


def require_not_held(store: Store, head: QueueHead | StatusHead) -> None:
    """Raise where a step would follow upon one of a front that still holds the queue."""
    if head.hold.by in ("", store.handle.holder):
        return
    # A status log only names its holder; the item log says until when, or that it has left.
    hold = store.queue_head().hold
    if not fencing.is_over(hold, store.clock.now(), store.handle.place.directory()):
        raise FencedError(f"queue {store.name!r}", f"the front {hold.by}")


def _follows(seen: Seen[_Head], head: _Head) -> bool:
    """Tell whether a step is the next one after what is known."""
    return head.step == (1 if seen.head is None else seen.head.step + 1)


def _note(store: Store, which: LogName, seen: Seen[_Head], head: _Head) -> None:
    """Count a commit of our own among those that were looked at."""
    version = _version(store, which, seen, head)
    if version is not None and seen.version in (None, version - 1):
        seen.version = version


def _version(
    store: Store, which: LogName, seen: Seen[Any], head: QueueHead | StatusHead
) -> int | None:
    """Return the version that a step of ours has made, where that is known without a query."""
    native = store.native(which)
    if native is not None:
        return native.version_at(head)
    log = store.queue if which == "queue" else store.status
    return log.version_of(head.token, seen.version)


def _require_reached(newest: _Head, head: _Head, log: Newest[_Head]) -> None:
    """Check that a step is there, made by any process."""
    if newest.step < head.step:
        log.winner(head)


def _admitted(store: Store, head: _Head) -> _Head:
    """Return the head of a step that may be written now."""
    require_not_held(store, head)
    if head.hold.by not in ("", store.handle.holder):
        # It is over; its front may only be late, and must see that somebody has written.
        head = fencing.freed(head)
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
    natives, is_synced = store.handle.natives, promises_disk(store.session)
    is_table = rows is None or isinstance(rows, pa.Table)
    if natives is not None and is_table:
        return _committed(natives.of(log), head, rows, is_synced=is_synced)
    seen = store.cache().queue if which == "queue" else store.position().status
    store.require_end(which, newest, seen, head.step - 1)
    # Rows that are here need no Spark, however many they are; without it there is no other way.
    small = small or isinstance(rows, pa.Table) or isinstance(store.session, PlainSession)
    native_log = store.native(which) if small and is_table else None
    if native_log is not None:
        log.require_own_transactions()
        return _committed(native_log, head, rows, is_synced=is_synced)

    return log.commit(head, rows, small=small, known=seen.version)


def _committed(log: Log[Any], head: _Head, rows: Rows, *, is_synced: bool) -> bool:
    """Commit a step without Spark, and have the log looked after by others than its caller."""
    ours = log.commit(head, rows, is_synced=is_synced)
    if ours and isinstance(log, LocalLog):
        tidying.look_after(log)
    return ours


def _is_large(store: Store, rows: Rows) -> bool:
    """Tell whether rows are sooner read again, where they are needed, than followed one by one."""
    is_large = isinstance(rows, pa.Table) and rows.num_rows > replicas.LARGE
    return is_large and replicas.are_files_read(store)


def _is_frame(rows: Rows) -> TypeGuard[DataFrame]:
    return rows is not None and not isinstance(rows, pa.Table)


def _rows(table: pa.Table | None, columns: Sequence[str]) -> list[Row]:
    """Return some columns of what a step wrote; those that it left out are null."""
    if table is None:
        return []
    return rows_of(table, columns)
