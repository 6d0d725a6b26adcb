"""Commit of a step, and the memory of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar

import pyarrow as pa

from spark_queue.errors import FencedError
from spark_queue.log import maintenance
from spark_queue.log.delta import completeness
from spark_queue.log.delta.log import Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.heads import QueueHead, StatusHead
from spark_queue.log.session_options import promises_disk
from spark_queue.log.step_events import LogName
from spark_queue.state import catch_up, fence, replica_choice
from spark_queue.state.catch_up import Seen
from spark_queue.state.existence import require_steps
from spark_queue.state.open_items import ENTERED, FOLLOWED, Row
from spark_queue.state.replica_rows import rows_of
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Head = TypeVar("_Head", QueueHead, StatusHead)

#: The rows that a step writes with its head.
Rows: TypeAlias = "DataFrame | pa.Table | None"


def commit_items(at: Snapshot, head: QueueHead, rows: Rows, *, small: bool = True) -> float | None:
    """Append a step to the item log, and apply it to this process's replicas.

    Returns
    -------
    float or None
        The seconds that it took to commit; ``None`` where the step was lost to another writer.

    Raises
    ------
    FencedError
        When a front that is not the writer holds the queue.
    """
    store, began = at.store, time.monotonic()
    head = _admit(at, head)
    ours = _append(at, "queue", head, rows, small=small)
    took = time.monotonic() - began
    cache = at.cache
    with cache.lock:
        if _is_large(at, rows):
            cache.drop_replicas()
        if ours and _follows(cache.queue, head) and not _is_frame(rows):
            catch_up.apply_items(cache, head, _rows(rows, ENTERED) if cache.has_replicas() else [])
            _note(at, "queue", cache.queue, head)
        elif store.is_local():
            _require_reached(at, "queue", catch_up.items(store, cache), head)
        elif not store.is_followed():
            cache.queue.head = head if ours else _winner(at, "queue", head)
        elif not ours:
            # Whoever looks next follows it; here it only has to be there.
            _winner(at, "queue", head)
    return took if ours else None


def commit_status(
    at: Snapshot, head: StatusHead, rows: Rows, *, small: bool = True
) -> float | None:
    """Append a step to the status log; as :func:`commit_items`."""
    store, began = at.store, time.monotonic()
    head = _admit(at, head)
    position = at.position
    if small and _is_frame(rows) and at.status_log is not None:
        # The columns of that log are our own, and its rows are states, not items.
        rows = rows.toArrow()
    ours = _append(at, "status", head, rows, small=small)
    took = time.monotonic() - began
    with at.cache.lock:
        if _is_large(at, rows):
            position.replica = None
        if ours and _follows(position.status, head) and not _is_frame(rows):
            known = _rows(rows, FOLLOWED) if position.replica else []
            catch_up.apply_status(position, head, known)
            _note(at, "status", position.status, head)
        elif store.is_local():
            _require_reached(at, "status", catch_up.status(store, at.cache, position), head)
        elif not store.is_followed():
            position.status.head = head if ours else _winner(at, "status", head)
        elif not ours:
            _winner(at, "status", head)
    return took if ours else None


def require_not_held(store: Store, head: QueueHead | StatusHead) -> None:
    """Raise where another front still holds the queue."""
    if not head.hold.by or head.hold.by == store.handle.holder:
        return
    # A status log only names its holder; the item log says until when, or that it has left.
    hold = store.queue_head().hold
    if not fence.is_over(hold, store.clock.now(), store.handle.place.directory()):
        raise FencedError(f"queue {store.name!r}", f"the front {hold.by}")


def _follows(seen: Seen[_Head], head: _Head) -> bool:
    return head.step == (1 if seen.head is None else seen.head.step + 1)


def _note(at: Snapshot, which: LogName, seen: Seen[_Head], head: _Head) -> None:
    """Count a commit of our own among those already seen."""
    version = _version(at, which, seen, head)
    if version is not None and seen.version in (None, version - 1):
        seen.version = version


def _version(
    at: Snapshot, which: LogName, seen: Seen[Any], head: QueueHead | StatusHead
) -> int | None:
    """Return the version of our own step, where no query is needed for it."""
    native: Log[Any] | None = at.item_log if which == "queue" else at.status_log
    if native is not None:
        return native.version_at(head)
    return at.store.log(which).version_of(head.token, seen.version)


def _winner(at: Snapshot, which: LogName, lost: _Head) -> _Head:
    """Return the newest head after a step was lost."""
    newest: _Head = completeness.winner(at.store.name, which, at.store.log(which), lost)
    return newest


def _require_reached(at: Snapshot, which: LogName, newest: _Head, head: _Head) -> None:
    """Check that a step exists, made by any process."""
    if newest.step < head.step:
        _winner(at, which, head)


def _admit(at: Snapshot, head: _Head) -> _Head:
    """Return the head of a step that may be written now."""
    require_not_held(at.store, head)
    if head.hold.by and head.hold.by != at.handle.holder:
        # It is over; its front may only be late, and must see that others have written.
        head = fence.without_hold(head)
    return replace(head, at=at.handle.clock.now().isoformat())


def _append(at: Snapshot, which: LogName, head: _Head, rows: Rows, *, small: bool) -> bool:
    """Commit a step the way the store commits."""
    store, handle = at.store, at.handle
    if handle.hook is not None:
        handle.hook(which)
    is_synced, is_table = promises_disk(handle.session), rows is None or isinstance(rows, pa.Table)
    log = store.log(which)
    if handle.is_native and isinstance(log, DeltaLog) and is_table:
        ours = log.append(head, rows, is_synced=is_synced)
    else:
        seen = at.cache.queue if which == "queue" else at.position.status
        is_readable = (at.item_log if which == "queue" else at.status_log) is not None
        require_steps(store, which, seen, head.step - 1, is_readable=is_readable)
        # Rows that are here need no Spark, however many they are.
        small = small or is_table
        ours = log.commit(head, rows, small=small, known=seen.version, is_synced=is_synced)
    if ours and is_table and isinstance(log, DeltaLog):
        maintenance.look_after(log)
    return ours


def _is_large(at: Snapshot, rows: Rows) -> bool:
    """Whether rows are cheaper to read again when needed than to follow one by one."""
    is_large = isinstance(rows, pa.Table) and rows.num_rows > replica_choice.LARGE
    return is_large and at.are_files_read


def _is_frame(rows: Rows) -> TypeGuard[DataFrame]:
    return rows is not None and not isinstance(rows, pa.Table)


def _rows(table: pa.Table | None, columns: Sequence[str]) -> list[Row]:
    """Return a step's rows with some columns; missing columns are null."""
    if table is None:
        return []
    return rows_of(table, columns)
