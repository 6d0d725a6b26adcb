"""Values of this process on their way into a table, by columns, as Spark reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        return pa.array(values, to_arrow_type(field.dataType, timezone="UTC"))
    return _converted(values, field)


def _converted(values: Sequence[Any], field: StructField) -> pa.Array:
    """Read values as Spark Connect does: times without a zone, rows, what they hold."""
    rows = [(value,) for value in values]
    one = StructType([field])
    return LocalDataToArrowConversion.convert(rows, one, use_large_var_types=False).column(0)
