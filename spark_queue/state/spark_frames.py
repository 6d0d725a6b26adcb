"""Frames of both logs of a queue, by a session of Spark."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import (
    ITEM,
    OPEN,
    OPEN_LANE,
    RECENT,
    RENEWAL,
    SERVED,
    STATUS_COLUMNS,
    user_names,
)
from spark_queue.log.spark.spark_types import struct_of
from spark_queue.log.step_events import LogName
from spark_queue.state.store import Store

#: How many rows since a checkpoint Spark computes once for a step that reads them twice.
LONG = 200_000


def items(store: Store) -> DataFrame:
    """Return the rows of the item log that a reader sees."""
    since = store.registered().since_step
    rows = store.queue.read()
    return rows.where(F.col("_step") > since) if since else rows


def user_schema(store: Store) -> StructType:
    """Return the user's columns, in their order."""
    columns = store.columns()
    users = user_names(columns)
    return StructType([f for f in StructType.fromJson(json.loads(columns)) if f.name in users])


def rows_since(
    store: Store, which: LogName, step: int, columns: Sequence[str], most: int | None
) -> pa.Table:
    """Return some columns of the rows of the steps after one; see :meth:`Store.rows_since`."""
    rows = store.log(which).read().where(F.col("_step") > step).select(*columns)
    if most is not None and rows.limit(most + 1).count() > most:
        why = f"has more than the {most:,} rows that a process looks at"
        raise InvalidArgumentError(f"the {which} log of {store.name!r} {why}")
    return rows.toArrow()


def recent_rows(store: Store, head: StatusHead) -> DataFrame:
    """Return the rows of a fold to a step (:func:`since_checkpoint`).

    It is computed here, unless it is long: then to read it twice, a few columns each time, costs
    less.
    """
    rows = since_checkpoint(store.status.read(), head)
    return rows if head.log_rows > LONG else rows.localCheckpoint()


def since_checkpoint(status: DataFrame, head: StatusHead) -> DataFrame:
    """Return the rows of a fold to a step: the checkpoint's, and the later steps'.

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
    # The rows of a checkpoint lie in a lane, apart from their items' generations.
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
