"""Conditions in SQL without Spark: what is true of a row, and what is left to Spark."""

from __future__ import annotations

from datetime import date, datetime, timezone

import pyarrow as pa
import pytest

from spark_queue.columns.arrow import conditions
from spark_queue.columns.arrow.arrow_types import parse_fields, schema_of
from spark_queue.errors import InvalidArgumentError, SparkNeededError

COLUMNS = parse_fields("a string, n int, ok boolean, at timestamp, day date, x double, raw binary")

ROWS = pa.Table.from_pylist(
    [
        {
            "a": "a",
            "n": 1,
            "ok": True,
            "at": datetime(2026, 1, 1, tzinfo=timezone.utc),
            "day": date(2026, 1, 1),
        },
        {},
        {
            "a": "a_b%",
            "n": -5,
            "ok": False,
            "at": datetime(2026, 2, 1, tzinfo=timezone.utc),
            "day": date(2026, 2, 1),
        },
    ],
    schema_of(COLUMNS),
)

#: Conditions, and of which rows each is true.
CONDITIONS = {
    "true": "012",
    "a = 'a'": "0",
    "A == 'a' OR n < 0": "02",
    "NOT (a = 'a' OR n < 0)": "",
    "n IN (1, NULL)": "0",
    "n NOT IN (1, NULL)": "",
    "n NOT IN (1, 2)": "2",
    "a IS NULL": "1",
    "a IS NOT NULL AND n <> 1": "2",
    "ok": "0",
    "NOT ok": "2",
    "ok < true": "2",
    "NULL OR ok": "0",
    "a = NULL": "",
    "NULL = NULL": "",
    "n <=> NULL": "1",
    "n <=> 1": "0",
    "at < timestamp '2026-01-01T00:30:00+00:15'": "0",
    "at >= timestamp '2026-02-01 00:00:00Z'": "2",
    "day BETWEEN date '2026-01-01' AND date '2026-01-31'": "0",
    "day NOT BETWEEN date '2026-01-01' AND date '2026-01-31'": "2",
    "a LIKE 'a__%'": "2",
    "a NOT LIKE '%b_'": "0",
    "n % 3 = 1": "0",
    "n >= -5 AND n != 1": "2",
    "concat(a, 'x') > 'a'": "02",
    "coalesce(n, 7) = 7": "1",
    "coalesce(a = 'a', true)": "01",
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_is_true_of_some_rows(condition: str) -> None:
    """It is true, and not only not false: a comparison with nothing is neither."""
    true = conditions.is_true(condition, COLUMNS, ROWS).to_pylist()

    assert "".join(str(n) for n, is_true in enumerate(true) if is_true) == CONDITIONS[condition]


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("a", "it is no condition, but a value of type string"),
        ("zz = 1", "zz is no column"),
        ("t = 'cut", "'cut has no ' at its end"),
        ('t = "cut', '"cut has no " at its end'),
        ("a = zz", "zz is no column.*; a text has quotes: 'zz'"),
        ("`current_date` = day", "current_date is no column"),
        ("dayy IS NULL", "dayy is no column; did you mean 'day'"),
    ],
)
def test_what_is_wrong_for_spark_too_is_refused(condition: str, why: str) -> None:
    """A typo is named at once, with what may have been meant."""
    with pytest.raises(InvalidArgumentError, match=f"where is .*: {why}"):
        conditions.is_true(condition, COLUMNS, ROWS)


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("x > 1", "of double and bigint"),
        ("a = 1", "of string and bigint"),
        ("a RLIKE 'x'", "rlike"),
        ("a LIKE concat(a, '%')", "like"),
        (r"a LIKE r'a\%'", "like"),
        ("upper(a) = 'A'", "upper"),
        ("null", "no condition"),
        ("_zz = 1", "_zz is no column"),
        ("current_date = day", "current_date is no column"),
        ("interval '1' day < day", "interval is no column"),
        ("n = 1; drop", "';"),
        ("n = 1 -- it's", "backslash"),
        ("at < timestamp '2026-01-01 00:00:00'", "another zone"),
        ("at < timestamp '2026-02-30T00:00:00Z'", "is no timestamp"),
        ("at < '2026-01-01'", "of timestamp and string"),
        ("raw = x'00'", "of binary and double"),
        ("n IN (SELECT 1)", "SELECT is no column"),
    ],
)
def test_what_only_spark_understands_is_left_to_it(condition: str, why: str) -> None:
    """Where it is not plain that both say the same, it is named, and nothing is answered."""
    with pytest.raises(SparkNeededError, match=why) as refused:
        conditions.is_true(condition, COLUMNS, ROWS)

    assert refused.value.what == f"the SQL {condition!r}"
