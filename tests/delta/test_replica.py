"""Small steps that are decided in this process: they have the rows that Spark would write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as F

from spark_queue import DeltaQueue, LocalQueue, QueueConfig
from spark_queue.claim import Claim
from spark_queue.clock import ManualClock
from spark_queue.queue_views import store_of
from spark_queue.retry_policy import RetryPolicy
from spark_queue.session import SMALL_STEPS
from spark_queue.state import replica_choice
from spark_queue.state.snapshot import Snapshot
from tests.conftest import REMOTE

MINUTE = timedelta(minutes=1)

_COLUMNS = "id string, tenant string, grp string, urgency int"

_CONFIG = QueueConfig(
    dedup_key="id",
    dedup_scope=timedelta(minutes=30),
    fair_key="tenant",
    group_key="grp",
    priority="urgency",
    lease=MINUTE,
    max_attempts=2,
    max_losses=2,
    retry=RetryPolicy(delay=timedelta(seconds=10)),
)

#: What differs from run to run: names that are drawn, and the heads of steps, which carry one.
_DRAWN = ("_claim_id", "_body")


@contextmanager
def _planner(spark: SparkSession, name: str) -> Iterator[None]:
    spark.conf.set(SMALL_STEPS, name)
    try:
        yield
    finally:
        spark.conf.unset(SMALL_STEPS)


def _enqueue(queue: DeltaQueue, *rows: tuple[Any, ...], ttl: float | None = None) -> None:
    now = store_of(queue).clock.now()
    expires_at = None if ttl is None else now + timedelta(seconds=ttl)
    frame = store_of(queue).spark.createDataFrame(rows, _COLUMNS)
    frame = frame.withColumn("expires_at", F.lit(expires_at).cast("timestamp"))
    queue.enqueue(frame, order_by="id")


def _history(queue: DeltaQueue, clock: ManualClock) -> list[Callable[[], object]]:
    """Return a bit of everything, step by step."""
    claims: list[Claim] = []

    def claim(limit: int, run: int = 1) -> None:
        claims.append(queue.claim(limit, run=run))

    def settle() -> None:
        outcomes = claims[-1].items.select("_seq", F.expr("if(id = 'b', 'ack', 'nack') as outcome"))
        claims[-1].settle(outcomes.withColumn("error", F.lit("no")))

    return [
        lambda: _enqueue(queue, ("a", "T", "g", 0), ("b", "T", "h", 1), ("c", "U", "g", 1)),
        lambda: _enqueue(queue, ("a", "T", "g", 0), ("e", "U", "g", 0), ("d", "V", None, 0)),
        lambda: _enqueue(queue, ("f", None, None, 0), ttl=90),
        lambda: claim(3),
        settle,
        lambda: claim(2),
        lambda: claims[-1].renew(2 * MINUTE),
        lambda: clock.advance(MINUTE),
        lambda: claim(1),
        lambda: claims.pop().release(),
        lambda: clock.advance(MINUTE),
        lambda: claim(4, run=2),
        lambda: queue.cancel("id = 'd'"),
        lambda: _enqueue(queue, ("d", "V", None, 0), ("b", "T", "h", 0), ("x", "T", "g", 2)),
        lambda: clock.advance(2 * MINUTE),
        lambda: claim(9),
        lambda: claims[-1].dead("worn out"),
    ]


def _rows(queue: DeltaQueue, log: str) -> list[dict[str, Any]]:
    frame = store_of(queue).queue.read() if log == "queue" else store_of(queue).status.read()
    kept = [name for name in frame.columns if name not in _DRAWN]
    rows = frame.where("_kind <> 'head'").select(*kept).collect()
    return sorted((row.asDict() for row in rows), key=lambda row: (row["_step"], repr(row)))


def _played(spark: SparkSession, path: str, planner: str) -> dict[str, list[dict[str, Any]]]:
    clock = ManualClock()
    with _planner(spark, planner):
        queue = DeltaQueue.create(spark, path, _COLUMNS, _CONFIG, clock=clock)
        for step in _history(queue, clock):
            step()
    return {log: _rows(queue, log) for log in ("queue", "status")}


def test_steps_have_the_rows_that_spark_would_write(spark: SparkSession, place: str) -> None:
    """Law 1-9: whoever decides a step, its rows are the same, to the last column."""
    ours = _played(spark, f"{place}/memory", "memory")
    assert ours == _played(spark, f"{place}/spark", "spark")


def test_each_item_comes_with_what_is_known_of_it(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """Items are read in the order of their file, and none gets the attempts of another."""
    seen = {}
    for planner in ("memory", "spark"):
        with _planner(spark, planner):
            queue = DeltaQueue.create(spark, f"{place}/{planner}", _COLUMNS, _CONFIG, clock=clock)
            _enqueue(queue, ("a", "T", "g", 1), ("b", "T", "h", 0), ("c", "U", None, 1))
            first = queue.claim(3)
            outcome = F.expr("if(id = 'b', 'nack', 'release') as outcome")
            first.settle(first.items.select("_seq", outcome))
            clock.advance(MINUTE)
            items = queue.claim(3).items.select("id", "_seq", "_attempts")
            seen[planner] = sorted(tuple(row) for row in items.collect())
    assert seen["memory"] == seen["spark"] == [("a", 1, 0), ("b", 2, 1), ("c", 3, 0)]


@pytest.mark.skipif(REMOTE is not None, reason="over Spark Connect Spark decides all")
def test_a_queue_with_too_many_keys_is_not_read_for_each_step(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that do not fit into memory are looked up from then on: the logs are read once more."""
    config = QueueConfig(dedup_key="id", dedup_scope="forever")
    queue = DeltaQueue.create(spark, f"{place}/queue", "id long", config)
    reads, read = [], replica_choice._read

    def noted(*asked: Any) -> Any:
        reads.append(asked)
        return read(*asked)

    monkeypatch.setattr(replica_choice, "_KEYS", 2)
    monkeypatch.setattr(replica_choice, "_read", noted)
    queue.enqueue(spark.range(3))
    assert [queue.claim(1).count for _ in range(2)] == [1, 1]
    assert len(reads) == 2
    assert queue.enqueue(spark.range(2, 4)).duplicates == 1
    assert queue.claim(5).count == 2
    assert len(reads) == 2


@pytest.mark.skipif(REMOTE is not None, reason="over Spark Connect Spark decides all")
def test_a_large_claim_is_left_to_spark_and_what_comes_after_it_is_not(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While more is in flight than fits into memory Spark decides; then the process does again."""
    path = f"{place}/queue"
    alone = LocalQueue.create(path, "id long")
    alone.enqueue([{"id": n} for n in range(10)])
    store = store_of(DeltaQueue.open(spark, path))
    queue = DeltaQueue.open(spark, path)
    monkeypatch.setattr(replica_choice, "_OPEN", 3)
    monkeypatch.setattr(replica_choice, "_NEAR", 1)

    large = queue.claim(5)
    assert (large.count, replica_choice.at_hand(Snapshot(store))) == (5, None)
    large.ack()
    assert replica_choice.at_hand(Snapshot(store)) is not None

    small = queue.claim(3)
    replica_choice.too_many(Snapshot(store))
    assert replica_choice.at_hand(Snapshot(store)) is None
    assert alone.claim(1).count == 1
    small.ack()
    assert replica_choice.at_hand(Snapshot(store)) is not None


def test_a_changed_weight_brings_nothing_back(spark: SparkSession, place: str) -> None:
    """What was passed stays so, though at another weight its turn ends in another digit."""
    config = QueueConfig(fair_key="tenant", weights={"a": 0.7})
    with _planner(spark, "spark"):
        queue = DeltaQueue.create(spark, f"{place}/queue", "id long, tenant string", config)
        queue.enqueue(spark.range(3).withColumn("tenant", F.lit("a")), order_by="id")
        queue.claim(3).ack()
        queue.configure(weights={"a": 1.0})
        assert queue.claim(3).count == 0
        queue.enqueue(spark.range(3, 5).withColumn("tenant", F.lit("a")), order_by="id")
        assert sorted(row[0] for row in queue.claim(5).items.select("id").collect()) == [3, 4]
