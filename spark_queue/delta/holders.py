"""Who holds a dedup key: the rule of the distinct queue, asked of the logs."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.config import DedupScope
from spark_queue.delta.schema import ITEM, TERMINAL


def repeated_hashes(rows: DataFrame, partitions: int) -> DataFrame:
    """Return the hashes of keys that a frame has more than once.

    A frame without duplicates, the common case, is answered by this one aggregate over a number.

    Parameters
    ----------
    rows : DataFrame
        ``_dedup_hash``, null for rows without a key.
    partitions : int
        Into how many parts to divide the work, so that the keys of each fit into memory.
    """
    keys = rows.select("_dedup_hash").where(F.col("_dedup_hash").isNotNull())
    if partitions > 1:
        # Nearly all keys differ: to count them before the shuffle would be to count them twice.
        keys = keys.repartition(partitions, "_dedup_hash")
    return keys.groupBy("_dedup_hash").count().where("count > 1").select("_dedup_hash")


def last_accepted(items: DataFrame, keys: DataFrame) -> DataFrame:
    """Return the newest item of each key that was ever accepted.

    At most one item of a key is live, and it is the newest: a key is accepted again only after
    the one before it finished.

    Parameters
    ----------
    items : DataFrame
        The item log.
    keys : DataFrame
        ``_dedup_key``, ``_dedup_hash`` of the rows that ask.

    Returns
    -------
    DataFrame
        ``_dedup_key``, ``_holder`` (its seq), ``_accepted_at``.
    """
    asked = keys.select("_dedup_key", "_dedup_hash").where(F.col("_dedup_key").isNotNull())
    accepted = items.where(F.col("_kind") == ITEM)
    accepted = accepted.select("_dedup_key", "_dedup_hash", "_seq", "_enqueued_at")
    found = accepted.join(asked.distinct(), ["_dedup_hash", "_dedup_key"], "left_semi")
    return found.groupBy("_dedup_key").agg(
        F.max("_seq").alias("_holder"), F.max("_enqueued_at").alias("_accepted_at")
    )


def still_holding(
    candidates: DataFrame, status: DataFrame, scope: DedupScope, now: datetime
) -> DataFrame:
    """Keep the items that still hold their key.

    Parameters
    ----------
    candidates : DataFrame
        As :func:`last_accepted` returns them.
    status : DataFrame
        The status log.
    scope : "live", "forever" or timedelta
        How long a key is held.
    now : datetime
        The instant of the enqueue.

    Returns
    -------
    DataFrame
        ``_dedup_key``, ``_holder``.
    """
    if scope == "forever":
        return candidates.select("_dedup_key", "_holder")
    finished = (
        status.where((F.col("_kind") == ITEM) & F.col("_state").isin(*TERMINAL))
        .select(F.col("_seq").alias("_holder"))
        .join(candidates, "_holder", "left_semi")
        .withColumn("_finished", F.lit(True))
    )
    holding = F.col("_finished").isNull()
    if isinstance(scope, timedelta):
        holding = holding | (F.col("_accepted_at") > F.lit(now - scope))
    return (
        candidates.join(finished, "_holder", "left").where(holding).select("_dedup_key", "_holder")
    )
