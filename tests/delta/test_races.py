"""What two parties do to each other.

The second one's step lands between the first one's stage and its commit, put there by a hook and
not by luck.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession, functions as F

from spark_queue.claim import Claim
from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.log.delta import table_creation
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.heads import StatusHead
from spark_queue.log.spark.spark_log import SparkLog
from spark_queue.queue_views import store_of
from spark_queue.retry_policy import RetryPolicy

pytestmark = pytest.mark.usefixtures("by_spark")

MINUTE = timedelta(minutes=1)

#: What another party does with the lapsed claim of item 1, and whether that keeps the item from us.
Party = Callable[[DeltaQueue, Claim], object]


@pytest.fixture
def queue(spark: SparkSession, queue_path: str, clock: ManualClock) -> DeltaQueue:
    """Three items of one column, leases of a minute, retries at once."""
    config = QueueConfig(
        dedup_key="id", lease=MINUTE, retry=RetryPolicy(delay=timedelta(0)), max_attempts=None
    )
    made = DeltaQueue.create(spark, queue_path, "id long", config, clock=clock)
    made.enqueue(spark.range(1, 4))
    return made


def _ids(claim: Claim) -> list[int]:
    return sorted(row["id"] for row in claim.items.select("id").collect())


def _between(queue: DeltaQueue, log: str, step: Callable[[], object]) -> None:
    """Let ``step`` land once, between the stage and the commit of the next step of a log."""

    def hook(point: str) -> None:
        if point == log:
            store_of(queue).handle.hook = None
            step()

    store_of(queue).handle.hook = hook


@pytest.mark.parametrize(
    ("party", "left"),
    [
        pytest.param(lambda _, c: c.ack(), [2, 3], id="ack"),
        pytest.param(lambda _, c: c.nack("boom"), [1, 2, 3], id="nack"),
        pytest.param(lambda _, c: c.renew(MINUTE), [2, 3], id="renew"),
        pytest.param(lambda q, _: q.cancel("id = 1"), [2, 3], id="cancel"),
        pytest.param(lambda q, _: q.claim(1), [2, 3], id="expiry"),
        pytest.param(lambda q, _: q.pause(), [], id="pause"),
    ],
)
def test_a_claim_that_lost_its_step_is_decided_again(
    spark: SparkSession, queue: DeltaQueue, clock: ManualClock, party: Party, left: list[int]
) -> None:
    """A claim that lost its step is decided again on the newest: what is back by then is in it."""
    lapsed = queue.claim(1)
    assert _ids(lapsed) == [1]
    clock.advance(MINUTE)
    other = DeltaQueue.open(spark, queue.name, clock=clock)
    _between(queue, "status", lambda: party(other, lapsed))
    assert _ids(queue.claim(3)) == left


def test_a_run_is_given_up_where_its_group_was_entered_in_between(
    spark: SparkSession, place: str, clock: ManualClock
) -> None:
    """A claim that lost its step leaves the rest of a group to whoever has its first item."""
    config = QueueConfig(group_key="grp", lease=MINUTE)
    queue = DeltaQueue.create(spark, f"{place}/grouped", "id long, grp string", config, clock=clock)
    queue.enqueue(spark.range(1, 4).selectExpr("id", "if(id < 3, 'g', 'h') as grp"), order_by="id")
    other = DeltaQueue.open(spark, queue.name, clock=clock)
    _between(queue, "status", lambda: other.claim(1))
    assert _ids(queue.claim(3, run=2)) == [3]


def test_two_claims_share_no_item(
    spark: SparkSession, queue: DeltaQueue, clock: ManualClock
) -> None:
    """Of two claims for the same items one gets them, and the other gets what is left."""
    other = DeltaQueue.open(spark, queue.name, clock=clock)
    taken: list[int] = []
    _between(queue, "status", lambda: taken.extend(_ids(other.claim(2))))
    assert _ids(queue.claim(3)) == [3]
    assert taken == [1, 2]


def test_two_enqueues_of_one_key_insert_it_once(
    spark: SparkSession, queue: DeltaQueue, clock: ManualClock
) -> None:
    """Of two frames with one key the first to commit has it, and the other names the winner."""
    other = DeltaQueue.open(spark, queue.name, clock=clock)
    _between(queue, "queue", lambda: other.enqueue(spark.range(10, 12)))
    done = queue.enqueue(spark.range(11, 13))
    assert (done.inserted, done.duplicates) == (1, 1)
    rows = done.outcomes.select("id", "outcome", "duplicate_of").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(11, "duplicate", 5), (12, "inserted", None)]
    # What was refused has its number as well.
    later = queue.enqueue(spark.range(20, 21)).outcomes.select("_seq").collect()
    assert [row["_seq"] for row in later] == [8]


def test_a_step_that_was_skipped_silently_is_noticed(
    spark: SparkSession, queue: DeltaQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer whose number is taken before it starts is skipped by Delta, and tries again."""
    other = DeltaQueue.open(spark, queue.name, clock=clock)
    stale = store_of(queue).status_head()
    other.pause()
    other.resume()
    heads = [stale]
    fresh = store_of(queue).status_head
    monkeypatch.setattr(
        store_of(queue), "status_head", lambda *_: heads.pop() if heads else fresh()
    )
    assert _ids(queue.claim(3)) == [1, 2, 3]
    claimed = store_of(queue).status.read().where("_state = 'claimed'")
    assert claimed.groupBy("_seq").count().where("count > 1").count() == 0


def test_a_claim_whose_answer_was_lost_can_be_asked_for_again(
    queue: DeltaQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a crash between commit and answer, the same claim id gives the same items."""
    commit = DeltaLog.commit

    def crash(log: DeltaLog[Any], head: StatusHead, rows: pa.Table | None, **how: bool) -> bool:
        commit(log, head, rows, **how)
        raise ConnectionError("the driver is gone")

    def crash_of_spark(_log: SparkLog[StatusHead], _head: StatusHead) -> bool:
        raise ConnectionError("the driver is gone")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "commit", crash)
        with pytest.raises(ConnectionError):
            queue.claim(2, claim_id="mine")
        patch.setattr(table_creation, "is_installed", lambda: False)
        patch.setattr(SparkLog, "_is_ours", crash_of_spark)
        store_of(queue).forget()
        with pytest.raises(ConnectionError):
            queue.claim(2, claim_id="other")
    store_of(queue).forget()
    again = queue.claim(3, claim_id="mine")
    assert _ids(again) == [1, 2]
    assert again.ack().acked == 2
    assert _ids(queue.claim(3, claim_id="other")) == [3]
    assert queue.stats().claimed == 1


def test_a_source_that_changes_is_read_once(spark: SparkSession, queue: DeltaQueue) -> None:
    """Rows of a source that answers differently each time are inserted or duplicate, always."""
    moving = spark.range(200, numPartitions=2).select((F.rand() * 50).cast("long").alias("id"))
    done = queue.enqueue(moving)
    assert done.inserted + done.duplicates == 200
    outcomes = done.outcomes
    assert outcomes.count() == 200
    inserted = outcomes.where("outcome = 'inserted'")
    assert inserted.count() == done.inserted == inserted.select("id").distinct().count()
    holders = queue.status().select(F.col("_seq").alias("duplicate_of"), F.col("id").alias("of"))
    refused = outcomes.where("outcome = 'duplicate'").join(holders, "duplicate_of")
    assert refused.count() == done.duplicates
    assert refused.where("id <> of").count() == 0


def test_rows_without_keys_that_change_are_counted_and_written_as_one_drawing(
    spark: SparkSession, place: str
) -> None:
    """A frame that is another one each time it is computed has numbers without a gap."""
    queue = DeltaQueue.create(spark, f"{place}/drawn", "id long, drawn double")
    drawn = spark.range(2_000, numPartitions=6).select("id", F.rand().alias("drawn"))
    done = queue.enqueue(drawn.where("drawn < 0.5"))
    rows = queue.status().orderBy("_seq").select("_seq", "id", "drawn").collect()
    assert [row["_seq"] for row in rows] == list(range(1, done.inserted + 1))
    assert [row.id for row in rows] == sorted({row.id for row in rows})
    assert max(row.drawn for row in rows) < 0.5


def test_an_enqueue_does_not_lose_to_compaction(spark: SparkSession, queue: DeltaQueue) -> None:
    """Upkeep that lands in the middle of a step costs it nothing."""
    _between(queue, "queue", store_of(queue).queue.compact)
    assert queue.enqueue(spark.range(20, 22)).inserted == 2
    _between(queue, "status", queue.maintain)
    assert queue.claim(9).count == 5
