"""Rows of Arrow, of pandas or of this process, as a table of a queue's columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_queue.delta.input import kinds
from spark_queue.delta.input.kinds import Field, Kind
from spark_queue.delta.input.plain import arrow_items
from spark_queue.delta.input.plain.arrow import cast, type_of
from spark_queue.delta.tables import instants
from spark_queue.delta.tables.schema import INPUTS
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError

#: Columns that rows may have beside those of the queue.
OPTIONAL_COLUMNS = tuple(Field(name, Kind(column.kind)) for name, column in INPUTS.items())


def fit_rows(given: object, columns: Sequence[Field], extra: Sequence[Field] = ()) -> pa.Table:
    """Return rows with all columns of a queue, of its types, and what they have beside.

    Parameters
    ----------
    given : pyarrow.Table, pandas.DataFrame or list of dict
        The rows, in order.
    columns : sequence of Field
        The queue's columns.
    extra : sequence of Field
        Columns of the log that these rows must have as well.

    Raises
    ------
    InvalidArgumentError
        When it is none of these.
    SchemaMismatchError
        When a column is missing, unknown, or holds what does not fit its type; it names the column.
    """
    kinds.require_plain(column.name for column in columns)
    wanted = {column.name: column for column in (*OPTIONAL_COLUMNS, *columns, *extra)}
    required = [column.name for column in (*columns, *extra)]
    if isinstance(given, list):
        found = arrow_items.table(given, wanted, required)
    else:
        table = _table(given)
        _require_columns(table.column_names, wanted, required)
        found = pa.table({name: _cast(table[name], wanted[name]) for name in table.column_names})
    instants.require_named(found)
    return found


def _table(given: object) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    if type(given).__module__.startswith("pandas.") and hasattr(given, "columns"):
        return _from_pandas(given)
    raise InvalidArgumentError(
        f"rows are of type {type(given).__name__}: they must be a table of Arrow, a frame of "
        "pandas, or a list of dicts"
    )


def _from_pandas(given: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(given, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as exc:
        raise InvalidArgumentError(f"the frame of pandas has no Arrow types: {exc}") from exc


def _require_columns(
    given: Sequence[str], wanted: Mapping[str, Field], required: Sequence[str]
) -> None:
    for name in given:
        if name not in wanted:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")
    kinds.require_different(given)
    for name in required:
        if name not in given:
            raise SchemaMismatchError(
                name, f"is missing; the frame has {', '.join(given) or 'no columns'}"
            )


def _cast(values: pa.ChunkedArray, column: Field) -> pa.ChunkedArray:
    """Return values as those of a column, as a session of Spark takes them from Arrow.

    Raises
    ------
    SchemaMismatchError
        When one does not fit, or is a time without an offset where an instant is wanted.
    """
    kind = type_of(column)
    local = pa.types.is_date(values.type) or (
        pa.types.is_timestamp(values.type) and values.type.tz is None
    )
    if column.kind.form == "timestamp" and local:
        raise SchemaMismatchError(
            column.name, "holds times without an offset; give them a time zone"
        )
    try:
        return cast(values, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        raise SchemaMismatchError(column.name, f"does not fit {column.kind.simple}: {exc}") from exc
