"""Items that a reader cannot keep, and that go to another queue: expired ones, and failed ones.

The target knows, by the head of its own log, up to which step of the reader it has them, as it
knows the batches of a stream: so each arrives exactly once, through any crash.
"""

from __future__ import annotations

from dataclasses import replace

from spark_queue.delta.commands import batches, enqueue
from spark_queue.delta.commands.batches import SourceBatch
from spark_queue.delta.planner import planner_of
from spark_queue.delta.replica.request import EnqueueRules
from spark_queue.delta.store import existence
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.addresses import placed
from spark_queue.delta.tables.facts import logger
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
    place = _place(store, target)
    source = f"{store.handle.place.location()}+{store.reader}"
    at, planner = Snapshot(store), planner_of(store)
    known = place.queue_head().streams.get(source)
    since = 0 if known is None else known.number
    if at.status.step <= since:
        return 0
    rows = planner.leaving(at, limits, target, since)
    if rows is not None and known is None:
        # Its mark may have left the head of the target.
        last = batches.last_of(Snapshot(place), source)
        rows = rows if last is None else planner.leaving(at, limits, target, last.number)
    if rows is None:
        return 0
    mark = SourceBatch(source, at.status.step)
    extra = ("_errors", "_body")
    done = enqueue.enqueue(
        place, rows, order_by=None, rules=EnqueueRules(), extra=extra, batch=mark
    )
    return done.inserted
