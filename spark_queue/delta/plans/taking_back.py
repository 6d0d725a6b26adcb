"""A past step and the items it ended, for undo."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from spark_queue.delta.planner import TAKEN, Made
from spark_queue.delta.plans import snapshot
from spark_queue.delta.plans.ending import inputs, quote
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CANCELLED, REFUSED, inputs_of


def read_made(store: Store, step: int) -> Made:
    """Return what a step of the reader's log has written."""
    rows = store.status.read().where(F.col("_step") == step)
    dropped = (F.col("_state") == CANCELLED) & F.col("_error").isNotNull()
    counted = rows.groupBy("_kind", "_state").agg(
        F.count(F.lit(1)).alias("rows"), F.count_if(dropped).alias("dropped")
    )
    found = counted.collect()
    return Made(
        rows={(row["_kind"], row["_state"]): row["rows"] for row in found},
        dropped=sum(row["dropped"] for row in found),
    )


def cancelled_in(store: Store, step: int) -> DataFrame:
    """Return the items that a cancel of a step ended, and that are cancelled since."""
    log = store.status.read()
    last = F.col("_newest")
    is_cancel = (last["_state"] == CANCELLED) & last["_error"].isNull()
    newest = snapshot.newest(log.where(F.col("_step") >= step))
    ended = newest.where((last["_step"] == step) & is_cancel).select("_seq")
    return snapshot.status(by_spark.items(store), log).join(ended, "_seq", "left_semi")


def restore(store: Store, found: DataFrame, *, keeps_place: bool) -> DataFrame:
    """Return items as rows to enqueue again, as they were, by their seqs."""
    users = store.user_columns()
    place = F.col("_round") if keeps_place else F.lit(None).cast("double")
    return found.orderBy("_seq").select(
        *quote(users),
        *inputs({column.name: name for name, column in inputs_of(users).items()}),
        F.col("_seq").alias("_origin"),
        place.alias("_round"),
        F.col("_attempts").alias("_errors"),
        "_enqueued_at",
    )


def find_taken(store: Store, step: int) -> list[tuple[int, int]]:
    """Return items that a step of the item log refused, and who has their key."""
    rows = store.queue.read().where((F.col("_step") == step) & (F.col("_kind") == REFUSED))
    first = rows.orderBy("_origin").limit(TAKEN).select("_origin", "_duplicate_of")
    return [(row[0], row[1]) for row in first.collect()]
