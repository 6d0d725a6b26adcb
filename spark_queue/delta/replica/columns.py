"""Rows of the status log on their way into the table, and back."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from spark_queue.delta.replica.state import Row
from spark_queue.delta.tables.schema import STATUS_COLUMNS

_SCHEMA = STATUS_COLUMNS.arrow

#: From how many on an item getter returns several values.
_SEVERAL = 2


def status_table(rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table; columns that they leave out are null."""
    named = frozenset[str]().union(*rows)
    given = _columns(rows, [name for name in _SCHEMA.names if name in named])
    return pa.table(
        [
            pa.array(given[field.name], field.type)
            if field.name in given
            else pa.nulls(len(rows), field.type)
            for field in _SCHEMA
        ],
        schema=_SCHEMA,
    )


def rows_of(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    """Return some columns of a table as rows; those that it has not are null."""
    nothing = [None] * table.num_rows
    known = set(table.column_names)
    values = [_values(table[name]) if name in known else nothing for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _columns(rows: Sequence[Row], names: Sequence[str]) -> dict[str, Sequence[Any]]:
    if len(names) < _SEVERAL:
        return {name: [row.get(name) for row in rows] for name in names}
    try:
        # At once: a hundred thousand questions for one value are half of what this takes.
        return dict(zip(names, zip(*map(itemgetter(*names), rows), strict=True), strict=True))
    except KeyError:
        return {name: [row.get(name) for row in rows] for name in names}


def _values(column: pa.ChunkedArray) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if not pa.types.is_timestamp(column.type):
        found: list[Any] = column.to_pylist()
        return found
    # Few different instants are in a step, and each takes as long to make as thirty numbers.
    encoded = column.combine_chunks().dictionary_encode()
    instants = encoded.dictionary.to_pylist()
    return [None if at is None else instants[at] for at in encoded.indices.to_pylist()]
