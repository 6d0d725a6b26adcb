"""What a claim without Spark gives, and what its holder says of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from spark_queue.claim import LocalClaim
from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.errors import InvalidArgumentError, LeaseLostError, SparkNeededError
from spark_queue.local_queue import LocalQueue
from spark_queue.saying import Settlement
from tests.unit.local.conftest import Make

MINUTE = timedelta(minutes=1)

#: Lets a claim be forgotten by this process.
Outlived = Callable[[LocalQueue, LocalClaim], None]


def _put(queue: LocalQueue, *ids: str) -> LocalQueue:
    queue.enqueue([{"id": name} for name in ids])
    return queue


def _ids(claim: LocalClaim) -> list[str]:
    return [row["id"] for row in claim.rows]


@pytest.fixture
def outlived(monkeypatch: pytest.MonkeyPatch) -> Outlived:
    """Let there be so many later claims that this process remembers the first no more."""
    monkeypatch.setattr("spark_queue.state.replica._CLAIMS", 2)

    def outlive(queue: LocalQueue, held: LocalClaim) -> None:
        for _ in range(5):
            queue.claim(1).release()
        replica = queue._store.position().replica
        assert replica is not None
        assert replica.has_forgotten
        assert held.lease not in replica.grants

    return outlive


def test_a_claim_is_rows_and_a_table(make: Make) -> None:
    """Each item comes with its seq, its lease and how often it failed."""
    queue = _put(make(), "a", "b")

    claim = queue.claim(5)

    assert claim.count == 2
    assert claim.rows == claim.table.to_pylist()
    assert claim.rows[0] == {"id": "a", "_seq": 1, "_lease": claim.lease, "_attempts": 0}


def test_a_claim_that_gets_nothing_is_empty(make: Make) -> None:
    """It has the columns of any claim, and there is nothing to settle."""
    queue = _put(make(), "a")
    full = queue.claim()

    empty = queue.claim()

    assert (empty.count, empty.lease, empty.rows) == (0, 0, [])
    assert empty.table.schema == full.table.schema
    assert empty.ack() == Settlement(step=0)


def test_a_claim_lasts_as_long_as_it_says(make: Make, clock: ManualClock) -> None:
    """The queue's lease holds where the claim names none."""
    queue = _put(make(lease=timedelta(seconds=30)), "a", "b")

    assert queue.claim().lease_expires_at == clock.now() + timedelta(seconds=30)
    assert queue.claim(lease=MINUTE).lease_expires_at == clock.now() + MINUTE


def test_a_claim_is_repeated_however_late(make: Make, outlived: Outlived) -> None:
    """A claim that this process remembers no more is found where it was written."""
    queue = _put(make(), "a", "b")
    first = queue.claim(1, claim_id="mine")
    first.ack()
    outlived(queue, first)

    second = queue.claim(1, claim_id="mine")

    assert (second.lease, second.over, _ids(second)) == (first.lease, (1,), [])
    assert second.claimed_at == first.claimed_at
    assert queue.counts()["claimed"] == 0


@pytest.mark.parametrize("is_remembered", [True, False])
def test_a_claim_that_was_given_back_for_its_holder_is_made_anew(
    make: Make, *, is_remembered: bool
) -> None:
    """Once all of its items are ready again in nobody's name, its id is that of no claim."""
    queue = _put(make(), "a", "b")
    first = queue.claim(2, claim_id="mine")
    admin.give_back(queue._store, "clone")
    if not is_remembered:
        queue.close()

    second = queue.claim(2, claim_id="mine")

    assert (second.lease, _ids(second)) == (first.lease + 2, ["a", "b"])
    assert queue.claim(2, claim_id="mine").lease == second.lease
    with pytest.raises(LeaseLostError):
        first.ack()


def test_a_late_holder_is_told_what_it_lost(
    make: Make, clock: ManualClock, outlived: Outlived
) -> None:
    """Also where its claim is remembered no more: what it settled itself is not lost to it."""
    queue = _put(make(lease=MINUTE), "a", "b", "c")
    held = queue.claim(2)
    held.settle_each({1: "ack"})
    clock.advance(MINUTE)
    queue.claim(1).ack()
    outlived(queue, held)

    with pytest.raises(LeaseLostError) as lost:
        held.ack()
    assert lost.value.seqs == (2,)
    with pytest.raises(LeaseLostError) as lost:
        held.renew()
    assert lost.value.seqs == (2,)
    with pytest.raises(LeaseLostError) as lost:
        held.settle_each({1: "ack", 2: "ack"})
    assert lost.value.seqs == (1, 2)


def test_items_are_shown_however_late_they_are_asked_for(make: Make, outlived: Outlived) -> None:
    """A claim is read when its rows are asked for, which may be after all is over."""
    queue = _put(make(), "a", "b")
    held = queue.claim(1)
    held.ack()
    outlived(queue, held)

    assert _ids(held) == ["a"]


def test_an_outcome_that_is_none_settles_nothing(make: Make) -> None:
    """One wrong word, and no item is settled."""
    held = _put(queue := make(), "a", "b").claim(2)

    with pytest.raises(InvalidArgumentError, match="outcome 'done' of seq 2"):
        held.settle_each({1: "ack", 2: "done"})

    assert queue.counts()["claimed"] == 2


def test_frames_are_of_spark(make: Make) -> None:
    """A claim has its items as rows, and no frame of outcomes is taken."""
    held = _put(make(), "a").claim()

    with pytest.raises(SparkNeededError, match="settle_each"):
        _ = held.items
    with pytest.raises(SparkNeededError, match="settle_each"):
        held.settle(None)  # type: ignore[arg-type]
