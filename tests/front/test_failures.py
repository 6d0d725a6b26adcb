"""What fails while a front is opened, or changed, leaves the queue as it was, and free."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError, UnsafeSessionError
from spark_queue.front.journaled import journaled_queue

PATIENCE = 60.0

STALENESS = "spark.databricks.delta.stalenessLimit"


@pytest.fixture
def stale(spark: SparkSession) -> Iterator[None]:
    """Let the session read tables as they were a minute ago."""
    spark.conf.set(STALENESS, "1m")
    yield
    spark.conf.unset(STALENESS)


def _is_free(spark: SparkSession, path: str) -> bool:
    """Tell whether anybody may write: a front that holds a queue lets nobody."""
    queue = DeltaQueue.open(spark, path)
    rows = spark.createDataFrame([(b"x",)], "data binary")
    return queue.enqueue(rows, order_by="data").inserted == 1


@pytest.mark.usefixtures("stale")
def test_a_session_that_reads_old_tables_is_refused(spark: SparkSession, queue_path: str) -> None:
    """A front that commits natively must see its own steps: the session's setting is named."""
    with pytest.raises(UnsafeSessionError, match="stalenessLimit"):
        journaled_queue(spark, queue_path, native=True)

    spark.conf.unset(STALENESS)
    assert _is_free(spark, queue_path)


def test_a_path_that_deltalake_would_misread_is_refused(
    spark: SparkSession, queue_path: str
) -> None:
    """A percent sign is an escape to the other library: the path is named, and Spark may commit."""
    path = f"{queue_path}%20/queue"
    with pytest.raises(InvalidArgumentError, match=r"takes the % in .* for an escape"):
        journaled_queue(spark, path, native=True)

    assert _is_free(spark, path)
