"""The last member of each group, which a new one of the group must not overtake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.plans import dedup
from spark_queue.delta.plans.dedup import View
from spark_queue.delta.plans.tags import is_ahead, turn_of, with_weights
from spark_queue.delta.tables.heads import Pointer
from spark_queue.delta.tables.schema import GROUP, ITEM
from spark_queue.delta.tables.settings import Settings

#: What is asked of a member of a group.
_MEMBER = ("_group_key", "_priority", "_fair_key", "_round", "_seq", "_step")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the logs say of the members of groups, as of a step."""

    ends: DataFrame
    """The rows of the item log that name the last member of each group, by step, and others."""
    items: DataFrame
    """The item log."""
    readers: Sequence[View]
    """All readers of the queue."""

    def live(self, members: DataFrame) -> DataFrame:
        """Keep the members that are there, and with which some reader is not done."""
        items = self.items.where(F.col("_kind") == ITEM).select("_seq")
        there = members.join(items, "_seq", "left_semi")
        asked = there.select(F.col("_seq").alias("_holder"), F.col("_step").alias("_accepted_in"))
        found = dedup.live(asked, self.readers).withColumnRenamed("_holder", "_seq")
        return there.join(found, "_seq", "left_semi")


# rule again: place of a new member
def ends(
    rows: DataFrame, known: Known, settings: Settings, pointers: Mapping[int, Pointer]
) -> DataFrame:
    """Return the last live member of each group of a frame that the order has not passed.

    A member that was passed needs no care: a claim looks at everything that was passed anyway.

    Parameters
    ----------
    rows : DataFrame
        ``_group_key`` of the rows that enter the queue.
    known : Known
        What there is in the groups.
    settings : Settings
        The weights in force.
    pointers : mapping
        Where the order of service stands, per priority.

    Returns
    -------
    DataFrame
        ``_group_key``, ``_end_priority``, ``_end_turn``; computed.
    """
    asked = rows.select("_group_key").where(F.col("_group_key").isNotNull()).distinct()
    named = known.ends.where(F.col("_kind") == GROUP).join(asked, "_group_key", "left_semi")
    newest = _newest(named.select(*_MEMBER)).localCheckpoint()
    last = _ahead(newest, settings, pointers)
    live = known.live(last).select("_seq", F.lit(True).alias("_live"))
    last = last.join(live, "_seq", "left").localCheckpoint()
    # The last one has ended before its turn, or is not even there: an earlier one may be. So it may
    # where the order passed the last one at a lower priority, or at another weight.
    is_mixed = settings.config.priority is not None or settings.stretches
    kept = last.where("_live").select("_group_key")
    gone = (newest if is_mixed else last).join(kept, "_group_key", "left_anti")
    if gone.isEmpty():
        return _ends(last)
    items = known.items.where(F.col("_kind") == ITEM).join(
        gone.select("_group_key"), "_group_key", "left_semi"
    )
    others = _newest(known.live(_ahead(items, settings, pointers)))
    kept = last.where("_live").drop("_live")
    return _ends(kept.unionByName(others)).localCheckpoint()


def _newest(members: DataFrame) -> DataFrame:
    by_group = members.groupBy("_group_key")
    last = by_group.agg(F.max_by(F.struct(*members.columns), "_seq").alias("_last"))
    return last.select("_last.*")


def _ahead(members: DataFrame, settings: Settings, pointers: Mapping[int, Pointer]) -> DataFrame:
    """Return the members that the order has not passed, with their ``_turn``."""
    placed = with_weights(members.select(*_MEMBER), settings)
    turns = placed.withColumn("_turn", turn_of(F.col("_round")))
    return turns.where(is_ahead(F.col("_turn"), pointers)).select(*_MEMBER, "_turn")


def _ends(members: DataFrame) -> DataFrame:
    return members.select(
        "_group_key", F.col("_priority").alias("_end_priority"), F.col("_turn").alias("_end_turn")
    )
