"""The laws of a queue, as scenarios that every engine must play alike."""

from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue.errors import InvalidArgumentError, LeaseLostError, SchemaMismatchError
from spark_queue.retry_policy import RetryPolicy
from tests.conformance.conftest import Make
from tests.conformance.engines import Engine, Row

needs = pytest.mark.needs
planned = pytest.mark.planned

AT_ONCE = RetryPolicy(delay=timedelta(0))
IN_A_MINUTE = RetryPolicy(backoff="fixed", delay=timedelta(minutes=1))


def _drained(engine: Engine, limit: int = 100) -> list[str]:
    """Claim and ack until nothing comes; return the ids in order."""
    served: list[str] = []
    while (held := engine.claim(limit)).ids:
        served += held.ids
        held.settle("ack")
    return served


def _tenants(*ids: str) -> list[Row]:
    return [Row(id=f"{place:02d}{name}", tenant=name[0]) for place, name in enumerate(ids)]


def _names(ids: list[str]) -> list[str]:
    return [name[2:] for name in ids]


# rule: one item of a key
def test_a_key_is_refused_while_it_is_live(make: Make) -> None:
    """Law 3: a second item of a live key is refused with its holder, also within one frame."""
    engine = make("dedup_key")
    assert engine.enqueue(
        [Row(id="a", key="k"), Row(id="b", key="k"), Row(id="c"), Row(id="d")]
    ) == [None, "a", None, None]
    assert engine.enqueue([Row(id="e", key="k"), Row(id="f", key="j")]) == ["a", None]
    held = engine.claim(1)
    assert held.ids == ["a"]
    assert engine.enqueue([Row(id="g", key="k")]) == ["a"]
    held.settle("ack")
    assert engine.enqueue([Row(id="h", key="k")]) == [None]


# rule: scope of a key
@planned
@needs("scopes", "time")
def test_a_key_stays_taken_for_its_scope(make: Make) -> None:
    """Law 3: with a duration for a scope, a key is free when its item is done and the time over."""
    engine = make("dedup_key", dedup_scope=timedelta(minutes=10))
    engine.enqueue([Row(id="a", key="k")])
    engine.claim(1).settle("ack")
    engine.advance(599)
    assert engine.enqueue([Row(id="b", key="k")]) == ["a"]
    engine.advance(1)
    assert engine.enqueue([Row(id="c", key="k")]) == [None]


# rule: scope of a key
@needs("scopes", "time")
def test_a_key_is_taken_for_ever_where_asked(make: Make) -> None:
    """Law 3: with ``forever`` for a scope, a key that was accepted once is never free again."""
    engine = make("dedup_key", dedup_scope="forever")
    engine.enqueue([Row(id="a", key="k")])
    engine.claim(1).settle("ack")
    engine.advance(1e6)
    assert engine.enqueue([Row(id="b", key="k")]) == ["a"]


# rule: tag of a new item, order of service
@planned
def test_keys_are_served_in_rounds(make: Make) -> None:
    """Law 5, FQ-06: one item of each key a round, in the order in which the heads came."""
    engine = make("fair_key")
    engine.enqueue(_tenants("A1", "B1", "A2", "A3", "B2", "C1", "C2", "C3", "C4"))
    assert _names(engine.claim(4).ids) == ["A1", "B1", "C1", "A2"]
    assert _names(_drained(engine, 2)) == ["B2", "C2", "A3", "C3", "C4"]


def test_items_without_a_key_take_turns_as_one(make: Make) -> None:
    """Law 5: what has no fair key is a line like any other."""
    engine = make("fair_key")
    engine.enqueue([Row(id="a"), Row(id="b"), Row(id="c", tenant="C"), Row(id="d", tenant="C")])
    assert engine.claim(4).ids == ["a", "c", "b", "d"]


# rule: tag of a new item
def test_a_late_key_waits_for_the_next_round_only(make: Make) -> None:
    """Law 5, FQ-27: a key that comes late is served in the next round, whatever waits of others."""
    engine = make("fair_key")
    engine.enqueue(_tenants("A1", "B1", "A2", "A3", "A4"))
    assert _names(engine.claim(1).ids) == ["A1"]
    engine.enqueue([Row(id="10C1", tenant="C")])
    assert _names(_drained(engine, 1)) == ["B1", "A2", "C1", "A3", "A4"]


# rule: weight of a key
@needs("weights")
def test_a_weight_gives_more_turns_and_counts_for_what_waits(make: Make) -> None:
    """Law 5: a key of weight 2 gets two turns a round, also those items that wait already."""
    engine = make("fair_key")
    engine.enqueue(_tenants("A1", "A2", "A3", "A4", "A5", "A6", "B1", "B2", "B3"))
    assert _names(engine.claim(2).ids) == ["A1", "B1"]
    engine.configure(weights={"A": 2.0})
    served = _names(_drained(engine))
    assert [name for name in served if name[0] == "A"] == ["A2", "A3", "A4", "A5", "A6"]
    assert sorted(served[:3]) == ["A2", "A3", "B2"]


# rule: weight of a key
@needs("weights", "returns", "on demand")
def test_a_weight_moves_what_was_handed_out_late(make: Make) -> None:
    """Law 5, ADR 3: a key's overdue turns are stretched with all others, not counted from anew."""
    engine = make("fair_key")
    engine.enqueue(_tenants(*(f"B{n}" for n in range(1, 9)), "A1", "A2", "A3"))
    held = engine.claim(6)
    assert sorted(_names(held.ids)) == ["A1", "A2", "A3", "B1", "B2", "B3"]
    held.settle("release", [name for name in held.ids if name[2] == "A"])
    served = [engine.claim(1) for _ in range(6)]
    assert [_names(claim.ids)[0] for claim in served] == ["A1", "B4", "A2", "B5", "A3", "B6"]
    served[4].settle("release")
    engine.configure(weights={"A": 0.5})
    assert [_names(engine.claim(1).ids)[0] for _ in range(2)] == ["A3", "B7"]


# rule: place of a new member
@needs("predicates", "priority", "on demand")
def test_a_member_that_has_ended_lowers_nobody(make: Make) -> None:
    """Law 4: a new member of a group stands behind those that are live, whatever ended before."""
    engine = make("group_key", "priority")
    engine.enqueue([Row(id="a", group="g"), Row(id="b", group="g"), Row(id="c")])
    engine.cancel("b")
    engine.enqueue([Row(id="d", group="g", priority=1), Row(id="e", priority=1)])
    assert engine.claim(1).ids == ["e"]
    engine.cancel("a", "d")
    engine.enqueue([Row(id="f", group="g", priority=1)])
    assert engine.claim(9).ids == ["f", "c"]


# rule: place of a new member
@needs("predicates", "composed", "on demand")
def test_a_member_that_has_ended_leaves_the_place_of_the_one_before_it(make: Make) -> None:
    """Law 4: a new member stands behind the last one that is live, and stays when that ends."""
    engine = make("fair_key", "group_key")
    engine.enqueue(
        [
            *(Row(id=name, tenant="A") for name in ("a", "b")),
            Row(id="c", tenant="A", group="g"),
            Row(id="d", tenant="B", group="g"),
        ]
    )
    engine.cancel("d")
    engine.enqueue([Row(id="e", tenant="C", group="g")])
    engine.cancel("c")
    engine.enqueue([Row(id=name, tenant="D") for name in ("f", "g")])
    assert engine.claim(9).ids == ["a", "f", "b", "g", "e"]


# rule: slots of a group
def test_a_group_runs_one_at_a_time_in_order(make: Make) -> None:
    """Law 4: of a group one item is in flight, and the next comes when it is done."""
    engine = make("group_key")
    rows = [Row(id="a", group="g"), Row(id="b", group="g"), Row(id="c", group="h"), Row(id="d")]
    engine.enqueue(rows)
    held = engine.claim(10)
    assert held.ids == ["a", "c", "d"]
    assert engine.claim(10).ids == []
    held.settle("ack", ["c", "d"])
    assert engine.claim(10).ids == []
    held.settle("ack", ["a"])
    assert engine.claim(10).ids == ["b"]


# rule: waiting head of a group
@needs("retries")
def test_a_failed_head_holds_its_group(make: Make) -> None:
    """Law 4: with ``block``, a failed head waits for its retry and everything behind it too."""
    engine = make("group_key", retry=IN_A_MINUTE)
    engine.enqueue([Row(id="a", group="g"), Row(id="b", group="g"), Row(id="c", group="h")])
    held = engine.claim(1)
    held.settle("nack", error="boom")
    assert engine.claim(10).ids == ["c"]
    engine.advance(60)
    assert engine.claim(10).ids == ["a"]


# rule: waiting head of a group
@needs("retries", "on demand")
def test_a_failed_head_is_passed_where_asked(make: Make) -> None:
    """Law 4: with ``skip``, the items behind a failed head go on and it is retried later."""
    engine = make("group_key", retry=IN_A_MINUTE, on_failure="skip")
    engine.enqueue([Row(id="a", group="g"), Row(id="b", group="g"), Row(id="c", group="g")])
    engine.claim(1).settle("nack", error="boom")
    held = engine.claim(10)
    assert held.ids == ["b"]
    held.settle("ack")
    engine.advance(60)
    assert engine.claim(10).ids == ["a"]


# rule: outcome of an item
@needs("retries", "states")
def test_a_dead_head_frees_its_group(make: Make) -> None:
    """Law 4: an item that failed for the last time is dead, and its group goes on."""
    engine = make("group_key", retry=AT_ONCE, max_attempts=2)
    engine.enqueue([Row(id="a", group="g"), Row(id="b", group="g")])
    engine.claim(10).settle("nack", error="once")
    engine.claim(10).settle("nack", error="twice")
    assert engine.states() == {"a": "dead", "b": "ready"}
    assert engine.claim(10).ids == ["b"]


# rule: attempts of an item
@needs("limits", "retries", "states")
def test_an_item_dies_of_its_own_limit(make: Make) -> None:
    """A limit of an item's own wins over the queue's, whether it is lower or higher."""
    engine = make(retry=AT_ONCE, max_attempts=2)
    engine.enqueue([Row(id="a", max_attempts=1), Row(id="b", max_attempts=3), Row(id="c")])
    engine.claim(10).settle("nack", error="once")
    assert engine.states() == {"a": "dead", "b": "ready", "c": "ready"}
    engine.claim(10).settle("release")
    engine.claim(10).settle("nack", ["b", "c"], error="twice")
    assert engine.states() == {"a": "dead", "b": "ready", "c": "dead"}
    engine.configure(max_attempts=1)
    engine.claim(10).settle("nack", error="thrice")
    assert engine.states() == {"a": "dead", "b": "dead", "c": "dead"}


# rule: attempts of an item
@needs("limits", "retries", "states")
def test_an_item_may_die_where_the_queue_retries_for_ever(make: Make) -> None:
    """Without a limit of the queue's, an item has the one that it came with."""
    engine = make(retry=AT_ONCE, max_attempts=None)
    engine.enqueue([Row(id="a", max_attempts=2), Row(id="b")])
    for _ in range(3):
        engine.claim(10).settle("nack", error="again")
    assert engine.states() == {"a": "dead", "b": "ready"}


# rule: attempts of an item
@planned
@needs("limits", "predicates", "retries")
def test_a_redriven_item_keeps_its_limit(make: Make) -> None:
    """It has failed never, and dies of as many failures as before."""
    engine = make(retry=AT_ONCE, max_attempts=5)
    engine.enqueue([Row(id="a", max_attempts=2)])
    for _ in range(2):
        engine.claim(1).settle("nack", error="no")
    engine.redrive("a")
    engine.claim(1).settle("nack", error="no")
    assert engine.states() == {"a": "dead", "a'": "ready"}
    engine.claim(1).settle("nack", error="no")
    assert engine.states() == {"a": "dead", "a'": "dead"}


# rule: attempts of an item
@needs("leases", "limits", "retries", "states")
def test_a_lost_lease_is_no_failure_of_a_limit(make: Make) -> None:
    """Leases that run out, and what is given back, leave an item its last attempt."""
    engine = make(retry=AT_ONCE, lease=timedelta(seconds=60))
    engine.enqueue([Row(id="a", max_attempts=1)])
    engine.claim(1)
    engine.advance(61)
    engine.claim(1).settle("release")
    assert engine.states() == {"a": "ready"}
    engine.claim(1).settle("nack", error="no")
    assert engine.states() == {"a": "dead"}


@needs("limits")
def test_a_limit_of_an_item_is_at_least_one(make: Make) -> None:
    """A limit of no failure is refused before anything is enqueued."""
    engine = make()
    with pytest.raises((InvalidArgumentError, SchemaMismatchError), match=r"max_attempts.* 0"):
        engine.enqueue([Row(id="a", max_attempts=0)])
    assert engine.claim(1).ids == []


# rule: slots of a group
@needs("returns")
def test_a_limit_above_one_is_kept(make: Make) -> None:
    """Laws 4, 7: two of a group are in flight, in order; who gave one back does not miss it."""
    engine = make("group_key", group_limit=2)
    engine.enqueue([Row(id=name, group="g") for name in "abcd"])
    held = engine.claim(10)
    assert held.ids == ["a", "b"]
    held.settle("release", ["a"])
    assert engine.claim(10).ids == ["a"]
    held.settle("ack")
    assert engine.claim(10).ids == ["c"]


# rule: later member of a group
@needs("composed", "retries", "returns")
def test_a_later_member_of_a_group_does_not_start_first(make: Make) -> None:
    """Law 4: two of a group may be in flight, of keys of their own, and the earlier goes first."""
    engine = make("fair_key", "group_key", group_limit=2)
    engine.enqueue(
        [
            Row(id="a", tenant="A"),
            Row(id="b", tenant="A"),
            Row(id="c", tenant="A", group="g"),
            Row(id="d", tenant="B", group="g"),
        ]
    )
    engine.claim(4).settle("release")
    assert engine.claim(3).ids == ["a", "b", "c"]


# rule: run of a group
@needs("composed", "returns", "runs")
def test_a_run_takes_consecutive_items_of_a_group(make: Make) -> None:
    """A run leases the next items of a group together, and no other claim gets into it."""
    engine = make("group_key")
    engine.enqueue([Row(id=name, group="g") for name in "abcde"])
    held = engine.claim(10, run=3)
    assert held.ids == ["a", "b", "c"]
    held.settle("ack", ["a"])
    assert engine.claim(10, run=3).ids == []
    held.settle("release")
    assert engine.claim(10, run=3).ids == ["b", "c", "d"]


# rule: newest row of an item
@needs("composed", "returns")
def test_a_released_item_keeps_its_place(make: Make) -> None:
    """Law 6, DQ-16: whatever the order in which items come back, each is where it was."""
    engine = make()
    engine.enqueue([Row(id=name) for name in "abcdef"])
    first, second = engine.claim(2), engine.claim(2)
    second.settle("release")
    first.settle("release")
    assert _drained(engine, 3) == ["a", "b", "c", "d", "e", "f"]


# rule: overdue item, slots of a line
@needs("retries", "returns")
def test_returned_items_take_one_turn_a_round_beside_the_regular_one(make: Make) -> None:
    """Law 5: a batch that failed does not make other keys wait for all of it."""
    engine = make("fair_key", retry=AT_ONCE, max_attempts=None)
    engine.enqueue(_tenants(*[f"A{i}" for i in range(8)], *[f"B{i}" for i in range(8)]))
    engine.claim(8).settle("nack", error="boom")
    served = _names(_drained(engine, 4))
    turns = [name for name in served if name[0] == "B"]
    assert turns == [f"B{i}" for i in range(8)]
    longest = max(len(run) for run in "".join(n[0] for n in served[:12]).split("B"))
    assert longest <= 3


# rule: turns handed out
@needs("retries", "returns")
def test_what_comes_back_does_not_make_a_newcomer_wait_for_all_of_it(make: Make) -> None:
    """Law 5: a key whose items were all given back has one overdue turn in each round."""
    engine = make("fair_key")
    engine.enqueue(_tenants("A0", "A1", "A2", "A3"))
    engine.claim(4).settle("release")
    engine.enqueue(_tenants("B0"))
    assert _names(engine.claim(3).ids) == ["A0", "A1", "B0"]


# rule: overdue item
@needs("retries", "returns", "time")
def test_an_overdue_turn_uses_up_no_regular_one(make: Make) -> None:
    """Law 5: an item that becomes due has its own turn, though its key had an overdue one there."""
    engine = make("fair_key")
    first = [Row(id="a", tenant="A"), Row(id="b", tenant="A"), Row(id="c", tenant="A", delay=1)]
    engine.enqueue(first)
    engine.claim(2).settle("release")
    assert engine.claim(2).ids == ["a", "b"]
    engine.enqueue([Row(id="d", tenant="B", cost=0.5)])
    engine.advance(1)
    assert engine.claim(1).ids == ["c"]


# rule: later member of a group
@needs("leases", "composed")
def test_a_member_far_back_in_its_line_is_not_passed_by_a_later_one(make: Make) -> None:
    """Law 4: a later member that is first of its key waits for an earlier one that is third."""
    engine = make("fair_key", "group_key", group_limit=2)
    engine.enqueue(
        [
            Row(id="a", tenant="A"),
            Row(id="b", tenant="A"),
            Row(id="c", tenant="A", group="g"),
            Row(id="d", tenant="B", group="g"),
        ]
    )
    engine.claim(4).settle("release")
    assert engine.claim(2).ids == ["a", "b"]


# rule: loss of a lease, holder of a lease
@needs("leases")
def test_a_lease_that_ran_out_is_taken_over(make: Make) -> None:
    """Laws 2 and 7: a lapsed item goes to the next claim, and its old holder settles nothing."""
    engine = make(lease=timedelta(seconds=60))
    engine.enqueue([Row(id="a"), Row(id="b")])
    old = engine.claim(1)
    engine.advance(59)
    assert engine.claim(10).ids == ["b"]
    engine.advance(1)
    new = engine.claim(10)
    assert new.ids == ["a"]
    with pytest.raises(LeaseLostError) as lost:
        old.settle("ack")
    assert len(lost.value.seqs) == 1
    assert engine.states()["a"] == "claimed"
    new.settle("ack")
    assert engine.states()["a"] == "acked"


# rule: place at an instant
@planned
@needs("leases", "composed")
def test_a_lease_is_left_alone_for_its_grace(make: Make) -> None:
    """Laws 2 and 7: until its end and ``lease_grace`` are over no claim takes an item over."""
    engine = make(lease=timedelta(seconds=60), lease_grace=timedelta(seconds=30), max_losses=2)
    engine.enqueue([Row(id="a"), Row(id="b")])
    late, old = engine.claim(1), engine.claim(1)
    engine.advance(89.999999)
    assert engine.claim(10).ids == []
    late.settle("ack")
    engine.advance(0.000001)
    new = engine.claim(10)
    assert new.ids == ["b"]
    with pytest.raises(LeaseLostError):
        old.settle("ack")
    assert engine.states() == {"a": "acked", "b": "claimed"}
    engine.advance(89)
    assert engine.claim(10).ids == []
    assert engine.states() == {"a": "acked", "b": "claimed"}
    engine.advance(1)
    assert engine.claim(10).ids == []
    assert engine.states() == {"a": "acked", "b": "dead"}


# rule: place at an instant, renewal of a lease
@needs("leases")
def test_a_lease_is_renewed_within_its_grace(make: Make) -> None:
    """Law 7: a holder that is late, but not too late, goes on with a lease from now on."""
    engine = make(lease=timedelta(seconds=60), lease_grace=timedelta(seconds=30))
    engine.enqueue([Row(id="a")])
    held = engine.claim(1)
    engine.advance(89)
    held.renew(10)
    engine.advance(39)
    assert engine.claim(1).ids == []
    engine.advance(1)
    assert engine.claim(1).ids == ["a"]


# rule: place at an instant
@needs("leases", "operators")
def test_a_grace_counts_for_leases_that_are_there(make: Make) -> None:
    """It is live: what a claim leaves lapsed is left alone again, and is not once it is shorter."""
    engine = make(lease=timedelta(seconds=60))
    engine.enqueue([Row(id="a"), Row(id="b")])
    assert engine.claim(2).ids == ["a", "b"]
    engine.advance(60)
    assert engine.claim(1).ids == ["a"]
    assert engine.why("b") == ("runnable", None)
    engine.configure(lease_grace=timedelta(seconds=30))
    assert engine.why("b") == ("leased", None)
    assert engine.claim(10).ids == []
    engine.advance(10)
    assert engine.claim(10).ids == []
    engine.configure(lease_grace=timedelta(seconds=10))
    assert engine.why("b") == ("runnable", None)
    assert engine.claim(10).ids == ["b"]


# rule: place at an instant, slots of a group
@needs("leases", "operators", "composed")
def test_an_item_that_is_left_alone_is_in_the_way_of_its_group(make: Make) -> None:
    """Law 4: it has its slot, and the one of ``max_in_flight``, as one whose lease holds."""
    engine = make(
        "group_key",
        lease=timedelta(seconds=60),
        lease_grace=timedelta(seconds=30),
        max_in_flight=1,
    )
    engine.enqueue([Row(id="a", group="g"), Row(id="b", group="g"), Row(id="c")])
    assert engine.claim(1).ids == ["a"]
    engine.advance(60)
    seen = {name: engine.why(name) for name in "abc"}
    assert seen == {"a": ("leased", None), "b": ("held by group", "a"), "c": ("limit", None)}
    assert engine.claim(10).ids == []
    engine.advance(30)
    assert engine.claim(10).ids == ["a"]


# rule: holder of a lease
@needs("leases")
def test_a_late_settle_counts_where_nobody_claimed_since(make: Make) -> None:
    """Law 7: a lease that ran out is still its holder's until a later claim."""
    engine = make(lease=timedelta(seconds=60))
    engine.enqueue([Row(id="a")])
    held = engine.claim(1)
    engine.advance(1000)
    held.settle("ack")
    assert engine.states() == {"a": "acked"}
    assert engine.claim(1).ids == []


# rule: loss of a lease, holder of a lease
@needs("leases", "states")
def test_a_claim_takes_over_no_more_than_it_gets(make: Make) -> None:
    """Laws 2 and 7: lapsed items that a claim leaves are their holder's, and nobody lost them."""
    engine = make(lease=timedelta(seconds=60), max_losses=2)
    engine.enqueue([Row(id=name) for name in "abcd"])
    held = engine.claim(3)
    engine.advance(60)
    assert engine.claim(1).ids == ["a"]
    held.settle("ack", ["b", "c"])
    assert engine.states() == {"a": "claimed", "b": "acked", "c": "acked", "d": "ready"}


# rule: renewal of a lease
@planned
@needs("leases")
def test_a_renewed_lease_holds(make: Make) -> None:
    """Law 2: a renewal counts from when it is made, and nobody else gets what is left meanwhile."""
    engine = make(lease=timedelta(seconds=60))
    engine.enqueue([Row(id="a"), Row(id="b")])
    held = engine.claim(2)
    held.settle("ack", ["b"])
    engine.advance(50)
    held.renew(60)
    engine.advance(59)
    assert engine.claim(1).ids == []
    engine.advance(1)
    assert engine.claim(1).ids == ["a"]


# rule: renewal of a lease
@needs("leases", "returns")
def test_a_renewal_is_of_what_its_claim_still_holds(make: Make) -> None:
    """Law 2: an item that a later claim has is that claim's, whoever renews the one before."""
    engine = make(lease=timedelta(seconds=60))
    engine.enqueue([Row(id="a"), Row(id="b"), Row(id="c")])
    first = engine.claim(3)
    first.settle("release", ["b"])
    second = engine.claim(1)
    assert second.ids == ["b"]
    engine.advance(50)
    first.renew(60)
    engine.advance(20)
    assert engine.claim(3).ids == ["b"]
    with pytest.raises(LeaseLostError):
        second.renew(60)
    first.renew(5)
    engine.advance(5)
    assert engine.claim(3).ids == ["a", "c"]
    with pytest.raises(LeaseLostError):
        first.renew(60)


# rule: loss of a lease
@needs("leases", "states")
def test_an_item_that_loses_its_leases_dies(make: Make) -> None:
    """An item whose leases run out too often is dead by the claim that meets it."""
    engine = make("group_key", lease=timedelta(seconds=60), max_losses=2)
    engine.enqueue([Row(id="a", group="g"), Row(id="b", group="g")])
    engine.claim(1)
    engine.advance(60)
    assert engine.claim(1).ids == ["a"]
    engine.advance(60)
    assert engine.claim(1).ids == ["b"]
    assert engine.states()["a"] == "dead"


# rule: place at an instant, deadline of an item
@planned
@needs("time")
def test_time_decides_what_is_due_and_what_is_over(make: Make) -> None:
    """Law 9: a delayed item comes when it is due, an expired one is ended by a claim's row."""
    engine = make("dedup_key")
    engine.enqueue(
        [Row(id="a", delay=60), Row(id="b", key="k", ttl=30), Row(id="c", ttl=90), Row(id="d")]
    )
    assert engine.claim(1).ids == ["b"]
    engine.advance(30)
    assert engine.enqueue([Row(id="e", key="k", ttl=1)]) == ["b"]
    assert engine.claim(1).ids == ["c"]
    engine.advance(30)
    assert engine.claim(10).ids == ["a", "d"]


# rule: scope of a key
@needs("time", "states")
def test_an_expired_item_frees_its_key_by_a_row_only(make: Make) -> None:
    """Law 9: an item whose time is over holds its key until a claim has logged the expiry."""
    engine = make("dedup_key")
    engine.enqueue([Row(id="a", key="k", ttl=30)])
    engine.advance(30)
    assert engine.enqueue([Row(id="b", key="k")]) == ["a"]
    assert engine.claim(1).ids == []
    assert engine.states() == {"a": "expired"}
    assert engine.enqueue([Row(id="c", key="k")]) == [None]


# rule: order of service
@needs("priority", "composed")
def test_higher_priorities_go_first_but_not_within_a_group(make: Make) -> None:
    """A higher priority is served first; inside a group only the sequence decides."""
    engine = make("priority", "group_key", "fair_key")
    engine.enqueue(
        [
            Row(id="a", tenant="A", group="g", priority=1),
            Row(id="b", tenant="A", group="g", priority=9),
            Row(id="c", tenant="B", priority=5),
            Row(id="d", tenant="A", priority=5),
        ]
    )
    assert _drained(engine) == ["c", "d", "a", "b"]


# rule: later member of a group
@needs("composed", "runs", "weights")
def test_a_later_member_of_a_run_comes_behind_an_earlier_one_whose_turn_moved(make: Make) -> None:
    """Law 4: where both may start, the second does not go by the turn of its own key."""
    engine = make("fair_key", "group_key")
    engine.enqueue(
        [
            Row(id="a", tenant="A"),
            Row(id="b", tenant="B", group="g"),
            Row(id="c", tenant="A", group="g"),
        ]
    )
    engine.configure(weights={"B": 0.2})
    assert engine.claim(1).ids == ["a"]
    assert engine.claim(3, run=3).ids == ["b", "c"]


# rule: later member of a group
@needs("composed", "priority", "returns", "runs")
def test_a_later_member_of_a_run_has_no_higher_priority_than_one_that_came_back(make: Make) -> None:
    """Law 4: what entered while the one before it was in flight waits for it all the same."""
    engine = make("priority", "group_key")
    engine.enqueue([Row(id="a", group="g")])
    held = engine.claim(1)
    engine.enqueue([Row(id="b", group="g", priority=1), Row(id="c")])
    held.settle("release")
    assert engine.claim(1, run=2).ids == ["a"]


# rule: place of a new member
@needs("priority", "composed", "retries")
def test_a_later_member_has_no_higher_priority_than_an_earlier_one(make: Make) -> None:
    """Where two of a group may start, the priority of the second does not put it first."""
    engine = make("priority", "group_key", group_limit=2)
    engine.enqueue(
        [
            Row(id="a", group="g", priority=1),
            Row(id="b", group="g", priority=9),
            Row(id="c", priority=5),
        ]
    )
    assert engine.claim(3).ids == ["c", "a", "b"]


# rule: place of a new member
@needs("priority", "composed", "retries")
def test_a_member_that_was_served_binds_none_that_come_later(make: Make) -> None:
    """A group of which all were served takes the priority of its next item."""
    engine = make("priority", "group_key")
    engine.enqueue([Row(id="a", group="g")])
    engine.claim(1).settle("ack")
    engine.enqueue([Row(id="b"), Row(id="c", group="g", priority=9)])
    assert engine.claim(2).ids == ["c", "b"]


# rule: room of a claim
@needs("leases", "composed")
def test_in_flight_items_are_limited(make: Make) -> None:
    """A claim never lets more items be in flight than allowed, and a lapsed one may come back."""
    engine = make(max_in_flight=2, lease=timedelta(seconds=60))
    engine.enqueue([Row(id=name) for name in "abcd"])
    held = engine.claim(10)
    assert held.ids == ["a", "b"]
    assert engine.claim(10).ids == []
    held.settle("ack", ["a"])
    assert engine.claim(10).ids == ["c"]
    engine.advance(60)
    again = engine.claim(10)
    assert again.ids == ["b", "c"]
    again.settle("ack")
    assert engine.claim(10).ids == ["d"]


# rule: lapsed items of a full queue
@needs("leases", "priority", "states")
def test_an_item_that_is_in_flight_needs_no_other_slot(make: Make) -> None:
    """Where no slot is left, lapsed items go on; one that dies leaves its slot to that claim."""
    engine = make("priority", max_in_flight=2, lease=timedelta(seconds=60), max_losses=2)
    engine.enqueue([Row(id="low")])
    assert engine.claim(10).ids == ["low"]
    engine.enqueue([Row(id="high", priority=9), Row(id="next", priority=9)])
    engine.advance(60)
    assert engine.claim(10).ids == ["high", "low"]
    assert engine.why("next") == ("limit", None)
    engine.advance(60)
    assert engine.why("next") == ("runnable", None)
    assert engine.claim(10).ids == ["high", "next"]
    assert engine.states() == {"low": "dead", "high": "claimed", "next": "claimed"}


# rule: slots of a group
@needs("leases", "retries", "composed")
def test_a_lapsed_item_keeps_the_slot_of_its_group(make: Make) -> None:
    """Law 4: an earlier item that comes back waits while a later one has the group's slot."""
    engine = make("group_key", on_failure="skip", retry=IN_A_MINUTE, lease=timedelta(seconds=60))
    engine.enqueue([Row(id="a", group="g"), Row(id="b", group="g")])
    engine.claim(1).settle("nack", error="boom")
    assert engine.claim(1).ids == ["b"]
    engine.advance(60)
    held = engine.claim(10)
    assert held.ids == ["b"]
    held.settle("ack")
    assert engine.claim(10).ids == ["a"]


# rule: reason of an item
@needs("operators", "leases", "time")
def test_it_is_said_why_an_item_does_not_run(make: Make) -> None:
    """The first thing in the way is named: what the next claim takes away, is in nobody's."""
    engine = make("group_key", lease=timedelta(seconds=60))
    engine.enqueue([Row(id="a", group="g", ttl=30), Row(id="b", group="g"), Row(id="c", delay=100)])
    engine.enqueue([Row(id="d"), Row(id="e", group="g")])
    held = engine.claim(10)
    assert held.ids == ["a", "d"]
    assert engine.why("b") == ("held by group", "a")
    held.settle("release", ["a"])
    engine.advance(60)
    seen = {name: engine.why(name) for name in "abcde"}
    assert seen == {
        "a": ("expired", None),
        "b": ("runnable", None),
        "c": ("delayed", None),
        "d": ("runnable", None),
        "e": ("held by group", "b"),
    }
    engine.pause()
    assert {engine.why(name) for name in "abcde"} == {("paused", None)}
    engine.resume()
    assert engine.claim(10).ids == ["b", "d"]


@needs("operators")
def test_a_refused_item_is_said_to_be_a_duplicate(make: Make) -> None:
    """Its reason is the item that held the key, whatever has become of that."""
    engine = make("dedup_key")
    engine.enqueue([Row(id="a", key="k"), Row(id="b", key="k")])
    assert engine.why("b") == ("duplicate", "a")
    engine.claim(1).settle("ack")
    assert [engine.why(name) for name in "ab"] == [("finished", None), ("duplicate", "a")]
    engine.enqueue([Row(id="c", key="k")])
    assert [engine.why(name) for name in "bc"] == [("duplicate", "a"), ("runnable", None)]


# rule: reason of an item
@needs("operators", "leases")
def test_of_a_full_group_the_first_in_flight_is_named(make: Make) -> None:
    """An item is held by its group where lapsed, held and earlier items leave it no slot."""
    engine = make("group_key", group_limit=3, lease=timedelta(seconds=60))
    engine.enqueue([Row(id=name, group="g") for name in "abcde"])
    held = engine.claim(10)
    assert held.ids == ["a", "b", "c"]
    held.settle("release", ["a"])
    assert [engine.why(name) for name in "ad"] == [("runnable", None), ("held by group", "b")]
    engine.advance(60)
    assert [engine.why(name) for name in "bd"] == [("runnable", None), ("held by group", "b")]


# rule: paused queue
@needs("operators")
def test_a_paused_queue_gives_nothing_and_takes_settles(make: Make) -> None:
    """A claim after a pause gets nothing; what is in flight goes on."""
    engine = make()
    engine.enqueue([Row(id="a"), Row(id="b")])
    held = engine.claim(1)
    engine.pause()
    assert engine.claim(10).ids == []
    held.settle("ack")
    engine.resume()
    assert engine.claim(10).ids == ["b"]


@planned
@needs("predicates")
def test_a_cancelled_item_is_gone_for_its_holder(make: Make) -> None:
    """Law 8: cancelled is final, frees the group, and its holder's settle changes nothing."""
    engine = make("group_key")
    engine.enqueue([Row(id="a", group="g"), Row(id="b", group="g"), Row(id="c", group="g")])
    held = engine.claim(1)
    engine.cancel("a", "b")
    with pytest.raises(LeaseLostError):
        held.settle("ack")
    assert engine.states() == {"a": "cancelled", "b": "cancelled", "c": "ready"}
    assert engine.claim(10).ids == ["c"]


# rule: redrive of an ended item
@needs("predicates", "scopes")
def test_of_two_that_had_a_key_the_one_that_holds_it_is_redriven(make: Make) -> None:
    """Law 3: a redriven item is in the way of others with its key, and they are not in its."""
    engine = make("dedup_key", dedup_scope="forever")
    engine.enqueue([Row(id="a", key="k")])
    engine.claim(1).settle("dead", error="no")
    engine.redrive("a")
    engine.claim(1).settle("dead", error="no")
    engine.redrive("a", "a'", again=True)
    assert engine.states() == {"a": "dead", "a'": "dead", "a''": "ready"}


# rule: redrive of an ended item
@needs("predicates")
def test_a_redrive_is_a_new_item(make: Make) -> None:
    """Law 8: a dead item stays dead and is redriven once, or again if its key is free.

    The new one has the deadline of the old behind it, also one that is still to come.
    """
    engine = make("dedup_key")
    engine.enqueue([Row(id="a", key="k", ttl=50)])
    engine.claim(1).settle("dead", error="no")
    engine.redrive("a")
    assert engine.states() == {"a": "dead", "a'": "ready"}
    engine.redrive("a")
    assert engine.states() == {"a": "dead", "a'": "ready"}
    engine.claim(10).settle("ack")
    engine.redrive("a")
    assert engine.states() == {"a": "dead", "a'": "acked"}
    engine.redrive("a", again=True)
    engine.advance(50)
    assert engine.claim(10).ids == ["a''"]


@needs("columns", "retries", "runs")
def test_added_column_is_null_in_items_that_are_there(make: Make) -> None:
    """A queue takes a column while items wait and are claimed: their turns and states stay."""
    engine = make("dedup_key", "group_key")
    engine.enqueue([Row(id=name, key=name, group="g") for name in "abc"])
    held = engine.claim(1)
    assert engine.add_notes() == ["note"]
    assert engine.add_notes() == []
    assert engine.enqueue([Row(id="d", key="d", note="x"), Row(id="e", key="b")]) == [None, "b"]
    assert engine.notes() == {"a": None, "b": None, "c": None, "d": "x"}
    assert engine.claim(10).ids == ["d"]
    held.settle("nack")
    engine.advance(60)
    assert engine.claim(10, run=3).ids == ["a", "b", "c"]
    assert engine.notes() == {"a": None, "b": None, "c": None, "d": "x"}
