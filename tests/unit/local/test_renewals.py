"""Renewals of a claim: one row each, by which every reader of the log goes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import product

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.commands.admin import checkpoint
from spark_queue.errors import LeaseLostError
from spark_queue.local_queue import LocalQueue
from spark_queue.retry_policy import RetryPolicy
from tests.unit.local.conftest import Make

MINUTE = timedelta(minutes=1)


def _status_rows(queue: LocalQueue) -> pa.Table:
    log = queue._store.native("status")
    assert log is not None
    rows = log.rows_of(log.files(), ("_kind", "_seq", "_lease", "_lease_expires_at"))
    return rows.filter(pc.is_in(rows["_kind"], pa.array(["item", "renewal"])))


def _fill(queue: LocalQueue, count: int = 10) -> LocalQueue:
    queue.enqueue([{"id": f"{n}"} for n in range(count)])
    return queue


def test_a_renewal_is_one_row(make: Make) -> None:
    """However many items a claim holds; the lease is all that it says."""
    queue = _fill(make())
    held = queue.claim(10)
    held.settle_each({1: "ack"})
    before = _status_rows(queue).num_rows

    until = [held.renew(MINUTE), held.renew(2 * MINUTE)]

    rows = _status_rows(queue).slice(before).sort_by("_lease_expires_at").to_pylist()
    assert [row["_lease_expires_at"] for row in rows] == until
    assert {(row["_kind"], row["_seq"], row["_lease"]) for row in rows} == {
        ("renewal", None, held.lease)
    }


def test_a_renewal_in_an_older_format_is_a_row_for_each_item(make: Make) -> None:
    """Releases that work with such a queue know no other."""
    queue = _fill(make())
    admin.configure(queue._main, lambda old, _: type(old)(config=old.config, format=3))
    held = queue.claim(10)
    before = _status_rows(queue).num_rows

    held.renew(MINUTE)

    assert _status_rows(queue)["_kind"].to_pylist()[before:] == ["item"] * 10


@pytest.mark.parametrize(
    ("is_large", "other", "summed_up", "merged"), list(product((False, True), repeat=4))
)
def test_a_renewed_lease_is_known_to_whoever_claims(
    make: Make,
    again: Callable[[], LocalQueue],
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_large: bool,
    other: bool,
    summed_up: bool,
    merged: bool,
) -> None:
    """In memory or by SQL, in this process or another, before a checkpoint and after it."""
    queue = _fill(make(lease=MINUTE))
    held = queue.claim(2)
    clock.advance(MINUTE / 2)
    queue.claim(2, lease=MINUTE)
    until = held.renew(3 * MINUTE)
    if summed_up:
        checkpoint(queue._store)
    if merged:
        queue.maintain()
    claimant = again() if other else queue
    monkeypatch.setattr("spark_queue.state.replica_choice.LARGE", 0 if is_large else 5_000)

    clock.advance(MINUTE)
    assert [row["id"] for row in claimant.claim(2).rows] == ["2", "3"]
    assert claimant.status()["_lease_expires_at"].to_pylist()[:2] == [until, until]
    assert claimant.explain(1).until == until
    clock.advance(2 * MINUTE)
    assert [row["id"] for row in claimant.claim(2).rows] == ["0", "1"]
    with pytest.raises(LeaseLostError):
        held.renew()


@pytest.mark.parametrize("is_large", [False, True])
def test_what_a_renewed_claim_settles_counts(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, *, is_large: bool
) -> None:
    """Also when its lease has run out, as long as nobody took the items over."""
    monkeypatch.setattr("spark_queue.state.replica_choice.LARGE", 0 if is_large else 5_000)
    queue = _fill(make(lease=MINUTE, retry=RetryPolicy(delay=MINUTE)))
    held = queue.claim(3)
    held.renew(2 * MINUTE)
    held.settle_each({1: "nack"})
    clock.advance(2 * MINUTE)
    held.renew(MINUTE)

    assert [row["_seq"] for row in queue.claim(10).rows] == [1, *range(4, 11)]
    assert held.ack().acked == 2
