"""Items that a reader cannot keep, and that go to another queue: expired ones, and failed ones.

The target knows, by the head of its own log, up to which step of the reader it has them, as it
knows the batches of a stream: so each arrives exactly once, through any crash.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.commands import batches, enqueue, rows as input_rows
from spark_queue.delta.commands.batches import OvertakenError, SourceBatch
from spark_queue.delta.planner import planner_of
from spark_queue.delta.replica.request import EnqueueRules
from spark_queue.delta.sql import file_rows
from spark_queue.delta.store import existence
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.addresses import placed
from spark_queue.delta.tables.facts import logger
from spark_queue.delta.tables.schema import DEAD, EXPIRED, moves_of
from spark_queue.errors import SparkNeededError
from spark_queue.reader_config import ReaderConfig


def forward(store: Store) -> int:
    """Send what ended here since the last time to where it goes next; return how many items.

    A target that cannot take them is logged, and gets them the next time: what was claimed or
    settled in the same breath is its holder's all the same.
    """
    try:
        limits = store.limits()
    except Exception:  # noqa: BLE001 - the reader may be gone, and what it has claimed stands
        logger.exception("%s: what ended here waits for the next time", store.name)
        return 0
    return sum(_try_to_send(store, limits, target) for target in _targets(limits))


def with_targets(store: Store, limits: ReaderConfig) -> ReaderConfig:
    """Return limits whose targets are there, and mean the same for a process that works elsewhere.

    Raises
    ------
    QueueNotFoundError
        It names the queue that is missing.
    """
    placed = replace(
        limits,
        expire_to=_find_target(limits.expire_to),
        punt_to=_find_target(limits.punt_to),
        punt_many_to=_find_target(limits.punt_many_to),
    )
    for target in _targets(placed):
        existence.require_exists(_place(store, target))
    return placed


def _find_target(target: str | None) -> str | None:
    return None if target is None else placed(target)


def _targets(limits: ReaderConfig) -> list[str]:
    named = {limits.expire_to, limits.punt_to, limits.punt_many_to}
    return sorted(target for target in named if target is not None)


def _place(store: Store, target: str) -> Store:
    return existence.beside(store, target, store.listener)


def _try_to_send(store: Store, limits: ReaderConfig, target: str) -> int:
    try:
        return _send(store, limits, target)
    except SparkNeededError as exc:
        logger.info("%s: its items for %s wait for Spark: %s", store.name, target, exc)
        return 0
    except Exception:  # noqa: BLE001 - whatever it is, the next time may go well
        logger.exception("%s: its items for %s wait for the next time", store.name, target)
        return 0


def _send(store: Store, limits: ReaderConfig, target: str) -> int:
    at, place = Snapshot(store), _place(store, target)
    # One that is made again in the place of another has nothing yet.
    whose = limits, place.handle.place.identity()
    by, since = at.position.sent.get(target, (whose, 0))
    since = since if by == whose else 0
    if at.status.step <= since:
        return 0
    count = None
    while count is None:
        with suppress(OvertakenError):
            count = _send_since(at, limits, target, since)
    # Else each claim would read the whole log, while nothing goes there.
    at.position.sent[target] = whose, at.status.step
    return count


def _send_since(at: Snapshot, limits: ReaderConfig, target: str, since: int) -> int:
    store, place = at.store, _place(at.store, target)
    source = f"{store.handle.place.location()}+{store.reader}"
    known = place.queue_head().streams.get(source)
    since = since if known is None else max(since, known.number)
    rows = _leaving(at, limits, target, since)
    if rows is not None and known is None:
        # Its mark may have left the head of the target.
        last = batches.last_of(Snapshot(place), source)
        rows = rows if last is None else _leaving(at, limits, target, max(since, last.number))
    if rows is None:
        return 0
    mark = SourceBatch(source, at.status.step, follows=batches.number_of(known))
    extra = ("_errors", "_body")
    done = enqueue.enqueue(
        place, rows, order_by=None, rules=EnqueueRules(), extra=extra, batch=mark
    )
    return done.inserted


def _leaving(at: Snapshot, limits: ReaderConfig, target: str, since: int) -> Any:
    """Return the items that ended after a step and go to a target; ``None`` for no item."""
    if not at.are_files_read:
        return planner_of(at.store).leaving(at, limits, target, since)
    ended = _ends_since(at, since)
    meant = ended.filter(_goes_to(limits, target, ended))
    if at.has_spark and meant.num_rows > input_rows.FEW:
        return planner_of(at.store).leaving(at, limits, target, since)
    return _rows(at.store, meant) if meant.num_rows else None


def _ends_since(at: Snapshot, since: int) -> pa.Table:
    """Return what became of items after a step."""
    last = at.status.step
    found = file_rows.rows_of(
        at.store,
        "status",
        ("_step", "_seq", "_state", "_attempts"),
        lambda file: file.may_have("_step", since + 1, last),
    )
    is_new = pc.and_(pc.greater(found["_step"], since), pc.less_equal(found["_step"], last))
    return found.filter(is_new)


def _goes_to(limits: ReaderConfig, target: str, ended: pa.Table) -> pa.ChunkedArray:
    """Tell of each whether it goes to a target."""
    failed = pc.fill_null(ended["_attempts"], 0)
    has_many = pc.and_(
        pa.scalar(limits.punt_many_to is not None), pc.greater_equal(failed, limits.punt_many_at)
    )
    is_dead, is_expired = (pc.equal(ended["_state"], state) for state in (DEAD, EXPIRED))
    ways = (
        (limits.expire_to, is_expired),
        (limits.punt_many_to, pc.and_(is_dead, has_many)),
        (limits.punt_to, pc.and_(is_dead, pc.invert(has_many))),
    )
    return reduce(pc.or_, [which for where, which in ways if where == target])


def _rows(store: Store, meant: pa.Table) -> pa.Table:
    """Return the items as rows to enqueue: their errors come with them, and where they were."""
    names = store.user_columns()
    kept = moves_of(names)
    seqs = meant["_seq"].combine_chunks()
    least, most = pc.min(seqs).as_py(), pc.max(seqs).as_py()
    found = file_rows.rows_of(
        store, "queue", ("_seq", *names, *kept), lambda file: file.may_have("_seq", least, most)
    )
    items = found.filter(pc.is_in(found["_seq"], seqs)).sort_by("_seq")
    place = f"{store.name}+{store.registered().name}"
    columns = {name: items[name] for name in names}
    columns |= {name: items[column] for column, name in kept.items()}
    columns["_errors"] = meant["_attempts"].take(pc.index_in(items["_seq"], seqs))
    columns["_body"] = pa.array(
        [f"{place}/{seq}" for seq in items["_seq"].to_pylist()], pa.string()
    )
    return pa.table(columns)
