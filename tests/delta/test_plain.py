"""Keys, sizes and columns of rows without Spark, held against Spark's own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from itertools import cycle, islice
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from spark_queue.columns import columns, kinds, values
from spark_queue.columns.arrow import arrow_keys, arrow_types, functions
from spark_queue.columns.arrow.arrow_keys import mark_rows
from spark_queue.columns.arrow.arrow_types import schema_of
from spark_queue.columns.arrow.rows import fit_rows, sizes_of, sort_rows
from spark_queue.columns.columns import add_keys
from spark_queue.columns.expressions import read
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidArgumentError
from spark_queue.spark import frames
from spark_queue.spark.spark_enqueue import collect, evaluate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 120
UTC = timezone.utc
FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
TIMES = [
    FIRST,
    LAST,
    datetime(1582, 10, 4, 12),  # noqa: DTZ001
    datetime(1582, 10, 15),  # noqa: DTZ001
    datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
    datetime(2026, 11, 1, 5, 30, 0, 500000),  # noqa: DTZ001
    datetime(2026, 11, 1, 6, 30, 0, 10),  # noqa: DTZ001
]

#: Values of each type: at an end, alike to something else, or written in a way of their own.
NASTY: dict[str, list[Any]] = {
    "string": [
        "",
        "a",
        " a\u00a0\t ",
        'quo"te\\',
        "\x00\x1f\n\x7f\u2028",
        "née 😀",
        "e\u0301",
        "/",
    ],
    "binary": [b"", b"\x00\xff", b"abc", bytes(range(70))],
    "boolean": [True, False],
    "tinyint": [-128, 127, 0],
    "smallint": [-(2**15), 2**15 - 1, 7],
    "int": [-(2**31), 2**31 - 1, -7, 0],
    "bigint": [-(2**63), 2**63 - 1, -1, 0, 10**12],
    "date": [time.date() for time in TIMES],
    "timestamp": [time.replace(tzinfo=UTC) for time in TIMES],
    "timestamp_ntz": TIMES,
    "decimal(10,2)": [Decimal(text) for text in ("1.50", "-0.00", "-99999999.99", "0.01")],
    "decimal(18,9)": [Decimal(text) for text in ("-0.000000150", "0", "1.5", "0.000000001")],
    "decimal(38,10)": [Decimal(text) for text in ("0E-10", "1E-10", f"-{'9' * 28}.{'9' * 10}")],
    "float": [-0.0, float("nan"), 1.5, float("inf")],
    "double": [-0.0, float("nan"), 5e-324, 0.0, 1e308],
}

#: The columns, named by their place: ``c0`` holds texts, and so on; and one that only lies there.
COLUMNS = arrow_types.parse_fields(
    ", ".join(f"c{n} {kind}" for n, kind in enumerate(NASTY)) + ", more string"
)
TYPED = {kind: f"c{n}" for n, kind in enumerate(NASTY)}
TEXT, RAW, WHOLE, LONG = TYPED["string"], TYPED["binary"], TYPED["int"], TYPED["bigint"]
DAY, AT, LOCAL = TYPED["date"], TYPED["timestamp"], TYPED["timestamp_ntz"]
EVERY = [name for kind, name in TYPED.items() if kind not in ("float", "double")]

KEYS = [
    *EVERY,
    "more",
    f"struct({', '.join(EVERY)})",
    f"struct(struct({TEXT}, {AT}), named_struct('x', more))",
    f"`{TEXT}` || '-' || {LONG} || {DAY} || {LOCAL} || {TYPED['boolean']}",
    f"concat('x', {WHOLE}, 007, -5)",
    f"concat_ws({TEXT}, more, {LONG}, {DAY})",
    f"concat_ws('/', {TEXT}, {WHOLE}, more)",
    "concat_ws('/')",
    f"coalesce({TEXT}, more, 'none')",
    f"coalesce({AT}, NULL)",
    f"coalesce({TYPED['tinyint']}, {LONG}, 5)",
    f"nvl({TEXT}, more)",
    f"ifnull({DAY}, date '2026-01-31')",
    f"nullif({TEXT}, '')",
    f"nullif({WHOLE}, -7)",
    f"trim({TEXT})",
    f"ltrim({TEXT}) || rtrim({TEXT})",
    *(f"substring(more, {at}, {size})" for at in (-70, -3, 0, 1, 2, 99) for size in (0, 2, 80)),
    "substr(more, 2)",
    f"md5({TEXT}) || sha1({RAW}) || sha({TEXT})",
    *(f"sha2({RAW}, {bits})" for bits in (0, 224, 256, 384, 512, 7)),
    "xxhash64(more)",
    f"xxhash64({TEXT}, {RAW}, {WHOLE}, {LONG}, {DAY}, {AT}, {LOCAL}, {TYPED['boolean']})",
    f"xxhash64({TYPED['tinyint']}, {TYPED['smallint']}, trim({TEXT}))",
    f"pmod({LONG}, 7)",
    f"pmod(xxhash64({TEXT}), 16)",
    f"{LONG} % 7",
    f"mod({WHOLE}, 16)",
    f"cast({LONG} as string) || {WHOLE}::string || string({DAY})",
    f"cast({TYPED['boolean']} as bigint)",
    f"try_cast({WHOLE} as long)",
    f"try_cast({TYPED['boolean']} as string)",
    "'it is' || r'C:\\x'",
    "true",
    "date '0099-01-31'",
]

HASHED = [TEXT, "more", f"struct({', '.join(EVERY)})"]


def _values(values: list[Any], seed: int) -> list[Any]:
    """Return each value, null and each again, in another order in every column."""
    drawn = list(islice(cycle([*values, None]), ROWS))
    random.Random(seed).shuffle(drawn)  # noqa: S311 - only mixed
    return drawn


def _texts() -> Iterator[str]:
    """Return texts of all lengths up to some stripes of a hash, of letters of one to four bytes."""
    rng = random.Random(7)  # noqa: S311 - any texts
    for size in range(ROWS):
        yield "".join(
            chr(rng.choice((65, 0xE9, 0x20AC, 0x1F600)) + rng.randrange(9)) for _ in range(size)
        )


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    """Return nasty values of each type, beside one another as chance will have it."""
    values = [_values(values, seed) for seed, values in enumerate(NASTY.values())]
    kinds = schema_of(COLUMNS)
    arrays = [pa.array(v, k) for v, k in zip([*values, list(_texts())], kinds.types, strict=True)]
    return pa.table(arrays, kinds.names)


@pytest.fixture
def in_new_york(spark: SparkSession) -> Iterator[None]:
    """Let the session be in New York, as nothing depends on where it is."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", str(before))


def _frame(spark: SparkSession, rows: pa.Table) -> Any:
    schema = StructType.fromJson(kinds.to_json(COLUMNS))
    store: Any = SimpleNamespace(spark=spark, columns=schema.json)
    return schema, frames.of(store, rows)


def _differences(ours: pa.Table, theirs: pa.Table) -> list[tuple[str, Any, Any]]:
    """Return the values that differ, bit by bit."""
    assert ours.column_names == theirs.column_names
    found = []
    for name in ours.column_names:
        mine, other = ours[name], theirs[name].cast(ours[name].type)
        if pa.types.is_floating(mine.type):
            mine, other = (column.cast(pa.string()) for column in (mine, other))
        pairs = zip(mine.to_pylist(), other.to_pylist(), strict=True)
        found += [(name, one, two) for one, two in pairs if one != two][:3]
    return found


@pytest.mark.usefixtures("in_new_york")
def test_keys_have_the_texts_and_hashes_of_spark(spark: SparkSession, rows: pa.Table) -> None:
    """Each type and each function gives the text, the hash and the size that Spark gives."""
    schema, frame = _frame(spark, rows)
    texts = {key: columns.text_of(read(key, COLUMNS)).alias(key) for key in KEYS}
    hashes = [F.xxhash64(texts[key]).alias(f"hash of {key}") for key in HASHED]
    size = values.bytes_of(schema).alias("size")
    theirs = frame.select(*texts.values(), *hashes, size).toArrow()

    ours = {key: arrow_keys.texts_of("dedup_key", key, COLUMNS, rows) for key in KEYS}
    # Of null Spark's hash is 42, and the queue's is null: it asks only for the hash of a key.
    hashed = [pc.fill_null(functions.hash_texts(ours[key]), 42) for key in HASHED]
    mine = pa.table([*ours.values(), *hashed, sizes_of(rows, COLUMNS)], theirs.column_names)

    assert _differences(mine, theirs) == []


@pytest.mark.usefixtures("in_new_york")
def test_rows_are_marked_as_spark_marks_them(spark: SparkSession, rows: pa.Table) -> None:
    """All columns of an enqueue are those of Spark: values as they were, keys, times and costs."""
    times = rows[AT].combine_chunks()
    given = rows.append_column("available_at", times.take(pa.array(range(ROWS)[::-1])))
    given = given.append_column("expires_at", times).append_column(
        "cost", pa.array(_values([1, 2.5, 5e-324, 1e308], 1), pa.float64())
    )
    given = given.append_column("_origin", pa.array([*range(ROWS)], pa.int64()))
    config = QueueConfig(
        dedup_key=f"struct({', '.join(EVERY)})",
        fair_key=f"coalesce({TEXT}, more)",
        group_key=AT,
        priority=f"coalesce({WHOLE}, pmod({LONG}, 5))",
    )
    order = [TYPED["double"], TYPED["boolean"], TEXT, "_origin"]
    origin = kinds.Field("_origin", kinds.Kind("bigint"))
    schema, frame = _frame(spark, given.drop_columns("_origin"))
    frame = frame.coalesce(1).withColumn("_origin", F.monotonically_increasing_id())

    theirs = collect(
        evaluate(add_keys(frame, schema, config, list(order), extra=["_origin"])), ROWS
    )
    known = [*COLUMNS, origin]
    ours = mark_rows(sort_rows(fit_rows(given, known), order), known, config)

    assert theirs is not None
    assert _differences(ours.select(theirs.column_names), theirs) == []
    nothing = QueueConfig()
    plain = collect(evaluate(add_keys(frame.drop("_origin"), schema, nothing, None).limit(5)), 5)
    assert plain is not None
    bare = fit_rows(given.drop_columns("_origin")[:5], COLUMNS)
    ours = mark_rows(bare, COLUMNS, nothing)
    assert {*ours.column_names} == {*plain.column_names}
    assert _differences(ours.select(plain.column_names), plain) == []


@pytest.mark.usefixtures("spark")
def test_ddl_means_what_it_means_to_spark() -> None:
    """Columns that are taken are those of Spark; of what is none, Spark makes none either."""
    texts = [
        "a string, b: int, `we ird` bigint NOT NULL COMMENT 'it''s'",
        'A byte, b Short, c integer, d long, e real, f double, g boolean comment "x"',
        "a dec, b numeric(7), c decimal ( 38 , 38 ), d binary, e date, f timestamp_ltz",
        "a timestamp,\n\tb timestamp_ntz, select int, comment string, date date, struct string",
        "a array<struct<x int, y: map<string, array<double>> not null comment 'z'>>",
        "`a``b` int, a varchar(3), c character(2)",
    ]
    wrong = [
        "a bigit",
        "a",
        "a int,",
        "int",
        "a int b int",
        "a-b int",
        "a.b int",
        "a decimal(39,2)",
    ]
    wrong += ["a decimal(5,7)", "a int default 5", "a map<int>", "a array<>", "a int not", "é int"]
    for text in texts:
        assert kinds.to_json(arrow_types.parse_fields(text)) == StructType.fromDDL(text).jsonValue()
    for text in wrong:
        with pytest.raises(InvalidArgumentError, match="schema is"):
            arrow_types.parse_fields(text)
        with pytest.raises(Exception, match=r"\S"):
            assert isinstance(StructType.fromDDL(text), StructType), text
