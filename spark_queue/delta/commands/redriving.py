"""Items that were over, enqueued again as new ones that name the old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_queue.acting import operator
from spark_queue.delta.commands import admin, enqueue, rows
from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.planner import planner_of
from spark_queue.delta.replica.request import EnqueueRules
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import logger
from spark_queue.delta.tables.schema import READY
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.results import Affected

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def redrive(store: Store, where: Any, *, again: bool) -> Affected:
    """Enqueue dead, expired or cancelled items again that are meant, once unless asked for more."""
    planner = planner_of(store)
    done = enqueued_again(
        store,
        lambda: planner.again(admin.redrivable(store, where, again=again)),
        ("_origin",),
        again=again,
    )
    made = {READY: done.inserted} if done.inserted else {}
    return Affected(done.inserted, becomes=made)


def enqueued_again(
    store: Store,
    find: Callable[[], DataFrame | pa.Table],
    extra: Sequence[str],
    *,
    again: bool = False,
    undone: int | None = None,
    dry_run: bool = False,
) -> Enqueued:
    """Enqueue items that were before as new ones, and none of them twice; log who did, if said.

    Parameters
    ----------
    store : Store
        The queue.
    find : callable
        Returns them as rows with the user's columns and those of the log that are named.
    extra : sequence of str
        Columns of the log that the rows have as well; ``_origin`` among them.
    again : bool
        Whether one may be among them that was enqueued again before.
    undone : int, optional
        The step that is taken back by this, which is logged, too.
    dry_run : bool
        Only decide it, and write nothing.
    """
    action = "enqueue" if undone is None else "undo"
    if isinstance(store.session, PlainSession):
        # Nobody enqueues the same meanwhile.
        with store.writing("queue"):
            frame = rows.checked_again(store, find(), extra)
            done = enqueue.entered(
                Snapshot(store), frame, EnqueueRules(), action=action, dry_run=dry_run
            )
    else:
        rules = EnqueueRules(redriven_since=None if again else store.queue_head().step)
        done = enqueue.enqueue(
            store,
            find(),
            order_by=None,
            rules=rules,
            extra=extra,
            action=action,
            dry_run=dry_run,
        )
    if dry_run or not done.inserted:
        return done
    if undone is not None:
        sign(store, done.step, "undo", f"undo {undone} by queue {done.step}")
    elif operator() is not None:
        sign(store, done.step, "redrive", str(done.step))
    return done


def sign(store: Store, step: int, action: str, about: str) -> None:
    """Log who brought items back by a step; they are in the queue, even if this fails."""
    try:
        admin.sign(store, action, about)
    except Exception:  # noqa: BLE001 - the step it is about stands
        logger.exception("%s: who redrove by step %d is not in the log", store.name, step)
