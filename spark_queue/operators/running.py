"""Running totals along lines of rows, also where one line has most of the rows.

A window puts a line into one partition. Where one line has nearly all rows, that is one core at
work. :func:`in_parts` cuts long lines into parts along their order, sums each part by itself, and
adds what the parts before it come to. The cuts are drawn from a sample, inside the same plan: where
they lie decides who does the work, never what comes out. A line that one core sorts in a second is
left whole; where all are, the parts are not summed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, functions as F

from spark_queue.operators.key_columns import all_columns, all_of, private

#: Into how many parts all rows together are cut, a power of two; a line gets its share of the cuts.
PARTS = 64

#: One row of so many is looked at to find the cuts.
_SAMPLED = 512

#: A line of fewer rows, by the sample, is not cut.
_LEAST = 1_000_000

_AT = private("at")
_CUTS = private("cuts")
_PART = private("part")
_BEFORE = private("before")


def along(line: Sequence[str], order: Sequence[Column | str], amount: Column | None) -> Column:
    """Return the sum of an amount over a line up to and with each row; without one, its place.

    Parameters
    ----------
    line : sequence of str
        The columns that make up a line; null is a value like any other.
    order : sequence of Column or str
        The order within a line; it must tell the rows of a line apart.
    amount : Column, optional
        What to sum.
    """
    window = Window.partitionBy(*line).orderBy(*order)
    if amount is None:
        return F.row_number().over(window)
    return F.sum(amount).over(window.rowsBetween(Window.unboundedPreceding, Window.currentRow))


def in_parts(
    df: DataFrame, line: Sequence[str], order: Sequence[Column], amount: Column | None, name: str
) -> DataFrame:
    """Add what :func:`along` returns, with long lines cut into parts.

    Parameters
    ----------
    df : DataFrame
        The rows. They are read twice, for the sample and for the result; where a line is cut, a
        third time for the parts.
    line, order, amount
        As for :func:`along`; ascending order only.
    name : str
        The column to add.
    """
    # Parts are bounded by a struct; rows are sorted by the columns, as a struct sorts slowly.
    at = order[0] if len(order) == 1 else F.struct(*order)
    parted = _number_parts(df.withColumn(_AT, at), line)
    # Where no line is cut, Spark finds the join for the totals empty, and does not read the rows.
    totals = _totals(parted.where(F.col(_CUTS).isNotNull()), line, amount)
    within = parted.drop(_AT, _CUTS).withColumn(name, along([*line, _PART], order, amount))
    same = _same_line(line) & (F.col(_PART) == F.col(private("the_part")))
    joined = within.join(F.broadcast(totals), same, "left")
    total = F.col(name) + F.coalesce(F.col(_BEFORE), F.lit(0))
    return joined.withColumn(name, total).select(*all_columns(df), name)


def _cuts(placed: DataFrame, line: Sequence[str]) -> DataFrame:
    """Return the lines that are cut, and where: at most :data:`PARTS` cuts in all."""
    key = F.struct(*[F.col(column) for column in line])
    drawn = F.pmod(F.xxhash64(*line, _AT), F.lit(_SAMPLED)) == 0
    sample = placed.where(drawn).select(F.struct(key.alias("line"), _AT).alias("row"))
    rows = F.sort_array(F.collect_list("row"))
    several = sample.agg(rows.alias("rows")).select("rows", F.size("rows").alias("size"))
    spaced = several.select(
        F.explode(
            F.expr(
                f"transform(sequence(1, {PARTS - 1}), "
                f"n -> get(rows, cast(n * size div {PARTS} as int)))"
            )
        ).alias("cut"),
        "size",
    ).where("cut is not null")
    by_line = spaced.select("cut.*", "size").groupBy("line")
    cuts = by_line.agg(
        F.sort_array(F.collect_set(_AT)).alias(_CUTS),
        (F.count(F.lit(1)) * F.max("size") * _SAMPLED >= PARTS * _LEAST).alias("is_long"),
    ).where("is_long")
    names = [F.col(f"line.{column}").alias(private(f"the_{column}")) for column in line]
    return cuts.select(*names, _CUTS)


def _number_parts(placed: DataFrame, line: Sequence[str]) -> DataFrame:
    """Add the number of the part that each row is in: how many cuts are at or before it."""
    rows = placed.join(F.broadcast(_cuts(placed, line)), _same_line(line), "left")
    rows = rows.drop(*[private(f"the_{column}") for column in line]).withColumn(_PART, F.lit(0))
    # A search by halves, a step a projection: one expression of all steps would grow as 2**steps.
    step = PARTS // 2
    while step:
        next_cut = F.get(F.col(_CUTS), F.col(_PART) + (step - 1))
        passed = F.coalesce(next_cut <= F.col(_AT), F.lit(False))
        rows = rows.withColumn(_PART, F.col(_PART) + F.when(passed, step).otherwise(0))
        step //= 2
    return rows


def _totals(parted: DataFrame, line: Sequence[str], amount: Column | None) -> DataFrame:
    """Return what the parts before each part come to, for lines of several parts."""
    total = F.count(F.lit(1)) if amount is None else F.sum(amount)
    cut = parted.groupBy(*line, _PART).agg(total.alias("total"))
    earlier = Window.partitionBy(*line).orderBy(_PART).rowsBetween(Window.unboundedPreceding, -1)
    before = cut.withColumn(_BEFORE, F.sum("total").over(earlier)).where(F.col(_PART) > 0)
    names = [F.col(column).alias(private(f"the_{column}")) for column in line]
    return before.select(*names, F.col(_PART).alias(private("the_part")), _BEFORE)


def _same_line(line: Sequence[str]) -> Column:
    return all_of(F.col(column).eqNullSafe(F.col(private(f"the_{column}"))) for column in line)
