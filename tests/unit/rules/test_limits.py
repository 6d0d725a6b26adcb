"""Limits by key: what one claim may start, what stays behind, and what a change moves."""

from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue.config import QueueConfig
from spark_queue.flow import Limit
from spark_queue.rules.rule_model import Ack, NewItem, Release
from spark_queue.rules.scheduler import Scheduler

MINUTE = timedelta(minutes=1)


def _scheduler(*limits: Limit, **settings: object) -> Scheduler:
    config = {"fair_key": "tenant", "limits": limits, "lease": MINUTE, **settings}
    return Scheduler(QueueConfig(**config))  # type: ignore[arg-type]


def _put(scheduler: Scheduler, *names: str, group: str | None = None) -> None:
    """Enqueue items, each of the tenant and the endpoint that its name begins with."""
    items = [NewItem(payload=n, fair_key=n[0], flow_keys=(n[1],), group_key=group) for n in names]
    scheduler.admit(items, 0.0)


def _claim(scheduler: Scheduler, now: float = 0.0, limit: int = 100) -> list[object]:
    proposed = [item.payload for item in scheduler.propose(now, limit).items]
    assert [item.payload for item in scheduler.claim(now, limit).items] == proposed
    return proposed


def test_one_claim_counts_what_it_starts() -> None:
    """F1: within one claim a key fills up, and the rest of it is passed."""
    scheduler = _scheduler(Limit(by="tenant", default=2), Limit(by="endpoint", default=3))
    _put(scheduler, "ax1", "ax2", "ax3", "bx1", "bx2", "by3", "cy1")
    assert _claim(scheduler) == ["ax1", "bx1", "cy1", "ax2", "by3"]


def test_a_lapsed_item_of_a_key_above_its_limit_is_taken_over() -> None:
    """L3 and L4: a limit that was lowered below what runs takes nothing back."""
    scheduler = _scheduler(Limit(by="tenant", default=2))
    _put(scheduler, "ax1", "ax2")
    assert _claim(scheduler) == ["ax1", "ax2"]
    scheduler.configure(scheduler.config.changed(limits=(Limit(by="tenant", default=0),)))
    assert _claim(scheduler, 60.0) == ["ax1", "ax2"]


@pytest.mark.parametrize("most", [None, 1])
def test_a_lapsed_member_stays_behind_a_head_without_room(most: int | None) -> None:
    """§9 (a): also where a full queue has slots for lapsed items alone."""
    scheduler = _scheduler(Limit(by="endpoint"), group_key="g", group_limit=2)
    _put(scheduler, "ax1", "ay2", group="g")
    grant = scheduler.claim(0.0, 2)
    scheduler.settle(grant.lease, {1: Release()}, 1.0)
    shut = (Limit(by="endpoint", overrides={"x": 0}),)
    scheduler.configure(scheduler.config.changed(limits=shut, max_in_flight=most))
    assert _claim(scheduler, 60.0) == []
    assert scheduler.explain(2, 60.0).reason == "held by group"
    scheduler.configure(scheduler.config.changed(limits=(Limit(by="endpoint"),), max_in_flight=2))
    assert _claim(scheduler, 60.0) == ["ax1", "ay2"]


def test_what_a_limit_keeps_back_owns_no_turn() -> None:
    """§9: an item behind it in an overdue line has the first turn, not the third."""
    shut = Limit(by="endpoint", overrides={"x": 0, "y": 0})
    scheduler = _scheduler(shut, Limit(by="tenant", default=1))
    _put(scheduler, "ax1", "ax2", "ay3")
    _put(scheduler, *(f"b-{n}" for n in range(6)))
    for _ in range(6):
        grant = scheduler.claim(0.0, 1)
        scheduler.settle(grant.lease, {grant.items[0].seq: Ack()}, 0.0)
    limits = (Limit(by="endpoint", overrides={"x": 0}), Limit(by="tenant", default=0))
    scheduler.configure(scheduler.config.changed(limits=limits))
    scheduler.configure(scheduler.config.changed(limits=(limits[0], Limit(by="tenant", default=2))))
    assert [(item.payload, item.turn) for item in scheduler.claim(0.0, 9).items] == [("ay3", 6.0)]


def test_a_key_that_gets_room_is_open_only_where_all_its_keys_have() -> None:
    """§9: of two full keys one gets room, and the other still keeps its items out of the line."""
    scheduler = _scheduler(
        Limit(by="endpoint", default=None, overrides={"x": 0}), Limit(by="tenant", default=1)
    )
    _put(scheduler, "ay1", "ax2", "ax3", "ay4")
    grant = scheduler.claim(0.0, 1)
    _put(scheduler, *(f"b-{n}" for n in range(6)))
    for _ in range(6):
        other = scheduler.claim(0.0, 1)
        scheduler.settle(other.lease, {other.items[0].seq: Ack()}, 0.0)
    scheduler.settle(grant.lease, {1: Ack()}, 0.0)
    served = scheduler.claim(0.0, 9).items
    assert [(item.payload, item.turn, item.overdue) for item in served] == [("ay4", 7.0, True)]
