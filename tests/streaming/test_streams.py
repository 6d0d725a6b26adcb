"""The operators on real streams: files in, Delta out, restarts from the checkpoint."""

from __future__ import annotations

from typing import Any

import pytest
from chispa import assert_df_equality
from pyspark.sql import SparkSession, functions as F

from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, UnsafeSessionError
from spark_queue.retry_policy import RetryPolicy
from spark_queue.streaming import (
    STREAMING_CONF,
    distinct_in_flight,
    fair_rounds,
    one_active_per_group,
    stored_counts,
)
from tests.streaming.feeds import BUCKETS, Feed, Sink

ARRIVALS = "path string, at long"
COMPLETIONS = "path string, at long"


@pytest.fixture
def arrivals(spark: SparkSession, place: str) -> Feed:
    """Make a stream of rows that arrive."""
    return Feed(spark, f"{place}/arrivals", ARRIVALS)


@pytest.fixture
def completions(spark: SparkSession, place: str) -> Feed:
    """Make a stream of rows that are done."""
    return Feed(spark, f"{place}/completions", COMPLETIONS)


@pytest.fixture
def sink(spark: SparkSession, place: str) -> Sink:
    """Make a table to write to."""
    return Sink(spark, place)


def _rows(*rows: tuple[str | None, int]) -> list[dict[str, Any]]:
    return [{"path": path, "at": at} for path, at in rows]


def test_a_distinct_stream_goes_on_after_a_restart(
    spark: SparkSession, arrivals: Feed, completions: Feed, sink: Sink
) -> None:
    """Keys in flight and counts are known to the next start, and Delta takes the rows directly."""

    def passed() -> list[tuple[str, int]]:
        sink.run(
            distinct_in_flight(
                arrivals.stream,
                completions.stream,
                "path",
                order_by="at",
                buckets=BUCKETS,
                checkpoint=sink.checkpoint,
            )
        )
        return sorted((row["path"] or "", row["at"]) for row in sink.rows())

    arrivals.put(_rows(("x", 1), ("x", 2), ("y", 3), (None, 4)))
    assert passed() == [("", 4), ("x", 1), ("y", 3)]
    completions.put(_rows(("x", 5), ("nobody", 5)))
    arrivals.put(_rows(("y", 6), ("x", 7)))
    assert passed() == [("", 4), ("x", 1), ("x", 7), ("y", 3)]
    assert stored_counts(spark, sink.checkpoint) == {
        "passed": 4,
        "refused": 2,
        "completed": 1,
        "unknown": 1,
    }


def test_rounds_go_on_after_a_restart(
    spark: SparkSession, arrivals: Feed, place: str, sink: Sink
) -> None:
    """Rounds go on where a key ended, and a new key starts in the round that is being served."""
    served = Feed(spark, f"{place}/served", "round double")

    def tagged() -> list[tuple[int, float]]:
        sink.run(
            fair_rounds(
                arrivals.stream, "path", order_by="at", served=served.stream, buckets=BUCKETS
            )
        )
        return sorted((row["at"], row["round"]) for row in sink.rows())

    arrivals.put(_rows(("big", 3), ("big", 1), ("big", 2)))
    assert tagged() == [(1, 1.0), (2, 2.0), (3, 3.0)]
    served.put([{"round": 1.0}])
    arrivals.put(_rows(("big", 4), ("late", 5)))
    assert tagged() == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 2.0)]


def test_a_serial_stream_goes_on_after_a_restart(
    spark: SparkSession, arrivals: Feed, place: str, sink: Sink
) -> None:
    """What waits and what runs is known to the next start, and which run of it."""
    done = Feed(spark, f"{place}/done", "path string, at int, run int, outcome string")

    def started() -> list[tuple[int, int]]:
        sink.run(one_active_per_group(arrivals.stream, done.stream, "path", "at", buckets=BUCKETS))
        return sorted((row["at"], row["run"]) for row in sink.rows())

    def complete(*runs: tuple[str, int, int, str]) -> None:
        done.put([dict(zip(("path", "at", "run", "outcome"), run, strict=True)) for run in runs])

    arrivals.put(_rows(("g", 2), ("g", 1), ("h", 3)))
    assert started() == [(1, 1), (3, 1)]
    complete(("g", 1, 1, "ack"), ("h", 3, 1, "nack"))
    assert started() == [(1, 1), (2, 1), (3, 1), (3, 2)]
    complete(("g", 1, 1, "ack"), ("g", 2, 1, "ack"), ("h", 3, 1, "ack"))
    assert started() == [(1, 1), (2, 1), (3, 1), (3, 2)]
    assert stored_counts(spark, sink.checkpoint) == {
        "started": 4,
        "ack": 2,
        "nack": 1,
        "stale": 1,
        "unknown": 1,
    }


def test_operators_chain(
    spark: SparkSession, arrivals: Feed, completions: Feed, place: str, sink: Sink
) -> None:
    """What one operator lets out another takes in, in one query: distinct, then one a group."""
    folders = Feed(spark, f"{place}/folders", "folder string, at long")
    unique = distinct_in_flight(arrivals.stream, completions.stream, "path", buckets=BUCKETS)
    grouped = unique.withColumn("folder", F.substring("path", 1, 1))
    ready = one_active_per_group(grouped, folders.stream, "folder", "at", buckets=BUCKETS)
    arrivals.put(_rows(("a1", 1), ("a1", 2), ("a2", 3), ("b1", 4)))
    sink.run(ready)
    assert sorted(row["at"] for row in sink.rows()) == [1, 4]
    folders.put([{"folder": "a", "at": 1}])
    sink.run(ready)
    assert sorted(row["at"] for row in sink.rows()) == [1, 3, 4]


def test_columns_come_back_as_they_were(spark: SparkSession, place: str, sink: Sink) -> None:
    """A row keeps all its columns, types and values on its way into the state and out of it."""
    schema = """id long, name string, price decimal(20,4), score double, ratio float, flag boolean,
        day date, made timestamp, wall timestamp_ntz, body binary, sizes array<int>,
        labels map<int,bigint>, inner struct<a: int, b: array<string>>, big long"""
    values = """
        (1, 'ü "quoted" \\n', 1234567890123456.7891, 0.1, 0.1, true, date'2024-02-29',
         timestamp'2024-02-29 12:34:56.123456', timestamp_ntz'1969-01-01 00:00:00.000001',
         X'00FF', array(1, null), map(7, 9007199254740993),
         struct(1, array('x', null)), 9007199254740993),
        (2, null, null, double('NaN'), float('-Infinity'), null, null, null, null, null, null, null,
         null, null)"""
    source = spark.sql(f"SELECT * FROM VALUES {values}").toDF(  # noqa: S608 - of this test
        "id", "name", "price", "score", "ratio", "flag", "day", "made", "wall", "body", "sizes",
        "labels", "inner", "big",
    )  # fmt: skip
    target = spark.createDataFrame([], schema)
    source = source.select(*[F.col(f.name).cast(f.dataType) for f in target.schema])
    source.coalesce(1).write.parquet(f"{place}/typed")
    stream = spark.readStream.schema(target.schema).parquet(f"{place}/typed")
    completions = Feed(spark, f"{place}/completions", "id long, grp int")
    for _ in range(2):
        # The second row waits in the state, and comes out when the first is done.
        arrivals = stream.withColumn("grp", F.lit(1))
        sink.run(one_active_per_group(arrivals, completions.stream, "grp", "id", buckets=BUCKETS))
        completions.put([{"id": 1, "grp": 1}])
    found = spark.read.format("delta").load(sink.table)
    assert_df_equality(
        found.drop("run", "grp", "labels"),
        source.drop("labels"),
        ignore_row_order=True,
        ignore_nullable=True,
        allow_nan_equality=True,
    )
    labels = {row["id"]: row["labels"] for row in found.collect()}
    assert labels == {1: {7: 9007199254740993}, 2: None}


def test_bad_input_fails_before_the_query_starts(
    spark: SparkSession, arrivals: Feed, completions: Feed
) -> None:
    """Each kind of bad input is an error of the call, which names what is wrong."""
    a, c = arrivals.stream, completions.stream
    still = spark.createDataFrame([("a", 1)], ARRIVALS)
    with pytest.raises(InvalidArgumentError, match=r"no column 'pth'; did you mean 'path'"):
        distinct_in_flight(a, c, "pth")
    with pytest.raises(InvalidArgumentError, match="arrivals is no stream"):
        distinct_in_flight(still, c, "path")
    with pytest.raises(InvalidArgumentError, match="completions is no stream"):
        distinct_in_flight(a, still, "path")
    with pytest.raises(SchemaMismatchError, match=r"string in one frame and bigint in the other"):
        distinct_in_flight(a, c.select(F.col("at").alias("path")), "path")
    with pytest.raises(SchemaMismatchError, match=r"order_by of arrivals.*is string"):
        fair_rounds(a, "at", order_by="path")
    with pytest.raises(InvalidArgumentError, match=r"the frame has a column 'round'"):
        fair_rounds(a.withColumn("round", F.lit(1)), "path", order_by="at")
    with pytest.raises(InvalidArgumentError, match="round of served"):
        fair_rounds(a, "path", order_by="at", served=c)
    with pytest.raises(InvalidArgumentError, match=r"retry waits .*name the rows' time with at="):
        one_active_per_group(a, c, "path", "at", retry=RetryPolicy())
    with pytest.raises(InvalidArgumentError, match="buckets is 0"):
        distinct_in_flight(a, c, "path", buckets=0)


def test_another_state_store_is_refused(spark: SparkSession, arrivals: Feed) -> None:
    """A setting that does not fit, or is not set, is named before a query fails for it."""
    provider, encoding = STREAMING_CONF
    spark.conf.set(provider, "org.example.Other")
    try:
        with pytest.raises(UnsafeSessionError, match=r"providerClass .*Other.*STREAMING_CONF"):
            fair_rounds(arrivals.stream, "path", order_by="at")
        spark.conf.set(provider, STREAMING_CONF[provider])
        spark.conf.unset(encoding)
        with pytest.raises(UnsafeSessionError, match=r"encodingFormat .*'avro'.*STREAMING_CONF"):
            fair_rounds(arrivals.stream, "path", order_by="at")
    finally:
        for setting, value in STREAMING_CONF.items():
            spark.conf.set(setting, value)
