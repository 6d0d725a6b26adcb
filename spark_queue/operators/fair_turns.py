"""Fair by key: the turn at which each item is served (``docs/adr/0003-turns.md``)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

_LINE = ("_priority", "_fair_key")


def split_overdue(eligible: DataFrame) -> DataFrame:
    """Add ``_overdue``: whether the order has passed the item, so that its tag no longer counts.

    Parameters
    ----------
    eligible : DataFrame
        ``_seq``, ``_tag_turn``, ``_pointer_turn``, ``_pointer_seq`` and ``_regular_turn`` (the
        highest regular turn handed out to the item's line, or null).
    """
    turn, reached = F.col("_tag_turn"), F.col("_pointer_turn")
    ahead = (turn > reached) | ((turn == reached) & (F.col("_seq") > F.col("_pointer_seq")))
    unused = F.col("_regular_turn").isNull() | (F.col("_tag_turn") > F.col("_regular_turn"))
    return eligible.withColumn("_overdue", ~(ahead & unused))


def on_time(eligible: DataFrame) -> DataFrame:
    """Give each item its own tag as its turn: right where nothing of its line is overdue."""
    return eligible.withColumn("_turn", F.col("_tag_turn"))


def reassign_turns(eligible: DataFrame, limit: int) -> DataFrame:
    """Give the items of lines that have overdue ones their turns.

    A line's slots are the tags of its items that are on time, and one further turn a round for
    what is overdue. Its items take the slots in ``_seq`` order.

    Parameters
    ----------
    eligible : DataFrame
        As :func:`split_overdue` returns it, with ``_increment`` (cost by weight) and
        ``_overdue_turn`` (the highest overdue turn handed out to the line, or null).
    limit : int
        How many items will be served at most; further ones of a line are left out.

    Returns
    -------
    DataFrame
        The first ``limit`` items of each line with ``_turn``; ``_overdue`` says which kind of slot
        the item took.
    """
    line = Window.partitionBy(*_LINE)
    by_seq = line.orderBy("_seq")
    slots = _slots(eligible, by_seq)
    slot_order = line.orderBy("_turn", "_overdue", "_seq")
    numbered = slots.withColumn("_place", F.row_number().over(slot_order)).select(
        *[F.col(name).alias(f"_slot{name}") for name in _LINE], "_place", "_turn", "_overdue"
    )
    items = eligible.drop("_overdue").withColumn("_place", F.row_number().over(by_seq))
    first = items.where(F.col("_place") <= limit)
    same = (
        (F.col("_priority") == F.col("_slot_priority"))
        & F.col("_fair_key").eqNullSafe(F.col("_slot_fair_key"))
        & (first["_place"] == numbered["_place"])
    )
    drop = [f"_slot{name}" for name in _LINE]
    return first.join(numbered, same).drop(*drop, first["_place"], numbered["_place"])


def _slots(eligible: DataFrame, by_seq: WindowSpec) -> DataFrame:
    regular = eligible.where(~F.col("_overdue")).select(
        *_LINE, "_seq", "_overdue", F.col("_tag_turn").alias("_turn")
    )
    late = eligible.where("_overdue")
    start = F.greatest(F.col("_pointer_turn"), F.col("_overdue_turn") + F.col("_increment"))
    # One after another, as where they are served one by one: sums of floats depend on that.
    by = F.when(F.row_number().over(by_seq) == 1, start).otherwise(F.col("_increment"))
    late = late.withColumn("_advance", by)
    turn = F.sum("_advance").over(by_seq)
    return regular.unionByName(late.select(*_LINE, "_seq", "_overdue", turn.alias("_turn")))


def clamped_by_group(chosen: DataFrame) -> DataFrame:
    """Raise ``_turn`` where an earlier item of the same group and priority comes later."""
    return chosen.withColumn("_turn", F.max("_turn").over(_members("_priority")))


def ranked_by_group(chosen: DataFrame) -> DataFrame:
    """Say where items come that come after every earlier one of their group.

    Parameters
    ----------
    chosen : DataFrame
        ``_seq``, ``_group_key``, ``_priority``, ``_turn`` and ``_pointer_turn``.

    Returns
    -------
    DataFrame
        With ``_rank_priority``, ``_rank_turn`` and ``_rank_pointer``: those of the item, or of an
        earlier one of its group that comes later.
    """
    # The highest priority is the first, and the lowest that there is has no negative.
    level = F.bitwise_not("_priority").alias("_level")
    own = F.struct(level, "_turn", "_pointer_turn")
    ranked = chosen.withColumn("_rank", F.max(own).over(_members()))
    columns = {
        "_rank_priority": F.bitwise_not("_rank._level"),
        "_rank_turn": F.col("_rank._turn"),
        "_rank_pointer": F.col("_rank._pointer_turn"),
    }
    return ranked.withColumns(columns).drop("_rank")


def _members(*more: str) -> WindowSpec:
    """Return the items of a group up to each; one that is in no group stands alone."""
    alone = F.when(F.col("_group_key").isNull(), F.col("_seq"))
    return Window.partitionBy("_group_key", alone, *more).orderBy("_seq")
