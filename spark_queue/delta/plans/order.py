"""The order of service: priority, then turn, then sequence."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

#: Up to this many rows a sort with a limit is quick; it ends in one partition.
_SORTED = 50_000

#: Into how many parts the range of turns is divided where more are wanted.
_PARTS = 1_000


def first(turns: DataFrame, limit: int) -> DataFrame:
    """Return the rows that come first in the order of service.

    A large limit is met by counting turns, so that only the rows around the last one are sorted and
    the others stay where they are: two small aggregates are collected, of numbers only.

    Parameters
    ----------
    turns : DataFrame
        ``_priority``, ``_turn``, ``_seq`` and more; computed, since it is read several times.
    limit : int
        How many rows at most.
    """
    if limit <= _SORTED:
        return _sorted(turns, limit)
    cut = _cut(turns, limit)
    if cut is None:
        return turns
    edge = _sorted(turns.where(cut.is_edge), cut.rest)
    return turns.where(cut.is_before).unionByName(edge)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where the first rows end: all before it, and some of those at its edge."""

    is_before: Column
    is_edge: Column
    rest: int


def _sorted(turns: DataFrame, limit: int) -> DataFrame:
    return turns.orderBy(F.col("_priority").desc(), "_turn", "_seq").limit(limit)


def _cut(turns: DataFrame, limit: int) -> _Cut | None:
    """Return where a limit cuts; ``None`` where there are no more rows than that."""
    low, high = turns.agg(F.min("_turn"), F.max("_turn")).collect()[0]
    if low is None:
        return None
    width = max((high - low) / _PARTS, 1e-9)
    part = F.floor((F.col("_turn") - low) / width)
    counts = turns.groupBy("_priority", part.alias("part")).count()
    before = 0
    for row in sorted(counts.collect(), key=lambda row: (-row["_priority"], row["part"])):
        if before + row["count"] > limit:
            same = F.col("_priority") == row["_priority"]
            earlier = (F.col("_priority") > row["_priority"]) | (same & (part < row["part"]))
            return _Cut(earlier, same & (part == row["part"]), limit - before)
        before += row["count"]
    return None
