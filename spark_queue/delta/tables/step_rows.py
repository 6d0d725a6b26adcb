"""Rows of a step, in the columns of its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from spark_queue.delta.tables.heads import Head, to_json
from spark_queue.delta.tables.schema import HEAD, META_LANE


def step_rows(schema: pa.Schema, head: Head, rows: pa.Table | None) -> pa.Table:
    """Return all rows of a step, that of its head among them, in the columns of a log."""
    return pa.concat_tables(step_tables(schema, head, rows))


def step_tables(schema: pa.Schema, head: Head, rows: pa.Table | None) -> list[pa.Table]:
    """Return the same, the row of the head as a table of its own, which is the last one."""
    line = {"_gen": META_LANE, "_step": head.step, "_kind": HEAD, "_body": to_json(head)}
    named = {name: pa.array([value]) for name, value in line.items()}
    last = table_of(schema, 1, named)
    if rows is None:
        return [last]
    columns = columns_of(rows)
    columns["_step"] = pa.repeat(pa.scalar(head.step, pa.int64()), rows.num_rows)
    return [table_of(schema, rows.num_rows, columns), last]


def columns_of(rows: pa.Table) -> dict[str, Any]:
    """Return the columns of rows by their names."""
    return dict(zip(rows.column_names, rows.columns, strict=True))


def table_of(schema: pa.Schema, count: int, columns: Mapping[str, Any]) -> pa.Table:
    """Return columns in the order and types of a schema, with nulls for those that are missing."""
    return pa.table(
        [
            _of_type(columns[field.name], field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in schema
        ],
        schema=schema,
    )


def _of_type(values: Any, kind: pa.DataType) -> Any:
    # To have Arrow find that there is nothing to do costs more than the question.
    return values if values.type == kind else values.cast(kind)
