"""Columns of results that are written without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark_queue.errors import SparkNeededError


def shape(columns: pa.Schema, rows: pa.Table) -> pa.Table:
    """Return rows with all columns of a table, in its order; null where they have none."""
    values = [
        rows[column.name] if column.name in rows.column_names else pa.nulls(rows.num_rows, kind)
        for column, kind in zip(columns, columns.types, strict=True)
    ]
    return pa.table(values, schema=columns)


def require_plain_types(name: str, columns: pa.Schema) -> None:
    """Raise where columns need more than the oldest version of Delta's protocol."""
    for column in columns:
        if _has_local_time(column.type):
            why = f"column {column.name!r} has times without a zone, a feature of Delta's"
            raise SparkNeededError(f"to make {name}", why)


def _has_local_time(kind: pa.DataType) -> bool:
    if pa.types.is_timestamp(kind):
        return kind.tz is None
    inner: Sequence[pa.Field] = [kind.field(at) for at in range(kind.num_fields)]
    return any(_has_local_time(field.type) for field in inner)
