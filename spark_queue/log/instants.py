"""Instants and days that Python can name, in columns of Arrow."""

from __future__ import annotations

import pyarrow as pa

from spark_queue.errors import SchemaMismatchError
from spark_queue.log import kernels as pc

#: The first and the last microsecond of the years 1 to 9999, since 1970; and their days.
MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS = (-719_162, 2_932_896)


def are_named(values: pa.ChunkedArray | pa.Array) -> bool:
    """Tell whether each instant and day is of the years 1 to 9999 in UTC, also inside of values."""
    if values.null_count == len(values) or not _has_times(values.type):
        return True
    is_apart = isinstance(values, pa.ChunkedArray) and pa.types.is_nested(values.type)
    return all(map(_are_named, values.chunks if is_apart else [values]))


def require_named(rows: pa.Table) -> None:
    """Check that each instant and day of rows has a name.

    Raises
    ------
    SchemaMismatchError
        When one is outside; it names the column.
    """
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        if not are_named(values):
            raise outside(name)


def outside(column: str) -> SchemaMismatchError:
    """Make the error for a column with an instant that has no name."""
    return SchemaMismatchError(
        column, "holds a time outside of the years 1 to 9999 in UTC; give one inside, or null"
    )


def clamp(rows: pa.Table) -> pa.Table:
    """Return rows whose instants have names: those outside are the first or the last one inside."""
    for number, values in enumerate(rows.columns):
        if not are_named(values):
            copied = values.take(pa.array(range(len(values)), pa.int64()))
            named = pa.chunked_array(map(_clamp, copied.chunks), values.type)
            rows = rows.set_column(number, rows.schema.field(number), named)
    return rows


def _has_times(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_times(kind.field(number).type) for number in range(kind.num_fields))
    return _range_of(kind) is not None


def _range_of(kind: pa.DataType) -> tuple[int, int] | None:
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        return MICROSECONDS
    return _DAYS if pa.types.is_date32(kind) else None


def _are_named(values: pa.ChunkedArray | pa.Array) -> bool:
    if pa.types.is_map(values.type):
        return _are_named(values.keys) and _are_named(values.items)
    if pa.types.is_struct(values.type):
        return all(map(_are_named, values.flatten()))
    if pa.types.is_nested(values.type):
        return _are_named(values.flatten())
    inside = _range_of(values.type)
    if inside is None:
        return True
    found = pc.min_max(_counts(values)).as_py()
    return found["min"] is None or (inside[0] <= found["min"] and found["max"] <= inside[1])


def _clamp(values: pa.Array) -> pa.Array:
    kind, missing = values.type, values.is_null()
    if pa.types.is_map(kind):
        parts = _clamp(values.keys), _clamp(values.items)
        return pa.MapArray.from_arrays(values.offsets, *parts, kind, mask=missing)
    if pa.types.is_struct(kind):
        inner = [_clamp(values.field(number)) for number in range(kind.num_fields)]
        return pa.StructArray.from_arrays(inner, fields=list(kind), mask=missing)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(values.offsets, _clamp(values.values), kind, mask=missing)
    inside = _range_of(kind)
    if inside is None:
        return values
    counts = _counts(values)
    least = pa.scalar(inside[0], counts.type)
    most = pa.scalar(inside[1], counts.type)
    low = pc.if_else(pc.less(counts, least), least, counts)
    return pc.if_else(pc.greater(low, most), most, low).cast(kind)


def _counts(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    return values.cast(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
