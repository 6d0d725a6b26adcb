"""Distinct: at most one row of each key, and none whose key is in flight already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window, WindowSpec, functions as F
from pyspark.sql.types import StructField

from spark_queue.errors import InvalidArgumentError
from spark_queue.operators.key_columns import (
    Columns,
    add_key_columns,
    all_columns,
    all_of,
    fields_of,
    has,
    is_complete,
    order_of,
    plain_column,
    private,
    require_batch,
    require_beside,
    require_free,
    resolve_columns,
)

_PLACE = private("place")
_ALONE = private("alone")
_HELD = private("held")

#: The column that names the winner over a refused row.
LOST_TO = "lost_to"


# rule again: one item of a key
def distinct(
    df: DataFrame,
    key: Columns,
    *,
    order_by: Columns | None = None,
    in_flight: DataFrame | None = None,
) -> DataFrame:
    """Keep the first row of each key, unless the key is in flight.

    Parameters
    ----------
    df : DataFrame
        Rows that ask to be queued.
    key : str, Column or sequence of them
        What makes two rows the same work. A row whose key is null is no duplicate of anything: it
        is always kept. Of several columns one that is null is enough; a struct that has nulls is
        not null itself.
    order_by : str, Column or sequence of them, optional
        What comes first. By default any row of a key may be kept, and not always the same one.
    in_flight : DataFrame, optional
        Rows that are queued or running, with columns of the same names as ``key``; columns of other
        names do not matter. When ``key`` has an expression, give it an alias that both have.

    Returns
    -------
    DataFrame
        Rows of ``df``, all columns and types as they were, in no order.

    Raises
    ------
    InvalidArgumentError
        When a column is unknown, here or in ``in_flight``, or named as operators name theirs; or a
        frame is a stream.
    SchemaMismatchError
        When a key is a map, a variant or a text with a collation, or has another type in
        ``in_flight``.

    Notes
    -----
    One shuffle and one sort. Rows that cannot be the first of their key are dropped before the
    shuffle, so that a key with most of the rows costs no more than others. Nothing is run or
    collected here.

    Examples
    --------
    >>> jobs = [("a.csv", 1), ("b.csv", 2), ("a.csv", 3)]
    >>> df = spark.createDataFrame(jobs, "path string, at int")  # doctest: +SKIP
    >>> df.transform(distinct, "path", order_by="at").collect()  # doctest: +SKIP
    [Row(path='a.csv', at=1), Row(path='b.csv', at=2)]
    """
    asking = _Asking.of(df, key, order_by)
    rows = asking.rows
    if in_flight is not None:
        held = _keys_in_flight(asking, in_flight)
        rows = rows.join(held, asking.is_held(), "left_anti")
    first = rows.withColumn(_PLACE, F.row_number().over(asking.line()))
    return first.where(F.col(_PLACE) == 1).select(*asking.columns)


def distinct_refused(
    df: DataFrame,
    key: Columns,
    *,
    order_by: Columns,
    in_flight: DataFrame | None = None,
    winner: Columns | None = None,
) -> DataFrame:
    """Return the rows that :func:`distinct` leaves out, each with the row that it lost to.

    Parameters
    ----------
    df, key, in_flight
        As for :func:`distinct`.
    order_by : str, Column or sequence of them
        As for :func:`distinct`, and needed: it must tell the rows of a key apart, so that both
        transforms find the same first one.
    winner : str, Column or sequence of them, optional
        What to tell of the winner; the columns of ``order_by`` by default. Where the key is in
        flight these are the columns of ``in_flight`` with the same names, null where it has none.

    Returns
    -------
    DataFrame
        The refused rows, with ``lost_to``: a struct of ``in_flight`` (whether the key was in
        flight, or an earlier row of the frame has it) and ``winner`` (a struct).

    Raises
    ------
    InvalidArgumentError, SchemaMismatchError
        As for :func:`distinct`, or when the frame has a column ``lost_to``.
    """
    require_batch("the frame", df)
    require_free(df, LOST_TO)
    asking = _Asking.of(df, key, order_by)
    if winner is None:
        winner = _names_only(order_by)
    told = resolve_columns(df, "winner", winner)
    fields = fields_of(df, "winner", told)
    told = [column.alias(field.name) for column, field in zip(told, fields, strict=True)]
    first = F.first(F.struct(*told)).over(asking.line())
    rows = asking.rows.withColumns(
        {_PLACE: F.row_number().over(asking.line()), private("first"): first}
    )
    if in_flight is None:
        lost_to = F.struct(F.lit(False).alias("in_flight"), F.col(private("first")).alias("winner"))
        refused = rows.where(F.col(_PLACE) > 1)
        return refused.select(*asking.columns, lost_to.alias(LOST_TO))
    held = _keys_in_flight(asking, in_flight, fields)
    joined = rows.join(held, asking.is_held(), "left")
    is_held = F.col(_HELD).isNotNull()
    holder = F.when(is_held, F.col(_HELD)["row"]).otherwise(F.col(private("first")))
    lost_to = F.struct(is_held.alias("in_flight"), holder.alias("winner"))
    refused = joined.where(is_held | (F.col(_PLACE) > 1))
    return refused.select(*asking.columns, lost_to.alias(LOST_TO))


@dataclass(frozen=True, slots=True)
class _Asking:
    """Rows that ask for a key, with the key under private names."""

    rows: DataFrame
    columns: list[Column]
    keys: list[str]
    fields: list[StructField]
    order: list[Column]

    @classmethod
    def of(cls, df: DataFrame, key: Columns, order_by: Columns | None) -> _Asking:
        require_batch("the frame", df)
        rows, keys, fields = add_key_columns(df, "key", key)
        order = [F.lit(0)] if order_by is None else order_of(df, order_by)
        # A row without a key stands in a line of its own, wherever it lies.
        alone = F.when(
            ~is_complete([F.col(name) for name in keys]), F.monotonically_increasing_id()
        )
        return cls(rows.withColumn(_ALONE, alone), all_columns(df), keys, fields, order)

    def line(self) -> WindowSpec:
        return Window.partitionBy(*self.keys, _ALONE).orderBy(*self.order)

    def is_held(self) -> Column:
        return all_of(F.col(name) == F.col(_held_name(n)) for n, name in enumerate(self.keys))


def _names_only(order_by: Columns) -> list[str]:
    """Return the names of columns in ``order_by``, by which winners are shown by default."""
    several = [order_by] if isinstance(order_by, str | Column) else list(order_by)
    names = [one for one in several if isinstance(one, str)]
    if len(names) < len(several):
        raise InvalidArgumentError(
            "order_by has expressions: say with winner= which columns to tell of a winner"
        )
    return names


def _keys_in_flight(
    asking: _Asking, in_flight: DataFrame, told: Sequence[StructField] | None = None
) -> DataFrame:
    """Return the keys in flight; to show columns, once each with one row."""
    require_beside("in_flight", in_flight, asking.fields)
    keys = [plain_column(field.name).alias(_held_name(n)) for n, field in enumerate(asking.fields)]
    if told is None:
        return in_flight.select(*keys)
    row = F.struct(*[_if_there(in_flight, field).alias(field.name) for field in told])
    by_key = in_flight.select(*keys, F.struct(row.alias("row")).alias(_HELD)).groupBy(
        *[_held_name(n) for n in range(len(keys))]
    )
    return by_key.agg(F.first(_HELD).alias(_HELD))


def _if_there(df: DataFrame, field: StructField) -> Column:
    if has(df, field.name):
        return plain_column(field.name)
    return F.lit(None).cast(field.dataType)


def _held_name(number: int) -> str:
    return private(f"held_{number}")
