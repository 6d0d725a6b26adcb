"""Rows of the status log on their way into the table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from spark_queue.delta.replica.state import Row
from spark_queue.delta.tables.schema import STATUS_COLUMNS

_SCHEMA = STATUS_COLUMNS.arrow


def status_table(rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table; columns that they leave out are null."""
    named = frozenset[str]().union(*rows)
    return pa.table(
        [
            pa.array([row.get(field.name) for row in rows], field.type)
            if field.name in named
            else pa.nulls(len(rows), field.type)
            for field in _SCHEMA
        ],
        schema=_SCHEMA,
    )
