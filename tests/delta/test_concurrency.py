"""Many writers at once: the laws are read off the logs afterwards."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from pyspark.sql import SparkSession, functions as F

from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import QueueExistsError
from spark_queue.log.delta import table_creation
from spark_queue.log.disk import write_lock
from spark_queue.queue_views import store_of

FRAMES = 2
ROWS = 120
CLAIMERS = 2

pytestmark = pytest.mark.slow


def test_writers_that_race_for_steps_keep_the_laws(
    spark: SparkSession, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no lock between threads, steps are lost and tried again, and every law still holds.

    As between drivers on a shared store, where all that keeps them apart is Delta's own commit.
    """
    monkeypatch.setattr(write_lock, "holding", lambda *_, **__: nullcontext())
    monkeypatch.setattr(table_creation, "is_installed", lambda: False)
    config = QueueConfig(dedup_key="id", dedup_scope="forever", fair_key="tenant", group_key="grp")
    facts: list[int] = []
    queue = DeltaQueue.create(
        spark,
        queue_path,
        "id long, tenant string, grp string",
        config,
        listener=lambda step: facts.append(step.tries),
    )
    done = threading.Event()
    paused: list[tuple[int, int]] = []
    with ThreadPoolExecutor(CLAIMERS + FRAMES + 1) as pool:
        enqueues = [pool.submit(_enqueue, spark, queue, frame) for frame in range(FRAMES)]
        claimers = [pool.submit(_drain, queue, done) for _ in range(CLAIMERS)]
        inserted = sum(future.result() for future in enqueues)
        paused.append((queue.pause(), queue.resume()))
        done.set()
        taken = Counter(seq for future in claimers for seq in future.result())
    distinct = FRAMES * ROWS // 2 + ROWS // 2
    assert inserted == distinct
    assert len(taken) == distinct
    assert set(taken.values()) == {1}
    assert max(facts) > 1, "no step was lost: the test did not test"
    _assert_laws(queue, distinct, paused)


def _enqueue(spark: SparkSession, queue: DeltaQueue, frame: int) -> int:
    """Enqueue a frame that shares half of its keys with the next one."""
    first = frame * ROWS // 2
    rows = spark.range(first, first + ROWS).selectExpr(
        "id", "concat('t', id % 5) AS tenant", "concat('g', id % 100) AS grp"
    )
    return queue.enqueue(rows).inserted


def _drain(queue: DeltaQueue, done: threading.Event) -> list[int]:
    """Claim and ack until the queue stays empty."""
    taken: list[int] = []
    while True:
        last = done.is_set()
        claim = queue.claim(400)
        if claim.count == 0 and last and queue.stats().ready == 0:
            return taken
        taken += [row["_seq"] for row in claim.items.select("_seq").collect()]
        claim.ack()


def _assert_laws(queue: DeltaQueue, items: int, paused: list[tuple[int, int]]) -> None:
    stats = queue.stats()
    assert (stats.enqueued, stats.acked, stats.claimed) == (items, items, 0)
    log = store_of(queue).status.read()
    heads = log.where("_kind = 'head'").select("_step").collect()
    assert sorted(row[0] for row in heads) == list(range(1, len(heads) + 1))
    rows = log.where("_kind = 'item'").select("_step", "_seq", "_state", "_group_key").collect()
    steps = sorted(tuple(row) for row in rows)
    _replay(steps, lambda step: any(start < step < end for start, end in paused))
    keys = store_of(queue).queue.read().where("_kind = 'item'").groupBy("_dedup_key").count()
    assert keys.where(F.col("count") > 1).count() == 0


def _replay(steps: list[tuple[int, int, str, str]], is_paused: Callable[[int], bool]) -> None:
    """Play the log: one lease an item, one item a group, nothing while paused."""
    in_flight: dict[str, int] = {}
    for step, seq, state, group in steps:
        if state == "claimed":
            assert not is_paused(step)
            assert group not in in_flight, f"step {step}: {group} had item {in_flight[group]}"
            in_flight[group] = seq
        else:
            assert in_flight.pop(group) == seq
    assert not in_flight


def test_of_two_who_make_a_queue_one_is_told(spark: SparkSession, queue_path: str) -> None:
    """The tables that one thread has made are not replaced by another that makes them, too."""

    def make(_: int) -> bool:
        try:
            DeltaQueue.create(spark, queue_path, "id long")
        except QueueExistsError:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(make, range(2)))

    assert sorted(made) == [False, True]
    queue = DeltaQueue.open(spark, queue_path)
    assert queue.enqueue(spark.range(3)).inserted == 3
