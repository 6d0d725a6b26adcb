"""The doctor with a session of Spark: its settings, and a queue that only Spark reads."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from spark_queue.clock import ManualClock
from spark_queue.commands import claims
from spark_queue.delta_queue import DeltaQueue
from spark_queue.log.session_options import STALENESS
from spark_queue.queue_views import store_of
from spark_queue.report.finding import Thresholds
from spark_queue.state.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def _set(spark: SparkSession, **conf: str) -> Iterator[None]:
    """Have settings in a session for a while."""
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in conf:
            spark.conf.unset(name)


@pytest.mark.spark
def test_settings_that_lose_work_or_show_it_late_are_found(
    spark: SparkSession, queue_path: str
) -> None:
    """Each is named, with how bad it is; without them the same queue has no finding."""
    queue = DeltaQueue.create(spark, queue_path, "id long")
    queue.enqueue(spark.range(3))
    transaction = "spark.databricks.delta.write.txnAppId"

    with _set(spark, **{transaction: "mine", STALENESS: "1h"}):
        found = [one for one in queue.doctor().findings if one.id == "unsafe-session"]

    severities = {one.what.split()[0]: one.severity for one in found}
    assert severities == {transaction: "error", STALENESS: "warning"}
    checkup = queue.doctor()
    assert (checkup.findings, checkup.unchecked) == ((), {})


@pytest.mark.spark
def test_a_queue_of_a_shared_store_is_examined_by_spark(spark: SparkSession, place: str) -> None:
    """The same is found: a pause, rows of no checkpoint, small files, foreign rows; or nothing."""
    # A disk under a name by which nobody knows that: what is there only the session has.
    name = f"ward{uuid.uuid4().hex}"
    with _set(spark, **{f"fs.viewfs.mounttable.{name}.link./data": f"file:{place}"}):
        queue = DeltaQueue.create(spark, f"viewfs://{name}/data/queue", "id long")
        queue.enqueue(spark.range(3))
        queue.claim(2).ack()
        queue.pause()
        table = f"viewfs://{name}/data/queue/queue"
        spark.sql(f"INSERT INTO delta.`{table}` (id) VALUES (8), (9)")  # noqa: S608 - our own

        checkup = queue.doctor(Thresholds(checkpoint_rows=3, small_files=1))

        found = {one.id: one for one in checkup.findings}
        assert {"paused", "checkpoint-due", "small-files", "foreign-rows"} == found.keys()
        assert found["paused"].since is not None
        assert "2 rows" in found["foreign-rows"].what
        assert checkup.unchecked == {}
        storage = checkup.storage
        assert storage is not None
        assert storage.size > 1_000
        assert storage.free is None
        spark.sql(found["foreign-rows"].command)
        queue.resume()
        healthy = queue.doctor()
        assert (healthy.findings, healthy.unchecked) == ((), {})


@pytest.mark.spark
def test_a_claim_whose_output_only_spark_could_ask_is_found(
    spark: SparkSession, place: str
) -> None:
    """Its first item is named, and why nobody takes it over."""
    name, clock = f"ward{uuid.uuid4().hex}", ManualClock()
    with _set(spark, **{f"fs.viewfs.mounttable.{name}.link./data": f"file:{place}"}):
        queue = DeltaQueue.create(spark, f"viewfs://{name}/data/queue", "id long", clock=clock)
        queue.enqueue(spark.range(3))
        results, at = f"viewfs://{name}/data/out", Snapshot(store_of(queue))
        row = spark.range(0).selectExpr("id AS n", "id AS _seq", "string(id) AS _claim_id")
        row.write.format("delta").save(results)
        asked = claims.request(at, 2, timedelta(minutes=1), "crew", 1, None)
        held = claims.claim(at, replace(asked, output=results))
        clock.advance(timedelta(hours=2))
        Path(place, "out/_delta_log", f"{0:020}.json").write_text("{")

        found = {one.id: one for one in queue.doctor().findings}

        waits = f"item 1 of claim {held.claim_id} waits, whose lease ended 1.98 h ago"
        assert found["output-unasked"].what.startswith(waits)
