"""A queue with more open items than a process keeps in memory, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import InvalidConfigError, SparkNeededError
from spark_queue.flow import Limit
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.reader_config import ReaderConfig
from spark_queue.sql import arrow_look, log_rows
from spark_queue.state import replica_choice
from tests.unit.local.conftest import Make, Worker


@pytest.fixture
def large(make: Make, monkeypatch: pytest.MonkeyPatch) -> LocalQueue:
    """Return a queue of which one item is done, one in flight, and one too many waits.

    An order of service that several keys make is not known in part.
    """
    queue = make(dedup_key="id", group_key="id", fair_key="id")
    queue.enqueue([{"id": name} for name in "abcd"])
    with queue.claim(1):
        pass
    queue.claim(1, claim_id="mine")
    monkeypatch.setattr("spark_queue.state.replica_choice._OPEN", 2)
    return queue


def test_a_large_queue_is_worked_with(large: LocalQueue) -> None:
    """Claims, renewals and settles are decided by SQL over the files of the logs."""
    held = large.claim(1, claim_id="mine")
    held.renew()
    held.settle_each({2: "release"})
    assert [row["id"] for row in large.claim(5).rows] == ["b", "c", "d"]
    assert large.counts()["claimed"] == 3


def test_a_large_queue_takes_new_items(large: LocalQueue) -> None:
    """Keys that items hold are found in the files, and tags go on where lines end."""
    found: Any = large.enqueue([{"id": "a"}, {"id": "c"}, {"id": "e"}, {"id": "e"}]).outcomes
    assert found["duplicate_of"].to_pylist() == [None, 3, None, 7]
    assert [row["id"] for row in large.claim(9).rows] == ["c", "d", "a", "e"]


def test_a_large_queue_is_looked_at(large: LocalQueue) -> None:
    """What its tables say by themselves is shown, and a claim is repeated."""
    assert [row["_state"] for row in large.status().to_pylist()] == [
        "acked",
        "claimed",
        "ready",
        "ready",
    ]
    assert [row["id"] for row in large.claim(1, claim_id="mine").rows] == ["b"]
    told = [large.explain(seq) for seq in (1, 2, 3, 9)]
    assert [why.reason for why in told] == ["finished", "leased", "runnable", "unknown"]
    assert told[2] == large.report_item(3).chain[0]
    large.pause()
    assert large.paused


def test_what_fits_into_memory_is_said_by_the_environment(
    large: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that would read more rows is refused with the setting; what is no size is named."""
    monkeypatch.setattr("spark_queue.sql.database._ROW", 50_000_000)
    monkeypatch.setenv("SPARK_QUEUE_MEMORY", "100MB")
    with pytest.raises(SparkNeededError, match=r"more than 2 rows .* SPARK_QUEUE_MEMORY=100MB"):
        large.claim(5)

    monkeypatch.setenv("SPARK_QUEUE_MEMORY", "500MB")
    assert [row["id"] for row in large.claim(5).rows] == ["c", "d"]

    for size in ("1 TB", "-1GB", "99MB", "1e9"):
        monkeypatch.setenv("SPARK_QUEUE_MEMORY", size)
        with pytest.raises(InvalidConfigError, match=f"SPARK_QUEUE_MEMORY is '{size}', .* '4GB'"):
            large.claim(5)


# rule: loss of a lease, holder of a lease
def test_a_claim_of_a_deep_queue_takes_over_no_more_than_it_gets(
    make: Make, start: Callable[..., Worker]
) -> None:
    """Guarantee 7, for a process that has read a checkpoint and no claim: a late holder settles."""
    queue = make("id int", lease=timedelta(seconds=60))
    queue.enqueue(pa.table({"id": pa.array(range(15_000), pa.int32())}))
    held = queue.claim(5)
    queue.maintain()
    # To a process by the machine's clock the lease is over.
    assert start().says("queue.claim(1).rows[0]['id']") == "0"
    held.settle_each(dict.fromkeys((2, 3, 4, 5), "ack"))
    counts = queue.counts()
    assert (counts["acked"], counts["claimed"], counts["ready"]) == (4, 1, 14_995)
    met = queue.status().filter(pc.field("_seq") <= 5)
    assert met["_losses"].to_pylist() == [1, 0, 0, 0, 0]


# rule: loss of a lease
def test_upkeep_of_a_large_queue_buries_what_lost_its_last_lease(
    make: Make, monkeypatch: pytest.MonkeyPatch, clock: ManualClock
) -> None:
    """SQL over the files finds who is in flight, where the open items are not in memory."""
    queue = make(group_key="id", fair_key="id", max_losses=1, lease=timedelta(seconds=60))
    reader = queue.reader("r", config=ReaderConfig(max_lag=3))
    queue.enqueue([{"id": name} for name in "abcdef"])
    reader.claim(3)
    monkeypatch.setattr("spark_queue.state.replica_choice._OPEN", 2)
    clock.advance(timedelta(seconds=60))
    assert queue.maintain(dry_run=True).becomes == {"dead": 3}
    queue.maintain()
    # What is dead is no lag.
    assert (reader.counts()["dead"], reader.counts()["ready"]) == (3, 3)


@pytest.fixture
def touched(make: Make, monkeypatch: pytest.MonkeyPatch) -> LocalQueue:
    """Return a queue of which more was claimed once than a new process brings to memory."""
    monkeypatch.setattr(replica_choice, "LARGE", 2)
    monkeypatch.setattr(replica_choice, "_NEAR", 2)
    queue = make("id string, tenant string", fair_key="tenant", dedup_key="id")
    queue.enqueue([{"id": name, "tenant": str(ord(name) % 2)} for name in "abcdefgh"])
    return queue


def test_a_new_process_brings_nothing_to_memory_for_its_first_steps(touched: LocalQueue) -> None:
    """What was claimed and came back is read for one that lives longer."""
    touched.claim(4).release()
    store_of(touched).forget()
    is_known = []
    for name in "abcdefgh":
        claim = touched.claim(1)
        is_known.append(store_of(touched).position().replica is not None)
        assert [row["id"] for row in claim.rows] == [name]
        claim.ack()
    assert is_known == [False] * 4 + [True] * 4


@pytest.mark.parametrize("count", [2, 3])
def test_a_claim_that_is_settled_at_once_brings_nothing_else_to_memory(
    make: Make, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """The last of a drain; what a few items need is brought, as more steps like it may follow."""
    monkeypatch.setattr(replica_choice, "_CLAIMED", 2)
    queue = make()
    queue.enqueue([{"id": name} for name in "abcd"])
    held = queue.claim(count)
    store_of(queue).forget()
    held.ack()
    assert (store_of(queue).position().replica is not None) == (count == 2)
    assert queue.counts()["acked"] == count


# rule: loss of a lease
def test_a_new_process_takes_over_what_an_ended_one_held(
    touched: LocalQueue, start: Callable[..., Worker]
) -> None:
    """It looks in the files for who holds items."""
    other = start()
    assert other.says("queue.claim(4).count") == "4"
    other.kill()
    store_of(touched).forget()
    assert [row["id"] for row in touched.claim(8).rows] == list("abcdefgh")
    assert touched.status()["_losses"].to_pylist() == [1] * 4 + [0] * 4


@pytest.mark.parametrize("part", [1, 3])
def test_many_items_are_looked_at_in_parts(
    make: Make, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """The parts say together what a look at all says, whatever moved, was refused or removed."""
    queue = make(dedup_key="id")
    for names in ("abca", "defg", "gh"):
        queue.enqueue([{"id": name} for name in names])
    queue.claim(2).ack()
    queue.claim(2).nack("no")
    queue.claim(3).renew()
    queue.cancel({"id": "h"})
    queue.redrive({"id": "h"})

    def look() -> list[object]:
        some = {"id": ["a", "c", "e"]}
        dry = queue.cancel(some, dry_run=True), queue.purge(some, dry_run=True)
        return [queue.status(), queue.history(), queue.status(as_of=2), queue.history(3), *dry]

    whole = look()
    monkeypatch.setattr(arrow_look, "_PART", part)
    assert look() == whole
    assert (queue.cancel("_seq > 2"), queue.purge("id < 'c'")) == (6, 2)
    monkeypatch.undo()
    assert queue.status()["id"].to_pylist() == [*"cdefg", *"hh"]


def test_parts_are_as_of_the_same_steps(
    make: Make, again: Callable[[], LocalQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others do between two parts is in neither of them."""
    queue, other = make(), again()
    queue.enqueue([{"id": name} for name in "abc"])
    view = arrow_look.ArrowLook.view

    def view_and_ack(look: arrow_look.ArrowLook, *args: Any) -> pa.Table:
        found = view(look, *args)
        other.claim(3).ack()
        other.enqueue([{"id": "d"}])
        return found

    monkeypatch.setattr(arrow_look, "_PART", 1)
    monkeypatch.setattr(arrow_look.ArrowLook, "view", view_and_ack)
    shown = queue.status()
    assert shown.select(["id", "_state"]).to_pylist() == [
        {"id": name, "_state": "ready"} for name in "abc"
    ]


def test_of_more_items_than_a_decision_reads_each_is_explained_by_itself(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No claim of all of them is decided without Spark; why one waits is told all the same."""
    queue = make("tenant string", fair_key="tenant", limits=(Limit(by="tenant", default=1),))
    queue.enqueue([{"tenant": name} for name in "aabb"])
    queue.claim(1)
    said = [queue.explain(seq).reason for seq in range(1, 5)]
    assert said == ["leased", "key limit", "runnable", "key limit"]
    monkeypatch.setattr(log_rows, "most_rows", lambda: 1)
    said = [queue.explain(seq).reason for seq in range(1, 5)]
    assert said == ["leased", "key limit", "runnable", "runnable"]
    assert queue.report().overview.runnable == 2
