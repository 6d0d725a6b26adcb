"""Size of an item: the bytes of its values, not of its files."""

from __future__ import annotations

from functools import reduce
from operator import add

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StringType, StructField, StructType

from spark_queue.delta.input.kinds import WIDTHS


def bytes_of(schema: StructType) -> Column:
    """Return the size of a row: numbers and times by their type, texts and bytes by their length.

    Anything else counts as its JSON text. A null counts nothing.
    """
    return reduce(add, [_bytes_in(field) for field in schema], F.lit(0).cast("long"))


def width_of(kind: DataType) -> int | None:
    """Return the bytes of every value of a type; ``None`` where they differ."""
    return WIDTHS.get(kind.simpleString())


def _bytes_in(field: StructField) -> Column:
    value = F.col("`" + field.name.replace("`", "``") + "`")
    width = width_of(field.dataType)
    if width is not None:
        return F.when(value.isNull(), 0).otherwise(width)
    if isinstance(field.dataType, StringType | BinaryType):
        return F.coalesce(F.octet_length(value), F.lit(0))
    return F.coalesce(F.octet_length(F.to_json(F.struct(value))), F.lit(0))
