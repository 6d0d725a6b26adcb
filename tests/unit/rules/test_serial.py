from __future__ import annotations

from datetime import timedelta

from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.rule_model import Nack, NewItem, Release
from spark_queue.rules.scheduler import Scheduler
from tests.unit.rules.steps import admit, claim, drain, grouped, scheduler_of, settle

SLOW = RetryPolicy(backoff="fixed", delay=timedelta(seconds=5))


def one_line(**settings: object) -> Scheduler:
    """Return a scheduler without fair keys, whose order is that of arrival."""
    return scheduler_of(fair_key=None, **settings)


def test_claim_takes_all_items_of_no_group_but_one_of_the_empty_name() -> None:
    """QB-47: a missing group key is no group, "" is a group like any other."""
    scheduler = one_line()
    admit(scheduler, *grouped(None, None, "", ""))
    assert claim(scheduler) == [1, 2, 3]


def test_cancel_takes_a_waiting_member_out_when_others_wait_behind_it() -> None:
    """QS-06: removing a member from the middle leaves the order of the rest."""
    scheduler = one_line()
    admit(scheduler, *grouped("x", "x", "x"))
    assert scheduler.cancel([2], 0.0) == (2,)
    assert scheduler.cancel([2], 0.0) == ()
    assert drain(scheduler) == [1, 3]


def test_claim_expires_a_member_when_it_waits_behind_a_busy_one() -> None:
    """QS-19: an expired member behind a busy group is logged, and holds up nobody."""
    scheduler = one_line()
    admit(scheduler, *grouped("x"), NewItem(group_key="x", expires_at=3.0), *grouped(None))
    assert claim(scheduler, 1) == [1]
    grant = scheduler.claim(4.0, 9)
    assert (grant.expired, [item.seq for item in grant.items]) == ((2,), [3])


def test_configure_lets_members_pass_when_it_changes_to_skip() -> None:
    """on_failure is a live setting: the next claim follows it."""
    scheduler = one_line(retry=SLOW)
    admit(scheduler, *grouped("x", "x"))
    settle(scheduler, *claim(scheduler), outcome=Nack())
    scheduler.configure(scheduler.config.changed(on_failure="skip"))
    assert claim(scheduler, now=1.0) == [2]


def test_configure_closes_a_group_when_the_limit_shrinks() -> None:
    """A lower limit applies to the next claim; what is in flight stays."""
    scheduler = one_line(group_limit=3)
    admit(scheduler, *grouped("x", "x", "x"))
    assert claim(scheduler, 2) == [1, 2]
    scheduler.configure(scheduler.config.changed(group_limit=1))
    assert claim(scheduler) == []
    settle(scheduler, 1, 2)
    assert claim(scheduler) == [3]


def test_claim_takes_a_lost_item_when_an_earlier_one_has_no_slot() -> None:
    """A lease that ran out holds its slot even against earlier members, so nothing is stuck."""
    scheduler = one_line(group_limit=2)
    admit(scheduler, *grouped("x", "x"))
    claim(scheduler)
    scheduler.configure(scheduler.config.changed(group_limit=1))
    settle(scheduler, 1, outcome=Release())
    assert claim(scheduler, now=10.0) == [2]
    assert claim(scheduler, now=10.0) == []
    settle(scheduler, 2, now=10.0)
    assert claim(scheduler, now=10.0) == [1]


def test_claim_holds_a_lost_member_when_an_earlier_one_is_delayed() -> None:
    """In a group that blocks, a member whose lease ran out does not pass one that waits."""
    later = RetryPolicy(backoff="fixed", delay=timedelta(seconds=20))
    scheduler = one_line(group_limit=2, retry=later)
    admit(scheduler, *grouped("x", "x", "x"))
    assert claim(scheduler) == [1, 2]
    settle(scheduler, 1, outcome=Nack())
    assert claim(scheduler, now=10.0) == []
    assert claim(scheduler, now=20.0) == [1, 2]


def test_settle_closes_the_group_when_the_head_fails_beside_others() -> None:
    """In a group that blocks, members that could run wait as soon as an earlier one has to."""
    later = RetryPolicy(backoff="fixed", delay=timedelta(seconds=20))
    scheduler = one_line(group_limit=2, retry=later)
    admit(scheduler, *grouped("x", "x", "x"))
    assert claim(scheduler, 1) == [1]
    settle(scheduler, 1, outcome=Nack())
    assert claim(scheduler) == []
    assert claim(scheduler, now=20.0) == [1, 2]


def test_claim_serves_lost_members_in_order_when_a_later_one_has_an_earlier_turn() -> None:
    """Among leases that ran out, too, a member comes after the earlier ones of its group."""
    scheduler = scheduler_of(group_limit=2)
    admit(scheduler, NewItem(fair_key="A", group_key="x"))
    admit(scheduler, NewItem(fair_key="B", group_key="x", available_at=10.0))
    assert claim(scheduler) == [1]
    assert claim(scheduler, now=10.0) == [1, 2]
    # A has had an overdue turn, so that its next one is 2; B may have its first at 1.
    assert [(item.seq, item.turn) for item in scheduler.claim(20.0, 1).items] == [(1, 2.0)]


def test_claim_waits_for_the_nearest_earlier_member_when_another_is_lost() -> None:
    """Of the members before one, the last has to be served first, whatever the others hold."""
    scheduler = scheduler_of(group_limit=3)
    admit(scheduler, *[NewItem(fair_key=key, group_key="x") for key in "ABC"])
    assert claim(scheduler) == [1, 2, 3]
    settle(scheduler, 2, outcome=Release())
    assert claim(scheduler) == [2]
    settle(scheduler, 2, 3, outcome=Release())
    # B has had an overdue turn, so that its next one comes after those of A and C.
    assert claim(scheduler, 2, now=10.0) == [1, 2]


def test_claim_takes_a_run_when_asked_for_one() -> None:
    """A run is up to k consecutive members, and takes the group's slot until all are settled."""
    scheduler = one_line()
    admit(scheduler, *grouped("x", "x", "x", "x", "x"))
    assert claim(scheduler, run=3) == [1, 2, 3]
    settle(scheduler, 1)
    assert claim(scheduler, run=3) == []
    assert claim(scheduler) == []
    settle(scheduler, 2, 3)
    assert claim(scheduler, run=3) == [4, 5]


def test_claim_takes_a_run_again_when_its_lease_ran_out() -> None:
    """The first items of a lost run are claimable in a run, or else one by one."""
    scheduler = one_line()
    admit(scheduler, *grouped("x", "x", "x", "x"))
    claim(scheduler, run=3)
    assert claim(scheduler, now=10.0, run=2) == [1, 2]
    assert claim(scheduler, now=20.0) == [1]


def test_claim_stops_a_run_when_a_member_is_not_due() -> None:
    """A run does not reach over a waiting member, nor past the claim's limit."""
    scheduler = one_line()
    admit(scheduler, *grouped("x", "x"), NewItem(group_key="x", available_at=5.0), *grouped("x"))
    assert claim(scheduler, run=9) == [1, 2]
    settle(scheduler, 1, 2)
    assert claim(scheduler, 1, now=5.0, run=9) == [3]


def test_admit_lowers_the_priority_when_an_earlier_member_has_a_lower_one() -> None:
    """A member is never served at a higher priority than an earlier one of its group."""
    scheduler = one_line()
    admit(scheduler, NewItem(group_key="x"), NewItem(group_key="x", priority=9))
    item = scheduler.item(2)
    assert item is not None
    assert item.priority == 0


def test_admit_keeps_the_priority_when_the_earlier_member_was_passed() -> None:
    """Only members that the pointer has not passed bind later ones."""
    scheduler = one_line()
    admit(scheduler, NewItem(group_key="x"))
    claim(scheduler)
    admit(scheduler, NewItem(group_key="x", priority=9))
    item = scheduler.item(2)
    assert item is not None
    assert item.priority == 9


def test_admit_lowers_the_priority_when_only_the_first_member_was_passed() -> None:
    """Of a group's members the last that is still ahead of the pointer binds a new one."""
    scheduler = scheduler_of()
    admit(scheduler, *[NewItem(group_key="x") for _ in range(3)])
    claim(scheduler)
    scheduler.cancel([3], 0.0)
    admit(scheduler, NewItem(group_key="x", priority=9))
    item = scheduler.item(4)
    assert item is not None
    assert item.priority == 0


def test_admit_keeps_the_priority_when_only_a_later_member_was_passed() -> None:
    """A passed member binds nobody, though an earlier one of another priority still does."""
    scheduler = one_line(on_failure="skip")
    admit(scheduler, NewItem(group_key="x", priority=9, available_at=50.0))
    admit(scheduler, NewItem(group_key="x", priority=1))
    assert claim(scheduler) == [2]
    admit(scheduler, *[NewItem(group_key="x", priority=number) for number in (5, 20)])
    items = [scheduler.item(seq) for seq in (3, 4)]
    assert [item.priority for item in items if item] == [5, 5]


def test_admit_raises_the_tag_when_an_earlier_member_has_a_higher_one() -> None:
    """A member's tag is not below an earlier one's; its key's next item is not held back by it."""
    scheduler = scheduler_of()
    admit(
        scheduler,
        *[NewItem(fair_key="A", group_key="x") for _ in range(5)],
        NewItem(fair_key="B", group_key="x"),
        NewItem(fair_key="B"),
    )
    tags = [item.tag for seq in (5, 6, 7) if (item := scheduler.item(seq))]
    assert tags == [5.0, 5.0, 2.0]


def test_claim_leaves_a_follower_in_its_place_when_the_limit_cuts_before_it() -> None:
    """A member whose turn came before that of an earlier one is not lost when neither is served."""
    scheduler = scheduler_of(priority=None)
    admit(scheduler, *[NewItem(fair_key="A") for _ in range(3)])
    settle(scheduler, *claim(scheduler), outcome=Release())
    admit(
        scheduler,
        NewItem(fair_key="A", group_key="x"),
        NewItem(fair_key="C", group_key="x"),
        NewItem(fair_key="C"),
    )
    first = claim(scheduler, 3, run=2)
    assert 5 not in first
    rest = [*claim(scheduler, 1, run=2), *claim(scheduler, 9, run=2)]
    settle(scheduler, 4)
    assert sorted([*first, *rest, *claim(scheduler)]) == [1, 2, 3, 4, 5, 6]


def test_what_a_proposal_would_end_still_binds_its_group() -> None:
    """Law 4: a member that only a claim would end comes before one that is admitted meanwhile."""
    scheduler = scheduler_of()
    first, _ = admit(scheduler, NewItem(group_key="x", expires_at=5.0), NewItem(priority=1))
    assert scheduler.propose(6.0, 9).expired == (first,)
    (later,) = admit(scheduler, NewItem(group_key="x", priority=1), now=6.0)
    item = scheduler.item(later)
    assert item is not None
    assert item.priority == 0


def test_a_group_that_was_set_aside_binds_by_its_last_member() -> None:
    """Law 4: a new member follows the last one, though a claim would end all that wait."""
    scheduler = scheduler_of()
    for key in "aab":
        admit(scheduler, NewItem(group_key="x", fair_key=key, cost=9.0, expires_at=5.0))
    last = _raw_tag(scheduler, 2)
    assert len(scheduler.propose(6.0, 9).expired) == 3
    (later,) = admit(scheduler, NewItem(group_key="x", fair_key="c"), now=6.0)
    assert _raw_tag(scheduler, later) >= last


def _raw_tag(scheduler: Scheduler, seq: int) -> float:
    item = scheduler.item(seq)
    assert item is not None
    return item.raw_tag
