from __future__ import annotations

import pytest
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_queue.delta.input.expressions import read
from spark_queue.errors import InvalidArgumentError

COLUMNS = (
    StructType()
    .add("a", StringType())
    .add("b", StringType())
    .add("n", LongType())
    .add("at", TimestampType())
    .add("local", TimestampNTZType())
    .add("day", DateType())
    .add("price", DecimalType(18, 9))
    .add("ratio", DoubleType())
    .add("is_new", BooleanType())
    .add("raw", BinaryType())
    .add("tags", MapType(StringType(), StringType()))
    .add("place", StructType().add("city", StringType()).add("since", TimestampType()))
    .add("a.b", IntegerType())
    .add("tick`", StringType())
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a", StringType()),
        (" A ", StringType()),
        ("`a.b`", IntegerType()),
        ("`tick```", StringType()),
        ("at", TimestampType()),
        ("price", DecimalType(18, 9)),
        ("ratio", DoubleType()),
        ("place.city", StringType()),
        ("place.`since`", TimestampType()),
        ("'x'", StringType()),
        ("(a)", StringType()),
        ("concat_ws('/', n, unix_micros(at), a)", StringType()),
        ("a || '-' || n || day", StringType()),
        ("lower(trim(a))", StringType()),
        ("regexp_extract(a, r'^(.*)/[^/]*\\.csv$', 1)", StringType()),
        ("split_part(a, '/', -1)", StringType()),
        ("n % 16", LongType()),
        ("pmod(xxhash64(a, n), 16)", LongType()),
        ("n div 1000", LongType()),
        ("unix_seconds(at) div 86400", LongType()),
        ("floor(ratio)", LongType()),
        ("coalesce(a, b, 'none')", StringType()),
        ("coalesce(at, place.since)", TimestampType()),
        ("coalesce(n, 0)", LongType()),
        ("if(n > 10 AND NOT is_new, a, NULL)", StringType()),
        ("nullif(a, '')", StringType()),
        ("CASE WHEN a IN ('x', 'y') OR b LIKE 'z%' THEN b ELSE a END", StringType()),
        ("case a when 'x' then 1 when 'y' then n end", LongType()),
        ("n BETWEEN 1 AND 9 AND a IS NOT NULL", BooleanType()),
        ("a NOT IN ('x')", BooleanType()),
        ("day < date '2026-01-31'", BooleanType()),
        ("year(day)", LongType()),
        ("cast(n AS string)", StringType()),
        ("CAST(local AS STRING)", StringType()),
        ("try_cast(a AS bigint)", LongType()),
        ("sha2(raw, 256)", StringType()),
    ],
)
def test_what_is_the_same_in_every_session_is_read(text: str, kind: DataType) -> None:
    """An expression whose value depends on its columns alone is taken, with its type."""
    read_back = read(text, COLUMNS)

    assert (read_back.kind, read_back.text) == (kind, text.strip())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        # Another value at another time, or at every call.
        ("rand()", "rand"),
        ("uuid()", "uuid"),
        ("concat(a, uuid())", "uuid"),
        ("current_timestamp()", "current_timestamp"),
        ("current_date", "current_date"),
        ("now()", "now"),
        ("date 'today'", "today"),
        ("monotonically_increasing_id()", "monotonically_increasing_id"),
        ("input_file_name()", "input_file_name"),
        ("spark_partition_id()", "spark_partition_id"),
        ("coalesce(a, shuffle(tags))", "shuffle"),
        # Another value in another session.
        ("to_date(at)", "to_date"),
        ("cast(at AS string)", "cast of timestamp as string"),
        ("cast(at AS date)", "cast of timestamp as date"),
        ("concat(a, at)", "concat"),
        ("a || at", "||"),
        ("date_trunc('HOUR', at)", "date_trunc"),
        ("date_format(at, 'yyyy')", "date_format"),
        ("hour(at)", "hour"),
        ("year(at)", "year"),
        ("unix_micros(local)", "unix_micros"),
        ("timestamp '2026-01-01 00:00:00'", "timestamp"),
        ("at > '2026-01-01'", "timestamp and string"),
        ("at = local", "timestamp and timestamp_ntz"),
        ("current_user()", "current_user"),
        ("current_timezone()", "current_timezone"),
        ("from_unixtime(n)", "from_unixtime"),
        ("cast(a AS int)", "cast of string as int"),
        ("cast(a AS date)", "cast of string as date"),
        ("n % 0", "% of"),
        ("n % n", "%"),
        ("n + 1", "sum"),
        ("n * 2", "product"),
        ("n - 1", "difference"),
        ("a > 5", "string and bigint"),
        ('a || "b"', "column in another"),
        (r"regexp_replace(a, '\\d', '')", "write r'"),
        ("split(a, '/')[0]", "split_part"),
        # Digits that differ between machines.
        ("cast(ratio AS string)", "double"),
        ("concat(a, ratio)", "concat"),
        ("n / 7", "fractions"),
        ("round(ratio, 2)", "round"),
        ("concat(a, 1.5)", "1.5"),
        ("concat(a, 1e3)", "1e3"),
        # Of which nothing is known.
        ("my_function(a)", "my_function"),
        ("`lower`(a)", "lower"),
        ("catalog.f(a)", "catalog"),
        ("row_number() OVER (ORDER BY a)", "row_number"),
        ("lower(a) OVER (ORDER BY a)", "OVER"),
        ("max(a)", "max"),
        ("transform(tags, x -> x)", "transform"),
        ("a::int", "::"),
        ("missing", "missing is no column"),
        ("a.b", "b is no column"),
        ("lower(n)", "lower"),
        ("lower(a, b)", "lower"),
        ("if(a, b, b)", "if"),
        ("nvl(a)", "nvl"),
        ("(a", "missing"),
        ("a b", "'b'"),
        ("a =", "too early"),
        ("case when a then b", "when"),
    ],
)
def test_what_may_be_another_value_is_refused(text: str, named: str) -> None:
    """What depends on the session, the moment or the machine is refused, and named."""
    with pytest.raises(InvalidArgumentError) as refused:
        read(text, COLUMNS)

    assert named in str(refused.value)


def test_parts_are_read_one_by_one() -> None:
    """A key of several columns has the type of each, also where one has parts of its own."""
    whole = read("struct(a, named_struct('x', at, 'y', n % 3), lower(b))", COLUMNS)

    assert [part.text for part in whole.parts] == [
        "a",
        "named_struct('x', at, 'y', n % 3)",
        "lower(b)",
    ]
    assert [part.kind for part in whole.parts[1].parts] == [TimestampType(), LongType()]
