from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue import Rate
from spark_queue.rules.rule_model import NewItem
from tests.unit.rules.steps import admit, claim, drain, scheduler_of, settle


def test_claim_counts_the_latest_time_when_time_runs_backwards() -> None:
    """A clock that jumps back frees nothing and holds nothing back."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(available_at=5.0), now=6.0)
    grant = scheduler.claim(1.0, 1)
    assert [item.seq for item in grant.items] == [1]
    assert grant.lease_expires_at == 16.0


def test_claim_expires_an_item_when_its_deadline_is_now() -> None:
    """QS-18: a deadline is passed at its instant; expiries are in order of deadline, then seq."""
    scheduler = scheduler_of()
    admit(scheduler, *[NewItem(expires_at=at) for at in (10.0, 5.0, 10.0, 11.0)])
    assert scheduler.claim(10.0, 0).expired == (2, 1, 3)
    assert [scheduler.state(seq) for seq in (1, 2, 3, 4)] == [*["expired"] * 3, "ready"]


def test_claim_lets_an_item_finish_when_its_deadline_passes_meanwhile() -> None:
    """QS-10: a claimed item does not expire while its lease runs."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(expires_at=5.0))
    claim(scheduler)
    assert scheduler.expire(6.0) == ()
    assert settle(scheduler, 1, now=6.0) == ()


def test_claim_expires_a_lost_item_when_its_deadline_passed_meanwhile() -> None:
    """An item whose lease ran out after its deadline is expired, not claimed again."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(expires_at=5.0))
    claim(scheduler)
    grant = scheduler.claim(10.0, 9)
    assert (grant.items, grant.expired) == ((), (1,))


def test_expire_logs_everything_that_is_past_its_deadline() -> None:
    """QS-16, QS-17: expiry needs no claim, and takes delayed items too."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(expires_at=10.0, available_at=99.0), NewItem(expires_at=30.0))
    assert scheduler.expire(9.0) == ()
    assert scheduler.expire(20.0) == (1,)
    assert scheduler.expire(20.0) == ()
    assert drain(scheduler, 20.0) == [2]


@pytest.mark.parametrize("second", [0.1, 1_700_000_000.123457, 4_102_444_800.000001])
def test_a_lease_is_left_alone_to_the_microsecond(second: float) -> None:
    """The sum of its end and the grace is the number that a clock has then."""
    scheduler = scheduler_of(lease_grace=timedelta(seconds=0.3))
    admit(scheduler, NewItem(), now=second)
    assert claim(scheduler, now=second) == [1]
    over = round(second + 10.3, 6)
    assert scheduler.next_event_at(second) == over
    assert scheduler.explain(1, second).until == over
    assert claim(scheduler, now=round(over - 1e-6, 6)) == []
    assert claim(scheduler, now=over) == [1]


# rule: next event
def test_next_event_at_is_the_earliest_of_delays_leases_and_deadlines() -> None:
    """QS-11 to QS-15: it follows what comes and goes, and is none when time changes nothing."""
    scheduler = scheduler_of()
    assert scheduler.next_event_at(0.0) is None
    admit(scheduler, NewItem(expires_at=50.0), NewItem(available_at=20.0), NewItem())
    assert scheduler.next_event_at(0.0) == 20.0
    scheduler.cancel([2], 0.0)
    assert scheduler.next_event_at(0.0) == 50.0
    claim(scheduler)
    assert scheduler.next_event_at(0.0) == 10.0
    assert scheduler.next_event_at(12.0) == 12.0
    settle(scheduler, 1, 3)
    assert scheduler.next_event_at(0.0) is None


def test_next_event_at_is_when_the_first_of_a_key_has_its_units() -> None:
    """R5: a smaller item behind it has its units sooner, and does not pass."""
    rate = Rate(limit=10, per=timedelta(seconds=10), burst=10, units="size")
    scheduler = scheduler_of(rates=(rate,))
    admit(scheduler, *[NewItem(units=(units,)) for units in (10.0, 5.0, 1.0)])
    assert claim(scheduler, limit=3) == [1]
    settle(scheduler, 1, 1)
    assert scheduler.next_event_at(0.0) == 5.0
    assert claim(scheduler, now=1.0) == []
    assert claim(scheduler, now=5.0) == [2]


def test_next_event_at_is_none_when_the_queue_is_paused() -> None:
    """Time alone ends no pause."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(available_at=20.0))
    scheduler.pause()
    assert scheduler.next_event_at(0.0) is None
