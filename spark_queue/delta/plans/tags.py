"""The tag that places an item in its key's line, fixed when it is enqueued.

``tag = max(where the order stands, the key's last tag) + cost``, in the units of the key: a key
with a weight is stretched when it is served (:class:`~spark_queue.delta.tables.settings.Stretch`).
Without a fair key there is one line, and the tag is the seq.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, functions as F

from spark_queue.delta.tables.heads import Pointer
from spark_queue.delta.tables.settings import Settings

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


def _by_priority(values: Mapping[int, float], default: float) -> Column:
    column = F.lit(default)
    for priority, value in values.items():
        column = F.when(F.col("_priority") == priority, F.lit(value)).otherwise(column)
    return column
