"""What Spark takes away for good while others go on: only what still nobody needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, LocalQueue
from spark_queue.clock import ManualClock
from spark_queue.local_queue import LocalVerbs
from spark_queue.log.spark import spark_log
from spark_queue.upkeep import purge_items, spark_upkeep

_DAY = timedelta(days=1)


def _redriven_after(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, other: LocalVerbs, seq: int
) -> None:
    """Have an item made ready again once, right after a look at the tables."""
    look = getattr(owner, name)

    def and_then(*args: Any, **options: Any) -> Any:
        found = look(*args, **options)
        assert other.redrive({"_seq": seq}) == 1
        monkeypatch.setattr(owner, name, look)
        return found

    monkeypatch.setattr(owner, name, and_then)


def test_spark_leaves_what_is_redriven_meanwhile(
    spark: SparkSession, queue_path: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that came back to a reader after it was found stays, and so does its generation."""
    queue = DeltaQueue.create(spark, queue_path, "id string", clock=clock)
    reader = queue.reader("first")
    alone = LocalQueue.open(queue_path, clock=clock)
    other = alone.reader("first")
    alone.enqueue([{"id": name} for name in "abc"])
    other.claim(3).settle_each(dict.fromkeys((1, 2, 3), ("dead", "bad")))
    clock.advance(_DAY)

    _redriven_after(monkeypatch, purge_items, "purgeable", other, 1)
    assert queue.purge("id IN ('a', 'b')") == 1
    assert [row["id"] for row in other.claim(5).rows] == ["a"]
    assert other.cancel({"id": "a"}) == 1

    assert alone.maintain(retention=3 * _DAY).dropped_items == 0
    clock.advance(4 * _DAY)
    monkeypatch.setattr(spark_upkeep, "without_spark", lambda _: None)
    _redriven_after(monkeypatch, purge_items, "last_ends", other, 3)
    assert queue.maintain(retention=_DAY).dropped_items == 0
    assert [row["id"] for row in reader.claim(5).items.collect()] == ["c"]


@pytest.fixture(params=[10, 0], ids=["sent", "joined"])
def any_count(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let items be as few as are sent to the rows of a log, or more."""
    monkeypatch.setattr(spark_log, "SENT", request.param)


@pytest.mark.usefixtures("any_count")
def test_spark_leaves_what_tells_that_an_item_was_redriven(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """A successor goes with all that it comes from, or later, and a dry run says so."""
    alone = LocalQueue.create(queue_path, "id string", clock=clock)
    alone.enqueue({"id": "a"})
    for seq in (1, 2):
        alone.claim(1).dead("bad")
        assert alone.redrive({"_seq": seq}) == 1
    alone.claim(1).ack()
    queue = DeltaQueue.open(spark, queue_path, clock=clock)

    assert queue.purge("_seq > 1", dry_run=True) == 0
    assert queue.purge("_seq < 3") == 2
    assert [row["_seq"] for row in queue.status().collect()] == [3]
    assert queue.purge("_state = 'acked'", dry_run=True) == 1


@pytest.mark.usefixtures("any_count")
def test_spark_removes_each_item_that_is_named_and_no_other(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Neighbours go, and those that stand alone, and what is between them stays."""
    alone = LocalQueue.create(queue_path, "id long", clock=clock)
    alone.enqueue([{"id": number} for number in range(1, 301)])
    alone.claim(300).ack()
    gone = {1, 62, 63, 64, 65, 126, 127, 128, *range(130, 190), 255, 256, 300}
    named = ", ".join(str(seq) for seq in gone)

    queue = DeltaQueue.open(spark, queue_path, clock=clock)
    assert queue.purge(f"_seq IN ({named})") == len(gone)
    left = {row["_seq"] for row in queue.status().collect()}
    assert left == {*range(1, 301)} - gone
    items = spark.read.format("delta").load(f"{queue_path}/queue").where("_kind = 'item'")
    assert {row["_seq"] for row in items.select("_seq").collect()} == left
