"""Grouped serial: what may run now of each group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, functions as F

from spark_queue.checks import MOST, require_count
from spark_queue.config import OnFailure
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
_OPEN = private("open")
_SLOTS = private("slots")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """How the columns are called that :func:`may_start` reads and makes."""

    group: str = "_group_key"
    seq: str = "_seq"
    due: str = "_due"
    over: str = "_over"
    has_slot: str | None = None


_NAMES = Names(group=private("group"), seq=private("seq"), due=private("due"), over=private("over"))


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
    waiting = df.withColumns(
        {
            _NAMES.group: _group_of(keys),
            # It only has to tell the rows in no group apart.
            _NAMES.seq: F.monotonically_increasing_id(),
            _NAMES.due: F.lit(True),
            _NAMES.over: F.lit(None).cast("string"),
        }
    )
    busy = None
    if active is not None:
        require_beside("active", active, fields)
        held = _group_of([plain_column(field.name) for field in fields])
        busy = active.select(held.alias(_NAMES.group))
    found = may_start(waiting, busy, limit=limit, run=run, order=order, names=_NAMES)
    return found.select(*all_columns(df))


def _group_of(keys: Sequence[Column]) -> Column:
    """Return a group as one value: null where any of its parts is."""
    if len(keys) == 1:
        return keys[0]
    parts = F.struct(*[key.alias(f"part_{n}") for n, key in enumerate(keys)])
    return F.when(is_complete(keys), parts)


# rule again: slots of a group, waiting head of a group, run of a group
def may_start(
    waiting: DataFrame,
    in_flight: DataFrame | None,
    *,
    limit: int = 1,
    run: int = 1,
    on_failure: OnFailure = "block",
    order: Sequence[str | Column] | None = None,
    names: Names = Names(),
) -> DataFrame:
    """Keep the items that their group lets start: its first ones, in order.

    A group lets ``limit`` items be in flight. With ``run`` above 1, a group with nothing in flight
    lets ``limit * run`` consecutive items start together, and any other group none.

    Parameters
    ----------
    waiting : DataFrame
        Items that are not in flight: ``_seq``, ``_group_key`` (null: in no group), ``_due``
        (whether its delay is over), ``_over`` (null, or why it will never run) and more; and
        the column that ``names.has_slot`` names: whether it has a slot of its group already.
    in_flight : DataFrame, optional
        ``_group_key`` of each item in flight, and the column that ``names.has_slot`` names, if it
        does: whether the item is among the waiting ones as well, as its lease ran out.
    limit, run : int
        As above.
    on_failure : "block" or "skip"
        Whether an item that is not due holds up those behind it in its group, or is passed over.
    order : sequence of str or Column, optional
        The order within a group; by ``_seq`` by default.
    names : Names
        Other names for the columns.

    Returns
    -------
    DataFrame
        Rows of ``waiting`` that are due and may start, and those that are over, which hold no other
        row up.
    """
    due, over = F.col(names.due), F.col(names.over).isNotNull()
    order = [names.seq] if order is None else order
    if on_failure == "skip":
        waiting = waiting.where(due | over)
    joined = _with_busy(waiting, in_flight, names, most=1 if run > 1 else limit)
    joined = joined.where(over | F.col(_FULL).isNull())
    # Rows without a group, or over, stand in lines of their own: one scan serves all of them. The
    # group goes first, since a sort looks at its first column most.
    group = F.col(names.group)
    alone = group.isNull() | over
    slots_known = [] if names.has_slot is None else [F.col(names.has_slot)]
    has_slot = slots_known[0] if slots_known else F.lit(False)
    keys = [F.when(~over, group), F.when(alone, F.col(names.seq))]
    # Spark keeps only the first rows of a group before the shuffle when the rank is bounded.
    most = limit * run
    place = F.row_number().over(Window.partitionBy(*keys, *slots_known).orderBy(*order))
    first = joined.withColumn(_PLACE, place).where(F.col(_PLACE) <= most)
    busy, slots = (F.coalesce(F.col(name), F.lit(0)) for name in (_BUSY, _SLOTS))
    allowed = most - busy - F.when(has_slot, F.lit(0)).otherwise(slots)
    open_so_far = F.min(due).over(Window.partitionBy(*keys).orderBy(*order))
    placed = first.withColumn(_OPEN, open_so_far).where(alone | (F.col(_PLACE) <= allowed))
    return placed.where(over | F.col(_OPEN)).drop(_OPEN, _PLACE, _BUSY, _FULL, _SLOTS)


def _with_busy(
    waiting: DataFrame, in_flight: DataFrame | None, names: Names, *, most: int
) -> DataFrame:
    """Add how many items of a row's group are in flight, and whether no more may be."""
    if in_flight is None:
        nothing = {name: F.lit(None).cast("long") for name in (_BUSY, _SLOTS)}
        return waiting.withColumns({**nothing, _FULL: F.lit(None).cast("boolean")})
    has_slot = F.lit(False) if names.has_slot is None else F.col(names.has_slot)
    counts = in_flight.where(F.col(names.group).isNotNull()).groupBy(names.group)
    busy = counts.agg(
        F.count_if(~has_slot).alias(_BUSY),
        F.count_if(has_slot).alias(_SLOTS),
    )
    busy = busy.withColumn(_FULL, F.when(F.col(_BUSY) >= most, True))
    return waiting.join(busy, names.group, "left")
