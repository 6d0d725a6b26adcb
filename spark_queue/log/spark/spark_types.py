"""Values and columns of this process in the types of Spark, and back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, functions as F
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema  # noqa: TID251 - this is the one place
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_queue.clock import utc
from spark_queue.log.log_columns import Columns

_TYPES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


def struct_of(columns: Columns) -> StructType:
    """Return columns as a schema of Spark."""
    return StructType([StructField(name, _TYPES[kind]) for name, kind in columns.kinds])


def arrow_schema_of(schema: StructType) -> pa.Schema:
    """Return a schema of Spark as Arrow has it, with instants in UTC."""
    # Before Spark 4.2 they always are, and there is no such argument.
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


#: Types whose values Arrow reads as Spark does.
_PLAIN = (BinaryType, BooleanType, DoubleType, IntegerType, LongType, StringType)


def table(columns: Mapping[str, list[Any]], schema: StructType) -> pa.Table:
    """Return columns of values as a table.

    Parameters
    ----------
    columns : mapping
        The values of each column.
    schema : StructType
        What the columns are, by name; it may have more.

    Raises
    ------
    pyarrow.ArrowException, PySparkTypeError, PySparkValueError
        When a value is not of its column's type.
    """
    return pa.table(columns_of(columns, schema))


def columns_of(columns: Mapping[str, list[Any]], schema: StructType) -> dict[str, pa.Array]:
    """Return the values of columns; parameters and errors are those of :func:`table`."""
    return {name: column(values, schema[name]) for name, values in columns.items()}


def column(values: list[Any], field: StructField) -> pa.Array:
    """Return the values of one column; the errors are those of :func:`table`."""
    if isinstance(field.dataType, _PLAIN):
        return pa.array(values, arrow_schema_of(StructType([field])).field(0).type)
    return _convert(values, field)


def _convert(values: Sequence[Any], field: StructField) -> pa.Array:
    """Read values as Spark Connect does: times without a zone, rows, what they hold."""
    rows = [(value,) for value in values]
    one = StructType([field])
    return LocalDataToArrowConversion.convert(rows, one, use_large_var_types=False).column(0)


def plain(value: Any, kind: DataType) -> Any:
    """Return a value that Spark has collected as a process without Spark reads it.

    An instant is in UTC and says so, where Spark gives the time of this process's zone; bytes are
    ``bytes``, and rows are dictionaries.
    """
    if value is None:
        return None
    if isinstance(kind, TimestampType):
        return utc(value)
    if isinstance(kind, BinaryType):
        return bytes(value)
    return _parts(value, kind)


def _parts(value: Any, kind: DataType) -> Any:
    if isinstance(kind, ArrayType):
        return [plain(one, kind.elementType) for one in value]
    if isinstance(kind, MapType):
        return {_key(key, kind.keyType): plain(one, kind.valueType) for key, one in value.items()}
    if isinstance(kind, StructType):
        return {part.name: plain(value[at], part.dataType) for at, part in enumerate(kind)}
    return value


def _key(value: Any, kind: DataType) -> Any:
    # A row can be one, and a dictionary cannot.
    return value if isinstance(kind, StructType) else plain(value, kind)


def column_named(name: str) -> Column:
    """Return a column by its name, which may hold any character."""
    return F.col(f"`{name.replace('`', '``')}`")
