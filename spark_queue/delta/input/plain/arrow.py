"""The types of Arrow that hold the values of Spark's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import pyarrow as pa

from spark_queue.delta.input.kinds import Field, Kind
from spark_queue.errors import SparkNeededError

#: The instant that a timestamp is, in any zone.
INSTANT = pa.timestamp("us", "UTC")

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": INSTANT,
    "timestamp_ntz": pa.timestamp("us"),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "void": pa.null(),
}


def schema_of(columns: Sequence[Field]) -> pa.Schema:
    """Return the columns as Arrow has them; any may be null, as in a log.

    Raises
    ------
    SparkNeededError
        When one is of a type that Arrow has not.
    """
    return pa.schema([(column.name, type_of(column)) for column in columns])


@lru_cache(maxsize=1_024)
def type_of(column: Field) -> pa.DataType:
    """Return the type of the values of a column; the error is that of :func:`schema_of`."""
    kind = column.kind
    if kind.digits:
        return pa.decimal128(*kind.digits)
    if kind.form == "struct":
        return pa.struct([_field(field) for field in kind.inner])
    if kind.form == "array":
        return pa.list_(_field(kind.inner[0]))
    if kind.form == "map":
        key, value = kind.inner
        return pa.map_(type_of(key), _field(value))
    if kind.form not in _TYPES:
        raise SparkNeededError(f"column {column.name!r}", f"it is {kind.simple}")
    return _TYPES[kind.form]


def _field(field: Field) -> pa.Field:
    return pa.field(field.name, type_of(field), field.nullable)


def ddl_of(kind: pa.DataType) -> str:
    """Return the name of a type as DDL has it."""
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"struct<{','.join(f'{one.name}:{ddl_of(one.type)}' for one in fields)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl_of(kind.key_type)},{ddl_of(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{ddl_of(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    return next((name for name, other in _TYPES.items() if other == kind), str(kind))


def of_type(kind: Kind) -> pa.DataType:
    """Return the type of values of a kind that is nobody's column."""
    return type_of(Field("", kind))


def cast(values: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return values of a column as those of a type, as a session of Spark takes them from Arrow.

    Raises
    ------
    pyarrow.ArrowException
        When a value does not fit, or the column is not what it says, such as text that is no UTF-8.
    """
    if pa.types.is_boolean(values.type) and pa.types.is_integer(kind):
        raise pa.ArrowInvalid("true and false are no whole numbers")
    # Arrow trusts buffers that others have filled; what reads the column later does not.
    values.validate(full=True)
    # Spark counts microseconds, pandas nanoseconds: what is lost there is meant to be.
    return values.cast(kind, safe=not pa.types.is_timestamp(kind))
