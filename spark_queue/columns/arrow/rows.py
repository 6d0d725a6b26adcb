"""Rows of Arrow, of pandas or of this process, as a table of a queue's columns; their sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache, reduce
from itertools import repeat
from numbers import Integral, Real
from typing import Any, Protocol, cast as cast_to

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.columns import kinds
from spark_queue.columns.arrow.arrow_types import cast, from_pandas, type_of
from spark_queue.columns.arrow.functions import quote
from spark_queue.columns.kinds import WIDTHS, Field, Kind
from spark_queue.columns.measures import Measure, length, misfit, of_bytes, of_text
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, SparkNeededError
from spark_queue.extras import is_of
from spark_queue.log import instants
from spark_queue.log.schema import INPUTS
from spark_queue.wording import shorten

#: Columns that rows may have beside those of the queue.
OPTIONAL_COLUMNS = tuple(Field(name, Kind(column.kind)) for name, column in INPUTS.items())


class ArrowStream(Protocol):
    """Rows of any library, by the stream of Arrow's C interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream in a capsule."""


def table_of_stream(given: object) -> object:
    """Return a table of rows that have the stream of Arrow's C interface.

    Frames of polars and relations of DuckDB have it. A data set of Arrow becomes a table, too; a
    frame of Spark stays one, and so do all other rows.

    Raises
    ------
    InvalidArgumentError
        When Arrow cannot read it.
    """
    if isinstance(given, pa.Table) or is_of(given, "pandas", "pyspark"):
        return given
    try:
        if hasattr(type(given), "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(given).read_all()
        if hasattr(type(given), "__arrow_c_array__"):
            return pa.Table.from_batches([pa.record_batch(given)])
    except (pa.ArrowException, ValueError, TypeError) as exc:
        name = type(given).__name__
        raise InvalidArgumentError(f"rows are of type {name}, not read by Arrow: {exc}") from exc
    is_data_set = type(given).__module__ == "pyarrow._dataset"
    return cast_to("Any", given).to_table() if is_data_set else given


def fit_rows(given: object, columns: Sequence[Field]) -> pa.Table:
    """Return rows as a table with the types of a queue's columns.

    Parameters
    ----------
    given : pyarrow.Table, pandas.DataFrame or list of dict
        The rows, in order.
    columns : sequence of Field
        The queue's columns.

    Raises
    ------
    InvalidArgumentError
        When it is none of these.
    SchemaMismatchError
        When a column is missing, unknown, or holds what does not fit its type; it names the column.
    """
    wanted, required = _wanted(tuple(columns))
    if isinstance(given, list):
        found = table_of_dicts(given, wanted, required)
    else:
        table = _table(given, wanted)
        _require_columns(table.column_names, wanted, required)
        found = pa.table({name: cast(table[name], wanted[name]) for name in table.column_names})
    instants.require_named(found)
    return found


@lru_cache(maxsize=64)
def _wanted(columns: tuple[Field, ...]) -> tuple[Mapping[str, Field], Sequence[str]]:
    """Return the columns that rows may have, and the names that they must have."""
    kinds.require_plain(column.name for column in columns)
    wanted = {column.name: column for column in (*OPTIONAL_COLUMNS, *columns)}
    return wanted, [column.name for column in columns]


def _table(given: object, wanted: Mapping[str, Field]) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    if is_of(given, "pandas") and hasattr(given, "columns"):
        return from_pandas(given, wanted)
    raise InvalidArgumentError(
        f"rows are of type {type(given).__name__}: they must be a table of Arrow, a frame of "
        "pandas, a frame that has Arrow's stream, or a list of dicts; collect a lazy frame, and "
        "one of Spark by toArrow()"
    )


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


def table_of_dicts(
    rows: Sequence[object], wanted: Mapping[str, Field], required: Sequence[str]
) -> pa.Table:
    """Return rows as a table of the required columns, and of the others that some row has.

    Raises
    ------
    SchemaMismatchError
        When a row is no dict, lacks a column, or has an unknown one or a value of another type.
    """
    for row in rows:
        _require_names(row, wanted, required)
    named: Sequence[Mapping[str, Any]] = [row for row in rows if isinstance(row, Mapping)]
    used = dict.fromkeys([*required, *(name for row in named for name in row)])
    kinds.require_different(used)
    return pa.table(
        {name: column_of([row.get(name) for row in named], wanted[name]) for name in used}
    )


def _require_names(row: object, wanted: Mapping[str, Field], required: Sequence[str]) -> None:
    if not isinstance(row, Mapping):
        raise SchemaMismatchError(
            required[0], f"is missing in {shorten(row)}: a row is a mapping of its columns"
        )
    for name in required:
        if name not in row:
            raise SchemaMismatchError(name, "is missing in the item")
    for name in row:
        if name not in wanted:
            raise SchemaMismatchError(name, "is not a column of the queue")


def column_of(values: Sequence[Any], field: Field) -> pa.Array:
    """Return the values of one column: each must be one of its type, to the last bit.

    Raises
    ------
    SchemaMismatchError
        When one is not of its type.
    """
    kind, is_of = type_of(field), _check_of(field.kind)
    for value in values:
        # Only what is inside of a value may be required: a row of the log has no values in it.
        if value is not None and not is_of(value):
            raise misfit(value, field.name, field.kind.simple)
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as exc:
        raise SchemaMismatchError(field.name, f"does not fit {field.kind.simple}: {exc}") from exc


@lru_cache(maxsize=256)
def _check_of(kind: Kind) -> Callable[[Any], bool]:
    """Return what tells whether a value that is not null is of a type."""
    if kind.form == "array":
        return lambda value: (
            isinstance(value, list | tuple) and all(_is_of(one, kind.inner[0]) for one in value)
        )
    if kind.form == "map":
        return lambda value: (
            isinstance(value, Mapping) and all(map(_is_row, value.items(), repeat(kind.inner)))
        )
    if kind.form == "struct":
        return lambda value: _is_struct(value, kind.inner)
    return _CHECKS.get("decimal" if kind.digits else kind.form, lambda _: False)


def _is_of(value: Any, field: Field) -> bool:
    return field.nullable if value is None else _check_of(field.kind)(value)


def _is_struct(value: Any, fields: Sequence[Field]) -> bool:
    names = [field.name for field in fields]
    is_known = isinstance(value, Mapping) and value.keys() <= set(names)
    return is_known and _is_row([value.get(name) for name in names], fields)


def _is_row(values: Sequence[Any], fields: Sequence[Field]) -> bool:
    return all(map(_is_of, values, fields))


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


#: Whether a value is of a type. To Python a truth is a number, and a time is a day.
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "binary": lambda value: isinstance(value, bytes | bytearray),
    "boolean": lambda value: isinstance(value, bool),
    "date": lambda value: type(value) is date,
    "timestamp": lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    "timestamp_ntz": lambda value: isinstance(value, datetime) and value.tzinfo is None,
    **dict.fromkeys(["tinyint", "smallint", "int", "bigint"], _is_whole),
    **dict.fromkeys(["float", "double"], _is_number),
    "decimal": lambda value: isinstance(value, Decimal) or _is_whole(value),
}


def sort_rows(rows: pa.Table, order_by: Any) -> pa.Table:
    """Sort rows in ascending order, nulls first; equal rows keep their order.

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
        by += _order_keys(name, rows[name])
    keys = pa.table(by, [str(number) for number in range(len(by))])
    return rows.take(pc.sort_indices(keys, [(key, "ascending") for key in keys.column_names]))


def _order_keys(name: str, values: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    if pa.types.is_nested(values.type):
        raise SparkNeededError(f"the order by {shorten(name)}", f"it is {values.type}")
    is_there = pc.is_valid(values)
    if not pa.types.is_floating(values.type):
        return [is_there, values]
    # To Arrow what is no number is like a null; to Spark it is above all numbers.
    is_nan = pc.is_nan(values)
    return [is_there, is_nan, pc.if_else(is_nan, 0.0, values)]


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


def column_measures(columns: Sequence[Field]) -> dict[str, Measure]:
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
        if not instants.are_named(column_of([value], column)):
            raise instants.outside(column.name)
        if value is None:
            return 0
        return width or length(value)

    return size
