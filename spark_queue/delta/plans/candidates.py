"""Items that are neither over nor in flight."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from spark_queue.delta.plans import fold, tags
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.memory import is_long
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import READY, SCHEDULE
from spark_queue.delta.tables.settings import Settings


def waiting(store: Store, head: StatusHead) -> DataFrame:
    """Return every item that is neither over nor in flight, as of a step.

    Returns
    -------
    DataFrame
        ``_seq``, ``_gen``, ``_attempts``, ``_losses``, ``_was`` (its state) and the schedule.
    """
    recent = by_spark.recent_rows(store, head)
    touched = fold.find_touched(recent, is_long=is_long(head)).localCheckpoint()
    return unleased(store, head, store.settings(head), touched)


def unleased(store: Store, head: StatusHead, settings: Settings, touched: DataFrame) -> DataFrame:
    """Return every item that is not in flight."""
    untouched = fold.fresh(by_spark.items(store), head, settings).join(
        touched.select("_seq"), "_seq", "left_anti"
    )
    first = untouched.withColumns({"_losses": F.lit(0), "_was": F.lit(READY)})
    back = touched.where(F.col("_state") == READY).withColumn("_was", F.col("_state"))
    columns = ["_seq", "_gen", "_attempts", "_losses", "_was", *SCHEDULE]
    return first.unionByName(tags.with_weights(back.select(*columns), settings))
