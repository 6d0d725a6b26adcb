"""Frames of both logs of a queue, by a session of Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from spark_queue.delta.store.catching_up import MAX_TAIL, is_long
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import (
    ITEM,
    OPEN,
    OPEN_LANE,
    QUEUE_COLUMNS,
    RECENT,
    RENEWAL,
    SERVED,
    STATUS_COLUMNS,
)
from spark_queue.delta.tables.spark_types import struct_of
from spark_queue.delta.tables.wishes import is_remote
from spark_queue.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class Tail:
    """The rows of the status log since its checkpoint, as of a step.

    A process that makes step after step has their rows at hand, so that the next fold needs no
    read of the table. What others have made meanwhile ends it.
    """

    head: StatusHead
    rows: DataFrame
    count: int
    is_staged: bool = True

    def fits(self, store: Store) -> bool:
        """Tell whether it can be kept for a queue, and is in frames of its session."""
        return store.is_local() and self.rows.sparkSession is store.session

    def followed_by(self, head: StatusHead, rows: DataFrame | pa.Table | None) -> Tail | None:
        """Return the tail after a step; ``None`` where it is better read from the table."""
        if head.step != self.head.step + 1 or head.checkpoint != self.head.checkpoint:
            return None
        if rows is None:
            return replace(self, head=head)
        count = self.count + head.log_rows - self.head.log_rows
        if count > MAX_TAIL:
            return None
        spark = self.rows.sparkSession
        if isinstance(rows, pa.Table):
            rows = spark.createDataFrame(rows)
        elif is_remote(spark):
            # A server forgets frames that others were made of by SQL, once these are gone here.
            return None
        union = self.rows.unionByName(of_step(rows, head.step))
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
    """Return what a fold to a step reads (:func:`since_checkpoint`).

    It is staged, unless it is long: then to read it twice, a few columns each time, costs less.
    """
    at_hand = remembered(store, head)
    if at_hand is not None:
        return at_hand
    rows = since_checkpoint(store.status.read(), head)
    if is_long(head):
        return rows
    rows = rows.localCheckpoint()
    if store.is_local():
        store.position().tail = Tail(head, rows, rows.count())
    return rows


def remembered(store: Store, head: StatusHead) -> DataFrame | None:
    """Return the same where it is at hand without a read of the log."""
    tail = store.position().tail
    if tail is None or tail.head.token != head.token or not tail.fits(store):
        return None
    store.position().tail = tail = tail.staged()
    return tail.rows


def since_checkpoint(status: DataFrame, head: StatusHead) -> DataFrame:
    """Return the rows that a fold to a step reads: the checkpoint's, and those of the steps since.

    Parameters
    ----------
    status : DataFrame
        The status log.
    head : StatusHead
        The step to fold to.

    Returns
    -------
    DataFrame
        The columns :data:`RECENT`.
    """
    start = head.checkpoint.step
    is_move = F.col("_kind").isin(ITEM, RENEWAL)
    steps = is_move & (F.col("_step") > start) & (F.col("_step") <= head.step)
    base = (F.col("_gen") == OPEN_LANE) & (F.col("_step") == start)
    # The rows of a checkpoint lie in a lane, beside the generation of their item.
    rows = status.where(steps | base).withColumn("_gen", F.coalesce("_item_gen", "_gen"))
    return rows.select(*RECENT)


def of_step(rows: DataFrame, step: int) -> DataFrame:
    """Return the rows of one step, before they are in the log, as :func:`since_checkpoint` would.

    Parameters
    ----------
    rows : DataFrame
        What the step writes; columns of the log that it leaves out are null.
    step : int
        The number of the step.
    """
    written = rows.where(F.col("_kind").isin(ITEM, OPEN, SERVED, RENEWAL))
    if "_item_gen" in rows.columns:
        written = written.withColumn("_gen", F.coalesce("_item_gen", "_gen"))
    known = {name: F.col(name) for name in rows.columns} | {"_step": F.lit(step).cast("long")}
    nulls = {field.name: F.lit(None).cast(field.dataType) for field in struct_of(STATUS_COLUMNS)}
    return written.select(*[known.get(name, nulls[name]).alias(name) for name in RECENT])
