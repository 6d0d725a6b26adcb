"""Rows in the order of some of their columns, as Spark orders them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.wording import shorten


def sort_rows(rows: pa.Table, order_by: Any) -> pa.Table:
    """Return rows from the least to the greatest, nulls first; those that are alike stay as is.

    Raises
    ------
    InvalidArgumentError
        When a column is none of the rows'.
    SparkNeededError
        When the values of a column are made of others.
    """
    if order_by is None:
        return rows
    names = [order_by] if isinstance(order_by, str) else order_by
    if not isinstance(names, Sequence) or not names or not all(isinstance(n, str) for n in names):
        raise InvalidArgumentError(
            f"order_by is {shorten(order_by)}: name a column or several, or leave it out"
        )
    by: list[pa.ChunkedArray] = []
    for name in names:
        if name not in rows.column_names:
            raise InvalidArgumentError(
                f"order_by names {shorten(name)}; the rows have {', '.join(rows.column_names)}"
            )
        by += _keys(name, rows[name])
    keys = pa.table(by, [str(number) for number in range(len(by))])
    return rows.take(pc.sort_indices(keys, [(key, "ascending") for key in keys.column_names]))


def _keys(name: str, values: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    if pa.types.is_nested(values.type):
        raise SparkNeededError(f"the order by {shorten(name)}", f"it is {values.type}")
    is_there = pc.is_valid(values)
    if not pa.types.is_floating(values.type):
        return [is_there, values]
    # To Arrow what is no number is like a null; to Spark it is above all numbers.
    is_nan = pc.is_nan(values)
    return [is_there, is_nan, pc.if_else(is_nan, 0.0, values)]
