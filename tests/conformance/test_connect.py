"""Calls that mean something else over Spark Connect."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError
from tests.conftest import REMOTE


@pytest.mark.skipif(not REMOTE, reason="the session is not of Spark Connect")
def test_a_function_of_the_client_is_refused_where_a_server_would_call_a_copy(
    spark: SparkSession, queue_path: str, place: str
) -> None:
    """``on_claim`` of a stream would never reach the client: the call says so."""
    queue = DeltaQueue.create(spark, queue_path, "n int")
    with pytest.raises(InvalidArgumentError, match=r"on_claim is .*Spark Connect.*stats\(\)"):
        queue.process_stream(lambda _: None, f"{place}/ckpt", on_claim=print)
    assert not spark.streams.active
