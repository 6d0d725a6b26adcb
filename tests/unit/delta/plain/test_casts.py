"""Which column of a frame goes into which of a queue, whatever its values are."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from spark_queue.columns.arrow.arrow_types import parse_fields
from spark_queue.columns.arrow.rows import fit_rows
from spark_queue.errors import SchemaMismatchError

NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


def fitted(form: str, values: object) -> list[Any]:
    """Return what a frame with a column ``x`` comes to in a queue whose ``x`` is of a type."""
    rows = pd.DataFrame({"x": values}) if isinstance(values, pd.Series) else pa.table({"x": values})
    found: list[Any] = fit_rows(rows, parse_fields(f"x {form}"))["x"].to_pylist()
    return found


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ("int", pa.array([1, None], pa.int8()), [1, None]),
        ("bigint", pa.array([1], pa.uint32()), [1]),
        ("double", pa.array([1], pa.int32()), [1.0]),
        ("double", pa.array([0.5], pa.float32()), [0.5]),
        ("float", pa.array([1], pa.int16()), [1.0]),
        ("decimal(20,1)", pa.array([2**63 - 1], pa.int64()), [Decimal(2**63 - 1)]),
        ("decimal(10,2)", pa.array([Decimal("1.5")], pa.decimal128(9, 1)), [Decimal("1.50")]),
        ("string", pa.array(["a"]).dictionary_encode(), ["a"]),
        ("string", pa.array(["a"], pa.large_string()), ["a"]),
        ("binary", pa.array([b"a"], pa.binary(1)), [b"a"]),
        ("timestamp", pa.array([NOON], pa.timestamp("ns", "Europe/Berlin")), [NOON]),
        ("array<bigint>", pa.array([[1]], pa.list_(pa.int32())), [[1]]),
        ("struct<a:double>", pa.array([{"a": 1}], pa.struct({"a": pa.int8()})), [{"a": 1.0}]),
        ("string", pa.nulls(1), [None]),
    ],
)
def test_a_type_goes_into_one_that_has_all_its_values(
    form: str, values: pa.Array, expected: list[Any]
) -> None:
    """Whole numbers into wider ones, what Arrow keeps in another way, and nothing into anything."""
    assert fitted(form, values) == expected


@pytest.mark.parametrize(
    ("form", "values", "given"),
    [
        ("int", pa.array([1]), "bigint"),
        ("bigint", pa.array([1.0]), "double"),
        ("bigint", pa.array([True]), "boolean"),
        ("bigint", pa.array([1], pa.uint64()), "uint64"),
        ("bigint", pa.array([NOON]), "timestamp"),
        ("boolean", pa.array([float("nan")]), "double"),
        ("boolean", pa.array([1]), "bigint"),
        ("double", pa.array([1]), "bigint"),
        ("float", pa.array([0.5]), "double"),
        ("decimal(18,0)", pa.array([1]), "bigint"),
        ("decimal(9,2)", pa.array([Decimal("1.5")], pa.decimal128(9, 1)), "decimal(9,1)"),
        ("string", pa.array([1]), "bigint"),
        ("string", pa.array([b"a"]), "binary"),
        ("timestamp", pa.array([1]), "bigint"),
        ("date", pa.array([NOON]), "timestamp"),
        ("array<int>", pa.array([[1]]), "array<bigint>"),
        ("string", pa.array([b"0" * 16], pa.uuid()), "extension<arrow.uuid>"),
        ("binary", pa.array([b"0" * 16], pa.uuid()), "extension<arrow.uuid>"),
        (
            "string",
            pa.array(pd.period_range("2026-01", periods=1, freq="M")),
            "extension<pandas.period<ArrowPeriodType>>",
        ),
        ("struct<a:int>", pa.array([{"b": 1}], pa.struct({"b": pa.int32()})), "struct<b:int>"),
    ],
)
def test_a_type_with_more_values_is_refused_by_name(
    form: str, values: pa.Array, given: str
) -> None:
    """Whatever its values are today, also where there are none."""
    for some in (values, values[:0]):
        with pytest.raises(SchemaMismatchError) as refused:
            fitted(form, some)
        assert f"column 'x': is {given}, the queue has {form}; cast it" in str(refused.value)


def test_a_time_with_a_part_that_would_be_lost_is_refused() -> None:
    """Two rows a nanosecond apart are no duplicates of each other."""
    late = pa.array([1], pa.timestamp("ns", "UTC"))
    with pytest.raises(SchemaMismatchError, match=r"does not fit timestamp: .*would lose data"):
        fitted("timestamp", late)


def test_floats_of_pandas_that_are_whole_go_into_whole_numbers() -> None:
    """One that is missing has made floats of them; the error says how pandas keeps both."""
    assert fitted("int", pd.Series([1.0, None, -0.0])) == [1, None, 0]
    assert fitted("bigint", pd.Series([2.0**53 - 1])) == [2**53 - 1]
    assert fitted("bigint", pd.Series([1, None], dtype="Int64")) == [1, None]
    for values in ([1.5], [2.0**53], [float("inf")], [2.0**31]):
        with pytest.raises(
            SchemaMismatchError, match=r"'x': does not fit int: .*astype\('Int64'\)"
        ):
            fitted("int", pd.Series(values))
