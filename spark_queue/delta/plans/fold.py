"""The state of the queue, folded from its logs.

A checkpoint holds what mattered of everything before it, so that a fold reads the checkpoint, the
steps since, and the items whose tags the order has not passed. Neither what waits further back
nor what finished long ago is read.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, functions as F

from spark_queue.delta.plans import tags
from spark_queue.delta.tables.heads import Checkpoint, StatusHead
from spark_queue.delta.tables.schema import CLAIMED, ITEM, OPEN, RENEWAL, SCHEDULE, STATE, TERMINAL
from spark_queue.delta.tables.settings import Settings


def find_touched(recent: DataFrame, *, is_long: bool = False) -> DataFrame:
    """Return the latest row of every item that was touched, or passed before the checkpoint.

    Parameters
    ----------
    recent : DataFrame
        As :func:`by_spark.since_checkpoint` returns it.
    is_long : bool
        Whether there are so many rows that a sort of them takes long.

    Returns
    -------
    DataFrame
        The columns :data:`STATE`, one row an item.
    """
    rows = recent.where(F.col("_kind").isin(ITEM, OPEN)).select(*STATE)
    if not is_long:
        return _latest(rows)
    # Most rows of a long log are of items that are over, whose last row is known without a sort.
    over = rows.where(F.col("_state").isin(*TERMINAL))
    left = rows.join(over.select("_seq").hint("shuffle_hash"), "_seq", "left_anti")
    return over.unionByName(_latest(left.select(*STATE)))


def find_held(recent: DataFrame) -> DataFrame:
    """Return the items of :func:`find_touched` that are in flight, and until when."""
    return renew(find_touched(recent).where(F.col("_state") == CLAIMED), recent)


# rule again: renewal of a lease
def renew(held: DataFrame, log: DataFrame) -> DataFrame:
    """Return items in flight until their leases end by the newest renewals in a status log."""
    renewals = log.where(F.col("_kind") == RENEWAL).groupBy(F.col("_lease").alias("_renewed"))
    until = renewals.agg(F.max_by("_lease_expires_at", "_step").alias("_until"))
    joined = held.join(F.broadcast(until), F.col("_lease") == F.col("_renewed"), "left")
    ends = F.coalesce("_until", "_lease_expires_at")
    return joined.withColumn("_lease_expires_at", ends).drop("_renewed", "_until")


# rule again: newest row of an item
def _latest(rows: DataFrame) -> DataFrame:
    latest = rows.groupBy("_seq").agg(F.max_by(F.struct(*STATE), "_step").alias("_latest"))
    return latest.select("_latest.*")


# rule again: untouched item
def fresh(queue: DataFrame, head: StatusHead, settings: Settings) -> DataFrame:
    """Return the items that no checkpoint knows: those ahead of its pointers, or enqueued since.

    Touched ones are among them; the caller leaves them out.

    Parameters
    ----------
    queue : DataFrame
        The item log, as far as the reader sees it.
    head : StatusHead
        The step that asks.
    settings : Settings
        The weights in force.

    Returns
    -------
    DataFrame
        ``_seq``, ``_gen``, ``_attempts`` (failures that an item brought with it), the schedule, and
        the columns of :func:`tags.with_weights`.
    """
    checkpoint = head.checkpoint
    items = queue.where(F.col("_kind") == ITEM).where(_may_be_ahead(checkpoint, settings))
    attempts = F.coalesce("_errors", F.lit(0)).alias("_attempts")
    placed = items.select("_seq", "_gen", "_step", attempts, *SCHEDULE)
    rows = tags.with_weights(placed, settings)
    turn = tags.turn_of(F.col("_round"))
    ahead = tags.is_ahead(turn, checkpoint.pointers) | (F.col("_step") > checkpoint.queue_step)
    return rows.where(ahead).drop("_step")


def _may_be_ahead(checkpoint: Checkpoint, settings: Settings) -> Column:
    """Bound the stored tags from below by literals, so that files are skipped."""
    pointers = checkpoint.pointers
    ahead = [
        (F.col("_priority") == priority) & (F.col("_round") >= settings.least_tag(priority, turn))
        for priority, (turn, _) in pointers.items()
    ]
    unseen = ~F.col("_priority").isin(list(pointers))
    return reduce(or_, ahead, unseen | (F.col("_step") > checkpoint.queue_step))
