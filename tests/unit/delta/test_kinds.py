from __future__ import annotations

import json

import pytest
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    VariantType,
)

from spark_queue.columns.kinds import from_json, to_json

TEXT, FOLDED = StringType(), StringType("UTF8_LCASE")
NESTED = StructType().add("x", ArrayType(LongType(), False), False, {"comment": "he's"})


@pytest.mark.parametrize(
    "kind",
    [
        TEXT,
        ShortType(),
        DecimalType(38, 10),
        TimestampNTZType(),
        CharType(3),
        VariantType(),
        DayTimeIntervalType(),
        ArrayType(ArrayType(TEXT)),
        MapType(TEXT, MapType(LongType(), TEXT, False)),
        ArrayType(NESTED),
        StructType(),
    ],
)
def test_a_schema_comes_and_goes_as_spark_writes_it(kind: DataType) -> None:
    """Spark's JSON is read and written as Spark does, and a type has Spark's own short text."""
    schema = StructType().add("a", kind).add("b", LongType(), False, {"comment": ""})

    columns = from_json(json.loads(schema.json()))

    assert StructType.fromJson(to_json(columns)) == schema
    assert columns[0].kind.simple == kind.simpleString()


@pytest.mark.parametrize(
    "kind", [FOLDED, ArrayType(FOLDED), MapType(FOLDED, TEXT), StructType().add("x", FOLDED)]
)
def test_a_collation_is_part_of_a_type(kind: DataType) -> None:
    """Texts that compare in a way of their own are told apart, wherever they are."""
    (column,) = from_json(StructType().add("a", kind).jsonValue())

    assert column.kind.simple == kind.simpleString()
    assert "collate UTF8_LCASE" in column.kind.simple
