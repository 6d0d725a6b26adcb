"""Bad input that only Spark can tell: it is named, and no row is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import (
    InvalidArgumentError,
    InvalidConfigError,
    ReaderNotFoundError,
    SchemaMismatchError,
    SparkQueueError,
)
from spark_queue.queue_views import main_store_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCHEMA = "id int, name string"
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - what is refused
NOON = datetime(2026, 1, 1, 12, tzinfo=timezone.utc)


@pytest.fixture
def queue(spark: SparkSession, queue_path: str) -> DeltaQueue:
    """Return a queue of one item."""
    made = DeltaQueue.create(spark, queue_path, SCHEMA, QueueConfig(dedup_key="id"))
    made.enqueue(spark.createDataFrame([(1, "a")], SCHEMA))
    return made


def _enqueues(spark: SparkSession) -> list[tuple[Any, str]]:
    """Return frames that do not fit, and what is named."""
    row = spark.createDataFrame([(2, "b")], SCHEMA)
    return [
        (row.drop("name"), "name"),
        (row.withColumnRenamed("id", "no"), "id"),
        (row.selectExpr("*", "id AS ID"), "ID"),
        (row.selectExpr("id", "name", "name"), "name"),
        (row.selectExpr("CAST(id AS bigint) AS id", "name"), "id"),
        (row.selectExpr("*", "'x' AS cost"), "cost"),
        (row.selectExpr("*", "0.0D AS cost"), "cost"),
        (row.selectExpr("*", "CAST('NaN' AS double) AS cost"), "cost"),
        (row.selectExpr("*", "current_date() AS available_at"), "available_at"),
        (row.selectExpr("*", "CAST(now() AS timestamp_ntz) AS expires_at"), "expires_at"),
        (pd.DataFrame({"id": [2.0]}), "name"),
        (pd.DataFrame({"id": ["two"], "name": ["b"]}), "id"),
        (pd.DataFrame({"id": [2.5], "name": ["b"]}), "id"),
        (pd.DataFrame({"id": [2], "name": ["b"]}), "id"),
        (pd.DataFrame({"id": [2.0**31], "name": ["b"]}), "id"),
        (pd.DataFrame({"id": [2], "name": ["b"], "more": [1]}), "more"),
        (pd.DataFrame({"id": [2.0], "name": ["b"], "available_at": [NAIVE]}), "available_at"),
        (pa.table({"id": pa.array([2], pa.int8()), "name": ["b"], "cost": ["much"]}), "cost"),
    ]


def _calls(queue: DeltaQueue, spark: SparkSession) -> list[tuple[Callable[[], object], str]]:
    """Return calls that are refused, and what their errors say."""
    row = spark.createDataFrame([(2, "b")], SCHEMA)
    claim = queue.claim(1)
    outcomes = "CAST(_seq AS bigint) AS _seq", "outcome"
    twice = spark.range(1, 2).selectExpr("id AS _seq", "explode(array('ack', 'dead')) AS outcome")
    told = spark.createDataFrame([(None, "ack")], "_seq int, outcome string")
    return [
        (lambda: queue.enqueue(row, order_by="at"), "order_by names 'at'"),
        (lambda: queue.enqueue(spark.readStream.format("rate").load()), "rows is a stream"),
        (lambda: queue.enqueue_stream(row, "/c"), "the frame is no stream"),
        (lambda: queue.cancel("id ="), "where is 'id =': .*PARSE_SYNTAX_ERROR"),
        (lambda: queue.cancel("no = 1"), "where is 'no = 1': .*UNRESOLVED_COLUMN"),
        (lambda: queue.cancel("id"), "where is 'id': .*"),
        (lambda: queue.redrive("id = 1; DROP TABLE x"), "';' is not allowed"),
        (lambda: queue.purge("id IN (SELECT 1)"), "'SELECT' is not allowed"),
        (lambda: queue.status(as_of=99), "as_of is 99"),
        (lambda: queue.status(as_of=datetime(1999, 1, 1, tzinfo=timezone.utc)), "as_of is 1999"),
        (lambda: queue.open_reader("nobody"), "no reader 'nobody'"),
        (lambda: queue.reader("r", start=99), "start is 99"),
        (lambda: claim.settle(told.selectExpr(*outcomes)), "has no _seq"),
        (lambda: claim.settle(told.selectExpr("'1' AS _seq", "outcome")), "'_seq': is string"),
        (lambda: claim.settle(told.selectExpr("1 AS _seq", "'done' AS outcome")), "'done'"),
        (lambda: claim.settle(told.select("_seq")), "'outcome': is missing"),
        (lambda: claim.settle(twice), "seq 1 has 2 outcomes; give one"),
    ]


def test_what_does_not_fit_is_named_and_nothing_is_written(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """The error is the library's, names the column or the argument, and both logs stay as is."""
    calls = _calls(queue, spark)
    heads = (main_store_of(queue).queue_head().step, main_store_of(queue).status_head().step)
    for frame, column in _enqueues(spark):
        with pytest.raises(SchemaMismatchError) as refused:
            queue.enqueue(frame)
        assert refused.value.column == column
    for call, said in calls:
        with pytest.raises((InvalidArgumentError, ReaderNotFoundError, SchemaMismatchError)) as no:
            call()
        assert no.match(said)
    for schema in ("id", "id bigit", "int", "id int,"):
        with pytest.raises(InvalidArgumentError, match="schema is"):
            DeltaQueue.create(spark, f"{place}/other", schema)
    for key in ("no", "id =", "(SELECT 1)", "id; id"):
        with pytest.raises(InvalidConfigError, match="dedup_key is"):
            DeltaQueue.create(spark, f"{place}/other", SCHEMA, QueueConfig(dedup_key=key))
    with pytest.raises(SparkQueueError):
        DeltaQueue.open(spark, f"{place}/other")

    queue.close()
    again = main_store_of(DeltaQueue.open(spark, queue.name))
    assert (again.queue_head().step, again.status_head().step) == heads


def test_frames_are_cast_to_wider_types(spark: SparkSession, queue: DeltaQueue) -> None:
    """Frames of each kind have the types of the queue, the keys of these, and their own order."""
    more = pd.DataFrame({"name": ["c", None], "id": [3.0, 1.0], "available_at": [NOON, NOON]})
    done = queue.enqueue(more)
    assert (done.inserted, done.duplicates) == (1, 1)
    ids = pa.array([4, 5], pa.int8())
    assert queue.enqueue(pa.table({"id": ids, "name": ["d", "e"]})).inserted == 2
    short = spark.createDataFrame([(5, "e"), (6, "f")], "id smallint, name string")
    done = queue.enqueue(short, order_by="id")
    assert (done.inserted, done.duplicates) == (1, 1)
    rows = queue.status().orderBy("_seq").select("id", "name").collect()
    assert [tuple(row) for row in rows] == [(1, "a"), (3, "c"), (4, "d"), (5, "e"), (6, "f")]


@pytest.mark.parametrize("rows", [3, 20_000])
@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        ("timestamp", "{}"),
        ("struct<at: timestamp>", "named_struct('at', {})"),
        ("array<timestamp>", "array(null, {})"),
        ("map<string, timestamp>", "map('a', {})"),
    ],
)
def test_a_time_that_python_cannot_name_is_refused(
    spark: SparkSession, queue_path: str, kind: str, shape: str, rows: int
) -> None:
    """A frame with a time beyond the year 9999 is refused by its column, however large it is."""
    queue = DeltaQueue.create(spark, queue_path, f"at {kind}")
    late = shape.format(f"timestamp_micros(if(id = {rows - 1}, 253402300800000000, 0))")
    frame = spark.range(rows).selectExpr(f"{late} AS at")
    with pytest.raises(SchemaMismatchError, match=r"'at'.* years 1 to 9999"):
        queue.enqueue(frame)
    assert queue.stats().step == 1


def test_text_that_is_no_utf_8_is_refused(queue: DeltaQueue) -> None:
    """A table of Arrow with such a column is refused by its name, and nothing is written."""
    stray = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"]).buffers())
    with pytest.raises(SchemaMismatchError, match=r"column 'name': does not fit string: .*UTF"):
        queue.enqueue(pa.table({"id": pa.array([2], pa.int32()), "name": stray}))
    assert queue.status().count() == 1


@pytest.mark.parametrize("schema", ["no_such", "no_such.schema"])
def test_a_name_in_a_schema_that_is_not_there_is_refused(spark: SparkSession, schema: str) -> None:
    """The error names the schema, and how one is made."""
    with pytest.raises(InvalidArgumentError, match=f"no schema '{schema}': make it by CREATE"):
        DeltaQueue.create(spark, f"{schema}.files", SCHEMA)
