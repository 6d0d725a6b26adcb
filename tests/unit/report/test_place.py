"""Where an item stands in line, and when a claim may come to it."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from spark_queue.clock import ManualClock
from spark_queue.local_queue import LocalQueue
from spark_queue.report.model import Place
from spark_queue.retry_policy import RetryPolicy
from tests.unit.report.conftest import Make

_SECOND = timedelta(seconds=1)


def _rows(count: int, path: str | None = None, tenant: str = "a") -> list[dict[str, str | None]]:
    return [{"id": f"{path}{n}", "tenant": tenant, "path": path} for n in range(count)]


def _place(queue: LocalQueue, seq: int) -> Place:
    found = queue.report_item(seq).place
    assert found is not None
    return found


def _waits(row: dict[str, Any], clock: ManualClock) -> bool:
    available: datetime | None = row["_available_at"]
    return available is not None and available > clock.now()


def _work(queue: LocalQueue, clock: ManualClock, claims: int, items: int) -> None:
    """Claim and ack so many items every ten seconds, each after five."""
    for _ in range(claims):
        claim = queue.claim(items)
        clock.advance(5 * _SECOND)
        claim.ack()
        clock.advance(5 * _SECOND)


def _make_history(
    make: Make, clock: ManualClock, draw: random.Random, *, fails: bool
) -> tuple[LocalQueue, int]:
    """Make a queue of tenants with weights and priorities, and draw an item that may run."""
    queue = make(
        "id string, tenant string, urgency int",
        fair_key="tenant",
        priority="urgency",
        weights={"b": 3.0},
        retry=RetryPolicy(delay=draw.choice([0, 30]) * _SECOND),
        lease=12 * _SECOND,
    )
    for _ in range(6):
        for tenant in draw.sample("abcd", 3):
            row = {"id": "x", "tenant": tenant, "urgency": draw.randint(1, 2)}
            at = clock.now() + draw.choice([0, 0, 0, 90]) * _SECOND
            queue.enqueue([{**row, "available_at": at}] * draw.randint(1, 6))
        claim = queue.claim(draw.randint(1, 5))
        if not fails or draw.random() < 0.5:
            claim.ack()
        elif draw.random() < 0.5:
            claim.nack("no")
        clock.advance(5 * _SECOND)
    rows = queue.status().to_pylist()
    due = [row["_seq"] for row in rows if row["_state"] == "ready" and not _waits(row, clock)]
    return queue, draw.choice(due)


@pytest.mark.parametrize("seed", range(12))
def test_as_many_items_are_claimed_before_it_as_are_said(
    make: Make, clock: ManualClock, seed: int
) -> None:
    """Delayed items are not among them, and other priorities and weights count."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    queue, seq = _make_history(make, clock, draw, fails=False)

    ahead = _place(queue, seq).ahead

    first = [row["_seq"] for row in queue.claim(ahead).rows] if ahead else []
    assert seq not in first
    assert [row["_seq"] for row in queue.claim(1).rows] == [seq]


@pytest.mark.parametrize("seed", range(12))
def test_overdue_items_move_a_place_by_no_more_than_there_are(
    make: Make, clock: ManualClock, seed: int
) -> None:
    """Items that failed, or whose lease ran out, come back a round after the other."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    queue, seq = _make_history(make, clock, draw, fails=True)
    rows = queue.status().to_pylist()
    again = sum(row["_first_claimed_at"] is not None and row["_state"] != "acked" for row in rows)

    ahead = _place(queue, seq).ahead

    order = [row["_seq"] for row in queue.claim(len(rows)).rows]
    assert abs(order.index(seq) - ahead) <= again
    assert order[0] == seq or ahead


def test_overdue_items_of_a_tenant_come_a_round_after_the_other(
    make: Make, clock: ManualClock
) -> None:
    """Those that failed do not hold up others: between two of them each other tenant has a turn."""
    queue = make(fair_key="tenant", retry=RetryPolicy(delay=0 * _SECOND))
    queue.enqueue([{"id": str(n), "tenant": "ab"[n % 2], "path": None} for n in range(40)])
    queue.claim(20).nack("no")
    queue.enqueue([{"id": "new", "tenant": "c", "path": None}] * 4)
    clock.advance(_SECOND)
    asked = (1, 2, 3, 41, 42)

    places = [_place(queue, seq).ahead for seq in asked]

    order = [row["_seq"] for row in queue.claim(44).rows]
    assert places == [order.index(seq) for seq in asked]
    assert places[3] < 9


def test_estimate_holds_if_work_goes_on_as_it_did(make: Make, clock: ManualClock) -> None:
    """The claim that gets the item comes within the range, and the range is narrow."""
    queue = make()
    queue.enqueue(_rows(300))
    _work(queue, clock, 30, 5)

    found = _place(queue, 251)

    assert (found.ahead, str(found)[:41]) == (100, "100 in line before it; expected in 3.3 mi")
    waited, claim = 0.0, queue.claim(5)
    while 251 not in [row["_seq"] for row in claim.rows]:
        claim.ack()
        clock.advance(10 * _SECOND)
        waited, claim = waited + 10, queue.claim(5)
    assert found.least is not None
    assert found.most is not None
    assert found.least <= waited <= found.most + 10
    assert found.most <= 1.2 * found.least


def test_item_of_a_group_waits_for_those_before_it(make: Make, clock: ManualClock) -> None:
    """They are worked on one after the other; who is next in line otherwise is so once they are."""
    queue = make(group_key="path")
    queue.enqueue(_rows(40, "g") + _rows(100, None))
    _work(queue, clock, 8, 2)

    found = _place(queue, 40)

    assert (found.ahead, found.held_ahead, found.members_ahead) == (1, 30, 31)
    assert found.least == pytest.approx(5.0 * 31)
    assert "31 open items before it in its group" in str(found)


def test_delay_is_part_of_the_estimate(make: Make, clock: ManualClock) -> None:
    """An item that is tried again in ten minutes is not expected before."""
    queue = make(retry=RetryPolicy(delay=timedelta(minutes=10)))
    queue.enqueue(_rows(100))
    queue.claim(1).nack("no")
    _work(queue, clock, 6, 5)

    found = _place(queue, 1)

    assert found.least == pytest.approx(600 - 60)


def test_what_waits_for_no_claim_has_no_place(make: Make, clock: ManualClock) -> None:
    """Neither what is worked on nor what is over; a report of then knows none."""
    queue = make()
    queue.enqueue(_rows(3))
    queue.claim(1).ack()
    queue.claim(1)
    clock.advance(_SECOND)
    seen = clock.now()

    assert [queue.report_item(seq).place is None for seq in (1, 2, 3, 9)] == [
        True,
        True,
        False,
        True,
    ]
    assert queue.report_item(3, seen).place is None


def test_estimate_that_there_is_not_says_why(make: Make, clock: ManualClock) -> None:
    """A paused queue gives none, nor one that nobody claims from; one that stopped has no end."""
    queue = make()
    queue.enqueue(_rows(200))
    assert str(_place(queue, 1)) == "next in line; no estimate: nothing was claimed of late"
    _work(queue, clock, 30, 1)
    clock.advance(timedelta(minutes=4))
    assert str(_place(queue, 200)).endswith("or more")
    queue.pause()
    assert str(_place(queue, 40)) == "9 in line before it; no estimate: the queue is paused"


@pytest.mark.parametrize(
    ("least", "most", "said"),
    [
        (0.2, None, "at the next claim or later"),
        (90.0, None, "in 90.0 s or more"),
        (0.0, 0.5, "at the next claim"),
        (0.0, 40.0, "within 40.0 s"),
        (300.0, 540.0, "in 5.0 min to 9.0 min"),
    ],
)
def test_estimate_is_said_in_words(least: float, most: float | None, said: str) -> None:
    """A range where there is one, and no seconds that are none."""
    found = Place(ahead=0, held_ahead=0, members_ahead=0, least=least, most=most)
    assert str(found) == f"next in line; expected {said}"
