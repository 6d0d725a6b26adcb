"""The laws of rows that replace others of their key, which every engine must play alike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from spark_queue.claim import LocalClaim
from spark_queue.errors import DuplicateItemError
from spark_queue.retry_policy import RetryPolicy
from spark_queue.state import steps
from tests.conformance.conftest import Make
from tests.conformance.engines import Held, Replacing, Row
from tests.conformance.objects import ObjectEngine
from tests.conformance.twins import Seen, Twins

needs = pytest.mark.needs
planned = pytest.mark.planned

IN_A_MINUTE = RetryPolicy(backoff="fixed", delay=timedelta(minutes=1))


def _replacing(make: Make, *keys: str, **options: Any) -> Replacing:
    made = make("dedup_key", *keys, on_duplicate="replace", **options)
    return cast("Replacing", made)


def _put(engine: Replacing, *ids: str, key: str = "k", **values: Any) -> list[str]:
    """Enqueue rows of a key in one step; return what became of each, and of which item that is."""
    engine.enqueue([Row(id=name, key=key, **values) for name in ids])
    return engine.became


def _take(engine: Replacing) -> Held:
    held = engine.claim(10)
    assert len(held.ids) <= 1
    return held


# rule: replaced item of a key, outcome of a row
@needs("replacing", "states")
def test_the_last_row_of_a_key_runs_in_the_place_of_the_first(make: Make) -> None:
    """Law 3, FC-39: what comes replaces what waits; one item runs, where the first stood."""
    engine = _replacing(make, "fair_key")
    assert _put(engine, "a") == ["inserted"]
    engine.enqueue([Row(id="x", key="x")])
    assert _put(engine, "b") == ["replaces a"]
    assert _put(engine, "c") == ["replaces b"]
    assert engine.claim(10).ids == ["c", "x"]
    assert engine.states() == {
        "a": "cancelled",
        "b": "cancelled",
        "c": "claimed",
        "x": "claimed",
    }
    assert engine.error("a") == engine.error("b") == "replaced by c"


# rule: replaced item of a key, busy item of a key
@needs("replacing", "states", "operators")
@pytest.mark.parametrize("end", ["ack", "dead", "cancel"])
def test_of_a_key_the_newest_runs_once_the_busy_one_is_over(make: Make, end: str) -> None:
    """Law 3, FC-36: an item that runs is not touched; the newest follows it, however it ends."""
    engine = _replacing(make)
    _put(engine, "a")
    held = _take(engine)
    assert _put(engine, "b") == ["follows a"]
    assert _put(engine, "c") == ["replaces b"]
    assert engine.why("b") == ("replaced", "c")
    assert engine.why("c") == ("follows", "a")
    assert _take(engine).ids == []
    assert engine.states()["b"] == "cancelled"
    if end == "cancel":
        engine.cancel("a")
    else:
        held.settle(end)
    assert engine.why("c") == ("runnable", None)
    assert _take(engine).ids == ["c"]
    assert _take(engine).ids == []


# rule: replaced item of a key
@needs("replacing", "states", "leases", "time")
@pytest.mark.parametrize("end", ["expired", "dead"])
def test_what_a_claim_ends_lets_its_follower_start_in_that_claim(make: Make, end: str) -> None:
    """Law 3, FC-36: an item that expires as it waits for its retry, or loses its last lease."""
    engine = _replacing(make, lease=timedelta(seconds=60), max_losses=1, retry=IN_A_MINUTE)
    _put(engine, "a", ttl=30 if end == "expired" else None)
    held = _take(engine)
    if end == "expired":
        held.settle("nack")
    _put(engine, "b")
    _put(engine, "c")
    engine.advance(61)
    assert _take(engine).ids == ["c"]
    assert engine.states() == {"a": end, "b": "cancelled", "c": "claimed"}


# rule: busy item of a key
@needs("replacing", "retries", "time")
def test_a_retry_goes_before_the_change_that_came_meanwhile(make: Make) -> None:
    """Law 3, FC-37, FC-40: an item that failed is busy until it is over: a, a, then the newest."""
    engine = _replacing(make, retry=IN_A_MINUTE)
    _put(engine, "a")
    held = _take(engine)
    assert _put(engine, "b") == ["follows a"]
    held.settle("nack")
    assert _put(engine, "c") == ["replaces b"]
    assert _take(engine).ids == []
    engine.advance(60)
    held = _take(engine)
    assert held.ids == ["a"]
    held.settle("ack")
    assert _take(engine).ids == ["c"]


# rule: busy item of a key
@needs("replacing", "retries", "leases", "time", "states")
def test_a_holder_has_all_its_attempts_and_no_settle_fails_by_a_key(make: Make) -> None:
    """Laws 3 and 7, FC-38: failures and a loss are settled as without a second one."""
    engine = _replacing(
        make, retry=IN_A_MINUTE, max_attempts=2, max_losses=2, lease=timedelta(seconds=30)
    )
    _put(engine, "a")
    held = _take(engine)
    _put(engine, "b")
    held.settle("nack")
    engine.advance(60)
    assert _take(engine).ids == ["a"]
    engine.advance(30)
    held = _take(engine)
    assert held.ids == ["a"]
    _put(engine, "c")
    held.settle("nack")
    assert _take(engine).ids == ["c"]
    assert engine.states() == {"a": "dead", "b": "cancelled", "c": "claimed"}


# rule: busy item of a key
@needs("replacing", "returns", "states")
def test_an_item_that_was_only_given_back_is_replaced(make: Make) -> None:
    """Law 3, FC-38, FC-58: it has not been tried, so the newest runs in its stead."""
    engine = _replacing(make)
    _put(engine, "a")
    held = _take(engine)
    _put(engine, "b")
    held.settle("release")
    assert _put(engine, "c") == ["replaces b"]
    assert _take(engine).ids == ["c"]
    assert engine.states() == {"a": "cancelled", "b": "cancelled", "c": "claimed"}


# rule: debounce of a key
@needs("replacing", "time")
def test_changes_put_a_run_off_until_they_pause_but_not_for_ever(make: Make) -> None:
    """Law 3, FC-41: by 5 seconds each, 20 at most; what comes while it runs begins anew."""
    engine = _replacing(make, debounce=timedelta(seconds=5), at_most=timedelta(seconds=20))
    for n in range(5):
        _put(engine, f"a{n}")
        engine.advance(4)
        if n < 4:
            assert _take(engine).ids == []
    held = _take(engine)
    assert held.ids == ["a4"]
    _put(engine, "b")
    held.settle("ack")
    engine.advance(4)
    assert _take(engine).ids == []
    engine.advance(1)
    assert _take(engine).ids == ["b"]


@needs("replacing")
def test_a_key_is_free_again_when_its_item_is_over(make: Make) -> None:
    """Law 3, FC-43: what died has no successor but by a new row."""
    engine = _replacing(make)
    _put(engine, "a")
    _take(engine).settle("dead")
    assert _put(engine, "b") == ["inserted"]
    assert _take(engine).ids == ["b"]


# rule: scope of a key, replaced item of a key
@planned
@needs("replacing", "scopes")
@pytest.mark.parametrize("scope", ["forever", timedelta(seconds=100)])
def test_a_key_that_outlives_its_item_is_replaced_until_it_has_begun(
    make: Make, scope: Any
) -> None:
    """Law 3, FC-43: then who has it refuses the row, also at its end."""
    engine = _replacing(make, dedup_scope=scope)
    _put(engine, "a")
    assert _put(engine, "b") == ["replaces a"]
    held = _take(engine)
    assert held.ids == ["b"]
    assert _put(engine, "c", "d") == ["duplicate b busy", "duplicate b busy"]
    held.settle("dead")
    assert _put(engine, "e") == ["duplicate b over"]


# rule: holder of a key, busy item of a key
@planned
@needs("replacing", "scopes", "retries")
@pytest.mark.parametrize("scope", ["live", "forever", timedelta(days=1)])
def test_a_refused_row_says_where_the_holder_of_its_key_is(make: Make, scope: Any) -> None:
    """Law 3: it waits, has begun, which a failure does not end, or is over and keeps the key."""
    engine = cast("Replacing", make("dedup_key", dedup_scope=scope, retry=IN_A_MINUTE))
    assert _put(engine, "a", "b") == ["inserted", "duplicate a waits"]
    assert _put(engine, "c") == ["duplicate a waits"]
    held = _take(engine)
    assert _put(engine, "d") == ["duplicate a busy"]
    held.settle("nack")
    assert _put(engine, "e", "f") == ["duplicate a busy"] * 2
    engine.cancel("a")
    assert _put(engine, "g") == ["inserted" if scope == "live" else "duplicate a over"]


# rule: replaced item of a key, outcome of a row
@planned
@needs("replacing", "states")
def test_of_one_step_the_last_row_of_a_key_enters(make: Make) -> None:
    """Law 3, FC-44: the others are refused, and name it; also behind one that runs."""
    engine = _replacing(make)
    assert _put(engine, "a1", "a2") == ["replaced a2", "inserted"]
    held = _take(engine)
    assert held.ids == ["a2"]
    assert _put(engine, "b1", "b2", "b3") == ["replaced b3", "replaced b3", "follows a2"]
    held.settle("ack")
    assert _take(engine).ids == ["b3"]
    assert set(engine.states()) == {"a2", "b3"}


# rule: replaced item of a key
@needs("replacing", "predicates")
def test_a_redriven_item_does_not_replace(make: Make) -> None:
    """Law 3: it enters as where rows are skipped, and gives way to who has the key."""
    engine = _replacing(make)
    _put(engine, "a")
    _take(engine).settle("dead")
    _put(engine, "b")
    engine.redrive("a")
    assert _take(engine).ids == ["b"]
    assert _take(engine).ids == []


# rule: redrive of an ended item
@needs("replacing", "predicates", "states")
def test_what_was_replaced_does_not_come_back_by_a_condition(make: Make) -> None:
    """Law 3: a redrive of all that ended leaves it out, but if it is asked for again."""
    engine = _replacing(make)
    _put(engine, "a")
    _put(engine, "b")
    _take(engine).settle("dead")
    engine.redrive("a", "b")
    assert engine.states() == {"a": "cancelled", "b": "dead", "b'": "ready"}


# rule: replaced item of a key
@needs("replacing", "operators", "time")
def test_a_follower_holds_its_group_as_an_item_that_waits_for_its_time(make: Make) -> None:
    """Laws 3 and 4: with ``block`` later members wait for it, and it stands by its own seq."""
    engine = _replacing(make, "group_key")
    _put(engine, "a")
    held = _take(engine)
    _put(engine, "b", group="g")
    engine.enqueue([Row(id="c", group="g")])
    assert engine.why("c") == ("held by group", "b")
    assert _take(engine).ids == []
    held.settle("ack")
    assert _take(engine).ids == ["b"]


@needs("replacing", "states")
def test_a_duplicate_is_skipped_or_raised_as_it_is_asked_for(make: Make) -> None:
    """Law 3: the setting is what a row does by default, and may change at any time."""
    engine = cast("Replacing", make("dedup_key"))
    _put(engine, "a")
    assert _put(engine, "b") == ["duplicate a waits"]
    engine.configure(on_duplicate="replace")
    assert _put(engine, "c") == ["replaces a"]
    engine.configure(on_duplicate="skip")
    assert _put(engine, "d") == ["duplicate c waits"]
    engine.configure(on_duplicate="raise")
    with pytest.raises(DuplicateItemError):
        _put(engine, "e")
    assert _take(engine).ids == ["c"]


# rule: busy item of a key
@needs("replacing", "states", "operators")
def test_a_key_is_held_by_the_busy_one_where_its_follower_is_cancelled(make: Make) -> None:
    """Law 3: of a key no two are busy, whatever operators take out."""
    engine = _replacing(make)
    _put(engine, "a")
    held = _take(engine)
    _put(engine, "b")
    engine.cancel("b")
    assert _put(engine, "c") == ["follows a"]
    assert _take(engine).ids == []
    held.settle("ack")
    assert _take(engine).ids == ["c"]


def _ids(one: Seen, claim: Any) -> list[str]:
    items = claim.table if isinstance(claim, LocalClaim) else one.table(claim.items)
    return cast("list[str]", items["id"].to_pylist())


def _before_commit(patch: pytest.MonkeyPatch, log: str, act: Callable[[], object]) -> None:
    """Let something happen between the next decision about a log and its commit."""
    name = f"commit_{log}"
    commit = getattr(steps, name)

    def act_first(*given: Any, **options: Any) -> Any:
        patch.setattr(steps, name, commit)
        act()
        return commit(*given, **options)

    patch.setattr(steps, name, act_first)


# rule: replaced item of a key, busy item of a key, reach of a claim
@needs("replacing", "views")
@pytest.mark.parametrize("race", ["none", "claim within the put", "put within the claim"])
def test_a_put_and_a_claim_of_one_instant(
    twins: Twins, monkeypatch: pytest.MonkeyPatch, race: str
) -> None:
    """Law 3, FC-39: the row replaces or follows, never neither, as the heads are ordered."""
    pair = twins("dedup_key", on_duplicate="replace")
    engine, twin, held = cast("Any", pair.engine), cast("Any", pair.twin), list[Held]()
    # It looks at the other log again, beside the write of its file.
    looks_again = isinstance(engine, ObjectEngine)

    def put(one: Any, said: str) -> None:
        assert _put(one, "c") == [said]

    pair.play(lambda one: [_put(cast("Any", one), name) for name in "ab"])
    if race == "claim within the put":
        _before_commit(monkeypatch, "items", lambda: held.append(_take(engine)))
    if race == "put within the claim":
        _before_commit(monkeypatch, "status", lambda: put(engine, "replaces b"))
    else:
        put(engine, "follows b" if looks_again and race != "none" else "replaces b")
    held = held or [_take(engine)]
    is_seen = race == "none" or (looks_again and race == "put within the claim")
    assert (held[0].ids, engine.queue._main.status_head().looked) == (
        (["c"], 3) if is_seen else (["b"], 2)
    )

    if is_seen:
        put(twin, "replaces b")
    assert _take(twin).ids == held[0].ids
    if not is_seen:
        put(twin, "follows b")
    why = pair.require_same(lambda one: one.why("c"))
    assert why == (("leased", None) if is_seen else ("follows", "b"))
    held[0].settle("ack")
    assert engine.claim(9).ids == ([] if is_seen else ["c"])


# rule: replaced item of a key, busy item of a key
@needs("replacing", "views")
@pytest.mark.parametrize("ends", ["first", "second"])
def test_each_reader_starts_a_follower_when_it_is_done_itself(twins: Twins, ends: str) -> None:
    """Law 3: no reader waits for another; one that has not begun takes the newest at once."""
    pair = twins("dedup_key", on_duplicate="replace")

    def story(one: Any) -> list[list[str]]:
        readers = {
            "first": one.queue.reader("first"),
            "second": one.queue.reader("second", start="beginning"),
            "third": one.queue.reader("third", start="beginning"),
        }
        _put(one, "a")
        held = {name: readers[name].claim(9) for name in ("first", "second")}
        assert _put(one, "b") == ["follows a"]
        found = [_ids(one, readers["third"].claim(9))]
        held[ends].ack()
        found += [_ids(one, readers[name].claim(9)) for name in ("first", "second")]
        return found

    assert pair.require_same(story) == [["b"], *([["b"], []] if ends == "first" else [[], ["b"]])]


# rule: replaced item of a key
@needs("replacing", "views")
@pytest.mark.parametrize("ended", ["a", "b"])
def test_what_an_undo_brings_back_does_not_replace(twins: Twins, ended: str) -> None:
    """Law 3: it gives way to who has the key, busy or not, and the undo says who that is."""
    pair = twins("dedup_key", on_duplicate="replace")
    pair.play(lambda one: _put(cast("Any", one), "a"))
    if ended == "b":
        pair.play(lambda one: one.claim(1))
        pair.play(lambda one: _put(cast("Any", one), "b"))
    step = pair.require_same(lambda one: one.queue.cancel({"_seq": one.seqs([ended])}).step)
    if ended == "a":
        pair.play(lambda one: _put(cast("Any", one), "c"))

    def undo(one: Seen) -> Any:
        done = one.queue.undo(step)
        return done.restored, done.taken, [(one.ids[a], one.ids[b]) for a, b in done.holders]

    assert pair.require_same(undo) == (0, 1, [(ended, "c" if ended == "a" else "a")])
    assert pair.require_same(lambda one: one.claim(9).ids) == (["c"] if ended == "a" else [])


# rule: replaced item of a key
@needs("replacing", "disk", "views")
def test_of_a_clone_the_newest_of_a_key_runs(make: Make, place: str) -> None:
    """Law 3: what was in flight has not begun there, so what followed it replaces it."""
    engine = cast("Any", _replacing(make))
    _put(engine, "a")
    held = _take(engine)
    _put(engine, "b")
    clone = engine.queue.clone(f"{place}/clone")
    assert clone.explain(1).reason == "replaced"
    assert engine.why("b") == ("follows", "a")
    assert _ids(engine, clone.claim(9)) == ["b"]
    held.settle("ack")
    assert _take(engine).ids == ["b"]
