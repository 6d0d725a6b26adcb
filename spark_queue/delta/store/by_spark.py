"""Frames of both logs of a queue, by a session of Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from spark_queue.delta.store.store import Store, is_long
from spark_queue.delta.store.tails import Tail
from spark_queue.delta.tables import recent
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import QUEUE_COLUMNS
from spark_queue.errors import InvalidArgumentError


def items(store: Store) -> DataFrame:
    """Return the rows of the item log that a reader sees."""
    since = store.registered().since_step
    rows = store.queue.read()
    return rows.where(F.col("_step") > since) if since else rows


def user_schema(store: Store) -> StructType:
    """Return the user's columns, in their order."""
    ours, columns = set(QUEUE_COLUMNS.names), StructType.fromJson(json.loads(store.columns()))
    return StructType([f for f in columns if f.name not in ours])


def rows_since(
    store: Store, which: LogName, step: int, columns: Sequence[str], most: int | None
) -> pa.Table:
    """Return some columns of the rows of the steps after one; see :meth:`Store.rows_since`."""
    log = store.queue if which == "queue" else store.status
    rows = log.read().where(F.col("_step") > step).select(*columns)
    if most is not None and rows.limit(most + 1).count() > most:
        why = f"has more than the {most:,} rows that a process looks at"
        raise InvalidArgumentError(f"the {which} log of {store.name!r} {why}")
    return rows.toArrow()


def recent_rows(store: Store, head: StatusHead) -> DataFrame:
    """Return what a fold to a step reads, as :meth:`Store.recent` says."""
    at_hand = remembered(store, head)
    if at_hand is not None:
        return at_hand
    rows = recent.since_checkpoint(store.status.read(), head)
    if is_long(head):
        return rows
    rows = rows.localCheckpoint()
    if store.is_local():
        store.position().tail = Tail(head, rows, rows.count())
    return rows


def remembered(store: Store, head: StatusHead) -> DataFrame | None:
    """Return the same where it is at hand without a read of the log."""
    tail = store.position().tail
    if tail is None or tail.head.token != head.token or not store.fits(tail):
        return None
    store.position().tail = tail = tail.staged()
    return tail.rows
