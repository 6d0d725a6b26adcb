"""Rows of this process on their way into a table: by columns, as Arrow, not value by value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa


def table(count: int, columns: Mapping[str, Any], schema: pa.Schema) -> pa.Table:
    """Return columns of values as a table.

    Parameters
    ----------
    count : int
        How many rows.
    columns : mapping
        For each column a list of as many values, their array, or the one value of all rows.
    schema : pyarrow.Schema
        What the columns are, by name; it may have more, and need not have those that are arrays.
    """
    return pa.table(
        {name: _column(count, values, name, schema) for name, values in columns.items()}
    )


def _column(count: int, values: Any, name: str, schema: pa.Schema) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    kind = schema.field(name).type
    if isinstance(values, list):
        return pa.array(values, kind)
    return pa.repeat(pa.scalar(values, kind), count)
