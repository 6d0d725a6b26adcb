"""Items beyond a claim's reach that stand before one within it.

Tags prune; they are not the order. Where a group has members of several keys, a changed weight may
bring a later member within reach and leave its predecessor outside, and a tag that a group raised
lies behind later ones of its own key, which takes its turns by seq.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.plans import fold, tags
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.settings import Settings


def standing_before(
    store: Store,
    head: StatusHead,
    settings: Settings,
    touched: DataFrame,
    found: DataFrame,
    reach: float,
) -> DataFrame:
    """Return the untouched items beyond reach that are earlier in a group or an overdue line.

    Parameters
    ----------
    found : DataFrame
        What was found within reach, computed.
    reach : float
        How many turns ahead of the pointer that was.
    """
    everything = fold.fresh(store.items(), head, settings, None)
    horizon = tags.pointer_turn(head.pointers) + reach
    far = everything.where(tags.turn_of(F.col("_round")) > horizon)
    far = far.join(touched.select("_seq"), "_seq", "left_anti")
    eligible = found.where("_over is null")
    by_line = eligible.groupBy("_priority", "_fair_key")
    lines = by_line.agg(F.max("_seq").alias("_upto"), F.bool_or("_overdue").alias("_late"))
    of_lines = _before(tags.join_lines(far, lines.where("_late").drop("_late"))).localCheckpoint()
    members = eligible.select("_group_key", "_seq").unionByName(
        of_lines.select("_group_key", "_seq")
    )
    groups = members.where("_group_key is not null").groupBy("_group_key")
    of_groups = _before(far.join(groups.agg(F.max("_seq").alias("_upto")), "_group_key"))
    others = of_groups.join(of_lines.select("_seq"), "_seq", "left_anti")
    return of_lines.unionByName(others).localCheckpoint()


def _before(rows: DataFrame) -> DataFrame:
    return rows.where(F.col("_seq") < F.col("_upto")).drop("_upto")
