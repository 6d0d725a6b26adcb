"""The rows of the status log that a fold reads: its checkpoint's, and those of the steps since."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import (
    ITEM,
    OPEN,
    OPEN_LANE,
    RECENT,
    SERVED,
    STATUS_COLUMNS,
)
from spark_queue.delta.tables.spark_types import struct_of


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
    steps = (F.col("_kind") == ITEM) & (F.col("_step") > start) & (F.col("_step") <= head.step)
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
    written = rows.where(F.col("_kind").isin(ITEM, OPEN, SERVED))
    if "_item_gen" in rows.columns:
        written = written.withColumn("_gen", F.coalesce("_item_gen", "_gen"))
    known = {name: F.col(name) for name in rows.columns} | {"_step": F.lit(step).cast("long")}
    nulls = {field.name: F.lit(None).cast(field.dataType) for field in struct_of(STATUS_COLUMNS)}
    return written.select(*[known.get(name, nulls[name]).alias(name) for name in RECENT])
