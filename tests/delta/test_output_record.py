"""Outcomes of a claim in the commit of an output, as Spark writes and finds them."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_queue import DeltaQueue, QueueConfig, Reject
from spark_queue.commands import evidence
from spark_queue.commands.evidence import Output
from spark_queue.log.delta.claim_record import ClaimRecord
from spark_queue.log.disk import jvms
from spark_queue.processing import loop, worker
from spark_queue.processing.staged_outcomes import StagedOutcomes
from spark_queue.saying import Said


def _handle(item: dict[str, Any]) -> dict[str, Any] | None:
    if item["id"] == 2:
        raise Reject("never")
    if item["id"] == 4:
        raise ValueError("not yet")
    return None if item["id"] == 1 else {"id": item["id"]}


@pytest.mark.parametrize("kind", ["path", "name", "store"])
def test_a_worker_that_fails_behind_its_output_has_done_its_items(
    spark: SparkSession, queue_path: str, place: str, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each item gets what the run decided; where no directory shows it, a history tells."""
    queue = DeltaQueue.create(
        spark, queue_path, "id long, grp string", QueueConfig(group_key="grp")
    )
    queue.enqueue(spark.range(1, 6).selectExpr("id", "'g' AS grp"), order_by="id")
    out = f"o{uuid.uuid4().hex}" if kind == "name" else f"{place}/out"
    if kind == "store":
        monkeypatch.setattr(Output, "_place", lambda _: None)
        monkeypatch.setattr(evidence, "_RECENT", 1)

    def fail(*_: object, **__: object) -> None:
        # Its commit is no longer among the newest.
        Output(spark, out).shut_out("another")
        raise RuntimeError("gone")

    with monkeypatch.context() as failing:
        failing.setattr(loop._Ahead, "settle", fail)
        with pytest.raises(RuntimeError, match="gone"):
            queue.process(_handle, returns="id long", output=out)

    rows = queue.status().orderBy("id").collect()
    assert [(row["_state"], row["_attempts"], row["_losses"]) for row in rows] == [
        ("acked", 0, 0), ("dead", 0, 0), ("acked", 0, 0), ("ready", 1, 0), ("ready", 0, 0),
    ]  # fmt: skip
    assert rows[3]["_error"] == "ValueError: not yet"


def _transactions(directory: str) -> int:
    texts = [one.read_text() for one in Path(directory, "_delta_log").glob("*.json")]
    return sum('"txn"' in text for text in texts)


def test_results_name_a_transaction_where_a_killed_writer_is_not_waited_for(
    spark: SparkSession, queue_path: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM that outlives its driver, as over Connect, may append after the claim was shut out."""
    queue = DeltaQueue.create(spark, queue_path, "id long")
    for number, (out, expected) in enumerate((("waited", 0), ("nobody", 1))):
        queue.enqueue(spark.range(number, number + 1))
        queue.process(lambda item: {"id": item["id"]}, returns="id long", output=f"{place}/{out}")
        assert _transactions(f"{place}/{out}") == expected
        monkeypatch.setattr(jvms, "trace_of", lambda _: jvms.NOBODY)


def test_a_record_names_what_is_done_where_some_items_have_no_outcome(spark: SparkSession) -> None:
    """A task that Spark ran again has none for its items; otherwise only the others are named."""
    columns = "_seq long, outcome string, error string, after double, pause string, "
    columns += "together long, seconds double, result struct<id: long>"
    rows: list[Any] = [
        (1, "ack", None, None, None, None, 0.1, (1,)),
        (2, "ack", None, None, None, None, 0.1, None),
        (3, "nack", "E", None, None, None, 0.1, None),
    ]
    stage = spark.createDataFrame(rows, columns)
    written: list[ClaimRecord] = []

    class Kept:
        """An output that keeps the records."""

        def write(self, results: DataFrame, record: ClaimRecord) -> bool:
            """Keep a record."""
            assert [row["_seq"] for row in results.collect()] == [1]
            written.append(record)
            return True

    output: Any = Kept()
    for count in (3, 4):
        claim: Any = SimpleNamespace(id="abc", count=count)
        assert worker._is_written(output, StagedOutcomes.of(stage), claim)

    failed = {3: Said("nack", "E")}
    assert written == [
        ClaimRecord(claim_id="abc", outcomes=failed, is_whole=True),
        ClaimRecord(claim_id="abc", outcomes={2: Said("ack"), **failed}, is_whole=False),
    ]
