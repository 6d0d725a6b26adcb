"""Redo files of tables that a session of Spark reads and rewrites."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, LocalQueue
from spark_queue.clock import ManualClock
from spark_queue.log.disk import redo_file
from spark_queue.log.disk.redo_file import REDO_FILE
from spark_queue.queue_views import store_of
from spark_queue.stores.keys import DeltaIdempotencyKeyStore


def _by_spark(spark: SparkSession) -> SparkSession:
    """Return a session in which Spark does all, and a step need not be on the disk."""
    session = spark.newSession()
    session.conf.set("spark.sparkQueue.smallSteps", "spark")
    session.conf.set("spark.sparkQueue.durability", "process")
    return session


def _cut_power(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the content of the newest commit, as a power cut may."""
    max((table / "_delta_log").glob("*.json")).write_text("")
    monkeypatch.setattr(redo_file, "boot", lambda: "after the cut")


def test_keys_are_restored_before_spark_reads_them(
    spark: SparkSession, place: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that was told to be locked is not given to another after a power cut."""
    path = f"{place}/keys"
    assert DeltaIdempotencyKeyStore(spark, path, clock=clock).try_lock("k")
    _cut_power(Path(path), monkeypatch)
    assert DeltaIdempotencyKeyStore(_by_spark(spark), path, clock=clock).try_lock("k") is None


def test_a_queue_of_a_catalog_is_restored_before_spark_reads_it(
    spark: SparkSession, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place is known from the catalog alone."""
    name = f"redo_{uuid.uuid4().hex}"
    queue = DeltaQueue.create(spark, name, "id string", clock=clock)
    for item in "ab":
        queue.enqueue(pa.table({"id": [item]}))
    directory = store_of(queue).queue.find_directory()
    assert directory is not None
    _cut_power(directory, monkeypatch)
    again = DeltaQueue.open(_by_spark(spark), name, clock=clock)
    assert again.counts()["ready"] == 2
    DeltaQueue.drop(spark, name)


def test_rows_that_spark_takes_out_have_no_copy(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """Also where that session forces nothing of its own."""
    path = f"{place}/queue"
    queue = LocalQueue.create(path, "id string", clock=clock)
    queue.enqueue({"id": "private"})
    queue.claim(1).ack()
    redo = Path(path, "queue", REDO_FILE)
    assert b"private" in redo.read_bytes()
    DeltaQueue.open(_by_spark(spark), path, clock=clock).purge({"id": "private"})
    assert b"private" not in redo.read_bytes()
