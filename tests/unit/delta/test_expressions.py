from __future__ import annotations

import pytest

from spark_queue.checks import DEEPEST_EXPRESSION
from spark_queue.columns.expressions import read
from spark_queue.columns.kinds import Field, Kind, mapping, struct
from spark_queue.errors import InvalidArgumentError

TEXT, WHOLE, TIME = Kind("string"), Kind("bigint"), Kind("timestamp")
COLUMNS = (
    Field("a", TEXT),
    Field("b", TEXT),
    Field("n", WHOLE),
    Field("at", TIME),
    Field("local", Kind("timestamp_ntz")),
    Field("day", Kind("date")),
    Field("price", Kind("decimal(18,9)")),
    Field("ratio", Kind("double")),
    Field("is_new", Kind("boolean")),
    Field("raw", Kind("binary")),
    Field("tags", mapping(TEXT, TEXT)),
    Field("place", struct([Field("city", TEXT), Field("since", TIME)])),
    Field("a.b", Kind("int")),
    Field("tick`", TEXT),
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a", "string"),
        (" A ", "string"),
        ("`a.b`", "int"),
        ("`tick```", "string"),
        ("at", "timestamp"),
        ("price", "decimal(18,9)"),
        ("ratio", "double"),
        ("place.city", "string"),
        ("place.`since`", "timestamp"),
        ("'x'", "string"),
        ("(a)", "string"),
        ("concat_ws('/', n, unix_micros(at), a)", "string"),
        ("a || '-' || n || day", "string"),
        ("lower(trim(a))", "string"),
        ("regexp_extract(a, r'^(.*)/[^/]*\\.csv$', 1)", "string"),
        ("split_part(a, '/', -1)", "string"),
        ("n % 16", "bigint"),
        ("pmod(xxhash64(a, n), 16)", "bigint"),
        ("n div 1000", "bigint"),
        ("unix_seconds(at) div 86400", "bigint"),
        ("floor(ratio)", "bigint"),
        ("coalesce(a, b, 'none')", "string"),
        ("coalesce(at, place.since)", "timestamp"),
        ("coalesce(n, 0)", "bigint"),
        ("if(n > 10 AND NOT is_new, a, NULL)", "string"),
        ("nullif(a, '')", "string"),
        ("CASE WHEN a IN ('x', 'y') OR b LIKE 'z%' THEN b ELSE a END", "string"),
        ("case a when 'x' then 1 when 'y' then n end", "bigint"),
        ("n BETWEEN 1 AND 9 AND a IS NOT NULL", "boolean"),
        ("a NOT IN ('x')", "boolean"),
        ("day < date '2026-01-31'", "boolean"),
        ("year(day)", "bigint"),
        ("cast(n AS string)", "string"),
        ("CAST(local AS STRING)", "string"),
        ("try_cast(a AS bigint)", "bigint"),
        ("sha2(raw, 256)", "string"),
        ("n::string || -5::string", "string"),
    ],
)
def test_what_is_the_same_in_every_session_is_read(text: str, kind: str) -> None:
    """An expression whose value depends on its columns alone is taken, with its type."""
    read_back = read(text, COLUMNS)

    assert (read_back.kind, read_back.text) == (Kind(kind), text.strip())


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
        ("xxhash64(ratio)", "xxhash64(...) of double"),
        ("xxhash64(price)", "xxhash64(...) of decimal(18,9)"),
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
        ("a::int", "cast of string as int"),
        ("at::string", "cast of timestamp as string"),
        ("'${spark.app.name}'", "a setting of the session"),
        ("é", "'é'"),
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
    assert [part.kind for part in whole.parts[1].parts] == [TIME, WHOLE]


@pytest.mark.parametrize(
    ("sign", "operand", "kind"),
    [("and", "is_new", "boolean"), ("or", "a = b", "boolean"), ("||", "a", "string")],
)
def test_long_chain_is_no_deeper(sign: str, operand: str, kind: str) -> None:
    """Thousands of operands of a sign whose order does not matter are one value's."""
    node = read(f" {sign} ".join([operand] * 5_000), COLUMNS).node

    assert node is not None
    assert (node.kind.simple, len(node.of), node.depth <= 3) == (kind, 5_000, True)


@pytest.mark.parametrize("chain", [" is null", " = true", "::string"])
def test_deep_chain_is_refused(chain: str) -> None:
    """What is worked out one from the other has an end, which is no RecursionError."""
    assert read("is_new" + chain * 20, COLUMNS).node is not None
    with pytest.raises(InvalidArgumentError, match="more than 200 operators"):
        read("is_new" + chain * 5_000, COLUMNS)


def test_deepest_expression_is_read() -> None:
    """What may be in each other is read, from a stack that is already deep."""
    deep = "concat(" * DEEPEST_EXPRESSION + "a" + ")" * DEEPEST_EXPRESSION

    def called(calls: int) -> str:
        return called(calls - 1) if calls else read(deep, COLUMNS).text

    assert called(200) == deep


def test_number_of_thousands_of_digits_is_refused() -> None:
    """It is no number of SQL, and is not repeated."""
    with pytest.raises(InvalidArgumentError, match="'9999999999' is not among"):
        read("n = " + "9" * 5_000, COLUMNS)
