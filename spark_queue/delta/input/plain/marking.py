"""Rows on their way into the item log without Spark: checked, and with the queue's own columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.config import QueueConfig
from spark_queue.delta.input.kinds import Field
from spark_queue.delta.input.plain import arrow_keys
from spark_queue.delta.input.plain.rows import fit_rows, sort_rows
from spark_queue.delta.tables.schema import BOUNDED, INPUTS, QUEUE_COLUMNS, LogColumn, inputs_of


def mark_rows(
    given: object,
    columns: Sequence[Field],
    config: QueueConfig,
    *,
    order_by: str | Sequence[str] | None = None,
    extra: Sequence[Field] = (),
) -> pa.Table:
    """Check rows and add the queue's columns to them: keys, priority, cost, times and the hash.

    It is what :func:`~spark_queue.delta.input.columns.add_keys` gives of the same rows, read and
    brought here.

    Parameters
    ----------
    given : pyarrow.Table, pandas.DataFrame or list of dict
        The rows.
    columns : sequence of Field
        The user's columns.
    config : QueueConfig
        The keys.
    order_by : str or sequence of str, optional
        Columns by which the rows are put in order; else they stay in theirs.
    extra : sequence of Field, optional
        Columns of the item log that the rows have as well.

    Raises
    ------
    InvalidArgumentError
        When the rows are of another kind, or a priority is no ``int``.
    SchemaMismatchError
        When a column is missing, unknown or of another type, or a cost is no number above 0; it
        names the column.
    SparkNeededError
        When only Spark knows a key of the configuration, or how a type is kept.
    """
    return mark_fitted(sort_rows(fit_rows(given, columns, extra), order_by), columns, config, extra)


def mark_fitted(
    rows: pa.Table, columns: Sequence[Field], config: QueueConfig, extra: Sequence[Field] = ()
) -> pa.Table:
    """Add the queue's columns to rows that were checked; as :func:`mark_rows`."""
    made = {name: rows[name] for name in [column.name for column in columns]}
    made |= arrow_keys.keys_of(columns, config, rows)
    given = inputs_of(made).keys() & set(rows.column_names)
    for name, column in INPUTS.items():
        values = rows[name] if name in given else None
        made[column.name] = _input(column, values, rows.num_rows)
    made |= {column.name: rows[column.name] for column in extra}
    made["_dedup_hash"] = arrow_keys.hashes_of(made["_dedup_key"])
    return pa.table(made)


def _input(
    column: LogColumn, values: pa.ChunkedArray | pa.Array | None, count: int
) -> pa.ChunkedArray | pa.Array:
    if values is None:
        values = pa.nulls(count, QUEUE_COLUMNS.arrow.field(column.name).type)
    elif column.name in BOUNDED:
        BOUNDED[column.name].require(values.to_pylist())
    default = None if column.input is None else column.input.default
    return values if default is None else pc.fill_null(values, default)
