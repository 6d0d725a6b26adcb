"""The laws of flow control by key, as scenarios that every engine must play alike."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, InvalidConfigError, LeaseLostError
from spark_queue.flow import Limit, Rate
from spark_queue.retry_policy import RetryPolicy
from tests.conformance.conftest import Make
from tests.conformance.engines import Engine, Row

needs = pytest.mark.needs
planned = pytest.mark.planned

AT_ONCE = RetryPolicy(delay=timedelta(0))
IN_A_MINUTE = RetryPolicy(backoff="fixed", delay=timedelta(minutes=1))


def _tenants(*ids: str, key: str | None = None) -> list[Row]:
    """Return items each of the tenant that its id begins with, and of a further key."""
    return [Row(id=name, tenant=name[0], key=key) for name in ids]


def _of_tenant(default: int | None, **overrides: int | None) -> Limit:
    return Limit(by="tenant", default=default, overrides=overrides)


def _turn(engine: Engine) -> list[str]:
    """Claim one item and ack it."""
    held = engine.claim(1)
    if held.ids:
        held.settle("ack")
    return held.ids


# rule: limit of a key, pass of a claim
@needs("key limits", "operators")
def test_a_key_has_no_more_in_flight_than_its_limit(make: Make) -> None:
    """Law 10, FC-01: a full key is passed, and it is said which it is and what is in flight."""
    engine = make("fair_key", limits=(_of_tenant(2),))
    engine.enqueue(_tenants("a1", "a2", "a3", "a4", "b1", "b2"))
    held = engine.claim(4)
    assert sorted(held.ids) == ["a1", "a2", "b1", "b2"]
    assert engine.claim(4).ids == []
    assert engine.why("a3") == ("key limit", "a1")
    held.settle("ack", ["a1"])
    assert engine.why("a3") == ("runnable", None)
    assert engine.claim(4).ids == ["a3"]
    assert engine.why("a4") == ("key limit", "a2")


# rule: limit of a key
@needs("key limits", "leases")
def test_an_item_whose_lease_ran_out_has_its_slot(make: Make) -> None:
    """Law 10, FC-03: it counts until a step ends that, and is taken over in a full key."""
    engine = make("fair_key", limits=(_of_tenant(1),), lease=timedelta(seconds=60))
    engine.enqueue(_tenants("a1", "a2", "b1"))
    assert engine.claim(1).ids == ["a1"]
    engine.advance(60)
    assert engine.claim(10).ids == ["a1", "b1"]
    assert engine.claim(10).ids == []


# rule: limit of a key, pass of a claim
@needs("key limits")
def test_an_item_needs_room_in_all_its_limits_and_takes_of_none_without(make: Make) -> None:
    """Law 10, FC-04: what is passed for one key takes no slot of another, and others go on."""
    engine = make("fair_key", limits=(_of_tenant(3), Limit(by="key", default=1)))
    engine.enqueue([*_tenants("a1", "a2", "a3", key="x"), *_tenants("a4", "a5", "a6", key="y")])
    engine.enqueue(_tenants("a7", "a8"))
    assert engine.claim(10).ids == ["a1", "a4", "a7"]
    assert engine.claim(10).ids == []


# rule: limit of a key
@needs("key limits", "returns")
def test_a_changed_limit_holds_from_the_next_claim_on(make: Make) -> None:
    """Law 10, FC-06: a lower one takes nothing back, a higher one serves first what waits."""
    engine = make("fair_key", limits=(_of_tenant(2),))
    engine.enqueue(_tenants("a1", "a2", "a3", "a4"))
    held = engine.claim(10)
    assert held.ids == ["a1", "a2"]
    engine.configure(limits=(_of_tenant(1),))
    held.settle("ack", ["a1"])
    assert engine.claim(10).ids == []
    engine.configure(limits=(_of_tenant(3),))
    engine.enqueue(_tenants("a5"))
    assert engine.claim(10).ids == ["a3", "a4"]


@needs("key limits")
def test_a_limit_of_nothing_stops_a_key(make: Make) -> None:
    """Law 10, FC-10: 0 is a limit like any other; an override counts for its key alone."""
    engine = make("fair_key", limits=(_of_tenant(None, a=0, c=1),))
    engine.enqueue(_tenants("a1", "b1", "b2", "c1", "c2"))
    assert sorted(engine.claim(10).ids) == ["b1", "b2", "c1"]
    engine.configure(limits=(_of_tenant(0, b=None),))
    engine.enqueue([*_tenants("b3"), Row(id="d1", tenant="d"), Row(id="none")])
    assert sorted(engine.claim(10).ids) == ["b3", "none"]


@needs("key limits", "operators")
def test_a_key_that_has_a_limit_of_nothing_is_said_to_be_full(make: Make) -> None:
    """Law 10, FC-10: its items wait for that limit, and no item in flight is named."""
    engine = make("fair_key", limits=(_of_tenant(4, a=0),))
    engine.enqueue(_tenants("a1", "b1"))
    assert engine.why("a1") == ("key limit", None)
    assert engine.why("b1") == ("runnable", None)


# rule: limit of a key
@needs("key limits", "retries", "time")
def test_a_retry_that_waits_holds_no_slot(make: Make) -> None:
    """Law 10, FC-07: a limit is about load, and a group about order."""
    engine = make("fair_key", limits=(_of_tenant(1),), retry=IN_A_MINUTE)
    engine.enqueue(_tenants("a1", "a2"))
    engine.claim(10).settle("nack")
    assert engine.claim(10).ids == ["a2"]


@needs("key limits", "retries", "time", "operators")
def test_a_failed_head_holds_its_group_beside_a_limit(make: Make) -> None:
    """Laws 4 and 10, FC-07: with a group and ``block`` the next member waits for it."""
    engine = make("fair_key", "group_key", limits=(_of_tenant(1),), retry=IN_A_MINUTE)
    engine.enqueue([Row(id="a1", tenant="a", group="g"), Row(id="a2", tenant="a", group="g")])
    engine.claim(10).settle("nack")
    assert engine.claim(10).ids == []
    assert engine.why("a2") == ("held by group", "a1")


# rule: pass of a claim
@needs("key limits", "on demand")
def test_a_key_that_was_full_takes_at_most_two_turns_a_round(make: Make) -> None:
    """Laws 5 and 10, FC-08: turns that it missed are not saved up, and others go on."""
    engine = make("fair_key", limits=(_of_tenant(None, a=1),))
    engine.enqueue([Row(id=f"a{n:02d}", tenant="a") for n in range(12)])
    held = engine.claim(1)
    engine.enqueue([Row(id=f"b{n:02d}", tenant="b") for n in range(40)])
    for _ in range(20):
        assert _turn(engine)[0][0] == "b"
    held.settle("ack")
    served = [_turn(engine)[0][0] for _ in range(15)]
    assert all(served[n : n + 3].count("b") >= 1 for n in range(12))
    assert served.count("a") >= 5


# rule: limit of a key
@needs("key limits", "on demand")
def test_nothing_of_a_key_overtakes_what_waits_for_its_limit(make: Make) -> None:
    """Law 10, FC-09: by turn a key with room goes before the others of its line that have none."""
    engine = make("fair_key", limits=(Limit(by="key", default=1),))
    engine.enqueue([Row(id="a1", tenant="t", key="a"), Row(id="a2", tenant="t", key="a")])
    engine.enqueue([Row(id="c1", tenant="u"), Row(id="c2", tenant="u"), Row(id="c3", tenant="u")])
    assert [_turn(engine)[0] for _ in range(5)] == ["a1", "c1", "a2", "c2", "c3"]


# rule: pass of a claim
@planned
@needs("key limits", "operators", "runs")
def test_a_head_without_room_is_never_passed_by_its_group(make: Make) -> None:
    """Laws 4 and 10, FC-35: later members stay behind it, whatever room their own keys have."""
    engine = make("group_key", group_limit=2, limits=(_of_tenant(1),), on_failure="skip")
    engine.enqueue([Row(id="a1", tenant="a"), Row(id="a2", tenant="a", group="g")])
    engine.enqueue([Row(id="b1", tenant="b", group="g"), Row(id="c1", tenant="c")])
    held = engine.claim(10)
    assert held.ids == ["a1", "c1"]
    assert engine.why("a2") == ("key limit", "a1")
    assert engine.why("b1") == ("held by group", "a2")
    held.settle("ack", ["a1"])
    assert engine.claim(10).ids == ["a2", "b1"]


# rule: limit of a key
@needs("key limits", "leases", "time", "states")
def test_what_a_claim_ends_leaves_its_slots_to_that_claim(make: Make) -> None:
    """Law 10, FC-14: an item past its time and one that lost its last lease free all their keys."""
    engine = make(
        "fair_key",
        limits=(_of_tenant(1), Limit(by="key", default=1)),
        lease=timedelta(seconds=60),
        max_losses=1,
    )
    engine.enqueue([Row(id="a1", tenant="a", key="x", ttl=30), Row(id="b1", tenant="b", key="y")])
    engine.enqueue([Row(id="a2", tenant="a", key="y"), Row(id="b2", tenant="b", key="x")])
    assert engine.claim(10).ids == ["a1", "b1"]
    engine.advance(60)
    assert sorted(engine.claim(10).ids) == ["a2", "b2"]
    assert engine.states() == {"a1": "expired", "b1": "dead", "a2": "claimed", "b2": "claimed"}


# rule: limit of a key, room of a claim
@needs("key limits", "leases")
def test_a_limit_of_the_queue_counts_beside_limits_of_keys(make: Make) -> None:
    """Laws 4 and 10: a full key is passed; a full queue ends the claim but for lapsed items."""
    engine = make("fair_key", max_in_flight=3, limits=(_of_tenant(1),), lease=timedelta(seconds=60))
    engine.enqueue(_tenants("a1", "a2", "b1", "b2", "c1", "d1"))
    assert engine.claim(10).ids == ["a1", "b1", "c1"]
    assert engine.why("b2") == ("key limit", "b1")
    assert engine.why("d1") == ("limit", None)
    engine.advance(60)
    assert engine.claim(10).ids == ["a1", "b1", "c1"]


@needs("key limits")
def test_which_keys_have_limits_is_fixed_but_for_those_that_a_queue_has(make: Make) -> None:
    """Law 10: a limit by the fair key's text comes later, and rules what waits; another cannot."""
    engine = make("fair_key")
    engine.enqueue(_tenants("a1", "a2", "b1"))
    with pytest.raises(InvalidConfigError, match="limits by 'key'"):
        engine.configure(limits=(Limit(by="key", default=1),))
    engine.configure(limits=(_of_tenant(1),))
    assert engine.claim(10).ids == ["a1", "b1"]


# rule: deferral of an item
@needs("deferrals", "retries", "returns", "time")
def test_a_deferred_item_is_charged_nothing_and_keeps_its_place(make: Make) -> None:
    """Law 6, FC-29: it comes back when its time is over, not before, and before later ones."""
    engine = make("fair_key", max_attempts=3, retry=AT_ONCE)
    engine.enqueue(_tenants("a1", "a2", "a3"))
    for _ in range(2):
        engine.claim(1).settle("nack")
    engine.claim(1).settle("defer", error="busy", after=30)
    held = engine.claim(1)
    assert held.ids == ["a2"]
    engine.advance(29)
    assert engine.claim(1).ids == ["a3"]
    held.settle("release")
    engine.advance(1)
    first = engine.claim(1)
    assert first.ids == ["a1"]
    first.settle("nack")
    assert engine.claim(5).ids == ["a2"]


# rule: deferral of an item
@needs("deferrals", "retries", "states")
def test_an_item_that_is_always_deferred_is_dead_in_the_end(make: Make) -> None:
    """Law 6, FC-30: deferrals are counted apart from failures, and the last one ends it."""
    engine = make(max_attempts=1, max_deferrals=3)
    engine.enqueue([Row(id="a")])
    for _ in range(2):
        engine.claim(1).settle("defer", ["a"], after=0)
        assert engine.states() == {"a": "ready"}
    engine.claim(1).settle("defer", after=0)
    assert engine.states() == {"a": "dead"}


# rule: deferral of an item
@needs("deferrals", "states", "predicates")
def test_a_redrive_begins_without_deferrals(make: Make) -> None:
    """Law 6: it is a new item."""
    engine = make(max_deferrals=2)
    engine.enqueue([Row(id="a")])
    for _ in range(2):
        engine.claim(1).settle("defer", after=0)
    engine.redrive("a")
    engine.claim(1).settle("defer", after=0)
    assert engine.states() == {"a": "dead", "a'": "ready"}
    engine.configure(max_deferrals=None)
    for _ in range(5):
        engine.claim(1).settle("defer", after=0)
    assert engine.states() == {"a": "dead", "a'": "ready"}


# rule: outcome of an item
@needs("deferrals", "retries", "states", "time")
def test_a_failure_may_say_how_long_its_retry_waits(make: Make) -> None:
    """Law 6: it is in the place of the wait that the policy has, and an attempt is charged."""
    engine = make(max_attempts=2, retry=IN_A_MINUTE)
    engine.enqueue([Row(id="a"), Row(id="b")])
    held = engine.claim(2)
    held.settle("nack", ["a"], after=90)
    held.settle("nack", ["b"])
    engine.advance(60)
    assert engine.claim(2).ids == ["b"]
    engine.advance(29)
    assert engine.claim(2).ids == []
    engine.advance(1)
    engine.claim(2).settle("nack", after=5)
    assert engine.states() == {"a": "dead", "b": "claimed"}


# rule: deferral of an item, slots of a group
@pytest.mark.parametrize("on_failure", ["block", "skip"])
@needs("deferrals", "time", "operators")
def test_a_deferred_head_holds_its_group_or_is_passed(make: Make, on_failure: str) -> None:
    """Laws 4 and 6: as one that failed."""
    engine = make("group_key", on_failure=on_failure)
    engine.enqueue([Row(id="a1", group="a"), Row(id="a2", group="a"), Row(id="b1", group="b")])
    engine.claim(1).settle("defer", after=30)
    passed = ["b1"] if on_failure == "block" else ["a2", "b1"]
    assert engine.why("a1") == ("delayed", None)
    assert engine.claim(5).ids == passed
    engine.advance(30)
    # A member that went past it has the group's slot.
    assert engine.claim(5).ids == (["a1"] if on_failure == "block" else [])


# rule: holder of a lease
@needs("deferrals", "leases", "states")
def test_a_late_holder_defers_nothing(make: Make) -> None:
    """Law 7: what another one has taken over is not his to defer."""
    engine = make(lease=timedelta(seconds=10))
    engine.enqueue([Row(id="a")])
    late = engine.claim(1)
    engine.advance(10)
    held = engine.claim(1)
    with pytest.raises(LeaseLostError):
        late.settle("defer", ["a"], after=30)
    held.settle("ack")
    assert engine.states() == {"a": "acked"}


# rule: pause of a key
@needs("key pauses", "operators", "time")
def test_nothing_of_a_paused_key_starts_and_others_pass_it(make: Make) -> None:
    """Law 9: it waits until the instant, in its place; then time alone lets it run."""
    engine = make("fair_key")
    engine.enqueue(_tenants("a1", "b1", "a2", "b2"))
    held = engine.claim(1)
    engine.pause(key="a", for_=60)
    engine.enqueue(_tenants("a3"))
    assert engine.claim(1).ids == ["b1"]
    assert engine.why("a2") == ("key paused", None)
    held.settle("ack")
    assert engine.claim(10).ids == ["b2"]
    engine.advance(60)
    assert engine.why("a2") == ("runnable", None)
    assert engine.claim(10).ids == ["a2", "a3"]


# rule: pause of a key
@needs("key pauses", "time")
def test_the_longer_of_two_pauses_wins_and_a_resume_ends_both(make: Make) -> None:
    """Law 9: a pause without an end lasts until its key is resumed; 0 seconds resume it."""
    engine = make("fair_key")
    engine.enqueue(_tenants("a1", "a2", "a3"))
    engine.pause(key="a", for_=60)
    engine.pause(key="a", for_=5)
    engine.advance(59)
    assert _turn(engine) == []
    engine.advance(1)
    assert _turn(engine) == ["a1"]
    engine.pause(key="a")
    engine.pause(key="a", for_=5)
    engine.advance(10_000)
    assert _turn(engine) == []
    engine.resume(key="a")
    assert _turn(engine) == ["a2"]
    engine.pause(key="b", for_=60)
    assert _turn(engine) == ["a3"]


# rule: pause of a key, place at an instant
@needs("key pauses", "key limits", "leases", "returns")
def test_a_lapsed_item_of_a_paused_key_is_not_taken_over_and_keeps_its_slots(make: Make) -> None:
    """Laws 2, 9 and 10: its holder has it still, its key and the queue count it."""
    engine = make(
        "fair_key",
        max_in_flight=2,
        limits=(Limit(by="key", default=1),),
        lease=timedelta(minutes=1),
    )
    engine.enqueue([*_tenants("a1", key="x"), *_tenants("b1", key="x"), *_tenants("c1", "d1")])
    held = engine.claim(1)
    engine.pause(key="a", for_=600)
    engine.advance(60)
    assert engine.claim(10).ids == ["c1"]
    held.settle("release")
    assert engine.claim(10).ids == ["b1"]
    engine.advance(600)
    assert sorted(engine.claim(10).ids) == ["b1", "c1"]


# rule: pause of a key
@needs("key pauses", "leases", "time", "states")
def test_a_pause_keeps_no_item_from_its_end(make: Make) -> None:
    """Law 9, FC-32: an item past its deadline expires, one that lost its last lease is dead."""
    engine = make("fair_key", lease=timedelta(seconds=60), max_losses=1)
    engine.enqueue([Row(id="a1", tenant="a"), Row(id="a2", tenant="a", ttl=30)])
    assert engine.claim(1).ids == ["a1"]
    engine.pause(key="a")
    engine.advance(60)
    assert engine.claim(10).ids == []
    assert engine.states() == {"a1": "dead", "a2": "expired"}


# rule: paused queue
@needs("operators", "leases", "time", "states")
def test_a_paused_queue_ends_nothing_until_it_is_resumed(make: Make) -> None:
    """Law 9, FC-32: claims write nothing of it; the first one after that ends what is over."""
    engine = make(lease=timedelta(seconds=60), max_losses=1)
    engine.enqueue([Row(id="a"), Row(id="b", ttl=30)])
    assert engine.claim(1).ids == ["a"]
    engine.pause()
    engine.advance(60)
    assert engine.claim(10).ids == []
    assert engine.states() == {"a": "claimed", "b": "ready"}
    engine.resume()
    assert engine.claim(10).ids == []
    assert engine.states() == {"a": "dead", "b": "expired"}


# rule: pause of a key, waiting head of a group
@needs("key pauses", "operators", "time")
@pytest.mark.parametrize("on_failure", ["block", "skip"])
def test_a_paused_head_holds_its_group_as_one_that_waits_for_its_time(
    make: Make, on_failure: str
) -> None:
    """Laws 4 and 9, FC-35: with ``block`` the next member waits for it, with ``skip`` it passes."""
    engine = make("fair_key", "group_key", on_failure=on_failure)
    engine.enqueue([Row(id="a1", tenant="a", group="g"), Row(id="b1", tenant="b", group="g")])
    engine.pause(key="a", for_=60)
    if on_failure == "block":
        assert engine.why("b1") == ("held by group", "a1")
        assert engine.claim(10).ids == []
        engine.advance(60)
        assert engine.claim(1).ids == ["a1"]
    else:
        assert engine.claim(10).ids == ["b1"]


# rule: pause of a key
@needs("key pauses", "key limits", "retries", "time")
def test_a_key_is_paused_by_any_expression_whose_keys_are_stored(make: Make) -> None:
    """Law 9: of an item with two keys the longer pause counts, and its own delay beside them."""
    engine = make("fair_key", limits=(Limit(by="key", default=None),), retry=IN_A_MINUTE)
    engine.enqueue([*_tenants("a1", key="x"), *_tenants("a2", key="y"), *_tenants("b1", key="x")])
    engine.pause(key="x", by="key", for_=20)
    held = engine.claim(10)
    assert held.ids == ["a2"]
    held.settle("nack")
    engine.pause(key="a", for_=30)
    engine.advance(20)
    assert engine.claim(10).ids == ["b1"]
    engine.advance(10)
    assert engine.claim(10).ids == ["a1"]
    engine.advance(30)
    assert engine.claim(10).ids == ["a2"]


# rule: pause of a key
@needs("key pauses", "on demand")
def test_a_key_that_was_paused_takes_at_most_two_turns_a_round(make: Make) -> None:
    """Laws 5 and 9: turns that it missed are not saved up, and others go on."""
    engine = make("fair_key")
    engine.enqueue([Row(id=f"a{n:02d}", tenant="a") for n in range(12)])
    engine.enqueue([Row(id=f"b{n:02d}", tenant="b") for n in range(40)])
    engine.pause(key="a")
    for _ in range(20):
        assert _turn(engine)[0][0] == "b"
    engine.resume(key="a")
    served = [_turn(engine)[0][0] for _ in range(15)]
    assert all(served[n : n + 3].count("b") >= 1 for n in range(12))
    assert served.count("a") >= 5


def _rate(limit: float | None, *, per: float = 1.0, by: str | None = "tenant", **more: Any) -> Rate:
    return Rate(by=by, limit=limit, per=timedelta(seconds=per), **more)


def _served(engine: Engine, *instants: float, limit: int = 100) -> dict[float, list[str]]:
    """Claim at some instants, counted from the first, ack, and return what came at each."""
    found, last = {}, 0.0
    for at in instants:
        engine.advance(at - last)
        last, held = at, engine.claim(limit)
        if held.ids:
            found[at] = held.ids
            held.settle("ack")
    return found


# rule: rate of a key
@needs("key limits", "time")
def test_a_key_starts_one_after_the_other_at_its_rate(make: Make) -> None:
    """Law 11, FC-15: nothing is saved up while a key rests, beyond the burst."""
    engine = make("fair_key", rates=(_rate(10, per=10),))
    engine.enqueue(_tenants("a1", "a2", "a3", "a4", "a5", "a6", "b1"))
    instants = (0, 0.5, 0.999999, 1, 1.5, 2, 102, 102.5, 103)
    assert _served(engine, *instants) == {
        0: ["a1", "b1"],
        1: ["a2"],
        2: ["a3"],
        102: ["a4"],
        103: ["a5"],
    }


# rule: rate of a key
@needs("key limits", "time")
def test_a_burst_starts_at_once_and_the_rest_at_the_rate(make: Make) -> None:
    """Law 11, FC-16: in any window at most the limit and the burst start."""
    engine = make(rates=(_rate(4, per=2, by=None, burst=5),))
    engine.enqueue([Row(id=f"i{n:02d}") for n in range(11)])
    instants = [n / 10 for n in range(31)]
    found = _served(engine, *instants)
    assert found[0] == ["i00", "i01", "i02", "i03", "i04"]
    assert sum(map(len, found.values())) == 11
    assert all(len(ids) == 1 for at, ids in found.items() if at)
    for begin in instants:
        within = [len(ids) for at, ids in found.items() if begin <= at < begin + 2]
        assert sum(within) <= 9


# rule: rate of a key
@needs("key limits", "time")
def test_no_edge_of_a_clock_lets_more_start(make: Make) -> None:
    """Law 11, FC-17: just before and after a second, a minute and an hour one starts each."""
    engine = make(rates=(_rate(5, by=None, burst=1),))
    engine.enqueue([Row(id=f"i{n:02d}") for n in range(40)])
    instants = [edge + off for edge in (1, 2, 60, 3_600) for off in (-0.1, 0.099, 0.1)]
    found = _served(engine, *instants)
    assert {at: len(ids) for at, ids in found.items()} == {
        edge + off: 1 for edge in (1, 2, 60, 3_600) for off in (-0.1, 0.1)
    }


# rule: rate of a key, units of an item
@needs("key limits", "time")
def test_a_head_waits_for_its_units_and_others_do_not(make: Make) -> None:
    """Law 11, FC-18: a smaller item does not pass the head of its key; waiting costs nothing."""
    engine = make("fair_key", rates=(_rate(10, per=60, burst=10, units="prio"),))
    rows = [("a1", 8), ("a2", 5), ("a3", 1), ("b1", 1)]
    engine.enqueue([Row(id=name, tenant=name[0], priority=units) for name, units in rows])
    assert _served(engine, 0, 17.999999, 18, 23.999999, 24) == {
        0: ["a1", "b1"],
        18: ["a2"],
        24: ["a3"],
    }


# rule: units of an item
@needs("key limits", "time", "returns")
def test_more_units_than_the_burst_are_refused_or_start_when_nothing_is_owed(make: Make) -> None:
    """Law 11, FC-19: what could never start does not enter; a lowered burst strands none."""
    engine = make("fair_key", rates=(_rate(10, per=10, burst=12, units="prio"),))
    with pytest.raises(InvalidArgumentError, match=r"13 units .* burst is 12"):
        engine.enqueue([Row(id="a0", tenant="a", priority=13)])
    engine.enqueue([Row(id="a1", tenant="a", priority=2), Row(id="a2", tenant="a", priority=12)])
    assert _served(engine, 0, 1) == {0: ["a1"]}
    engine.configure(rates=(_rate(10, per=10, burst=10, units="prio"),))
    assert _served(engine, 0.9, 1) == {1: ["a2"]}
    engine.enqueue([Row(id="a3", tenant="a", priority=10)])
    assert _served(engine, 11.9, 12) == {12: ["a3"]}


# rule: units of an item, rate of a key
@needs("key limits", "time", "returns")
def test_units_of_centuries_keep_back_their_own_key_alone(make: Make) -> None:
    """Law 11: a key is 100 years ahead at most, and the others go on."""
    decade = 10 * 365 * 86_400
    engine = make("fair_key", rates=(_rate(1, per=decade, burst=10**300, units="prio"),))
    rows = [("a1", 2**30), ("a2", 2**30), ("b1", 1), ("b2", 1)]
    engine.enqueue([Row(id=name, tenant=name[0], priority=units) for name, units in rows])
    held = engine.claim(10)
    assert sorted(held.ids) == ["a1", "b1", "b2"]
    held.settle("ack")
    engine.configure(rates=(_rate(10**17, per=decade, burst=10**300, units="prio"),))
    engine.advance(decade)
    assert engine.claim(10).ids == ["a2"]


# rule: rate of a key
@needs("key limits", "retries", "time", "leases")
def test_each_start_is_charged_retries_and_lost_items_too(make: Make) -> None:
    """Law 11, FC-20: the world saw a call each time."""
    engine = make(
        "fair_key",
        rates=(_rate(1, per=10),),
        retry=AT_ONCE,
        lease=timedelta(seconds=5),
    )
    engine.enqueue(_tenants("a1", "a2"))
    engine.claim(1).settle("nack")
    engine.advance(9)
    assert engine.claim(1).ids == []
    engine.advance(1)
    assert engine.claim(1).ids == ["a1"]
    engine.advance(9)
    assert engine.claim(1).ids == []
    engine.advance(1)
    assert engine.claim(1).ids == ["a1"]


# rule: rate of a key, debt under a changed rate, debt of a key
@needs("key limits", "time")
def test_a_changed_rate_counts_for_what_waits(make: Make) -> None:
    """Law 11, FC-22: a debt stays as many units, so that a raised rate moves the line at once."""
    engine = make("fair_key", rates=(_rate(1),))
    engine.enqueue([Row(id=f"a{n}", tenant="a") for n in range(6)])
    assert engine.claim(10).ids == ["a0"]
    engine.configure(rates=(_rate(100, burst=1),))
    assert _served(engine, 0.009, 0.01, 0.02) == {0.01: ["a1"], 0.02: ["a2"]}
    engine.configure(rates=(_rate(0.5),))
    assert _served(engine, 1.9, 2) == {2: ["a3"]}
    engine.configure(rates=(_rate(None),))
    assert engine.claim(10).ids == ["a4", "a5"]


# rule: rate of a key, pass of a claim
@needs("key limits", "weights", "time")
def test_the_rate_of_the_queue_is_spent_in_the_order_of_service(make: Make) -> None:
    """Law 11, FC-27: weights share what may start, as they share all that starts."""
    engine = make("fair_key", weights={"a": 3.0}, rates=(_rate(4, by=None, burst=4),))
    engine.enqueue([Row(id=f"a{n:02d}", tenant="a") for n in range(40)])
    engine.enqueue([Row(id=f"b{n:02d}", tenant="b") for n in range(40)])
    served = [name for ids in _served(engine, *range(10)).values() for name in ids]
    assert len(served) == 40
    assert sum(name[0] == "a" for name in served) == 30


# rule: rate of a key, units of an item
@needs("key limits", "weights", "time")
def test_the_rate_of_the_queue_is_shared_by_units_where_they_are_the_cost(make: Make) -> None:
    """Law 11, FC-27: of any 40 units a key of weight 3 has 30, but for an item at either end."""
    rates = (_rate(4, by=None, burst=4, units="prio"),)
    engine = make("fair_key", weights={"a": 3.0}, rates=rates)
    engine.enqueue([Row(id=f"a{n:02d}", tenant="a", priority=2, cost=2.0) for n in range(30)])
    engine.enqueue([Row(id=f"b{n:02d}", tenant="b", priority=1) for n in range(30)])
    served = [name for ids in _served(engine, *range(18)).values() for name in ids]
    units = [name[0] for name in served for _ in range(2 if name[0] == "a" else 1)]
    assert len(units) > 60
    assert all(28 <= units[n : n + 40].count("a") <= 32 for n in range(len(units) - 40))


# rule: rate of a key, pause of a key
@needs("key limits", "key pauses", "time")
def test_a_pause_saves_up_no_more_than_a_burst(make: Make) -> None:
    """Laws 9 and 11, FC-26: a key that was paused for an hour starts as after any rest."""
    engine = make("fair_key", rates=(_rate(1, burst=5),))
    engine.enqueue([Row(id=f"a{n:02d}", tenant="a") for n in range(20)])
    assert len(engine.claim(10).ids) == 5
    engine.pause(key="a", for_=3600)
    engine.advance(3600)
    assert [*map(len, _served(engine, 0, 0.9, 1).values())] == [5, 1]


# rule: rate of a key, limit of a key
@needs("key limits", "time")
def test_what_a_limit_keeps_back_is_not_charged(make: Make) -> None:
    """Laws 10 and 11: it closes no rate, and others of the rate's key go on."""
    engine = make("fair_key", limits=(Limit(by="key", default=1),), rates=(_rate(2, burst=2),))
    engine.enqueue([*_tenants("a1", "a2", key="x"), *_tenants("a3", key="y")])
    assert engine.claim(10).ids == ["a1", "a3"]


# rule: rate of a key, room of a claim, lapsed items of a full queue
@planned
@needs("key limits", "leases", "time")
def test_a_lapsed_item_needs_units_and_no_slot(make: Make) -> None:
    """Laws 4 and 11: of a full queue those are taken over that have their units."""
    rates = (_rate(1, per=100, burst=2, units="prio"),)
    engine = make("fair_key", max_in_flight=3, rates=rates, lease=timedelta(seconds=9))
    names = ("a1", "a2", "b1", "b2", "a3")
    engine.enqueue([Row(id=name, tenant=name[0], priority=1) for name in names])
    assert engine.claim(10).ids == ["a1", "b1", "a2"]
    engine.advance(10)
    assert engine.claim(10).ids == ["b1"]


# rule: pass of a claim, lapsed items of a full queue
@planned
@needs("key limits", "leases", "time", "runs")
def test_of_a_full_queue_none_is_taken_over_behind_a_head_without_units(make: Make) -> None:
    """Laws 4 and 11: it stays behind the head of its group, until that has its units."""
    rates = (_rate(1, per=100),)
    second = timedelta(seconds=9)
    engine = make(
        "group_key", group_limit=2, max_in_flight=2, rates=rates, lease=second, on_failure="skip"
    )
    engine.enqueue([Row(id="a1", tenant="a"), Row(id="a2", tenant="a", group="g", delay=5)])
    engine.enqueue([Row(id="n1", group="g"), Row(id="n2")])
    assert engine.claim(10).ids == ["a1", "n1"]
    engine.advance(10)
    assert engine.claim(10).ids == []
    assert engine.why("n1") == ("held by group", "a2")
    engine.advance(90)
    assert engine.claim(10).ids == ["a1", "n1"]


# rule: rate of a key, pass of a claim
@needs("key limits", "time", "runs")
def test_a_head_without_units_is_never_passed_by_its_group(make: Make) -> None:
    """Laws 4 and 11, FC-35: later members stay behind it, also of keys that have units."""
    engine = make("group_key", group_limit=2, rates=(_rate(1, per=10),), on_failure="skip")
    engine.enqueue([Row(id="a1", tenant="a"), Row(id="a2", tenant="a", group="g")])
    engine.enqueue([Row(id="b1", tenant="b", group="g"), Row(id="c1", tenant="c")])
    assert _served(engine, 0, 9.9, 10) == {0: ["a1", "c1"], 10: ["a2", "b1"]}


@needs("key limits", "time")
def test_which_rates_there_are_is_fixed_but_for_keys_that_a_queue_has(make: Make) -> None:
    """Law 11: a rate by the fair key's text comes later, and rules what waits."""
    engine = make("fair_key")
    engine.enqueue(_tenants("a1", "a2", "b1"))
    with pytest.raises(InvalidConfigError, match="rates by 'key'"):
        engine.configure(rates=(_rate(1, by="key"),))
    with pytest.raises(InvalidConfigError, match="units"):
        engine.configure(rates=(_rate(1, units="prio"),))
    engine.configure(rates=(_rate(1), _rate(5, by=None, burst=5)))
    assert engine.claim(10).ids == ["a1", "b1"]
    with pytest.raises(InvalidConfigError, match="since it was made"):
        engine.configure(rates=(_rate(1, per=2),))


# rule: deferral of an item, pause of a key
@planned
@needs("deferrals", "key pauses", "returns", "time", "on demand")
def test_a_deferral_may_pause_the_key_of_its_item(make: Make) -> None:
    """Laws 6 and 9, FC-31: what else is of the key goes back uncharged, no other key waits."""
    engine = make("fair_key", max_attempts=1)
    engine.enqueue(_tenants("a1", "a2", "a3", "a4", "a5"))
    held = engine.claim(4)
    held.settle("ack", ["a1"])
    held.settle("release", ["a3", "a4"])
    held.settle("defer", error="HTTP 429", after=30, pause=True)
    engine.enqueue(_tenants("a6", "b1"))
    assert engine.claim(10).ids == ["b1"]
    engine.advance(29)
    assert engine.claim(10).ids == []
    engine.advance(1)
    assert engine.claim(10).ids == ["a2", "a3", "a4", "a5", "a6"]


# rule: holder of a lease, pause of a key
@needs("deferrals", "key pauses", "leases")
def test_a_late_holder_pauses_nothing(make: Make) -> None:
    """Law 7: the key of an item that another one has taken over is not his."""
    engine = make("fair_key", lease=timedelta(seconds=10))
    engine.enqueue(_tenants("a1", "a2"))
    late = engine.claim(1)
    engine.advance(10)
    held = engine.claim(1)
    assert held.ids == ["a1"]
    with pytest.raises(LeaseLostError):
        late.settle("defer", after=30, pause=True)
    assert engine.claim(1).ids == ["a2"]


# rule: reason of an item, rate of a key
@needs("key limits", "operators", "time")
def test_it_is_said_which_rate_lacks_units(make: Make) -> None:
    """Laws 10 and 11: the rate of a key is named before that of the queue."""
    engine = make("fair_key", rates=(_rate(1, by=None, burst=2), _rate(1, per=10)))
    engine.enqueue(_tenants("a1", "a2", "b1", "b2", "c1"))
    assert engine.claim(10).ids == ["a1", "b1"]
    assert engine.why("a2") == ("key rate", None)
    assert engine.why("c1") == ("rate", None)
    engine.advance(2)
    assert engine.why("a2") == ("key rate", None)
    assert engine.why("c1") == ("runnable", None)


# rule: reason of an item, pass of a claim
@planned
@needs("key limits", "operators", "time")
def test_what_waits_behind_a_head_is_said_to_wait_for_its_key(make: Make) -> None:
    """Law 11: a smaller item behind it has its units, and waits until the head has its own."""
    engine = make("fair_key", rates=(_rate(10, per=60, burst=10, units="prio"),))
    rows = [("a1", 8), ("a2", 5), ("a3", 1), ("b1", 1)]
    engine.enqueue([Row(id=name, tenant=name[0], priority=units) for name, units in rows])
    assert [engine.why(name)[0] for name, _ in rows] == [
        *("runnable", "key rate", "key rate", "runnable")
    ]
    assert engine.claim(10).ids == ["a1", "b1"]
    assert [(engine.why(name), engine.frees(name)) for name in ("a2", "a3")] == [
        (("key rate", None), (18.0, 0)),
        (("key rate", None), (18.0, 0)),
    ]
    engine.advance(18)
    assert [engine.why(name)[0] for name in ("a2", "a3")] == ["runnable", "key rate"]
    assert engine.claim(10).ids == ["a2"]


# rule: reason of an item, pass of a claim
@planned
@needs("key limits", "operators", "composed")
def test_what_others_take_first_is_said_to_keep_an_item_back(make: Make) -> None:
    """Laws 10 and 11: room of a key and of the queue goes to those before it in the order."""
    engine = make("fair_key", max_in_flight=4, limits=(_of_tenant(2),))
    engine.enqueue(_tenants("a1", "a2", "a3", "b1", "b2", "c1"))
    assert {name: engine.why(name) for name in ("a1", "a2", "a3", "b1", "b2", "c1")} == {
        "a1": ("runnable", None),
        "a2": ("runnable", None),
        "a3": ("key limit", "a1"),
        "b1": ("runnable", None),
        "b2": ("limit", None),
        "c1": ("runnable", None),
    }
    assert sorted(engine.claim(10).ids) == ["a1", "a2", "b1", "c1"]


# rule: reason of an item, pass of a claim
@planned
@needs("key limits", "operators", "time", "runs", "composed")
def test_a_group_is_said_to_wait_for_its_head_that_a_rate_keeps_back(make: Make) -> None:
    """Laws 4 and 11: also where the head lacks units by what starts before it in the same claim."""
    engine = make("group_key", group_limit=2, rates=(_rate(1, per=10),), on_failure="skip")
    engine.enqueue([Row(id="a1", tenant="a"), Row(id="a2", tenant="a", group="g")])
    engine.enqueue([Row(id="b1", tenant="b", group="g"), Row(id="c1", tenant="c")])
    assert [engine.why(name) for name in ("a1", "a2", "b1", "c1")] == [
        ("runnable", None),
        ("key rate", None),
        ("held by group", "a2"),
        ("runnable", None),
    ]
    assert engine.frees("a2") == (10.0, 0)
    assert engine.claim(10).ids == ["a1", "c1"]


# rule: reason of an item, pass of a claim
@planned
@needs("key limits", "operators", "time")
def test_the_rate_of_the_queue_is_said_to_keep_all_back_behind_its_head(make: Make) -> None:
    """Law 11: it is spent in order of service, so none behind the first without units starts."""
    engine = make(rates=(_rate(10, per=10, by=None, burst=5, units="prio"),))
    engine.enqueue([Row(id=name, priority=n) for name, n in (("i1", 3), ("i2", 5), ("i3", 1))])
    assert [(engine.why(name), engine.frees(name)) for name in ("i1", "i2", "i3")] == [
        (("runnable", None), (None, 0)),
        (("rate", None), (3.0, 0)),
        (("rate", None), (3.0, 0)),
    ]
    assert engine.claim(10).ids == ["i1"]
