"""Holders of dedup keys, by the rule of the distinct queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.config import DedupScope
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import ITEM, READY, TERMINAL


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
        ``_dedup_key``, ``_holder`` (its seq), ``_accepted_at``, ``_accepted_in`` (its step).
    """
    asked = keys.select("_dedup_key", "_dedup_hash").where(F.col("_dedup_key").isNotNull())
    accepted = items.where(F.col("_kind") == ITEM)
    accepted = accepted.select("_dedup_key", "_dedup_hash", "_seq", "_enqueued_at", "_step")
    found = accepted.join(asked.distinct(), ["_dedup_hash", "_dedup_key"], "left_semi")
    return found.groupBy("_dedup_key").agg(
        F.max("_seq").alias("_holder"),
        F.max("_enqueued_at").alias("_accepted_at"),
        F.max("_step").alias("_accepted_in"),
    )


@dataclass(frozen=True, slots=True)
class View:
    """What one reader may have to do with the items of a queue."""

    since_step: int
    """It sees the items of later steps."""
    status: DataFrame | None
    """Its status log; ``None`` where it is done with nothing after that step."""


def views(store: Store, readers: Iterable[Store]) -> list[View]:
    """Return what each reader may still have to do with the items.

    Parameters
    ----------
    store : Store
        The queue.
    readers : iterable of Store
        The queue as each reader sees it that claims.
    """
    claiming = {reader.reader: reader.status.read() for reader in readers}
    return [
        View(facts.since_step, claiming.get(number))
        for number, facts in store.queue_head().readers.items()
    ]


# rule again: scope of a key
def still_holding(
    candidates: DataFrame, readers: Sequence[View], scope: DedupScope, now: datetime
) -> DataFrame:
    """Keep the items that still hold their key: a live one does until all readers are done.

    Parameters
    ----------
    candidates : DataFrame
        As :func:`last_accepted` returns them.
    readers : sequence of View
        All readers of the queue.
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
    held = [_live(candidates, reader) for reader in readers]
    if isinstance(scope, timedelta):
        held.append(candidates.where(F.col("_accepted_at") > F.lit(now - scope)))
    if not held:
        return candidates.select("_dedup_key", "_holder").limit(0)
    holding = reduce(DataFrame.unionByName, held).select("_dedup_key", "_holder")
    return holding if len(held) == 1 else holding.distinct()


def live(candidates: DataFrame, readers: Sequence[View]) -> DataFrame:
    """Return the items that some reader is not done with: the column ``_holder``.

    Parameters
    ----------
    candidates : DataFrame
        ``_holder`` (a seq) and ``_accepted_in`` (its step), and more.
    readers : sequence of View
        All readers of the queue.
    """
    found = [_live(candidates, reader).select("_holder") for reader in readers]
    if not found:
        return candidates.select("_holder").limit(0)
    return reduce(DataFrame.unionByName, found).distinct()


def _live(candidates: DataFrame, reader: View) -> DataFrame:
    """Return the items that a reader is not done with."""
    if reader.since_step:
        candidates = candidates.where(F.col("_accepted_in") > reader.since_step)
    if reader.status is None:
        return candidates
    # What has ended may have been made ready again, for this reader alone.
    known = (F.col("_kind") == ITEM) & F.col("_state").isin(*TERMINAL, READY)
    moves = reader.status.where(known).select(F.col("_seq").alias("_holder"), "_state", "_step")
    asked = moves.join(candidates.select("_holder"), "_holder", "left_semi")
    newest = asked.groupBy("_holder").agg(F.max_by("_state", "_step").alias("_newest"))
    finished = newest.where(F.col("_newest").isin(*TERMINAL))
    return candidates.join(finished, "_holder", "left_anti").select(*candidates.columns)
