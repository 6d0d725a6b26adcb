"""Grouped serial: what may run now of each group."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window, functions as F

from spark_queue.checks import MOST, require_count
from spark_queue.operators.key_columns import (
    Columns,
    all_columns,
    is_complete,
    keys_of,
    order_of,
    plain_column,
    private,
    require_batch,
    require_beside,
)

_PLACE = private("place")
_BUSY = private("busy")
_FULL = private("full")
_GROUP = private("group")
_ROW = private("row")


def serial_heads(
    df: DataFrame,
    group: Columns,
    *,
    order_by: Columns,
    active: DataFrame | None = None,
    limit: int = 1,
) -> DataFrame:
    """Keep the rows that may run now: the first of each group, while its slots last.

    Parameters
    ----------
    df : DataFrame
        Rows that wait.
    group : str, Column or sequence of them
        What must run one after another. A row whose group is null is in no group: it may always
        run. Of several columns one that is null is enough; a struct that has nulls is a group.
    order_by : str, Column or sequence of them
        The order within a group; it must tell the rows of a group apart.
    active : DataFrame, optional
        Rows that run now, with columns of the same names as ``group``; each takes a slot of its
        group. When ``group`` has an expression, give it an alias that both have.
    limit : int
        How many rows of a group may run at a time.

    Returns
    -------
    DataFrame
        Rows of ``df``, all columns and types as they were, in no order.

    Raises
    ------
    InvalidArgumentError
        When a column is unknown, here or in ``active``, or named as operators name theirs; a frame
        is a stream; or ``limit`` is no whole number above 0.
    SchemaMismatchError
        When a group is a map, a variant or a text with a collation, or has another type in
        ``active``.

    Notes
    -----
    One shuffle and one sort. Of a group no more than ``limit`` rows of each partition take part in
    the shuffle, so that a deep group costs no more than others. Nothing is run or collected here.

    Examples
    --------
    >>> waiting = spark.createDataFrame(  # doctest: +SKIP
    ...     [("orders", 1), ("orders", 2), ("users", 3)], "table string, at int"
    ... )
    >>> waiting.transform(serial_heads, "table", order_by="at").collect()  # doctest: +SKIP
    [Row(table='orders', at=1), Row(table='users', at=3)]
    """
    require_count("limit", limit, most=MOST)
    return _starting(df, group, order_by, active, limit=limit, run=1)


def serial_runs(
    df: DataFrame,
    group: Columns,
    *,
    order_by: Columns,
    length: int,
    active: DataFrame | None = None,
) -> DataFrame:
    """Keep up to ``length`` consecutive rows of each group that has nothing running.

    They are to be run one after another by the worker that takes them, so that a deep group does
    not have to wait for a round of all others between two of its rows.

    Parameters
    ----------
    df, group, order_by, active
        As for :func:`serial_heads`; a group with a row in ``active`` gets no run.
    length : int
        How many rows of a group at most.

    Returns
    -------
    DataFrame
        Rows of ``df``, all columns and types as they were, in no order. A row in no group is a run
        of one.

    Raises
    ------
    InvalidArgumentError, SchemaMismatchError
        As for :func:`serial_heads`, of ``length``.
    """
    require_count("length", length, most=MOST)
    return _starting(df, group, order_by, active, limit=1, run=length)


def _starting(
    df: DataFrame,
    group: Columns,
    order_by: Columns,
    active: DataFrame | None,
    *,
    limit: int,
    run: int,
) -> DataFrame:
    require_batch("the frame", df)
    keys, fields = keys_of(df, "group", group)
    order = order_of(df, order_by)
    # The last only has to tell the rows in no group apart.
    made = {_GROUP: _group_of(keys), _ROW: F.monotonically_increasing_id()}
    waiting = df.withColumns(made)
    busy = None
    if active is not None:
        require_beside("active", active, fields)
        held = _group_of([plain_column(field.name) for field in fields])
        busy = active.select(held.alias(_GROUP))
    found = _may_start(waiting, busy, limit=limit, run=run, order=order)
    return found.select(*all_columns(df))


def _group_of(keys: Sequence[Column]) -> Column:
    """Return a group as one value: null where any of its parts is."""
    if len(keys) == 1:
        return keys[0]
    parts = F.struct(*[key.alias(f"part_{n}") for n, key in enumerate(keys)])
    return F.when(is_complete(keys), parts)


# rule again: slots of a group, run of a group
def _may_start(
    waiting: DataFrame,
    active: DataFrame | None,
    *,
    limit: int,
    run: int,
    order: Sequence[str | Column],
) -> DataFrame:
    """Keep the rows that their group lets start: its first ones, in order.

    A group lets ``limit`` rows run. With ``run`` above 1, a group with nothing running lets
    ``limit * run`` consecutive rows start together, and any other group none.
    """
    joined = _with_busy(waiting, active, most=1 if run > 1 else limit)
    joined = joined.where(F.col(_FULL).isNull())
    # Rows without a group stand in lines of their own: one scan serves all of them. The group goes
    # first, since a sort looks at its first column most.
    group = F.col(_GROUP)
    keys = [group, F.when(group.isNull(), F.col(_ROW))]
    # Spark keeps only the first rows of a group before the shuffle when the rank is bounded.
    most = limit * run
    place = F.row_number().over(Window.partitionBy(*keys).orderBy(*order))
    first = joined.withColumn(_PLACE, place).where(F.col(_PLACE) <= most)
    allowed = most - F.coalesce(F.col(_BUSY), F.lit(0))
    return first.where(group.isNull() | (F.col(_PLACE) <= allowed))


def _with_busy(waiting: DataFrame, active: DataFrame | None, *, most: int) -> DataFrame:
    """Add how many rows of a row's group run, and whether no more may."""
    if active is None:
        nothing = {_BUSY: F.lit(None).cast("long"), _FULL: F.lit(None).cast("boolean")}
        return waiting.withColumns(nothing)
    counts = active.where(F.col(_GROUP).isNotNull()).groupBy(_GROUP)
    busy = counts.agg(F.count("*").alias(_BUSY))
    busy = busy.withColumn(_FULL, F.when(F.col(_BUSY) >= most, True))
    return waiting.join(busy, _GROUP, "left")
