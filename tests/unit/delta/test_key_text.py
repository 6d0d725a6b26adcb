from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructType,
    TimestampType,
    VariantType,
)

from spark_queue.columns.columns import of_spark
from spark_queue.columns.expressions import read
from spark_queue.columns.key_rules import has_old_text, require_text
from spark_queue.columns.kinds import Field
from spark_queue.errors import InvalidArgumentError

TEXT = StringType()


def _column(kind: DataType) -> tuple[Field, ...]:
    return of_spark(StructType().add("x", kind))


@pytest.mark.parametrize(
    "kind",
    [
        DoubleType(),
        FloatType(),
        MapType(TEXT, TEXT),
        VariantType(),
        DayTimeIntervalType(),
        NullType(),
        StringType("UTF8_LCASE"),
        ArrayType(DoubleType()),
        StructType().add("x", TEXT).add("y", ArrayType(MapType(TEXT, TEXT))),
    ],
)
def test_a_type_without_a_text_is_refused(kind: DataType) -> None:
    """A key cannot be of a type that has no text, or several; the error names the type."""
    inner = "map|double|float|variant|interval|void|collate"
    column = _column(kind)
    with pytest.raises(InvalidArgumentError, match=f"x.* is .*({inner}).*no text"):
        require_text(read("x", column))
    with pytest.raises(InvalidArgumentError, match="no text"):
        require_text(read("struct(x)", column))


@pytest.mark.parametrize(
    ("kind", "is_old"),
    [
        (TEXT, True),
        (LongType(), True),
        (DateType(), True),
        (DecimalType(10, 2), True),
        (DecimalType(18, 9), False),
        (TimestampType(), False),
        (BinaryType(), False),
        (ArrayType(TEXT), False),
    ],
)
def test_a_type_keeps_the_text_that_it_had_in_format_1(kind: DataType, *, is_old: bool) -> None:
    """A queue of format 1 goes on with keys whose text is that of Spark's own cast."""
    column = _column(kind)
    require_text(read("x", column))

    assert has_old_text("x", column) == is_old
