"""Grouped serial: what may run now of each group."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from spark_queue.config import OnFailure


def may_start(
    waiting: DataFrame,
    in_flight: DataFrame,
    *,
    limit: int = 1,
    run: int = 1,
    on_failure: OnFailure = "block",
) -> DataFrame:
    """Keep the items that their group lets start: its first ones, in ``_seq`` order.

    A group lets ``limit`` items be in flight. With ``run`` above 1, a group with nothing in flight
    lets ``limit * run`` consecutive items start together, and any other group none.

    Parameters
    ----------
    waiting : DataFrame
        Items that are not in flight: ``_seq``, ``_group_key`` (null: in no group), ``_due``
        (whether its delay is over), and more.
    in_flight : DataFrame
        ``_group_key`` of each item in flight.
    limit, run : int
        As above.
    on_failure : "block" or "skip"
        Whether an item that is not due holds up those behind it in its group, or is passed over.

    Returns
    -------
    DataFrame
        Rows of ``waiting`` that are due and may start.
    """
    due = F.col("_due")
    grouped = waiting.where(F.col("_group_key").isNotNull())
    free = waiting.where(F.col("_group_key").isNull() & due)
    if on_failure == "skip":
        grouped = grouped.where(due)
    busy = _occupied(in_flight, most=1 if run > 1 else limit)
    candidates = grouped.join(busy.where("_full"), "_group_key", "left_anti")
    first = _first_of_group(candidates, limit * run)
    allowed = F.lit(limit * run) - F.coalesce("_busy", F.lit(0))
    placed = first.join(busy.drop("_full"), "_group_key", "left").where(F.col("_place") <= allowed)
    up_to_here = Window.partitionBy("_group_key").orderBy("_seq")
    open_so_far = placed.withColumn("_open", F.min(due).over(up_to_here))
    heads = open_so_far.where("_open").drop("_open", "_place", "_busy")
    return free.unionByName(heads)


def _occupied(in_flight: DataFrame, *, most: int) -> DataFrame:
    counts = in_flight.where(F.col("_group_key").isNotNull()).groupBy("_group_key")
    busy = counts.agg(F.count(F.lit(1)).alias("_busy"))
    return busy.withColumn("_full", F.col("_busy") >= most)


def _first_of_group(rows: DataFrame, count: int) -> DataFrame:
    # Spark keeps only the first rows of a group before the shuffle when the rank is bounded.
    place = F.row_number().over(Window.partitionBy("_group_key").orderBy("_seq"))
    return rows.withColumn("_place", place).where(F.col("_place") <= count)
