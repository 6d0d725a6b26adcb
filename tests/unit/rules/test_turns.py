from __future__ import annotations

from spark_queue.rules.rule_model import NewItem, Release
from spark_queue.rules.scheduler import Scheduler
from tests.unit.rules.steps import admit, claim, drain, fair, scheduler_of, settle


def test_claim_takes_items_as_overdue_when_lost_ones_went_ahead_of_them() -> None:
    """While no slot is free lost items move the pointer, and may pass items that wait for one."""
    scheduler = scheduler_of(max_in_flight=2)
    admit(scheduler, *fair("AABB"))
    assert claim(scheduler, 2) == [1, 3]
    assert [(item.seq, item.turn) for item in scheduler.claim(10.0, 2).items] == [(1, 1), (3, 1)]
    assert [(item.seq, item.turn) for item in scheduler.claim(20.0, 2).items] == [(1, 2), (3, 2)]
    settle(scheduler, 1, 3, now=20.0)
    # A's tag, 2, has been passed at (2, 3), and its next overdue turn is 3; B's is not passed.
    assert [(item.seq, item.turn) for item in scheduler.claim(20.0, 2).items] == [(4, 2), (2, 3)]


def test_claim_serves_by_seq_when_lost_items_went_ahead_of_all_others() -> None:
    """Items of other keys that the pointer passed meanwhile are served in order of arrival."""
    scheduler = scheduler_of(max_in_flight=1)
    admit(scheduler, NewItem(fair_key="E", available_at=5.0), *fair("AC"))
    assert [claim(scheduler, 1, now=at) for at in (0.0, 10.0, 20.0)] == [[2], [2], [2]]
    settle(scheduler, 2, now=20.0)
    assert drain(scheduler, 20.0) == [1, 3]


def test_claim_serves_by_seq_when_overdue_and_regular_turns_are_equal() -> None:
    """An overdue item is served at the pointer, by seq with whoever else is due there."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("XXYY"), NewItem(fair_key="N", available_at=5.0))
    assert claim(scheduler, 3) == [1, 3, 2]
    served = scheduler.claim(5.0, 2).items
    assert [(item.seq, item.turn) for item in served] == [(4, 2.0), (5, 2.0)]


def test_claim_leaves_the_pointer_when_a_member_is_served_at_an_earlier_turn() -> None:
    """A member that waits for one of lower priority moves the pointer of its own never back."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(cost=5.0, group_key="x"))
    settle(scheduler, *claim(scheduler), outcome=Release())
    # The first member was passed, so it binds nobody; it is still to be served before the second.
    admit(scheduler, NewItem(group_key="x", fair_key="A", priority=9))
    admit(scheduler, *[NewItem(fair_key="A", priority=9) for _ in range(2)])
    served = [(item.seq, item.turn) for item in scheduler.claim(0.0, 9, run=2).items]
    assert served == [(3, 2.0), (4, 3.0), (1, 5.0), (2, 1.0)]
    admit(scheduler, *[NewItem(fair_key=key, priority=9) for key in "AB"])
    assert [(item.seq, item.turn) for item in scheduler.claim(0.0, 9).items] == [(5, 4.0), (6, 4.0)]


def test_claim_uses_the_regular_turn_when_an_overdue_one_of_the_key_is_equal() -> None:
    """What is overdue costs a key no regular turn: that one is used first, the other is left."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("B"), NewItem(fair_key="B", cost=0.5, available_at=5.0))
    admit(scheduler, *fair("CC"), NewItem(fair_key="B", available_at=5.0))
    assert claim(scheduler, 3) == [1, 3, 4]
    # B's lost item takes turn 2, so that its next overdue turn is 2.5, as is the tag of item 5.
    assert drain(scheduler, 10.0) == [1, 3, 2, 4, 5]


# rule: turns handed out
def test_claim_gives_a_regular_turn_once_when_another_item_took_it() -> None:
    """The item whose tag an earlier one of its key used is overdue, though nothing passed it."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("AA"))
    for turn in (1.0, 1.0, 2.0):
        assert [(item.seq, item.turn) for item in scheduler.claim(0.0, 1).items] == [(1, turn)]
        settle(scheduler, 1, outcome=Release())
    assert [(item.seq, item.turn) for item in scheduler.claim(0.0, 2).items] == [(1, 2), (2, 3)]


def test_claim_serves_by_seq_when_the_pointer_has_passed_overdue_turns() -> None:
    """Keys whose next turns the pointer has passed are all due at it, in order of arrival."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(fair_key="A", cost=0.5), NewItem(fair_key="B", cost=0.25))
    admit(scheduler, *fair("CC"))
    assert claim(scheduler, 3) == [2, 1, 3]
    settle(scheduler, 1, 2, outcome=Release())
    assert claim(scheduler, 2) == [1, 2]
    assert claim(scheduler, 1) == [4]
    settle(scheduler, 1, 2, outcome=Release())
    assert [(item.seq, item.turn) for item in scheduler.claim(0.0, 2).items] == [(1, 2), (2, 2)]


def test_claim_advances_a_key_by_its_cost_over_its_weight() -> None:
    """A key of weight 2 has two turns a round; an item of cost 2 takes two turns."""
    scheduler = scheduler_of(weights={"A": 2.0})
    admit(scheduler, *fair("AAAABB"))
    assert drain(scheduler) == [1, 2, 5, 3, 4, 6]
    admit(scheduler, NewItem(fair_key="C", cost=2.0), *fair("DDD"))
    assert drain(scheduler) == [8, 7, 9, 10]


def test_configure_stretches_turns_around_the_pointer() -> None:
    """A tag above the pointer V becomes V + (tag - V) * old weight / new weight."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("AAAAA"))
    claim(scheduler, 1)
    scheduler.configure(scheduler.config.changed(weights={"A": 0.5}))
    items = [scheduler.item(seq) for seq in (2, 3, 4, 5)]
    assert [item.tag for item in items if item] == [3.0, 5.0, 7.0, 9.0]


def test_configure_stretches_the_overdue_turns_of_a_key_as_well() -> None:
    """Of a key whose weight doubles at 3.5, the overdue turn at 3 counts as one at 3.25."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("AAA"))
    settle(scheduler, *claim(scheduler, 3), outcome=Release())
    assert claim(scheduler, 1) == [1]
    admit(scheduler, NewItem(fair_key="B", cost=0.5), NewItem(fair_key="B", cost=0.125))
    assert claim(scheduler, 1) == [4]
    scheduler.configure(scheduler.config.changed(weights={"A": 2.0}))
    assert [item.turn for item in scheduler.claim(0.0, 2).items] == [3.625, 3.75]


def test_configure_weighs_a_key_anew_when_it_has_no_items() -> None:
    """A key whose items were cancelled goes on from its last turn, on the scale of its weight."""
    scheduler = scheduler_of()
    scheduler.cancel(admit(scheduler, *fair("AAAA")), 0.0)
    scheduler.configure(scheduler.config.changed(weights={"A": 2.0}))
    admit(scheduler, *fair("A"))
    item = scheduler.item(5)
    assert item is not None
    assert item.tag == 2.5


def test_configure_remembers_an_idle_key_until_its_new_end() -> None:
    """A key without items, whose last turn moved away, goes on from there for longer."""
    scheduler = scheduler_of()
    scheduler.cancel(admit(scheduler, *fair("AAAA")), 0.0)
    scheduler.configure(scheduler.config.changed(weights={"A": 0.5}))
    admit(scheduler, *fair("BBBBB"))
    drain(scheduler)
    admit(scheduler, *fair("A"))
    item = scheduler.item(10)
    assert item is not None
    assert item.tag == 10.0


def test_configure_keeps_the_scale_of_a_key_that_rests() -> None:
    """ADR 3: a key whose weight changed while it rested stores its tags as one that did not."""
    scheduler = scheduler_of(weights={"A": 0.5})
    admit(scheduler, *fair("AB"))
    drain(scheduler)
    scheduler.cancel(admit(scheduler, *fair("A")), 0.0)
    scheduler.configure(scheduler.config.changed(weights={}))
    followed = Scheduler.restore(scheduler.config, scheduler.snapshot())
    for one in (scheduler, followed):
        admit(one, *fair("BBBBBBBB"))
        drain(one)
        admit(one, *fair("A"))
    first, second = scheduler.item(12), followed.item(12)
    assert first is not None
    assert second is not None
    assert (first.tag, first.raw_tag) == (second.tag, second.raw_tag)
    assert scheduler.snapshot()["items"] == followed.snapshot()["items"]


def test_a_finished_item_keeps_its_tag_when_weights_change() -> None:
    """What was served was served at its turn, whatever its key weighs later, or weighed before."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("AAA"))
    scheduler.configure(scheduler.config.changed(weights={"A": 2.0}))
    settle(scheduler, *claim(scheduler, 1))
    scheduler.configure(scheduler.config.changed(weights={"A": 4.0}))
    tags = [item.tag for seq in (1, 2) if (item := scheduler.item(seq))]
    assert tags == [0.5, 0.75]


# rule: one line without keys
def test_claim_ignores_keys_when_the_queue_names_none() -> None:
    """Without a fair_key and a priority the queue is one line."""
    scheduler = scheduler_of(fair_key=None, priority=None)
    admit(scheduler, *fair("AAB"), NewItem(priority=9))
    assert drain(scheduler) == [1, 2, 3, 4]


# rule: one line without keys
def test_a_tag_is_the_seq_when_the_queue_names_no_key() -> None:
    """Whatever an item costs, and however often it comes back: it is served at its own turn."""
    scheduler = scheduler_of(fair_key=None)
    admit(scheduler, NewItem(cost=5.0), NewItem(), NewItem())
    assert [item.raw_tag for seq in (1, 2, 3) if (item := scheduler.item(seq))] == [1.0, 2.0, 3.0]
    claim(scheduler, 2)
    settle(scheduler, 1, outcome=Release())
    again = scheduler.claim(0.0, 9).items
    turns = [(item.seq, item.turn, item.overdue) for item in again]
    assert turns == [(1, 1.0, False), (3, 3.0, False)]


def test_admit_takes_keys_as_equal_when_python_does() -> None:
    """1 and 1.0 are one key."""
    scheduler = scheduler_of()
    admit(scheduler, NewItem(fair_key=1), NewItem(fair_key=1.0), NewItem(fair_key="1"))
    assert drain(scheduler) == [1, 3, 2]


def test_claim_serves_an_item_at_its_own_turn_when_its_group_has_raised_that() -> None:
    """ADR 3: with nothing overdue a raised item leaves the earlier turn to the one whose it is."""
    scheduler = scheduler_of(group_limit=2)
    first, second = (
        NewItem(fair_key=key, group_key="g", cost=cost) for key, cost in (("A", 3.0), ("B", 1.0))
    )
    admit(scheduler, first, second, *fair("B"))
    served = scheduler.claim(0.0, 3).items
    assert [(item.seq, item.turn) for item in served] == [(3, 2.0), (1, 3.0), (2, 3.0)]


def test_claim_serves_no_member_at_a_turn_below_that_of_an_earlier_one_of_its_priority() -> None:
    """ADR 3: not even where one of a lower priority, which came back, stands between them."""
    scheduler = scheduler_of(group_limit=3)
    first, second, third = (
        NewItem(fair_key=key, group_key="g", priority=priority, cost=cost)
        for key, priority, cost in (("A", 1, 10.0), ("B", 0, 1.0), ("C", 1, 1.0))
    )
    admit(scheduler, first, second)
    for _ in range(2):
        settle(scheduler, *claim(scheduler), outcome=Release())
    admit(scheduler, third)
    served = scheduler.claim(0.0, 3).items
    assert [(item.seq, item.turn) for item in served] == [(1, 20.0), (2, 2.0), (3, 20.0)]


# rule: slots of a line
def test_claim_serves_by_seq_when_an_item_of_the_key_is_overdue() -> None:
    """ADR 3: what came back goes before later items of its key, so they take turns in order."""
    scheduler = scheduler_of()
    admit(scheduler, *fair("AAA"))
    settle(scheduler, *claim(scheduler, 1), outcome=Release())
    served = scheduler.claim(0.0, 3).items
    assert [(item.seq, item.turn) for item in served] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_key_whose_items_wait_is_remembered() -> None:
    """One that was idle, and has items again, goes on behind them when its old end is passed."""
    scheduler = scheduler_of()
    scheduler.cancel(admit(scheduler, *fair("A")), 0.0)
    admit(scheduler, *fair("AAA"))
    assert claim(scheduler, 2) == [2, 3]
    admit(scheduler, *fair("A"))
    assert scheduler.last_tag(0, "A") == 5.0


# rule: lapsed items of a full queue
def test_lapsed_items_behind_one_without_a_slot_take_turns_as_if_nothing_else_waited() -> None:
    """The turn of their key that is on time is left to the item of it that waits."""
    scheduler = scheduler_of(max_in_flight=3)
    admit(scheduler, *fair("BB"))
    claim(scheduler, 2)
    admit(scheduler, *fair("B"), *(NewItem(fair_key=key, priority=1) for key in "CA"))
    served = scheduler.claim(10.0, 5).items
    turns = [(item.seq, item.turn, item.overdue) for item in served]
    assert turns == [(4, 1.0, False), (1, 2.0, True), (2, 3.0, True)]


# rule: lapsed items of a full queue
def test_a_proposal_gives_out_the_slot_of_what_it_would_end() -> None:
    """As a claim does: what dies of its last loss leaves its slot to the next item."""
    scheduler = scheduler_of(max_in_flight=1, max_losses=1)
    admit(scheduler, *fair("AB"))
    claim(scheduler, 1)
    proposed = scheduler.propose(10.0, 1)
    assert (proposed.dead, [item.seq for item in proposed.items]) == ((1,), [2])
