"""The trace of an item through Spark: by both planners, to the executors."""

from __future__ import annotations

from typing import Any, NoReturn

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_queue import Reject
from spark_queue.config import QueueConfig
from spark_queue.queue import DeltaQueue
from spark_queue.session import SMALL_STEPS

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def _told(item: dict[str, Any]) -> NoReturn:
    """Say in which trace the handler runs; it is where the item is."""
    from opentelemetry import trace  # noqa: PLC0415 - on an executor

    found = trace.get_current_span().get_span_context().trace_id
    raise Reject(f"{found:x} {sorted(item)}")


@pytest.mark.parametrize("small_steps", ["memory", "spark"])
def test_a_trace_is_carried_to_the_executors(
    spark: SparkSession, queue_path: str, small_steps: str
) -> None:
    """A frame in one trace, rows in their own, and none: handlers go on with what was there."""
    before = spark.conf.get(SMALL_STEPS, "memory")
    spark.conf.set(SMALL_STEPS, small_steps)
    try:
        config = QueueConfig(dedup_key="id", group_key="id")
        queue = DeltaQueue.create(spark, queue_path, "id string", config)
        queue.enqueue(spark.createDataFrame([("a",), ("b",)], "id string"), trace=PARENT)
        queue.enqueue(pa.table({"id": ["b", "c", "d"]}), trace=[PARENT, OTHER, None])
        claim = queue.claim(10)
        seqs = {row.id: row._seq for row in claim.items.collect()}
        assert claim.items.columns == ["id", "_seq", "_lease", "_attempts"]
        assert claim.traces == {seqs["a"]: PARENT, seqs["b"]: PARENT, seqs["c"]: OTHER}
        claim.release()

        assert queue.process(_told).dead == 4
        errors = {row.id: row._error for row in queue.dead().collect()}
    finally:
        spark.conf.set(SMALL_STEPS, before or "memory")

    own = "['_attempts', '_lease', '_seq', 'id']"
    traces = {name: error.removeprefix("Reject: ") for name, error in errors.items()}
    assert traces == {
        "a": f"4bf92f3577b34da6a3ce929d0e0e4736 {own}",
        "b": f"4bf92f3577b34da6a3ce929d0e0e4736 {own}",
        "c": f"af7651916cd43dd8448eb211c80319c {own}",
        "d": f"0 {own}",
    }
