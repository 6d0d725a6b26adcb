"""The tag that places an item in its key's line, fixed when it is enqueued.

``tag = max(where the order stands, the key's last tag) + cost``, in the units of the key: a key
with a weight is stretched when it is served (:class:`~spark_queue.delta.tables.settings.Stretch`).
Without a fair key there is one line, and the tag is the seq.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from spark_queue.delta.tables.heads import Pointer
from spark_queue.delta.tables.schema import KEY
from spark_queue.delta.tables.settings import Settings
from spark_queue.operators import fair, running

#: How many rows a partition holds while a frame is tagged.
_ROWS_A_PARTITION = 1_000_000

_WEIGHTS = "_fair_key string, _weight double, _pins map<int, struct<tag: double, turn: double>>"


def with_weights(df: DataFrame, settings: Settings) -> DataFrame:
    """Add ``_weight``, ``_pin_tag`` and ``_pin_turn`` of each row's fair key and priority."""
    if not settings.stretches:
        unweighted = {"_weight": 1.0, "_pin_tag": 0.0, "_pin_turn": 0.0}
        return df.withColumns({name: F.lit(value) for name, value in unweighted.items()})
    rows = [(key, s.weight, dict(s.pins)) for key, s in settings.stretches.items()]
    weights = df.sparkSession.createDataFrame(rows, _WEIGHTS)
    joined = df.join(F.broadcast(weights), "_fair_key", "left")
    pin = F.try_element_at("_pins", F.col("_priority"))
    return joined.withColumns(
        {
            "_weight": F.coalesce("_weight", F.lit(1.0)),
            "_pin_tag": F.coalesce(pin["tag"], F.lit(0.0)),
            "_pin_turn": F.coalesce(pin["turn"], F.lit(0.0)),
        }
    ).drop("_pins")


# rule again: weight of a key
def turn_of(tag: Column) -> Column:
    """Return the turn at which a stored tag comes up; needs :func:`with_weights`."""
    return F.col("_pin_turn") + (tag - F.col("_pin_tag")) / F.col("_weight")


def tag_of(turn: Column) -> Column:
    """Return the stored tag of a turn; needs :func:`with_weights`."""
    return F.col("_pin_tag") + (turn - F.col("_pin_turn")) * F.col("_weight")


def pointer_turn(pointers: Mapping[int, Pointer]) -> Column:
    """Return the turn that the order has reached at each row's ``_priority``."""
    return _by_priority({p: turn for p, (turn, _) in pointers.items()}, 0.0)


def pointer_seq(pointers: Mapping[int, Pointer]) -> Column:
    """Return the seq that the order has reached at each row's ``_priority``."""
    return _by_priority({p: seq for p, (_, seq) in pointers.items()}, 0)


# rule again: overdue item
def is_ahead(turn: Column, pointers: Mapping[int, Pointer]) -> Column:
    """Tell whether the order has yet to reach an item, by its turn, ``_seq`` and ``_priority``."""
    reached = pointer_turn(pointers)
    beyond_seq = F.col("_seq") > pointer_seq(pointers)
    return (turn > reached) | ((turn == reached) & beyond_seq)


# rule again: tag of a new item
def key_spans(
    accepted: DataFrame, log: DataFrame, settings: Settings, pointers: Mapping[int, Pointer]
) -> DataFrame:
    """Return, for each line of a frame, the tag from which it goes on and about where it ends.

    Parameters
    ----------
    accepted : DataFrame
        ``_pos``, ``_priority``, ``_fair_key``, ``_cost`` of the rows that enter the queue.
    log : DataFrame
        The item log, whose ``key`` rows hold the last tag of each line, by step.
    settings : Settings
        The weights in force.
    pointers : mapping
        Where the order of service stands, per priority.

    Returns
    -------
    DataFrame
        ``_priority``, ``_fair_key``, ``_start``, ``_first`` (the first row) and ``_end``, whose
        last digit depends on the order in which costs were added.
    """
    lines = accepted.groupBy("_priority", "_fair_key").agg(
        F.sum("_cost").alias("_total"), F.min("_pos").alias("_first")
    )
    ends = log.where(F.col("_kind") == KEY).groupBy("_priority", "_fair_key")
    last = ends.agg(F.max("_round").alias("_last"))
    known = join_lines(lines, last)
    stands_at = tag_of(pointer_turn(pointers))
    start = fair.starts_at(stands_at, F.col("_last"))
    end = (start + F.col("_total")).alias("_end")
    return with_weights(known, settings).select(
        "_priority", "_fair_key", start.alias("_start"), "_first", end
    )


# rule again: tag of a new item
def tagged(accepted: DataFrame, spans: DataFrame, rows: int) -> DataFrame:
    """Add ``_round``: each line goes on from its start, by the cost of its items in ``_pos`` order.

    Parameters
    ----------
    accepted : DataFrame
        ``_pos``, ``_priority``, ``_fair_key``, ``_cost`` and more.
    spans : DataFrame
        As :func:`key_spans` returns them.
    rows : int
        How many rows there are.
    """
    placed = join_lines(accepted, spans.drop("_end"))
    # The hash first: rows are compared by the first eight bytes of the sort key where they differ.
    hashed = placed.withColumn("_line", F.xxhash64("_priority", "_fair_key"))
    if partitions(rows) > 1:
        hashed = hashed.repartition(partitions(rows), "_line")
    line = ("_line", "_priority", "_fair_key")
    # One after another, as by whoever admits them one by one: sums of floats depend on that.
    begins = F.when(F.col("_pos") == F.col("_first"), F.col("_start")).otherwise(0.0)
    tag = running.along(line, ["_pos"], begins + F.col("_cost"))
    return hashed.withColumn("_round", tag).drop("_line", "_start", "_first")


def ends_of(tagged: DataFrame) -> DataFrame:
    """Return where lines end, by their items: ``_priority``, ``_fair_key``, ``_end``."""
    return tagged.groupBy("_priority", "_fair_key").agg(F.max("_round").alias("_end"))


def partitions(rows: int) -> int:
    """Return how many partitions a frame takes for each to be sorted in memory.

    The session may be set for small frames, and what spills is sorted many times slower.
    """
    return -(-rows // _ROWS_A_PARTITION)


# rule again: place of a new member
def lowered(rows: DataFrame, ends: DataFrame) -> DataFrame:
    """Lower ``_priority`` so that it never rises within a group: its head comes first.

    Parameters
    ----------
    rows : DataFrame
        ``_pos``, ``_group_key``, ``_priority`` and more.
    ends : DataFrame
        As :func:`members.ends` returns them.
    """
    before = Window.partitionBy("_group_key").orderBy("_pos")
    floor = F.least(F.min("_priority").over(before), F.col("_end_priority"))
    lowest = F.when(F.col("_group_key").isNull(), F.col("_priority")).otherwise(floor)
    joined = rows.join(ends.select("_group_key", "_end_priority"), "_group_key", "left")
    return joined.withColumn("_priority", lowest).drop("_end_priority")


# rule again: place of a new member
def raised(rows: DataFrame, ends: DataFrame, settings: Settings) -> DataFrame:
    """Raise ``_round`` so that turns never fall within a group and priority.

    Parameters
    ----------
    rows : DataFrame
        ``_pos``, ``_group_key``, ``_priority``, ``_fair_key``, ``_round`` and more.
    ends : DataFrame
        As :func:`members.ends` returns them.
    settings : Settings
        The weights in force: keys of one group may count differently.
    """
    joined = with_weights(rows.join(ends, "_group_key", "left"), settings)
    before = Window.partitionBy("_group_key", "_priority").orderBy("_pos")
    end_turn = F.when(F.col("_end_priority") == F.col("_priority"), F.col("_end_turn"))
    highest = F.greatest(F.max(turn_of(F.col("_round"))).over(before), end_turn)
    # To the turn and back is not the same to the last digit, so it is gone only where it must be.
    lifted = F.when(highest > turn_of(F.col("_round")), tag_of(highest)).otherwise(F.col("_round"))
    lifted = F.when(F.col("_group_key").isNull(), F.col("_round")).otherwise(lifted)
    extra = ("_end_priority", "_end_turn", "_weight", "_pin_tag", "_pin_turn")
    return joined.withColumn("_round", lifted).drop(*extra)


def join_lines(left: DataFrame, right: DataFrame) -> DataFrame:
    """Left join on priority and fair key, where a null key is a key like any other."""
    renamed = right.withColumnsRenamed({"_priority": "_right_priority", "_fair_key": "_right_key"})
    same = (F.col("_priority") == F.col("_right_priority")) & F.col("_fair_key").eqNullSafe(
        F.col("_right_key")
    )
    return left.join(renamed, same, "left").drop("_right_priority", "_right_key")


def _by_priority(values: Mapping[int, float], default: float) -> Column:
    column = F.lit(default)
    for priority, value in values.items():
        column = F.when(F.col("_priority") == priority, F.lit(value)).otherwise(column)
    return column
