"""Items that were over, enqueued again as new ones that name the old."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from spark_queue.delta.commands import admin, enqueue, rows
from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.planner import planner_of
from spark_queue.delta.replica.request import EnqueueRules
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
    action: str = "enqueue",
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
    action : str
        What is told of the step.
    """
    if isinstance(store.session, PlainSession):
        # Nobody enqueues the same meanwhile.
        with store.writing("queue"):
            frame = rows.checked_again(store, find(), extra)
            done = enqueue.entered(store, frame, EnqueueRules(), action=action)
    else:
        rules = EnqueueRules(redriven_since=None if again else store.queue_head().step)
        done = enqueue.enqueue(
            store, find(), order_by=None, rules=rules, extra=extra, action=action
        )
    _sign(store, done.step)
    return done


def _sign(store: Store, step: int) -> None:
    """Log who did it; the items are in the queue, whatever comes of this."""
    try:
        admin.signed(store, step)
    except Exception:  # noqa: BLE001 - the step it is about stands
        logger.exception("%s: who redrove by step %d is not in the log", store.name, step)
