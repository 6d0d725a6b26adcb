"""Selection of the items that a claim leases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.plans import order, tags
from spark_queue.delta.tables.heads import Pointer, StatusHead
from spark_queue.delta.tables.schema import CLAIMED, READY
from spark_queue.delta.tables.settings import Settings
from spark_queue.operators import fair_turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What was found: how many rows, and what kind of items they are of."""

    rows: int
    eligible: int
    """Items that may start."""
    overdue: int
    """Items of those that the order has passed."""
    lapsed: int
    """Items of those whose lease ran out: each has its slot."""
    ended: int
    """Items in flight that are over, and leave their slot in the same step."""
    within: Mapping[int, int]
    """Items that may start and whose tag is within reach, by priority."""
    priorities: int
    """How many priorities the items that may start are of."""


def facts_of(found: DataFrame, reach: float | None) -> Findings:
    """Count what was found within a reach."""
    eligible, claimed = F.col("_over").isNull(), F.col("_was") == CLAIMED
    near = eligible if reach is None else eligible & _is_near("_tag_turn", reach)
    by_priority = found.groupBy("_priority").agg(
        F.count(F.lit(1)).alias("rows"),
        F.count_if(eligible).alias("eligible"),
        F.count_if(eligible & F.col("_overdue")).alias("overdue"),
        F.count_if(eligible & claimed).alias("lapsed"),
        F.count_if(~eligible & claimed).alias("ended"),
        F.count_if(near).alias("near"),
    )
    rows = by_priority.collect()
    return Findings(
        rows=sum(row["rows"] for row in rows),
        eligible=sum(row["eligible"] for row in rows),
        overdue=sum(row["overdue"] for row in rows),
        lapsed=sum(row["lapsed"] for row in rows),
        ended=sum(row["ended"] for row in rows),
        within={row["_priority"]: row["near"] for row in rows},
        priorities=sum(row["eligible"] > 0 for row in rows),
    )


def last() -> Column:
    """Return how far the order has come: the last turn that was handed out, and its item."""
    return F.max(F.struct("_turn", "_seq"))


def within(timed: DataFrame, reach: float, rank: order.RankColumns) -> dict[int, int]:
    """Count the items that come within reach, by the priority at which they do."""
    near = timed.where(_is_near(rank.turn, reach, rank.pointer))
    return {row[0]: row[1] for row in near.groupBy(rank.priority).count().collect()}


def _is_near(turn: str, reach: float, pointer: str = "_pointer_turn") -> Column:
    return F.col(turn) <= F.col(pointer) + reach


def with_lines(
    pointers: Mapping[int, Pointer], lines: DataFrame | None, found: DataFrame
) -> DataFrame:
    """Add what decides an item's turn: its tag, its cost, and what its line was given."""
    placed = found.withColumns(
        {
            "_tag_turn": tags.turn_of(F.col("_round")),
            "_increment": F.col("_cost") / F.col("_weight"),
            "_pointer_turn": tags.pointer_turn(pointers).cast("double"),
            "_pointer_seq": tags.pointer_seq(pointers).cast("long"),
        }
    )
    if lines is None:
        return placed.withColumn("_overdue", F.lit(False))
    return fair_turns.split_overdue(tags.join_lines(placed, lines))


def is_clamped(settings: Settings, run: int) -> bool:
    """Tell whether items of one group may start together whose keys differ."""
    return settings.config.fair_key is not None and _may_follow(settings, run)


def rank_of(settings: Settings, facts: Findings, run: int) -> order.RankColumns:
    """Return what says who comes next, of the columns that :func:`timed` returns."""
    # At one priority a member comes behind earlier ones by its turn, which is no earlier.
    if facts.priorities > 1 and _may_follow(settings, run):
        return order.OF_GROUP
    return order.OWN


def _may_follow(settings: Settings, run: int) -> bool:
    """Tell whether several items of one group may start together."""
    return settings.config.group_key is not None and settings.config.group_limit * run > 1


def timed(settings: Settings, found: DataFrame, facts: Findings, limit: int, run: int) -> DataFrame:
    """Return the items that may start with their ``_turn``; of each line as many as are asked."""
    eligible = found.where("_over is null")
    clamped = is_clamped(settings, run)
    # Far back in its line a member may hold up a later one that is first in another line.
    most = facts.eligible if clamped else limit
    placed = _turns(eligible, most) if facts.overdue else fair_turns.on_time(eligible)
    if rank_of(settings, facts, run) is order.OF_GROUP:
        placed = fair_turns.ranked_by_group(placed)
    return fair_turns.clamped_by_group(placed) if clamped else placed


def _turns(eligible: DataFrame, limit: int) -> DataFrame:
    late = eligible.where("_overdue").select("_priority", "_fair_key").distinct()
    marked = tags.join_lines(eligible, late.withColumn("_late", F.lit(True)))
    on_time = fair_turns.on_time(marked.where("_late is null"))
    return on_time.unionByName(fair_turns.reassign_turns(marked.where("_late"), limit)).drop(
        "_late"
    )


def picked(
    head: StatusHead,
    settings: Settings,
    limit: int,
    run: int,
    lines: DataFrame | None,
    found: DataFrame,
    facts: Findings,
    room: int | None,
) -> DataFrame:
    """Return the items to lease.

    Items are taken in the order of service until one finds no slot. From there on only those are
    taken whose lease ran out, which have one, as if nothing else waited.

    Parameters
    ----------
    room : int, optional
        How many slots are free; ``None`` for any number.
    """
    rank = rank_of(settings, facts, run)
    if room == 0:
        lapsed = found.where(F.col("_was") == CLAIMED)
        return order.first(timed(settings, lapsed, facts, limit, run), limit, rank)
    items = timed(settings, found, facts, limit, run)
    if room is None or facts.eligible - facts.lapsed <= room:
        return order.first(items, limit, rank)
    if facts.lapsed == 0:
        return order.first(items, min(limit, room), rank)
    items = items.localCheckpoint()
    taken = _until_full(items, limit, room, rank).localCheckpoint()
    more = limit - taken.count()
    if more <= 0:
        return taken
    left = items.where(F.col("_was") == CLAIMED).join(taken.select("_seq"), "_seq", "left_anti")
    again = with_lines(
        head.advanced(_pointers(taken)),
        None if lines is None else _served_more(lines, taken),
        left.drop("_turn", "_overdue", "_regular_turn", "_overdue_turn"),
    )
    placed = timed(settings, again, replace(facts, overdue=int(lines is not None)), more, run)
    return taken.unionByName(order.first(placed, more, rank), allowMissingColumns=True)


def _until_full(items: DataFrame, limit: int, room: int, rank: order.RankColumns) -> DataFrame:
    """Return the first items, up to the one that finds no slot."""
    new = order.first(items.where(F.col("_was") == READY), room + 1, rank)
    stop = order.last(new, rank)
    found = items if stop is None else order.ahead_of(items, stop, rank)
    return order.first(found, limit, rank)


def _pointers(taken: DataFrame) -> dict[int, Pointer]:
    rows = taken.groupBy("_priority").agg(last().alias("last")).collect()
    return {row["_priority"]: (float(row["last"][0]), int(row["last"][1])) for row in rows}


def _served_more(lines: DataFrame, taken: DataFrame) -> DataFrame:
    """Return what each line was given, after more was handed out."""
    given = taken.select(
        "_priority",
        "_fair_key",
        F.when(~F.col("_overdue"), F.col("_turn")).alias("_regular_turn"),
        F.when(F.col("_overdue"), F.col("_turn")).alias("_overdue_turn"),
    )
    both = lines.unionByName(given).groupBy("_priority", "_fair_key")
    names = ("_regular_turn", "_overdue_turn")
    return both.agg(*[F.max(name).alias(name) for name in names])
