"""Fair by key: the round in which each row is served, one row of each key a round.

Rounds are those of snapshots: take the head of every key, serve them, then look again. Serving by a
tag that is fixed when a row comes gives the same order (``docs/adr/0003-turns.md``)::

    round = max(the round that is being served, the last round of the key) + 1

With a cost, or a weight of the key, a row takes ``cost / weight`` rounds instead of one (stride
scheduling; Waldspurger and Weihl 1995).
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import StructField

from spark_queue.checks import (
    MOST,
    is_positive,
    optional,
    require_count,
    require_flag,
    require_string,
)
from spark_queue.errors import InvalidArgumentError
from spark_queue.operators import running
from spark_queue.operators.key_columns import (
    Columns,
    add_key_columns,
    all_columns,
    all_of,
    field_named,
    fields_of,
    keys_of,
    one,
    order_of,
    plain_column,
    private,
    require_ascending,
    require_batch,
    require_beside,
    require_free,
    require_number,
    require_shares,
    resolve_columns,
)

#: The column that :func:`fair_rank` adds.
ROUND = "round"

_UPTO = private("upto")
_PLACE = private("place")
_LAST = private("last")


@dataclass(frozen=True, slots=True)
class Resume:
    """Where the rounds of an earlier frame ended, for those of the next to go on from.

    How many rows of each key were served does not tell: a key that came late began in a later
    round.
    """

    current: float = 0.0
    """The highest round of which something was served; 0 where nothing was."""
    last: DataFrame | None = None
    """The key's columns, and ``round``: the last round that each key was given. A key that is not
    in it, or whose last round has been served, starts in the next round."""

    @staticmethod
    def last_of(ranked: DataFrame, key: Columns) -> DataFrame:
        """Return the last round of each key of a ranked frame, as ``last`` takes it.

        Those of several frames are put together by ``unionByName``.
        """
        require_batch("ranked", ranked)
        field_named(ranked, "ranked", ROUND)
        by = ranked.groupBy(*keys_of(ranked, "key", key)[0])
        return by.agg(F.max(ROUND).alias(ROUND))


def fair_rank(
    df: DataFrame,
    key: Columns,
    *,
    order_by: Columns,
    weights: Mapping[str, float] | None = None,
    cost: str | Column | None = None,
    resume: Resume | None = None,
    skewed: bool = False,
) -> DataFrame:
    """Add the round in which each row is served.

    Parameters
    ----------
    df : DataFrame
        Rows that wait.
    key : str, Column or sequence of them
        Who takes turns: a tenant, a customer. Null is a key like any other.
    order_by : str, Column or sequence of them
        The order within a key; it must tell the rows of a key apart, or the same frame is ranked
        another way each time.
    weights : mapping of str to float, optional
        How many rows of a key make up its part of a round, by the key as a string; 1 where a key
        is not named. For a key of one column.
    cost : str or Column, optional
        How many turns a row takes; 1 by default. A cost that is not above 0 fails the query that
        meets it.
    resume : Resume, optional
        Where an earlier frame ended; at the beginning by default.
    skewed : bool
        Spread a key that has a large part of all rows over several cores; ``order_by`` must be
        ascending. A sample says whether there is one of a million rows or more: the frame is then
        read three times, otherwise twice, and the rounds take up to half as long again.

    Returns
    -------
    DataFrame
        The rows of ``df``, all columns and types as they were, and ``round`` (double).

    Raises
    ------
    InvalidArgumentError
        When a column is unknown, the frame has a column ``round``, or a weight is not above 0.
    SchemaMismatchError
        When the key is a map, a variant or a text with a collation, or the cost is no number.

    Notes
    -----
    One shuffle and one sort. Nothing is run or collected here.

    Examples
    --------
    >>> waiting = spark.createDataFrame(  # doctest: +SKIP
    ...     [("big", 1), ("big", 2), ("small", 3)], "tenant string, at int"
    ... )
    >>> waiting.transform(fair_order, "tenant", order_by="at").collect()  # doctest: +SKIP
    [Row(tenant='big', at=1), Row(tenant='small', at=3), Row(tenant='big', at=2)]
    """
    return _add_rounds(df, key, order_by, weights, cost, resume, skewed=skewed)


def fair_order(
    df: DataFrame,
    key: Columns,
    *,
    order_by: Columns,
    weights: Mapping[str, float] | None = None,
    cost: str | Column | None = None,
    resume: Resume | None = None,
    skewed: bool = False,
) -> DataFrame:
    """Sort rows as they are served: by round, and by ``order_by`` within a round.

    Parameters and errors are those of :func:`fair_rank`.

    Returns
    -------
    DataFrame
        The rows of ``df``, sorted, without the round.
    """
    ranked = fair_rank(
        df, key, order_by=order_by, weights=weights, cost=cost, resume=resume, skewed=skewed
    )
    return ranked.orderBy(ROUND, *resolve_columns(df, "order_by", order_by)).drop(ROUND)


def fair_take(
    df: DataFrame,
    n: int,
    key: Columns,
    *,
    order_by: Columns,
    weights: Mapping[str, float] | None = None,
    cost: str | Column | None = None,
    resume: Resume | None = None,
    limits: int | Mapping[str, int] | None = None,
) -> DataFrame:
    """Return the ``n`` rows that are served next, in their order.

    Parameters and errors are those of :func:`fair_rank`; and ``n`` must be at least 1.

    Parameters
    ----------
    limits : int or mapping of str to int, optional
        How many rows of a key are taken at most: of each, or of those that are named, by the key as
        a string. 0 takes none. A null key has no limit. What runs already the caller takes off.
        Names are for a key of one column.

    Returns
    -------
    DataFrame
        Up to ``n`` rows of ``df``, sorted, with their ``round``: what to resume from.

    Notes
    -----
    Of a key at most ``n`` rows can come next: the others are dropped before the shuffle, so that
    a key with most of the rows costs no more than others.
    """
    require_count("n", n, most=MOST)
    ranked = _add_rounds(df, key, order_by, weights, cost, resume, nearest=n, limits=limits)
    return ranked.orderBy(ROUND, *resolve_columns(df, "order_by", order_by)).limit(n)


def starts_at(current: Column, last: Column) -> Column:
    """Return the tag from which a key goes on: where the order stands, or where the key ended."""
    return F.greatest(current, F.coalesce(last, F.lit(0.0)))


def price_of(df: DataFrame, what: str, cost: str | Column) -> Column:
    """Return a cost as a number; a query fails on one of 0 or less.

    Raises
    ------
    InvalidArgumentError, SchemaMismatchError
        When it is no column of the frame, or no number.
    """
    column = one(df, what, cost)
    require_number(what, fields_of(df, what, [column])[0].dataType)
    given = column.cast("double")
    shown = F.coalesce(given.cast("string"), F.lit("null"))
    wrong = F.raise_error(F.concat(F.lit("cost is "), shown, F.lit(": it must be above 0")))
    is_one = (given > 0) & (given < float("inf"))
    return F.when(is_one, given).otherwise(wrong.cast("double"))


# rule again: tag of a new item
def _add_rounds(
    df: DataFrame,
    key: Columns,
    order_by: Columns,
    weights: Mapping[str, float] | None,
    cost: str | Column | None,
    resume: Resume | None,
    *,
    skewed: bool = False,
    nearest: int | None = None,
    limits: int | Mapping[str, int] | None = None,
) -> DataFrame:
    """Add the rounds; with ``nearest``, of the first so many rows of each key only."""
    require_batch("the frame", df)
    require_free(df, ROUND)
    require_flag("skewed", skewed)
    resume = Resume() if resume is None else resume
    order = order_of(df, order_by)
    rows, keys, fields = add_key_columns(df, "key", key)
    require_shares(weights, len(keys))
    optional(_require_limits, "limits", limits, keys=len(keys))
    _require_resumable(resume, fields)
    price = None if cost is None else price_of(df, "cost", cost)
    rows, amount = _with_amount(rows, keys[0], weights, price)
    if nearest is not None:
        # Spark drops the others before the shuffle, where only the place is wanted.
        rows = rows.withColumn(_PLACE, running.along(keys, order, None))
        rows = rows.where(F.col(_PLACE) <= nearest)
        rows = rows.where(F.lit(True) if limits is None else _is_within(keys, limits))
    if nearest is not None and amount is None:
        rows = rows.withColumnRenamed(_PLACE, _UPTO)
    elif skewed:
        require_ascending(df, order)
        rows = running.in_parts(rows, keys, order, amount, _UPTO)
    else:
        rows = rows.withColumn(_UPTO, running.along(keys, order, amount))
    rows = _with_start(rows, keys, fields, resume)
    tag = (F.col(_LAST) + F.col(_UPTO)).cast("double")
    return rows.select(*all_columns(df), tag.alias(ROUND))


def _require_limits(what: str, limits: object, keys: int) -> None:
    if not isinstance(limits, Mapping):
        require_count(what, limits, least=0)
        return
    for name, number in limits.items():
        require_string("a key of limits", name)
        require_count(f"limits[{name!r}]", number, least=0)
    if keys > 1:
        raise InvalidArgumentError("limits name keys of one column; the key has several")


# rule again: limit of a key
def _is_within(keys: Sequence[str], limits: int | Mapping[str, int]) -> Column:
    """Tell whether a row is among the first of its key that may be taken."""
    has_no_key = F.coalesce(*(F.col(key).cast("string") for key in keys)).isNull()
    if not isinstance(limits, Mapping):
        return has_no_key | (F.col(_PLACE) <= limits)
    name = F.col(keys[0]).cast("string")
    full = [(name == key) & (F.col(_PLACE) > most) for key, most in limits.items()]
    return has_no_key | ~reduce(operator.or_, full, F.lit(False))


def _require_resumable(resume: object, keys: Sequence[StructField]) -> None:
    if not isinstance(resume, Resume):
        raise InvalidArgumentError(f"resume is {resume!r}: give a Resume")
    current = resume.current
    if isinstance(current, bool) or not (current == 0 or is_positive(current)):
        raise InvalidArgumentError(f"resume.current is {current!r}: it must be a round, 0 or more")
    if resume.last is None:
        return
    require_beside("resume.last", resume.last, keys)
    require_number(ROUND, field_named(resume.last, "resume.last", ROUND).dataType)


def _with_amount(
    rows: DataFrame, key: str, weights: Mapping[str, float] | None, price: Column | None
) -> tuple[DataFrame, Column | None]:
    """Return how many rounds a row takes, or None where each takes one."""
    if not weights:
        return rows, price
    amount = F.lit(1.0) if price is None else price
    table = rows.sparkSession.createDataFrame(
        [(name, float(weight)) for name, weight in weights.items()],
        f"{private('name')} string, {private('weight')} double",
    )
    same = F.col(key).cast("string") == F.col(private("name"))
    weighted = rows.join(F.broadcast(table), same, "left")
    return weighted, amount / F.coalesce(F.col(private("weight")), F.lit(1.0))


def _with_start(
    rows: DataFrame, keys: Sequence[str], fields: Sequence[StructField], resume: Resume
) -> DataFrame:
    current = F.lit(float(resume.current))
    if resume.last is None:
        return rows.withColumn(_LAST, current)
    ours = [plain_column(f.name).alias(private(f"known_{n}")) for n, f in enumerate(fields)]
    # The ends of several frames may be united as they are: of each key the last one counts.
    known = resume.last.groupBy(*ours).agg(F.max(F.col(ROUND).cast("double")).alias(_LAST))
    same = all_of(
        F.col(column).eqNullSafe(F.col(private(f"known_{n}"))) for n, column in enumerate(keys)
    )
    joined = rows.join(known, same, "left")
    return joined.withColumn(_LAST, starts_at(current, F.col(_LAST)))
