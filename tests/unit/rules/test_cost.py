from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from spark_queue.config import QueueConfig
from spark_queue.flow import Limit
from spark_queue.rules.heap import Heap
from spark_queue.rules.rule_model import Ack, Dead, Nack, NewItem
from spark_queue.rules.scheduler import Scheduler
from tests.unit.rules.steps import admit, claim, scheduler_of

CROWD = 3000


def crowd(**settings: Any) -> list[NewItem]:
    """Return many items that stand in front of everything else."""
    return [NewItem(fair_key="A", **settings) for _ in range(CROWD)]


@pytest.mark.parametrize("why", ["delayed", "grouped", "overdue", "waiting", "keys", "full"])
def test_claim_looks_at_few_items_when_many_stand_in_front(
    why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FC-11: a claim costs what it takes, not what waits: a crowd in front is not walked over."""
    scheduler = scheduler_of(limits=(Limit(by="f", default=1),) if why == "full" else ())
    options: dict[str, dict[str, Any]] = {
        "delayed": {"available_at": 99.0},
        "grouped": {"group_key": "x"},
    }
    admit(scheduler, *crowd(**options.get(why, {})))
    if why == "overdue":
        grant = scheduler.claim(0.0, CROWD)
        scheduler.settle(grant.lease, {item.seq: Nack() for item in grant.items}, 0.0)
    if why == "grouped":
        claim(scheduler, 1)
    if why == "keys":
        admit(scheduler, *[NewItem(fair_key=number) for number in range(CROWD)])
        claim(scheduler, 1)
    if why == "full":
        keys = [NewItem(fair_key=f"k{number}") for number in range(CROWD)]
        admit(scheduler, *keys)
        claim(scheduler, 1 + CROWD)
        admit(scheduler, *keys)
    admit(scheduler, NewItem(fair_key="B"), NewItem(fair_key="C"))
    looks, first = [0], Heap.first

    def counted(heap: Heap[Any]) -> Any:
        looks[0] += 1
        return first(heap)

    monkeypatch.setattr(Heap, "first", counted)
    assert len(scheduler.claim(1.0, 2).items) == 2
    assert looks[0] < 100


def test_configure_rewrites_no_item_when_a_weight_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A new weight costs the same whatever the backlog of the key."""
    scheduler = scheduler_of()
    admit(scheduler, *crowd())
    looks, put = [0], Heap.put

    def counted(heap: Heap[Any], value: Any, key: Any) -> None:
        looks[0] += 1
        put(heap, value, key)

    monkeypatch.setattr(Heap, "put", counted)
    scheduler.configure(scheduler.config.changed(weights={"A": 3.0}))
    assert looks[0] < 10


@pytest.mark.parametrize("scope", ["live", timedelta(seconds=5)])
def test_finished_items_leave_nothing_behind_when_they_are_not_kept(scope: Any) -> None:
    """Keys, groups, leases, grants and items of a drained queue take no memory."""
    config = QueueConfig(dedup_key="d", dedup_scope=scope, fair_key="f", group_key="g")
    scheduler = Scheduler(config, keep_finished=False)
    for number in range(60):
        names = (f"{number}a", f"{number}b")
        items = [NewItem(dedup_key=n, fair_key=n, group_key=n, expires_at=1e6) for n in names]
        admit(scheduler, *items, items[0], now=float(number))
        grant = scheduler.claim(float(number), 9, claim_id=str(number))
        first, second = (item.seq for item in grant.items)
        scheduler.settle(grant.lease, {first: Ack(), second: Dead()}, float(number))
        scheduler.claim(float(number), 9, claim_id=f"empty {number}")
    scheduler.claim(99.0, 1)
    admit(scheduler, now=99.0)
    admit(scheduler, NewItem(dedup_key="z"), now=99.0)
    scheduler.cancel([scheduler.counts()["enqueued"] + scheduler.counts()["refused"]], 99.0)
    plain = scheduler.snapshot()
    assert (plain["items"], plain["refused"], plain["grants"]) == ([], [], [])
    assert len(plain["holders"]) == (0 if scope == "live" else 1)
    assert len(plain["levels"][0]["accounts"]) <= 3
    state = scheduler._state
    assert not state.leases
    assert not state._claim_ids
    assert not state.line.levels
    assert scheduler.counts()["acked"] == 60
    assert scheduler.redrive([2], 99.0) == []
