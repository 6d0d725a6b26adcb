"""Keys without Spark: what is refused, and a few whose values everybody knows."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest

from spark_queue.columns.arrow import arrow_keys, functions
from spark_queue.columns.arrow.arrow_types import parse_fields, schema_of
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, SparkNeededError

COLUMNS = parse_fields(
    "a string, n bigint, at timestamp, day date, price decimal(38,10), ratio double, "
    "tags array<string>, place struct<city: string>"
)


def _table(**values: object) -> pa.Table:
    row = {column.name: values.get(column.name) for column in COLUMNS}
    return pa.Table.from_pylist([row], schema_of(COLUMNS))


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("lower(a)", r"lower\(string\)"),
        ("concat(a, upper(a))", r"upper\(string\)"),
        ("regexp_extract(a, r'(.*)/', 1)", "regexp_extract"),
        ("CASE WHEN a = 'x' THEN a END", "case"),
        ("if(n = 1, a, 'b')", "if"),
        ("n = 1", "="),
        ("n div 7", "div"),
        ("substring(a, n, 1)", "substring"),
        ("substring(a, 2147483648, 1)", "substring"),
        ("sha2(a, n)", "sha2"),
        ("xxhash64(a, 1)", r"xxhash64\(string, bigint\)"),
        ("xxhash64(n % 3)", "xxhash64"),
        ("coalesce(nullif(NULL, NULL), a)", "nullif"),
        ("try_cast(a as int)", "try_cast"),
        ("try_cast(n as int)", "try_cast"),
        ("concat(a, 9223372036854775808)", "9223372036854775808 is no bigint"),
        ("date '2026-02-30'", "2026-02-30 is no date"),
        ("tags", "array<string> is made of others"),
        ("struct(a, place)", "struct<city:string> is made of others"),
        ("place.city", "a field of a struct"),
    ],
)
def test_a_key_that_only_spark_knows_is_refused(key: str, why: str) -> None:
    """An expression whose value may be another one here is named, and what it takes to use it."""
    with pytest.raises(SparkNeededError, match=why) as refused:
        arrow_keys.require_keys(COLUMNS, QueueConfig(group_key=key))

    assert refused.value.what == f"group_key {key!r}"
    assert "needs a session of Spark" in str(refused.value)


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("rand()", "rand"),
        ("missing", "missing is no column"),
        ("ratio", "double, which has no text"),
        ("to_date(at)", "to_date"),
        ("at::string", "cast of timestamp"),
    ],
)
def test_a_key_that_no_session_takes_is_refused_alike(key: str, why: str) -> None:
    """What ``create`` refuses with Spark is refused without it, as a wrong configuration."""
    with pytest.raises(InvalidConfigError, match=f"fair_key is .*{why}"):
        arrow_keys.require_keys(COLUMNS, QueueConfig(fair_key=key))


@pytest.mark.parametrize("priority", ["n + 1", "price", "a", "ratio", "struct(n)", "floor(ratio)"])
def test_a_priority_that_only_spark_knows_is_refused(priority: str) -> None:
    """A priority may be any expression of Spark's; here it is of whole numbers."""
    with pytest.raises(SparkNeededError, match=r"priority '.*' needs a session"):
        arrow_keys.require_keys(COLUMNS, QueueConfig(priority=priority))


def test_keys_that_are_known_are_taken() -> None:
    """A configuration passes if each of its keys can be computed here."""
    config = QueueConfig(
        dedup_key="struct(a, at, price)", fair_key="a::string", group_key="n", priority="n % 3"
    )

    arrow_keys.require_keys(COLUMNS, config)


@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_a_priority_beyond_its_type_is_refused(number: int) -> None:
    """A number that Spark cannot cast to a priority is refused, and not cut off."""
    assert arrow_keys.priorities_of("n", COLUMNS, _table(n=2**31 - 1)).to_pylist() == [2**31 - 1]
    assert arrow_keys.priorities_of("n", COLUMNS, _table()).to_pylist() == [0]
    with pytest.raises(InvalidArgumentError, match=f"priority 'n' is {number} in a row"):
        arrow_keys.priorities_of("n", COLUMNS, _table(n=number))


@pytest.mark.parametrize("micros", [-62135596800000001, 253402300800000000])
def test_a_time_that_no_calendar_has_is_no_key(micros: int) -> None:
    """A time whose year has not four digits is refused as a key, whose text only Spark knows."""
    at = pa.array([micros]).cast(pa.timestamp("us", "UTC"))
    rows = _table().set_column(2, "at", at)

    with pytest.raises(SparkNeededError, match="year 1"):
        arrow_keys.texts_of("dedup_key", "at", COLUMNS, rows)


# rule: text of a key
def test_a_key_has_one_text() -> None:
    """The text of a key is that which a session of Spark computes, in whatever zone it is."""
    at = datetime(2026, 11, 1, 5, 30, tzinfo=timezone.utc)
    rows = _table(a='a, "b"', at=at, price=1)

    texts = arrow_keys.texts_of("dedup_key", "struct(a, at, price, n)", COLUMNS, rows)

    assert texts.to_pylist() == [r'["a, \"b\"","2026-11-01T05:30:00.000000Z","1.0000000000",null]']


def test_of_no_rows_there_are_no_keys() -> None:
    """A frame without rows has keys of none, of the types that others have."""
    none = schema_of(COLUMNS).empty_table()

    found = arrow_keys.texts_of("dedup_key", "concat(a, n, 'x', substring(a, 2))", COLUMNS, none)

    assert (found.to_pylist(), found.type) == ([], pa.string())
    assert functions.hash_texts(found).type == pa.int64()
    assert arrow_keys.priorities_of("n", COLUMNS, none).to_pylist() == []
