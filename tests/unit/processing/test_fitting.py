"""Which values fit which columns."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import StructType

from spark_queue.errors import ResultMismatchError
from spark_queue.processing.fitting import require_fitting


def columns(ddl: str) -> pa.StructType:
    """Return the columns of a declaration without a session, by its JSON."""
    kind = to_arrow_type(TYPES[ddl], timezone="UTC")
    return pa.struct([pa.field("x", kind)])


def _struct(plain: dict[str, Any]) -> Any:
    fields = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in plain.items()
    ]
    return {"type": "struct", "fields": fields}


def _array(kind: Any) -> Any:
    return {"type": "array", "elementType": kind, "containsNull": True}


_MAP = {"type": "map", "keyType": "string", "valueType": "long", "valueContainsNull": True}

TYPES = {
    name: StructType.fromJson(_struct({"x": kind})).fields[0].dataType
    for name, kind in {
        "bigint": "long",
        "int": "integer",
        "double": "double",
        "float": "float",
        "string": "string",
        "boolean": "boolean",
        "binary": "binary",
        "date": "date",
        "timestamp": "timestamp",
        "decimal(5,2)": "decimal(5,2)",
        "array<bigint>": _array("long"),
        "array<struct<a:bigint>>": _array(_struct({"a": "long"})),
        "struct<a:bigint,b:string>": _struct({"a": "long", "b": "string"}),
        "map<string,bigint>": _MAP,
    }.items()
}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("bigint", None),
        ("bigint", 2**63 - 1),
        ("bigint", 2.0),
        ("double", 1),
        ("string", "ä"),
        ("boolean", True),
        ("binary", b"a"),
        ("date", date(2026, 1, 31)),
        ("timestamp", datetime(2026, 1, 31, tzinfo=timezone.utc)),
        ("decimal(5,2)", Decimal("1.25")),
        ("array<bigint>", [1, None, 2.0]),
        ("array<bigint>", []),
        ("int", -(2**31)),
        ("array<struct<a:bigint>>", [{"a": 1}, None]),
        ("struct<a:bigint,b:string>", {"b": None, "a": 1}),
        ("map<string,bigint>", {"a": 1}),
    ],
)
def test_what_can_be_read_back_fits(kind: str, value: Any) -> None:
    """A value of the column's type fits, and Arrow takes it."""
    found = columns(kind)
    require_fitting(1, {"x": value}, found)
    assert pa.array([{"x": value}], found).to_pylist()[0].keys() == {"x"}


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("bigint", "1", "column 'x' is '1' (str), which does not fit into bigint"),
        ("bigint", 2**63, "(int), which does not fit into bigint"),
        ("bigint", 1.5, "column 'x' is 1.5 (float), which does not fit into bigint"),
        ("bigint", True, "column 'x' is True (bool)"),
        ("int", 2**31, "which does not fit into int"),
        ("double", True, "column 'x' is True (bool), which does not fit into double"),
        ("float", "1", "which does not fit into float"),
        ("string", 1, "column 'x' is 1 (int), which does not fit into string"),
        ("string", "\ud800", "which does not fit into string"),
        ("boolean", 0, "which does not fit into boolean"),
        ("date", "2026-01-31", "which does not fit into date"),
        ("date", 5, "which does not fit into date"),
        ("timestamp", 5.0, "which does not fit into timestamp"),
        ("decimal(5,2)", Decimal("1.255"), "which does not fit into decimal(5,2)"),
        ("array<bigint>", "12", "column 'x' is '12' (str), which does not fit into array<bigint>"),
        ("array<bigint>", [1, 1.5], "which does not fit into array<bigint>"),
        ("array<bigint>", 7, "column 'x' is 7 (int), which does not fit into array<bigint>"),
        ("array<struct<a:bigint>>", [{"a": 1}, {"b": 1}], "column 'x[1].b' is unknown"),
        ("struct<a:bigint,b:string>", {"a": 1}, "column 'x.b' is missing"),
        ("struct<a:bigint,b:string>", {"a": "1", "b": "c"}, "column 'x.a' is '1' (str)"),
        ("struct<a:bigint,b:string>", 7, "column 'x' is 7 (int): give a dict of the columns"),
        ("map<string,bigint>", {"a": "b"}, "which does not fit into map<string,bigint>"),
    ],
)
def test_what_would_be_changed_or_lost_does_not_fit(kind: str, value: Any, problem: str) -> None:
    """A value that Arrow refuses, cuts or drops is named with its column and the type."""
    with pytest.raises(ResultMismatchError) as raised:
        require_fitting(7, {"x": value}, columns(kind))
    assert str(raised.value).startswith("the handler's result for seq 7 does not fit returns: ")
    assert problem in str(raised.value)
    assert raised.value.seq == 7


def test_a_column_that_must_have_a_value_takes_no_none() -> None:
    """``NOT NULL`` in ``returns`` is kept."""
    kind = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    with pytest.raises(ResultMismatchError, match="column 'x' is None, and it must have a bigint"):
        require_fitting(1, {"x": None}, kind)


def test_long_values_are_named_in_short() -> None:
    """The error of a large value has its beginning and end only."""
    with pytest.raises(ResultMismatchError) as raised:
        require_fitting(1, {"x": "a" * 100_000}, columns("bigint"))
    assert len(str(raised.value)) < 250
