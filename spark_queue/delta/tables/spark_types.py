"""What the columns of the queue are to Spark."""

from __future__ import annotations

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
