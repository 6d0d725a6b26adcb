"""Rows of a status log's checkpoint, folded by Spark."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.planner import StagedCheckpoint
from spark_queue.delta.plans import fold, tags
from spark_queue.delta.store.store import Store, is_long
from spark_queue.delta.tables.heads import Checkpoint, StatusHead, following
from spark_queue.delta.tables.schema import CLAIMED, OPEN, OPEN_LANE, READY, SCHEDULE, SERVED, STATE
from spark_queue.delta.tables.settings import Settings

#: How far ahead of the pointer an item may be that another weight puts behind it: a last digit.
_NEAR = 1e-3


def staged(
    store: Store,
    head: StatusHead,
    settings: Settings,
    changed: Settings | None = None,
    beside: pa.Table | None = None,
) -> StagedCheckpoint:
    """Fold the queue to a step, and keep what still matters.

    That is: every live item that was touched or that the pointers have passed; every finished
    item that they have yet to pass, so that it is not taken for a fresh one; and what each line
    was served, stretched where ``changed`` settings give its key another weight. Rows that the step
    has ``beside`` come first.
    """
    # The log itself is asked: a step of this very moment may not be in the head yet.
    newest = store.queue.head()
    queue_step = newest.step if newest is not None else 0
    queue = store.items().where(F.col("_step") <= queue_step)
    recent = store.recent(head)
    touched = fold.touched(recent, is_long=is_long(head)).localCheckpoint()
    turn = tags.turn_of(F.col("_round"))
    ahead = tags.is_ahead(turn, head.pointers)
    live = F.col("_state").isin(READY, CLAIMED)
    # Whoever reads the checkpoint asks by the settings to come, where a turn may differ in its last
    # digit: what is on this side of the pointer now must be there then.
    after = changed or settings
    kept = tags.with_weights(touched, after).where(live | ahead).select(*STATE)
    near = fold.fresh(queue, head, settings, width=_NEAR).select(
        "_seq", "_gen", "_attempts", *SCHEDULE
    )
    passed = (
        tags.with_weights(near, after)
        .where(~ahead)
        .join(touched.select("_seq"), "_seq", "left_anti")
        .select("_seq", "_gen", "_attempts", *SCHEDULE)
        .withColumns({"_state": F.lit(READY), "_losses": F.lit(0)})
    )
    rows = kept.unionByName(passed, allowMissingColumns=True).drop("_step")
    rows = rows.withColumns({"_item_gen": F.col("_gen"), "_kind": F.lit(OPEN)})
    if settings.config.fair_key is not None:
        served = _stretched(_served(recent), head, settings, after)
        rows = rows.unionByName(served, allowMissingColumns=True)
    rows = rows.withColumn("_gen", F.lit(OPEN_LANE)).sortWithinPartitions("_priority", "_round")
    step = head.step + 1
    checkpoint = Checkpoint(step=step, queue_step=queue_step, pointers=head.pointers)
    rows = rows.localCheckpoint()
    if beside is not None:
        first = store.spark.createDataFrame(beside)
        rows = first.unionByName(rows, allowMissingColumns=True)
    return StagedCheckpoint(rows=rows, head=following(head, log_rows=0, checkpoint=checkpoint))


# rule again: weight of a key
def _stretched(served: DataFrame, head: StatusHead, before: Settings, after: Settings) -> DataFrame:
    """Move turns that were handed out to where they are at another weight: around the pointer."""
    pointer, turn = tags.pointer_turn(head.pointers), F.col("_turn")
    moved = turn
    for key, stretch in after.stretches.items():
        old = before.stretch(key).weight
        if stretch.weight != old:
            at = pointer + (turn - pointer) * F.lit(old / stretch.weight)
            moved = F.when(F.col("_fair_key") == key, at).otherwise(moved)
    return served.withColumn("_turn", moved)


def _served(recent: DataFrame) -> DataFrame:
    lines = fold.served(recent)
    kind = F.lit(SERVED).alias("_kind")
    regular = lines.select(
        "_priority",
        "_fair_key",
        F.col("_regular_turn").alias("_turn"),
        F.lit(False).alias("_overdue"),
        kind,
    )
    overdue = lines.select(
        "_priority",
        "_fair_key",
        F.col("_overdue_turn").alias("_turn"),
        F.lit(True).alias("_overdue"),
        kind,
    )
    return regular.unionByName(overdue).where("_turn is not null")
