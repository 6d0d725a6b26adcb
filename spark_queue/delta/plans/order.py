"""The order of service: priority, then turn, then sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

#: Up to this many rows a sort with a limit is quick; it ends in one partition.
_SORTED = 50_000

#: Into how many parts the range of turns is divided where more are wanted.
_PARTS = 1_000


class RankColumns(NamedTuple):
    """The columns that say where an item comes; at the same place its sequence decides."""

    priority: str
    turn: str
    pointer: str
    """The turn that the order has reached at that priority."""


#: An item comes where it stands itself.
OWN = RankColumns("_priority", "_turn", "_pointer_turn")

#: An item comes where it stands, or where the last one does of those before it in its group.
OF_GROUP = RankColumns("_rank_priority", "_rank_turn", "_rank_pointer")


def first(turns: DataFrame, limit: int, rank: RankColumns = OWN) -> DataFrame:
    """Return the rows that come first in the order of service.

    A large limit is met by counting turns, so that only the rows around the last one are sorted and
    the others stay where they are: two small aggregates are collected, of numbers only.

    Parameters
    ----------
    turns : DataFrame
        ``_seq``, priority and turn, and more; computed, since it is read several times.
    limit : int
        How many rows at most.
    rank : RankColumns
        Which priority and turn count.
    """
    if limit <= _SORTED:
        return _sorted(turns, limit, rank)
    cut = _cut(turns, limit, rank)
    if cut is None:
        return turns
    edge = _sorted(turns.where(cut.is_edge), cut.rest, rank)
    return turns.where(cut.is_before).unionByName(edge)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Where the first rows end: all before it, and some of those at its edge."""

    is_before: Column
    is_edge: Column
    rest: int


def ahead_of(turns: DataFrame, stop: Row, rank: RankColumns) -> DataFrame:
    """Return the rows that come before one of them."""
    seq = F.lit(stop["_seq"]).cast("long")
    end = F.struct(F.lit(~stop[rank.priority]), F.lit(stop[rank.turn]), seq)
    # The highest priority is the first, and the lowest that there is has no negative.
    return turns.where(F.struct(F.bitwise_not(rank.priority), rank.turn, "_seq") < end)


def last(turns: DataFrame, rank: RankColumns) -> Row | None:
    """Return the row that comes last."""
    return turns.orderBy(rank.priority, F.col(rank.turn).desc(), F.col("_seq").desc()).first()


def _sorted(turns: DataFrame, limit: int, rank: RankColumns) -> DataFrame:
    return turns.orderBy(F.col(rank.priority).desc(), rank.turn, "_seq").limit(limit)


def _cut(turns: DataFrame, limit: int, rank: RankColumns) -> _Cut | None:
    """Return where a limit cuts; ``None`` where there are no more rows than that."""
    priority, turn = F.col(rank.priority), F.col(rank.turn)
    low, high = turns.agg(F.min(turn), F.max(turn)).collect()[0]
    if low is None:
        return None
    width = max((high - low) / _PARTS, 1e-9)
    part = F.floor((turn - low) / width)
    counts = turns.groupBy(priority.alias("priority"), part.alias("part")).count()
    before = 0
    for row in sorted(counts.collect(), key=lambda row: (-row["priority"], row["part"])):
        if before + row["count"] > limit:
            same = priority == row["priority"]
            earlier = (priority > row["priority"]) | (same & (part < row["part"]))
            return _Cut(earlier, same & (part == row["part"]), limit - before)
        before += row["count"]
    return None
