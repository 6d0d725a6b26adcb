"""A row as one string, to be carried through the state of an operator, and back.

The string is JSON, made and read by Spark itself: whatever the row's columns are, a processor sees
one string, and the state can be read with the ``statestore`` source.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_queue.errors import SchemaMismatchError

#: Types whose values come back from JSON as they were.
_EXACT = (
    BinaryType,
    BooleanType,
    DateType,
    NullType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

#: All six digits of a second's fraction: the default keeps three.
_FORMATS = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def require_exact(schema: StructType) -> None:
    """Raise where a column would not come back as it was.

    Raises
    ------
    SchemaMismatchError
        It names the column and its type.
    """
    for field in schema:
        if not _is_exact(field.dataType):
            raise SchemaMismatchError(
                field.name,
                f"{field.dataType.simpleString()} cannot be kept in the state of a stream; cast it",
            )


def packed(names: list[str]) -> Column:
    """Return columns as one string."""
    row = F.struct(*[F.col(f"`{name}`") for name in names])
    return F.to_json(row, {**_FORMATS, "ignoreNullFields": "false"})


def unpacked(text: Column, schema: StructType) -> Column:
    """Return the struct that :func:`packed` made a string of."""
    return F.from_json(text, schema, _FORMATS)


def _is_exact(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_is_exact(field.dataType) for field in kind)
    if isinstance(kind, ArrayType):
        return _is_exact(kind.elementType)
    if isinstance(kind, MapType):
        return isinstance(kind.keyType, StringType) and _is_exact(kind.valueType)
    return isinstance(kind, _EXACT)
