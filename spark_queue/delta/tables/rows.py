"""Rows of this process on their way into a table: as Arrow, by columns, not value by value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_INSTANT = pa.timestamp("us", "UTC")

#: Types whose values Arrow reads as Spark does.
_PLAIN = (BinaryType, BooleanType, DoubleType, IntegerType, LongType, StringType)


def table(count: int, columns: Mapping[str, Any], schema: StructType) -> pa.Table:
    """Return columns of values as a table.

    Parameters
    ----------
    count : int
        How many rows.
    columns : mapping
        For each column a list of as many values, their array, or the one value of all rows.
    schema : StructType
        What the columns are, by name; it may have more.

    Raises
    ------
    pyarrow.ArrowException, PySparkTypeError, PySparkValueError
        When a value is not of its column's type.
    """
    return pa.table(
        {name: _column(count, values, schema[name]) for name, values in columns.items()}
    )


def instants(values: Sequence[datetime | None]) -> pa.Array:
    """Return times that have a zone as a column."""
    return pa.array(values, _INSTANT)


def _column(count: int, values: Any, field: StructField) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, list):
        return column(values, field)
    return pa.repeat(pa.scalar(values, _type_of(field)), count)


def column(values: list[Any], field: StructField) -> pa.Array:
    """Return the values of one column; the errors are those of :func:`table`."""
    if isinstance(field.dataType, _PLAIN):
        return pa.array(values, _type_of(field))
    return _converted(values, field)


def _type_of(field: StructField) -> pa.DataType:
    return to_arrow_type(field.dataType, timezone="UTC")


def _converted(values: Sequence[Any], field: StructField) -> pa.Array:
    """Read values as Spark Connect does: times without a zone, rows, what they hold."""
    rows = [(value,) for value in values]
    one = StructType([field])
    return LocalDataToArrowConversion.convert(rows, one, use_large_var_types=False).column(0)
