"""Sizes of rows without Spark, equal to :mod:`spark_queue.delta.input.values`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.input.kinds import WIDTHS, Field
from spark_queue.delta.input.measures import Measure, length, of_bytes, of_text
from spark_queue.delta.input.plain import rows as plain_rows
from spark_queue.delta.input.plain.texts import quote
from spark_queue.delta.tables import instants
from spark_queue.errors import SparkNeededError


def sizes_of(rows: pa.Table, columns: Sequence[Field]) -> pa.Array:
    """Return the bytes of each row.

    Raises
    ------
    SparkNeededError
        When a column has values that are made of others, of which Spark counts the JSON.
    """
    nothing = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    return reduce(pc.add, (_bytes_in(rows[c.name].combine_chunks(), c) for c in columns), nothing)


def _bytes_in(values: pa.Array, column: Field) -> pa.Array:
    width = WIDTHS.get(column.kind.form)
    if width is not None:
        return pc.if_else(pc.is_null(values), 0, width).cast(pa.int64())
    if column.kind.form in ("string", "binary"):
        return pc.fill_null(pc.binary_length(values), 0).cast(pa.int64())
    if not column.kind.digits:
        raise SparkNeededError(f"the size of column {column.name!r}", f"it is {column.kind.simple}")
    # What is null is left out, and the braces count.
    name = len(f"{quote(column.name)}:".encode())
    texts = (2 if n is None else 2 + name + len(str(n)) for n in values.to_pylist())
    return pa.array(texts, pa.int64())


def measures(columns: Sequence[Field]) -> dict[str, Measure]:
    """Return what measures a value of each column, and refuses what does not fit it."""
    return {column.name: _measure_of(column) for column in columns}


def _measure_of(column: Field) -> Measure:
    simple, form = column.kind.simple, column.kind.form
    if form == "binary":
        return of_bytes(column.name, simple)
    if form == "string":
        return of_text(column.name, simple)
    width = WIDTHS.get(form)

    def size(value: Any) -> int:
        if not instants.are_named(plain_rows.column_of([value], column)):
            raise instants.outside(column.name)
        if value is None:
            return 0
        return width or length(value)

    return size
