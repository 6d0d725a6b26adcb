"""Calls of the operators on frames that cannot work, each refused before there is a plan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F, types

from spark_queue.errors import SparkQueueError
from spark_queue.operators import (
    Resume,
    distinct,
    distinct_refused,
    fair_order,
    fair_rank,
    fair_take,
    serial_heads,
    serial_runs,
)
from tests.operators.conftest import Frame

SCHEMA = "key string, at int"

#: Each operator, and what its calls have here beside a key and an order.
OPERATORS: dict[str, tuple[Callable[..., DataFrame], dict[str, Any]]] = {
    "distinct": (distinct, {}),
    "distinct_refused": (distinct_refused, {}),
    "fair_rank": (fair_rank, {}),
    "fair_order": (fair_order, {}),
    "fair_take": (fair_take, {"n": 2}),
    "serial_heads": (serial_heads, {}),
    "serial_runs": (serial_runs, {"length": 2}),
}

DISTINCT = ("distinct", "distinct_refused")
FAIR = ("fair_rank", "fair_order", "fair_take")
SERIAL = ("serial_heads", "serial_runs")


def call(name: str, df: Any, **options: Any) -> DataFrame:
    """Call an operator, with the options of a case in place of its own."""
    operator, own = OPERATORS[name]
    given = {"key": "key", "order_by": "at", **own, **options}
    if name in SERIAL:
        given["group"] = given.pop("key")
    return operator(df, **given)


#: The operators, one parameter of theirs, a value (or what makes it), and what the error says.
CASES: list[tuple[tuple[str, ...], str, Any, str]] = [
    (("fair_take",), "n", "3", "n is '3': it must be a whole number"),
    (("fair_take",), "n", 2.5, "n is 2.5"),
    (("fair_take",), "n", True, "n is True"),
    (("fair_take",), "n", 2**31, "n is 2147483648: it must be at most"),
    (("serial_heads",), "limit", "2", "limit is '2'"),
    (("serial_heads",), "limit", True, "limit is True"),
    (("serial_runs",), "length", 1.5, "length is 1.5"),
    (FAIR, "weights", [2], r"weights is \[2\]: it must map"),
    (FAIR, "weights", {1: 2.0}, "weights has the key 1"),
    (FAIR, "weights", {"a": "2"}, r"weights\['a'\] is '2'"),
    (FAIR, "cost", 2, "cost is 2: name one column"),
    (FAIR, "cost", "key", "'cost': is string"),
    (FAIR, "resume", 3, "resume is 3"),
    (FAIR, "resume", Resume(float("nan")), "resume.current is nan"),
    (FAIR, "resume", Resume("1"), "resume.current is '1'"),  # type: ignore[arg-type]
    (FAIR, "resume", Resume(1.0, [1]), "resume.last is a list"),  # type: ignore[arg-type]
    (("fair_rank", "fair_order"), "skewed", 1, "skewed is 1"),
    (DISTINCT, "in_flight", [("a", 1)], "in_flight is a list: give it a DataFrame"),
    (SERIAL, "active", [("a", 1)], "active is a list: give it a DataFrame"),
    (("distinct_refused",), "winner", 5, "winner is 5"),
    (("distinct_refused",), "winner", [], r"winner is \[\]"),
    (tuple(OPERATORS), "key", 5, "is 5: name a column, or several"),
    (tuple(OPERATORS), "key", b"key", "is b'key': name a column, or several"),
    (tuple(OPERATORS), "key", ["key", 5], "is 5: name one column"),
    (tuple(OPERATORS), "key", lambda: F.col("nope"), "nope"),
    (tuple(OPERATORS), "key", lambda: F.sum("at"), "cannot be computed"),
    (tuple(OPERATORS), "order_by", 5, "order_by is 5: name a column, or several"),
    (tuple(OPERATORS), "order_by", [], r"order_by is \[\]: name a column, or several"),
    (tuple(OPERATORS), "order_by", {"at": 1}, "order_by is {'at': 1}: name a column, or several"),
    (
        tuple(OPERATORS),
        "order_by",
        lambda: F.create_map("key", "at"),
        "order_by cannot be computed",
    ),
]


#: Types whose values are told apart in more than one way, or in none.
NO_KEYS = {
    "map": "map('a', 1)",
    "variant": "parse_json('1')",
    "collated": "'A' COLLATE utf8_lcase",
    "collated within": "array(struct('A' COLLATE utf8_lcase AS part))",
    "map within": "struct(map('a', 1) AS part)",
}
if hasattr(types, "GeometryType"):
    NO_KEYS |= {
        "geometry": "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')",
        "geography within": "array(st_geogfromwkb(X'0101000000000000000000F03F0000000000000040'))",
    }


@pytest.mark.parametrize("name", OPERATORS)
def test_each_parameter_is_checked_at_the_call(frame: Frame, name: str) -> None:
    """A value of the wrong kind, or out of range, is an error that names it."""
    df = frame([("a", 1)], SCHEMA)
    for names, parameter, value, message in CASES:
        if name not in names:
            continue
        with pytest.raises(SparkQueueError, match=message):
            call(name, df, **{parameter: value() if callable(value) else value})


@pytest.mark.parametrize("name", OPERATORS)
def test_a_frame_that_does_not_fit_is_refused(spark: SparkSession, frame: Frame, name: str) -> None:
    """What is no frame, a stream, a column of ours and a column that is there twice are named."""
    df = frame([("a", 1)], SCHEMA)
    with pytest.raises(SparkQueueError, match="is a list: give it a DataFrame"):
        call(name, [("a", 1)])
    stream = spark.readStream.format("rate").load().selectExpr("'a' AS key", "1 AS at")
    with pytest.raises(SparkQueueError, match=r"is a stream: use spark_queue\.streaming"):
        call(name, stream)
    for parameter, takers in {"in_flight": DISTINCT, "active": SERIAL}.items():
        if name in takers:
            with pytest.raises(SparkQueueError, match=f"{parameter} is a stream"):
                call(name, df, **{parameter: stream})
    for ours in ("__spark_queue_place", "__SPARK_QUEUE_busy", "__spark_queue_key_0"):
        with pytest.raises(SparkQueueError, match=f"{ours}.*rename it"):
            call(name, df.withColumn(ours, F.lit(7)))
    with pytest.raises(SparkQueueError, match="the column 'KEY' twice"):
        call(name, df.select("*", F.col("at").alias("KEY")))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_key_without_one_equality_is_refused(frame: Frame, name: str) -> None:
    """A map, a variant, a place and a text with a collation are no keys, at any depth."""
    for kind, text in NO_KEYS.items():
        df = frame([("a", 1)], SCHEMA).withColumn("odd", F.expr(text))
        for key in ("odd", ["at", "odd"]):
            with pytest.raises(SparkQueueError, match=r"'odd': is .* no key") as refused:
                call(name, df, key=key)
            assert ("collate" in str(refused.value)) == kind.startswith("collated")


def test_keys_of_two_frames_have_comparable_types(frame: Frame) -> None:
    """A frame that goes with another has keys of the same type, or both are numbers."""
    df = frame([("a", 1)], SCHEMA)
    texts, numbers = frame([("1",)], "at string"), frame([(1,)], "at long")
    joins: list[Callable[[DataFrame], DataFrame]] = [
        lambda other: distinct(df, "at", order_by="at", in_flight=other),
        lambda other: serial_heads(df, "at", order_by="at", active=other),
        lambda other: fair_rank(
            df, "at", order_by="at", resume=Resume(0.0, other.withColumn("round", F.lit(1.0)))
        ),
    ]
    for joined in joins:
        with pytest.raises(SparkQueueError, match="'at': is string in"):
            joined(texts)
        assert joined(numbers).columns[:2] == ["key", "at"]


def test_a_descending_order_is_refused_where_keys_are_cut(frame: Frame) -> None:
    """With ``skewed`` the order is of plain columns: parts are found by comparing them."""
    with pytest.raises(SparkQueueError, match=r"skewed.*ascending"):
        fair_rank(frame([("a", 1)], SCHEMA), "key", order_by=F.desc("at"), skewed=True)


def test_a_column_may_have_any_name_of_its_own(frame: Frame) -> None:
    """Backticks, dots and blanks in names are no syntax."""
    df = frame([("a", 1), ("a", 2)], "key string, at int")
    odd = df.toDF("k`e y.x", "a`t")
    for name in OPERATORS:
        found = call(name, odd, key="k`e y.x", order_by="a`t")
        assert found.columns[:2] == odd.columns, name
        assert found.count() > 0
