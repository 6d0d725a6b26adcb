"""Rows on their way into a queue without Spark: what fits, what is refused, what is added."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from spark_queue.columns.arrow.arrow_keys import mark_rows
from spark_queue.columns.arrow.arrow_types import parse_fields
from spark_queue.columns.arrow.rows import fit_rows, sizes_of, sort_rows
from spark_queue.columns.kinds import Field
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, SparkNeededError

COLUMNS = parse_fields("id int, name string")
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - what is refused
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)
ROW: dict[str, Any] = {"id": 2, "name": "b"}

#: The same as columns of a frame.
HERE = {"id": pa.array([2], pa.int32()), "name": pa.array(["b"])}


def _marked(
    given: object,
    columns: Sequence[Field],
    config: QueueConfig,
    order_by: str | list[str] | None = None,
) -> pa.Table:
    return mark_rows(sort_rows(fit_rows(given, columns), order_by), columns, config)


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"name": ["b"], "id": pa.array([2], pa.int8()), "available_at": [NOON]}),
        pd.DataFrame({"id": [2.0], "name": ["b"], "available_at": [NOON]}),
        [{**ROW, "available_at": NOON}],
    ],
)
def test_rows_of_any_kind_are_marked_alike(rows: object) -> None:
    """Arrow, pandas and dicts give one table: the queue's types and order, then its own columns."""
    config = QueueConfig(dedup_key="id", fair_key="name", priority="id")

    (row,) = _marked(rows, COLUMNS, config).to_pylist()

    assert list(row.items()) == [
        ("id", 2),
        ("name", "b"),
        ("_dedup_key", "2"),
        ("_fair_key", "b"),
        ("_group_key", None),
        ("_flow_keys", None),
        ("_units", None),
        ("_priority", 2),
        ("_cost", 1.0),
        ("_max_attempts", None),
        ("_available_at", NOON),
        ("_expires_at", None),
        ("_dedup_hash", 7921822167645060769),
    ]


@pytest.mark.parametrize(
    ("rows", "column", "why"),
    [
        (pa.table({"id": [2]}), "name", "is missing; the frame has id"),
        (pa.table({"id": [2], "name": ["b"], "more": [1]}), "more", "is not a column"),
        (pa.table([[1], ["b"], [3]], ["id", "name", "ID"]), "ID", "is not a column"),
        (pa.table([[1], ["b"], [3]], ["id", "name", "id"]), "id", "is there twice"),
        (pa.table({"id": ["2"], "name": ["b"]}), "id", "is string, the queue has int; cast it"),
        (pa.table({"id": [2], "name": ["b"]}), "id", "is bigint, the queue has int; cast it"),
        (pa.table({**HERE, "name": [["b"]]}), "name", "is array<string>, the queue has string"),
        (
            pa.table({**HERE, "cost": ["much"]}),
            "cost",
            "is string, not a number",
        ),
        (pd.DataFrame([{**ROW, "id": 2.5}]), "id", "does not fit int"),
        (pd.DataFrame([{**ROW, "id": 2.0, "available_at": NAIVE}]), "available_at", "time zone"),
        (pd.DataFrame([{**ROW, "id": 2.0, "expires_at": NOON.date()}]), "expires_at", "time zone"),
        (pd.DataFrame([{**ROW, "id": 2.0, "cost": 0}]), "cost", "has the value 0.0"),
        ([{**ROW, "cost": float("nan")}], "cost", "has the value nan"),
        ([{**ROW, "cost": float("inf")}], "cost", "has the value inf"),
        ([{**ROW, "cost": True}], "cost", "is True in the item"),
        ([ROW, {"id": 3}], "name", "is missing in the item"),
        ([{**ROW, "more": 1}], "more", "is not a column of the queue"),
        ([{**ROW, "available_at": NAIVE}], "available_at", "a time without an offset"),
        (["b"], "id", "a row is a mapping"),
    ],
)
def test_rows_that_do_not_fit_are_refused(rows: object, column: str, why: str) -> None:
    """The first column that is missing, unknown or of another type is named."""
    with pytest.raises(SchemaMismatchError, match=why) as refused:
        _marked(rows, COLUMNS, QueueConfig())

    assert refused.value.column == column


@pytest.mark.parametrize("rows", [None, "b", {"id": [2]}, pa.array([1])])
def test_what_is_no_table_is_refused(rows: object) -> None:
    """Rows are of Arrow, of pandas, or dicts in a list."""
    with pytest.raises(InvalidArgumentError, match="rows are of type"):
        _marked(rows, COLUMNS, QueueConfig())


def test_a_frame_without_types_is_refused() -> None:
    """A frame of pandas whose values have no common type is refused as an argument."""
    with pytest.raises(InvalidArgumentError, match="no Arrow types"):
        _marked(pd.DataFrame({"id": [1, "x"], "name": ["a", "b"]}), COLUMNS, QueueConfig())


VALUES: list[tuple[str, Any]] = [
    ("string", "née 😀"),
    ("binary", bytearray(b"\x00")),
    ("boolean", False),
    ("tinyint", -128),
    ("bigint", 2**63 - 1),
    ("float", 1),
    ("double", float("-inf")),
    ("decimal(10,2)", Decimal("-0.00")),
    ("decimal(10,2)", 5),
    ("date", date(1, 1, 1)),
    ("timestamp", NOON),
    ("timestamp_ntz", NAIVE),
    ("array<int>", (1, None)),
    ("map<string,array<date>>", {"a": [NAIVE.date()], "b": None}),
    ("struct<x: int not null, y: string>", {"x": 1}),
]

WRONG: list[tuple[str, Any]] = [
    ("string", 5),
    ("string", b"a"),
    ("string", "\ud800"),
    ("binary", "a"),
    ("boolean", 1),
    ("int", True),
    ("int", 1.0),
    ("int", "1"),
    ("tinyint", 128),
    ("bigint", 2**63),
    ("double", "1"),
    ("double", True),
    ("double", 2**53 + 1),
    ("double", Decimal(1)),
    ("decimal(10,2)", Decimal("1.005")),
    ("decimal(10,2)", Decimal("NaN")),
    ("decimal(10,2)", 1.5),
    ("decimal(4,2)", 100),
    ("date", NAIVE),
    ("timestamp", NAIVE),
    ("timestamp", pd.NaT),
    ("timestamp", NOON.date()),
    ("timestamp_ntz", NOON),
    ("array<int>", "12"),
    ("array<int>", [1, "2"]),
    ("map<string,int>", [("a", 1)]),
    ("map<string,int>", {None: 1}),
    ("struct<x:int>", {"x": 1, "z": 2}),
    ("struct<x: int not null, y:int>", {"y": 1}),
    ("struct<x:int>", (1,)),
]


@pytest.mark.parametrize(("form", "value"), VALUES)
def test_a_value_of_its_type_is_taken(form: str, value: object) -> None:
    """A value goes into its column as it is, and null goes into any."""
    columns = parse_fields(f"x {form}")

    (taken,) = fit_rows([{"x": value}], columns)["x"].to_pylist()

    if isinstance(taken, list) and isinstance(value, dict):
        taken = dict(taken)
    given: Any = list(value) if isinstance(value, tuple) else value
    assert taken == (given if "struct" not in form else {"x": 1, "y": None})
    assert fit_rows([{"x": None}], columns)["x"].null_count == 1


@pytest.mark.parametrize(("form", "value"), WRONG)
def test_a_value_of_another_type_is_refused(form: str, value: object) -> None:
    """No value is changed to fit: neither cut off, nor rounded, nor written as a text."""
    with pytest.raises(SchemaMismatchError) as refused:
        fit_rows([{"x": value}], parse_fields(f"x {form}"))

    assert refused.value.column == "x"


def test_no_rows_are_no_rows() -> None:
    """A list without a dict, and a table without rows, have all columns, and nothing in them."""
    empty = pa.table({"id": pa.array([], pa.int32()), "name": pa.array([], pa.string())})
    config = QueueConfig(dedup_key="id", priority="id")
    given: list[object] = [[], empty]
    for rows in given:
        found = _marked(rows, COLUMNS, config, order_by="id")
        assert (found.num_rows, found.num_columns) == (0, 13)


def test_rows_come_in_the_order_that_is_asked_for() -> None:
    """As to Spark, what is null comes first, and what is no number after all numbers."""
    values = [float("nan"), None, 0.0, float("inf"), -0.0, -1.0]
    rows = pa.table({"x": pa.array(values, from_pandas=False), "n": range(6)})
    columns = parse_fields("x double, n bigint")

    def order(by: str | list[str]) -> list[int]:
        found = _marked(rows, columns, QueueConfig(), order_by=by)["n"].to_pylist()
        return [int(number) for number in found]

    assert order("x") == [1, 5, 2, 4, 3, 0]
    assert order(["x", "n"]) == [1, 5, 2, 4, 3, 0]
    with pytest.raises(InvalidArgumentError, match="order_by names 'y'; the rows have x, n"):
        order("y")


def test_what_is_made_of_others_is_ordered_and_measured_by_spark() -> None:
    """Lists have neither an order nor a size here."""
    columns = parse_fields("tags array<int>")
    rows = [{"tags": [1]}]

    with pytest.raises(SparkNeededError, match="the order by 'tags'"):
        _marked(rows, columns, QueueConfig(), order_by="tags")
    with pytest.raises(SparkNeededError, match="the size of column 'tags'"):
        sizes_of(fit_rows(rows, columns), columns)


@pytest.mark.parametrize(
    ("form", "value", "size"),
    [
        ("string", "née", 4),
        ("binary", b"\x00\x01", 2),
        ("int", 7, 4),
        ("timestamp_ntz", NAIVE, 8),
        ("decimal(10,2)", Decimal("1.20"), len('{"x":1.20}')),
        ("decimal(38,10)", Decimal("1E-10"), len('{"x":1E-10}')),
        ("string", None, 0),
        ("bigint", None, 0),
        ("decimal(10,2)", None, len("{}")),
    ],
)
def test_a_row_counts_what_its_values_take(form: str, value: object, size: int) -> None:
    """Numbers and times count by their type, texts and bytes by their length, decimals as JSON."""
    columns = parse_fields(f"x {form}")

    assert sizes_of(fit_rows([{"x": value}], columns), columns).to_pylist() == [size]
