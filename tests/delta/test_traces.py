"""The trace of an item through Spark: by both planners, to the executors."""

from __future__ import annotations

from typing import Any, NoReturn

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_queue import Reject
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from tests.conftest import REMOTE

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def _told(item: dict[str, Any]) -> NoReturn:
    """Say in which trace the handler runs, and what its job is for; it is where the item is."""
    from opentelemetry import trace  # noqa: PLC0415 - on an executor
    from pyspark import TaskContext  # noqa: PLC0415 - on an executor

    task = TaskContext.get()
    if item["id"] == "d" and task is not None:
        raise Reject(str(task.getLocalProperty("spark.job.description")))
    found = trace.get_current_span().get_span_context().trace_id
    raise Reject(f"{found:x} {sorted(item)}")


@pytest.fixture
def queue(spark: SparkSession, queue_path: str) -> DeltaQueue:
    """Make a queue with rows of two traces, a frame's and their own, and with one of none."""
    config = QueueConfig(dedup_key="id", group_key="id")
    made = DeltaQueue.create(spark, queue_path, "id string", config)
    made.enqueue(spark.createDataFrame([("a",), ("b",)], "id string"), trace=PARENT)
    made.enqueue(pa.table({"id": ["b", "c", "d"]}), trace=[PARENT, OTHER, None])
    return made


def test_a_trace_is_carried_to_the_executors(spark: SparkSession, queue: DeltaQueue) -> None:
    """Handlers go on with what was there; the job says what it is for, and then no more."""
    claim = queue.claim(10)
    seqs = {row.id: row._seq for row in claim.items.collect()}
    assert claim.items.columns == ["id", "_seq", "_lease", "_attempts"]
    assert claim.traces == {seqs["a"]: PARENT, seqs["b"]: PARENT, seqs["c"]: OTHER}
    claim.release()
    if not REMOTE:
        spark.sparkContext.setJobDescription("the caller's")

    assert queue.process(_told).dead == 4

    if not REMOTE:
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "the caller's"
    errors = {row.id: row._error.removeprefix("Reject: ") for row in queue.dead().collect()}
    about = errors.pop("d")
    assert about == "None" if REMOTE else about.startswith(f"queue {queue.name}: handle items, cl")
    own = "['_attempts', '_lease', '_seq', 'id']"
    assert errors == {
        "a": f"4bf92f3577b34da6a3ce929d0e0e4736 {own}",
        "b": f"4bf92f3577b34da6a3ce929d0e0e4736 {own}",
        "c": f"af7651916cd43dd8448eb211c80319c {own}",
    }


@pytest.mark.usefixtures("by_spark")
def test_spark_carries_traces_as_the_process_does(spark: SparkSession, queue_path: str) -> None:
    """A frame in one trace and rows in their own, decided and read by Spark."""
    queue = DeltaQueue.create(spark, queue_path, "id string", QueueConfig(dedup_key="id"))
    queue.enqueue(spark.createDataFrame([("a",)], "id string"), trace=PARENT)
    # To pandas a column of whole numbers in which one is missing is one of floats.
    rows = pd.DataFrame({"id": ["a", "c", "d"], "max_attempts": [None, 9, None]})
    queue.enqueue(rows, trace=[PARENT, OTHER, None])

    claim = queue.claim(10)
    named = {row.id: claim.traces.get(row._seq) for row in claim.items.collect()}
    assert named == {"a": PARENT, "c": OTHER, "d": None}
