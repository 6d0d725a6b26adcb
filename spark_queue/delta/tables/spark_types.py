"""Spark types of a queue's columns."""

from __future__ import annotations

import inspect

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema  # noqa: TID251 - this is the one place
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_queue.delta.tables.schema import Columns

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
