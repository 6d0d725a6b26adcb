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
        (whether its delay is over), ``_over`` (null, or why it will never run) and more.
    in_flight : DataFrame
        ``_group_key`` of each item in flight.
    limit, run : int
        As above.
    on_failure : "block" or "skip"
        Whether an item that is not due holds up those behind it in its group, or is passed over.

    Returns
    -------
    DataFrame
        Rows of ``waiting`` that are due and may start, and those that are over, which hold nobody
        up.
    """
    due, over = F.col("_due"), F.col("_over").isNotNull()
    if on_failure == "skip":
        waiting = waiting.where(due | over)
    busy = _occupied(in_flight, most=1 if run > 1 else limit)
    joined = waiting.join(busy, "_group_key", "left").where(over | F.col("_full").isNull())
    # What is in no group, or over, stands in a line of its own: one scan serves all of them.
    alone = F.col("_group_key").isNull() | over
    line = Window.partitionBy(
        F.when(alone, F.col("_seq")), F.when(~alone, F.col("_group_key"))
    ).orderBy("_seq")
    # Spark keeps only the first rows of a group before the shuffle when the rank is bounded.
    most = limit * run
    first = joined.withColumn("_place", F.row_number().over(line)).where(F.col("_place") <= most)
    allowed = F.lit(most) - F.coalesce("_busy", F.lit(0))
    placed = first.where(alone | (F.col("_place") <= allowed))
    open_so_far = placed.withColumn("_open", F.min(due).over(line))
    return open_so_far.where(over | F.col("_open")).drop("_open", "_place", "_busy", "_full")


def _occupied(in_flight: DataFrame, *, most: int) -> DataFrame:
    counts = in_flight.where(F.col("_group_key").isNotNull()).groupBy("_group_key")
    busy = counts.agg(F.count(F.lit(1)).alias("_busy"))
    return busy.withColumn("_full", F.when(F.col("_busy") >= most, True))
