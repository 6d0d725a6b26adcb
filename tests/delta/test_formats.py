"""Queues that an older release has made: they open and go on, or say what to do.

What needs no Spark of it is in ``tests/unit/local/test_formats.py``.
"""

from __future__ import annotations

import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import FormatVersionError, SchemaMismatchError
from spark_queue.log.schema import FORMAT_VERSION, TRACE
from spark_queue.results import Upgraded

DATA = Path(__file__).parent.parent / "data"
HOUR = timedelta(hours=1)


@pytest.fixture
def golden(place: str) -> Path:
    """Unpack the queues of format 1 (``tests/data/make_golden.py`` says what they hold)."""
    with zipfile.ZipFile(DATA / "queues-of-format-1.zip") as packed:
        packed.extractall(place)
    return Path(place)


def test_a_queue_of_texts_goes_on(spark: SparkSession, golden: Path, clock: ManualClock) -> None:
    """Format 1 with plain texts as keys: items, states, claims and keys are as they were."""
    queue = DeltaQueue.open(spark, str(golden / "strings"), clock=clock)
    was = queue.stats()
    assert (was.ready, was.claimed, was.acked, was.dead, was.cancelled) == (1, 1, 1, 1, 1)

    more = spark.createDataFrame(
        [("a3", "ann", "y"), ("a1", "ann", "x"), ("b1", "bob", "z")], queue.schema
    ).coalesce(1)
    done = queue.enqueue(more)
    assert (done.inserted, done.duplicates) == (1, 2)
    queue.configure(lease=2 * HOUR)
    clock.advance(HOUR)
    claim = queue.claim(10)
    assert sorted(row.path for row in claim.items.collect()) == ["a1", "a3", "b1"]
    claim.ack()
    assert queue.redrive("path = 'a2'") == 1
    assert queue.stats().acked == 4


def test_readers_go_on(spark: SparkSession, golden: Path, clock: ManualClock) -> None:
    """Format 1 with two readers: each goes on at its own position."""
    queue = DeltaQueue.open(spark, str(golden / "readers"), clock=clock)

    assert queue.readers() == ("first", "second")
    assert queue.open_reader("first").claim(10).count == 1
    clock.advance(HOUR)
    assert queue.open_reader("second").claim(10).count == 3


def test_what_has_the_same_text_goes_on(spark: SparkSession, golden: Path) -> None:
    """Format 1 with numbers and dates as keys: an equal row is still a duplicate."""
    queue = DeltaQueue.open(spark, str(golden / "numbers"))
    line = ["7L AS id", "date'2026-11-01' AS day", "cast('1.5' AS decimal(10,2)) AS price"]

    assert queue.enqueue(spark.range(1).selectExpr(*line)).duplicates == 1


@pytest.mark.usefixtures("by_spark")
def test_an_older_queue_works_by_plans_of_spark(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """Format 3, not upgraded: its items fail and come back, and a later input is refused."""
    with zipfile.ZipFile(DATA / "queues-of-format-3.zip") as packed:
        packed.extractall(place)
    queue = DeltaQueue.open(spark, f"{place}/readers", clock=clock)
    more = spark.createDataFrame([("d",)], queue.schema)

    assert queue.enqueue(more).inserted == 1
    clock.advance(HOUR)
    reader = queue.open_reader("second")
    reader.claim(10).nack("no")
    assert reader.stats().ready == 4
    limited = spark.createDataFrame([("e", 1)], "path string, max_attempts int")
    with pytest.raises(SchemaMismatchError, match=r"max_attempts.*upgrade it"):
        queue.enqueue(limited)
    assert queue.upgrade().was == 3
    assert queue.enqueue(limited).inserted == 1
    reader.claim(10).nack("no")
    assert [row.path for row in reader.dead().collect()] == ["e"]
    shown = reader.status().where("path in ('d', 'e')").orderBy("path").select("_max_attempts")
    assert [row[0] for row in shown.collect()] == [None, 1]


@pytest.mark.parametrize("version", [2, 3])
def test_the_format_before_is_upgraded_and_goes_on(
    spark: SparkSession, place: str, clock: ManualClock, version: int
) -> None:
    """Each of its queues: upgraded once, with what was claimed, it works by Spark."""
    with zipfile.ZipFile(DATA / f"queues-of-format-{version}.zip") as packed:
        packed.extractall(place)
    queue = DeltaQueue.open(spark, f"{place}/strings", clock=clock)

    assert queue.upgrade(dry_run=True) == Upgraded(step=0, was=version, now=FORMAT_VERSION)
    done = queue.upgrade()
    assert (done.was, done.now) == (version, FORMAT_VERSION)
    assert queue.upgrade().step == 0
    again = DeltaQueue.open(spark, f"{place}/strings", clock=clock)
    assert TRACE in spark.read.format("delta").load(f"{place}/strings/queue").columns
    assert again.schema.names == ["path", "tenant", "folder"]
    more = spark.createDataFrame([("a3", "ann", "y"), ("a1", "ann", "x")], again.schema)
    assert again.enqueue(more).duplicates == 1
    clock.advance(HOUR)
    with again.claim(10) as claim:
        assert sorted(row.path for row in claim.items.collect()) == ["a1", "a3", "b1"]
    for name in ("times", "structs"):
        queue = DeltaQueue.open(spark, f"{place}/{name}", clock=clock)
        assert queue.enqueue(queue.status().select(*queue.schema.names)).duplicates == 1


@pytest.mark.parametrize(("name", "key"), [("times", "dedup_key 'at'"), ("structs", "struct")])
def test_a_text_that_was_not_safe_takes_no_more(
    spark: SparkSession, golden: Path, name: str, key: str
) -> None:
    """Format 1 with a time or a struct as key: it is worked off, and the error says what to do."""
    queue = DeltaQueue.open(spark, str(golden / name))

    with pytest.raises(FormatVersionError, match=f"format version 1.*{key}.*into a new one"):
        queue.enqueue(spark.createDataFrame([], queue.schema))
    with queue.claim(1) as claim:
        assert claim.count == 1
    assert queue.stats().acked == 1
