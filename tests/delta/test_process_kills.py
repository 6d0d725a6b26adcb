"""Kills at each named point of ``process`` with Spark; the JVM outlives the worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, LocalQueue
from tests import kills
from tests.conftest import REMOTE


@pytest.fixture(scope="module")
def workers(spark: SparkSession) -> Iterator[kills.Workers]:
    """Start the program that has workers kill themselves, in the JVM of the session."""
    if REMOTE:
        found = kills.Workers(SPARK_REMOTE="sc://localhost")
    else:
        gateway: Any = spark.sparkContext._gateway
        port, secret = (
            getattr(gateway.gateway_parameters, name) for name in ("port", "auth_token")
        )
        found = kills.Workers(PYSPARK_GATEWAY_PORT=str(port), PYSPARK_GATEWAY_SECRET=secret)
    yield found
    found.end()


def _rescue(queue: DeltaQueue | LocalQueue, place: str, *, in_order: bool = True) -> None:
    kills.work(queue, place, "second")
    rows = LocalQueue.open(f"{place}/queue").status().to_pylist()
    states = {row["id"]: (row["_state"], row["_attempts"]) for row in rows}
    kills.require_law(place, states, in_order=in_order)


@pytest.mark.slow
@pytest.mark.parametrize("point", kills.POINTS)
def test_a_worker_with_spark_is_killed_at_each_point(
    spark: SparkSession, workers: kills.Workers, place: str, point: str
) -> None:
    """Whoever goes on keeps the order of each group, and what was decided does not run again."""
    kills.make(place, "block")

    workers.kill_at(point, place, "Spark")

    _rescue(DeltaQueue.open(spark, f"{place}/queue"), place)


@pytest.mark.parametrize("point", kills.RESCUES)
def test_a_rescuer_with_spark_is_killed_at_each_point(
    spark: SparkSession, workers: kills.Workers, place: str, point: str
) -> None:
    """A rescuer that dies leaves to the next one what it found."""
    kills.make(place, "block")
    workers.kill_at("the output is committed", place, "Spark")

    workers.kill_at(point, place, "Spark")

    _rescue(DeltaQueue.open(spark, f"{place}/queue"), place)


@pytest.mark.parametrize("on_failure", ["block", "skip"])
@pytest.mark.parametrize("runner", ["Spark", "without Spark"])
def test_each_runner_goes_on_where_the_other_was_killed(
    spark: SparkSession, workers: kills.Workers, place: str, runner: str, on_failure: str
) -> None:
    """The outcomes in the commit of the output are read by both."""
    kills.make(place, on_failure, group_limit=2 if on_failure == "skip" else 1)

    workers.kill_at("the output is committed", place, runner)

    queue: DeltaQueue | LocalQueue
    if runner == "Spark":
        queue = LocalQueue.open(f"{place}/queue", durability="process")
    else:
        queue = DeltaQueue.open(spark, f"{place}/queue")
    _rescue(queue, place, in_order=on_failure == "block")
