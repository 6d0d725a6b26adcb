from __future__ import annotations

from datetime import timedelta

from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.rule_model import ItemReason, Nack, NewItem, Release
from tests.unit.rules.steps import admit, claim, grouped, scheduler_of, settle


def test_explain_says_runnable_when_nothing_is_in_the_way() -> None:
    """A claim could take the item now."""
    for scheduler in (scheduler_of(), scheduler_of(group_key=None)):
        admit(scheduler, NewItem())
        assert scheduler.explain(1, 0.0) == ItemReason(reason="runnable", state="ready")


def test_explain_says_unknown_when_there_is_no_such_item() -> None:
    """Nothing is made up about items that never were."""
    assert scheduler_of().explain(7, 0.0) == ItemReason(reason="unknown")


def test_explain_names_the_holder_when_a_row_was_refused() -> None:
    """A refused row is a duplicate of the item that held its key."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(dedup_key="a"), NewItem(dedup_key="a"))
    assert scheduler.explain(2, 0.0) == ItemReason(reason="duplicate", by=1)


def test_explain_says_when_an_item_is_due_when_it_is_delayed() -> None:
    """A delay names its end, and is over then."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(available_at=5.0))
    assert scheduler.explain(1, 4.0) == ItemReason(reason="delayed", until=5.0, state="ready")
    assert scheduler.explain(1, 5.0).reason == "runnable"


def test_explain_never_looks_back() -> None:
    """A time before the last step counts as that of the step, as it does everywhere."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(available_at=5.0))
    scheduler.expire(6.0)
    assert scheduler.explain(1, 0.0).reason == "runnable"


def test_explain_says_when_a_lease_ends_when_an_item_is_claimed() -> None:
    """A lease names its end; then the item is claimable again."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem())
    claim(scheduler)
    assert scheduler.explain(1, 9.0) == ItemReason(reason="leased", until=10.0, state="claimed")
    assert scheduler.explain(1, 10.0) == ItemReason(reason="runnable", state="claimed")


def test_explain_tells_of_the_end_when_a_claim_would_end_the_item() -> None:
    """Past its deadline or its last lease an item is not runnable, though no step says so yet."""
    scheduler = scheduler_of(max_losses=1)
    admit(scheduler, NewItem(), NewItem(expires_at=5.0))
    claim(scheduler, 1)
    assert scheduler.explain(1, 10.0).reason == "lease lost"
    assert scheduler.explain(2, 10.0).reason == "expired"


def test_explain_says_paused_when_the_queue_is() -> None:
    """A pause is in the way of ready items only."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(), NewItem())
    claim(scheduler, 1)
    scheduler.pause()
    assert [scheduler.explain(seq, 0.0).reason for seq in (1, 2)] == ["leased", "paused"]


def test_explain_says_finished_when_an_item_is() -> None:
    """A terminal state explains itself."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem())
    scheduler.cancel([1], 0.0)
    assert scheduler.explain(1, 0.0) == ItemReason(reason="finished", state="cancelled")


def test_explain_names_the_member_when_the_group_is_busy() -> None:
    """The group's holder is named; so is a head that waits for its retry."""
    scheduler = scheduler_of(retry=RetryPolicy(delay=timedelta(seconds=5)))
    admit(scheduler, *grouped("x", "x", "x"))
    assert scheduler.explain(2, 0.0).by == 1
    claim(scheduler)
    assert scheduler.explain(3, 0.0).by == 1
    settle(scheduler, 1, outcome=Nack())
    held = ItemReason(reason="held by group", by=1, state="ready")
    assert scheduler.explain(2, 4.0) == held
    scheduler.configure(scheduler.config.changed(on_failure="skip"))
    assert scheduler.explain(2, 4.0).reason == "runnable"
    assert scheduler.explain(2, 5.0) == held


def test_explain_counts_a_member_out_when_its_deadline_has_passed() -> None:
    """A head that the next claim expires holds nobody."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(group_key="x", expires_at=5.0), *grouped("x"))
    assert scheduler.explain(2, 5.0).reason == "runnable"


def test_explain_names_the_member_when_lost_leases_fill_the_group() -> None:
    """Of two lost items of a group with one slot the earlier one goes first."""
    scheduler = scheduler_of(fair_key=None)
    admit(scheduler, *grouped("x", "x"))
    claim(scheduler, run=2)
    assert scheduler.explain(1, 10.0).reason == "runnable"
    assert scheduler.explain(2, 10.0).by == 1


def test_explain_says_limit_when_too_many_are_in_flight() -> None:
    """max_in_flight is in the way until a slot is free; one that the next claim ends is."""
    scheduler = scheduler_of(max_in_flight=1, max_losses=1)
    admit(scheduler, NewItem(), NewItem())
    claim(scheduler)
    assert scheduler.explain(2, 9.0) == ItemReason(reason="limit", state="ready")
    assert scheduler.explain(2, 10.0).reason == "runnable"
    settle(scheduler, 1, outcome=Release())
    assert [scheduler.explain(seq, 9.0).reason for seq in (1, 2)] == ["runnable", "limit"]
