"""The text of a key, whatever session computes it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from spark_queue.columns.columns import of_spark, text_of
from spark_queue.columns.expressions import read
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import InvalidConfigError, SchemaMismatchError

ZONE = "spark.sql.session.timeZone"

#: Values, each with the one text that it has as a key.
TEXTS = {
    "timestamp_micros(1793511000000000L)": "2026-11-01T05:30:00.000000Z",
    "timestamp_micros(-1L)": "1969-12-31T23:59:59.999999Z",
    "timestamp_micros(-62135596799999999L)": "0001-01-01T00:00:00.000001Z",
    "timestamp_micros(253402300799999999L)": "9999-12-31T23:59:59.999999Z",
    "timestamp_ntz'2026-11-01 05:30:00.5'": "2026-11-01 05:30:00.5",
    "date'2026-11-01'": "2026-11-01",
    "cast(1.5 AS decimal(10,2))": "1.50",
    "cast('-0.000000150' AS decimal(18,9))": "-0.000000150",
    "cast('0' AS decimal(18,9))": "0.000000000",
    "cast('12.5' AS decimal(38,18))": "12.500000000000000000",
    "true": "true",
    "-7L": "-7",
    "X'00ff'": "00FF",
    "'a, \"b'": 'a, "b',
    "array('a', NULL, 'b,c')": '["a",null,"b,c"]',
    "named_struct('x', 'a, b', 'y', X'01')": '["a, b","01"]',
    "named_struct('x', 'a', 'y', array(named_struct('z', 1)))": r'["a","[\"[\\\"1\\\"]\"]"]',
}


@contextmanager
def _session(spark: SparkSession, zone: str, *, ansi: bool) -> Iterator[None]:
    settings = {ZONE: zone, "spark.sql.ansi.enabled": str(ansi).lower()}
    before = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            spark.conf.set(name, str(old))


# rule: text of a key
def test_a_key_has_one_text_in_all_sessions(spark: SparkSession) -> None:
    """Each type has one text, with another zone and without ANSI, too; NULL has none."""
    columns = [f"{value} AS c{number}" for number, value in enumerate(TEXTS)]
    values = spark.range(1).selectExpr(*columns)
    nothing = values.select([F.lit(None).cast(f.dataType).alias(f.name) for f in values.schema])

    assert _texts(values) == list(TEXTS.values())
    with _session(spark, "America/New_York", ansi=False):
        assert _texts(values) == list(TEXTS.values())
    assert _texts(nothing) == [None] * len(TEXTS)


def _texts(frame: DataFrame) -> list[str | None]:
    columns = of_spark(frame.schema)
    keys = [text_of(read(name, columns)).alias(name) for name in frame.columns]
    row = frame.select(*keys).head()
    return list(row or ())


def test_equal_rows_are_duplicates_in_any_zone(spark: SparkSession, queue_path: str) -> None:
    """Law 3 with a time and two texts as key: what differs is two items, what is equal is one."""
    config = QueueConfig(dedup_key="struct(at, x, lower(y))")
    queue = DeltaQueue.create(spark, queue_path, "at timestamp, x string, y string", config)
    hours = "timestamp_micros(1793511000000000L + 3600000000L * id) AS at"
    two = spark.range(2).selectExpr(hours, "'a, b' AS x", "'c' AS y")
    other = spark.range(1).selectExpr(hours, "'a' AS x", "'b, C' AS y")

    with _session(spark, "America/New_York", ansi=True):
        assert queue.enqueue(two.union(other)).inserted == 3
    assert queue.enqueue(two).duplicates == 2
    assert queue.status().where("_dedup_key LIKE '[\"2026-11-01T05:30:00.000000Z\",%'").count() == 2


@pytest.mark.parametrize(
    ("option", "key", "why"),
    [
        ("dedup_key", "rand()", "rand"),
        ("fair_key", "to_date(at)", "to_date"),
        ("group_key", "cast(at AS string)", "cast of timestamp"),
        ("dedup_key", "x + 0.5", "sum"),
        ("group_key", "ratio", "double"),
        ("fair_key", "first(x) OVER (PARTITION BY x)", "first"),
    ],
)
def test_a_key_that_is_not_the_same_everywhere_is_refused(
    spark: SparkSession, queue_path: str, option: str, key: str, why: str
) -> None:
    """``create`` names the option, what is in the way and what to write, and makes nothing."""
    schema = "at timestamp, x int, ratio double"

    with pytest.raises(InvalidConfigError, match=f"{option} is .*{why}.*as a column of the queue"):
        DeltaQueue.create(spark, queue_path, schema, QueueConfig.from_dict({option: key}))
    assert not Path(queue_path).exists()


@pytest.mark.parametrize("name", ["a.b", "tick`", ".", "`a`"])
def test_a_name_that_is_a_path_is_refused(spark: SparkSession, queue_path: str, name: str) -> None:
    """A column whose name Spark would read as a path is refused before anything is made."""
    with pytest.raises(SchemaMismatchError, match="dot or a backtick"):
        DeltaQueue.create(spark, queue_path, StructType().add(name, "string"))
    assert not Path(queue_path).exists()
