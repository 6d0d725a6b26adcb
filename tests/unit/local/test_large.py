"""A queue with more open items than a process keeps in memory, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from spark_queue.errors import InvalidConfigError, SparkNeededError
from spark_queue.local_queue import LocalQueue
from tests.unit.local.conftest import Make


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
    monkeypatch.setattr("spark_queue.delta.store.replicas._OPEN", 2)
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
    monkeypatch.setattr("spark_queue.delta.sql.database._ROW", 50_000_000)
    monkeypatch.setenv("SPARK_QUEUE_MEMORY", "100MB")
    with pytest.raises(SparkNeededError, match=r"more than 2 rows .* SPARK_QUEUE_MEMORY=100MB"):
        large.claim(5)

    monkeypatch.setenv("SPARK_QUEUE_MEMORY", "500MB")
    assert [row["id"] for row in large.claim(5).rows] == ["c", "d"]

    for size in ("1 TB", "-1GB", "99MB", "1e9"):
        monkeypatch.setenv("SPARK_QUEUE_MEMORY", size)
        with pytest.raises(InvalidConfigError, match=f"SPARK_QUEUE_MEMORY is '{size}', .* '4GB'"):
            large.claim(5)
