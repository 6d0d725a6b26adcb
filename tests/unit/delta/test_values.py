from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    Row,
    StringType,
    StructType,
    TimestampType,
)

from spark_queue.columns.values import measure
from spark_queue.errors import SchemaMismatchError
from spark_queue.log.spark.spark_types import plain

#: Rows whose parts have no names; what Spark says of the types of its own class is too narrow.
UNNAMED: Any = Row
PLACE = StructType().add("x", IntegerType()).add("tags", ArrayType(StringType()))
NOW = datetime(2026, 1, 31, tzinfo=timezone.utc)
FIRST = datetime(1, 1, 1, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("kind", "value", "size"),
    [
        (BinaryType(), b"abc", 3),
        (StringType(), "abc", 3),
        (StringType(), "née", 4),
        (IntegerType(), 7, 4),
        (LongType(), 7, 8),
        (DoubleType(), 1.5, 8),
        (BooleanType(), True, 1),
        (TimestampType(), NOW, 8),
        (ArrayType(IntegerType()), [1, 2], 6),
        (DoubleType(), 1, 8),
        (DoubleType(), float("nan"), 8),
        (DateType(), NOW.date(), 4),
        (DecimalType(10, 2), Decimal("1.20"), 6),
        (StringType(), None, 0),
        (IntegerType(), None, 0),
        (ArrayType(IntegerType()), (1, None), 9),
        (MapType(StringType(), DoubleType()), {"a": 1.5, "b": None}, 21),
        (PLACE, {"x": 1}, 8),
        (PLACE, (1, ["a"]), 10),
        (PLACE, Row(x=1, tags=["a"]), 10),
        (PLACE, UNNAMED(1, ["a"]), 10),
        (PLACE, SimpleNamespace(x=1, tags=["a"]), 28),
        (MapType(DateType(), IntegerType()), {NOW.date(): 1}, 31),
    ],
)
def test_a_value_counts_what_its_column_takes(kind: DataType, value: Any, size: int) -> None:
    """Numbers and times count their width, texts and bytes their length, nulls nothing."""
    assert measure(StructType().add("x", kind))(value) == size


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (BinaryType(), "text"),
        (StringType(), b"bytes"),
        (StringType(), "\ud800"),
        (IntegerType(), 2**31),
        (IntegerType(), "1"),
        (IntegerType(), True),
        (LongType(), 2**63),
        (LongType(), 1.5),
        (BooleanType(), 1),
        (TimestampType(), "2026-01-31"),
        (ArrayType(IntegerType()), ["a"]),
        (TimestampType(), datetime.max.replace(tzinfo=timezone.utc)),
        (TimestampType(), datetime.min.replace(tzinfo=timezone.utc)),
        (DecimalType(10, 2), Decimal("1.234")),
        (DecimalType(10, 2), Decimal("NaN")),
        (DateType(), 2**31 - 1),
        (DateType(), NOW),
        (ArrayType(IntegerType()), [1.5]),
        (ArrayType(StringType()), [1]),
        (ArrayType(DateType()), [NOW]),
        (ArrayType(DecimalType(10, 2)), [Decimal("1.234")]),
        (MapType(StringType(), IntegerType()), {1: 1}),
        (MapType(StringType(), IntegerType()), {"a": 1.5}),
        (PLACE, {"x": 1.5}),
        (PLACE, {"x": 1, "tag": ["a"]}),
        (PLACE, (1, [2])),
        (PLACE, Row(tags=["a"], x=1)),
        (PLACE, (1,)),
    ],
)
def test_a_value_of_another_type_is_refused(kind: DataType, value: Any) -> None:
    """The error names the column, the value and the type it should have."""
    with pytest.raises(SchemaMismatchError, match=r"column 'x': is .* in the item, and"):
        measure(StructType().add("x", kind))(value)


@pytest.mark.parametrize(
    ("item", "why"),
    [
        ({"a": 1}, "'b': is missing in the item"),
        ({"a": 1, "b": "x", "c": 2}, "'c': is not a column"),
        (b"raw", "'a': is missing in b'raw'"),
    ],
)
def test_an_item_of_several_columns_has_them_all(item: Any, why: str) -> None:
    """An item without a column, with one too many, or that is no mapping is refused."""
    size = measure(StructType().add("a", IntegerType()).add("b", StringType()))

    assert size({"a": 1, "b": "x"}) == 5
    with pytest.raises(SchemaMismatchError, match=why):
        size(item)


@pytest.mark.parametrize(
    ("kind", "given", "value"),
    [
        (TimestampType(), NOW, NOW),
        (TimestampType(), None, None),
        (ArrayType(TimestampType()), [NOW, None], [NOW, None]),
        (
            MapType(TimestampType(), BinaryType()),
            [(NOW, b"x"), (FIRST, None)],
            {NOW: b"x", FIRST: None},
        ),
        (MapType(PLACE, IntegerType()), [({"x": 1, "tags": None}, 1)], {Row(x=1, tags=None): 1}),
        (StructType().add("at", MapType(LongType(), LongType())), {"at": [(1, 2)]}, {"at": {1: 2}}),
        (PLACE, {"x": 1, "tags": ["a"]}, {"x": 1, "tags": ["a"]}),
    ],
)
def test_what_spark_has_collected_is_read_as_without_it(
    kind: DataType, given: Any, value: Any
) -> None:
    """Who takes an item from a front gets the same value, whichever engine has read it back."""
    found = plain(given, kind)

    assert found == value
    assert type(found) is type(value)
