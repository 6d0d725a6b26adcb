"""Upkeep without Spark against Spark's: the same rows, and a queue that goes on from them."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, LocalQueue, QueueConfig
from spark_queue.clock import ManualClock
from spark_queue.log.addresses import QueueAddress
from spark_queue.log.session_options import PlainSession
from spark_queue.log.settings import Settings
from spark_queue.queue_views import store_of
from spark_queue.spark.spark_engines import engines_of
from spark_queue.sql import checkpointing
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from tests.conftest import REMOTE

_BENCH = Path(__file__).parents[2] / "jobs" / "bench"

#: A queue with weights, groups and priorities.
_SEED = 8

pytestmark = pytest.mark.skipif(REMOTE is not None, reason="over Spark Connect Spark decides all")


@pytest.fixture
def histories(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the module that plays histories."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(_BENCH))
    yield import_module("histories")
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(_BENCH)):
            del sys.modules[name]


def _alone(store: Store) -> Store:
    session = PlainSession({})
    return Store.of(session, QueueAddress(store.name), store.clock)


def _checkpoints(store: Store, changed: Settings | None) -> tuple[Counter[str], Counter[str]]:
    """Return the rows and the head of a checkpoint as each planner would write it."""
    here = checkpointing.stage(Snapshot(_alone(store)), changed, None)
    *_, last = engines_of(store)
    there = checkpointing.stage(Snapshot(store), changed, None, last)
    assert here.head.checkpoint == there.head.checkpoint
    assert (here.head.step, here.head.log_rows) == (there.head.step, there.head.log_rows)
    texts_of = import_module("step_texts").texts_of
    return texts_of(here.rows), texts_of(there.rows)


@pytest.mark.slow
def test_a_checkpoint_has_the_rows_that_spark_would_write(
    spark: SparkSession, place: str, histories: Any
) -> None:
    """Whatever was done before; where weights change, too; and after a checkpoint of either."""
    history = histories.History(spark, f"{place}/queue", _SEED)
    compared = 0
    for number in range(2):
        history.play(6)
        store = store_of(history.queue)
        head = store.status_head()
        old = store.settings(head)
        mine, theirs = _checkpoints(store, None)
        assert mine == theirs
        compared += mine.total()
        if old.config.fair_key is None:
            continue
        weights = {"a": 2.0 + number, "b": 0.5}
        changed = old.reconfigured(old.config.changed(weights=weights), head.pointers)
        mine, theirs = _checkpoints(store, changed)
        assert mine == theirs
        if number % 2:
            history.queue.configure(weights=weights)
        else:
            local = LocalQueue.open(store.name, clock=store.clock)
            local.configure(weights=weights)
    assert compared > 0


def test_spark_goes_on_with_a_queue_that_was_kept_in_order_without_it(
    spark: SparkSession, place: str
) -> None:
    """It reads the merged files and the checkpoint, claims what comes next, and ends the rest."""
    path, clock = f"{place}/queue", ManualClock()
    config = QueueConfig(dedup_key="k", fair_key="t", group_key="g", weights={"x": 2.0})
    local = LocalQueue.create(path, "k string, t string, g string", config, clock=clock)
    for n in range(12):
        local.enqueue({"k": str(n), "t": "xyz"[n % 3], "g": str(n % 5)})
    local.claim(3).ack()
    held = local.claim(2)
    seqs = held.table["_seq"].to_pylist()
    assert local.cancel({"k": "11"}) == 1
    before = {row["_seq"]: row["_state"] for row in local.status().to_pylist()}
    assert local.maintain().merged_files > 12
    assert local.redrive({"k": "11"}) == 1

    session = spark.newSession()
    session.conf.set("spark.sparkQueue.smallSteps", "spark")
    queue = DeltaQueue.open(session, path, clock=clock)

    rows = {row["_seq"]: row["_state"] for row in queue.status().collect()}
    assert {seq: rows[seq] for seq in before} == before
    with queue.claim(3) as claim:
        taken = {row["_seq"] for row in claim.items.select("_seq").collect()}
    assert (len(taken), taken & set(seqs)) == (3, set())
    held.ack()
    other = DeltaQueue.open(spark, path, clock=clock)
    assert other.claim(100, run=100).ack().acked == 12 - 1 - 3 - 2 - 3 + 1
    assert local.counts()["acked"] == 12


def test_counts_and_states_are_those_of_spark(spark: SparkSession, place: str) -> None:
    """The status that predicates are asked of has Spark's columns and values; so have counts."""
    path, clock = f"{place}/queue", ManualClock()
    config = QueueConfig(dedup_key="k", fair_key="t", max_attempts=2)
    local = LocalQueue.create(path, "k string, t string", config, clock=clock)
    local.enqueue([{"k": str(n), "t": "xy"[n % 2]} for n in range(8)])
    clock.advance(config.lease / 2)
    local.claim(2).settle_each({1: "ack", 2: ("dead", "bad")})
    local.claim(3)
    local.enqueue({"k": "7", "t": "x"})
    queue = DeltaQueue.open(spark, path, clock=clock)

    ours = local.status().to_pylist()
    theirs = queue.status().orderBy("_seq").toArrow()
    assert [_plain(row) for row in ours] == [_plain(row) for row in theirs.to_pylist()]
    here, there = local.stats(), queue.stats()
    for name in ("step", "ready", "claimed", "acked", "dead", "refused", "oldest_age"):
        assert getattr(here, name) == getattr(there, name)
    frame: Any = there.per_key
    keys = frame.orderBy("fair_key").toArrow().to_pylist()
    assert pa.table(here.per_key).to_pylist() == [pytest.approx(row) for row in keys]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    # An instant is the same in any zone.
    return {
        name: value.astimezone(timezone.utc) if isinstance(value, datetime) else value
        for name, value in sorted(row.items())
    }
