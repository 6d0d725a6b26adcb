"""Verbs that write or operate: the same names, defaults, results and errors on every engine.

A story is played on the engine under test and on a queue in memory; what both answer is compared.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from spark_queue import Waited
from spark_queue.acting import acting_as
from spark_queue.claim import LocalClaim, Said
from spark_queue.commands import admin, wait_for_end
from spark_queue.errors import (
    CannotUndoError,
    DuplicateItemError,
    InvalidArgumentError,
    InvalidConfigError,
    LeaseLostError,
    QueueExistsError,
    QueueNotFoundError,
    Reject,
    SchemaMismatchError,
    SettingsChangedError,
    SparkQueueError,
)
from spark_queue.retry_policy import RetryPolicy
from tests.conformance.engines import Row
from tests.conformance.twins import Seen, Twins

pytestmark = pytest.mark.needs("views")


def _items(*ids: str) -> pa.Table:
    """Return a frame that every queue takes, of items that have nothing but an id and a key."""
    nothing = pa.nulls(len(ids), pa.string())
    return pa.table(
        {
            "id": list(ids),
            "key": [name[0] for name in ids],
            "tenant": nothing,
            "grp": nothing,
            "prio": pa.nulls(len(ids), pa.int32()),
        }
    )


def _error(do: Callable[[], object]) -> tuple[type[SparkQueueError], str]:
    with pytest.raises(SparkQueueError) as told:
        do()
    return type(told.value), str(told.value)


def test_an_enqueue_takes_the_same_options_and_tells_the_same(twins: Twins) -> None:
    """Order, duplicates, fullness and traces; what is refused leaves no trace."""
    pair = twins("dedup_key")
    trace = f"00-{'ab' * 16}-{'cd' * 8}-01"

    def enqueue(one: Seen, frame: pa.Table, *given: Any, **options: Any) -> Any:
        done = one.queue.enqueue(frame, *given, **options)
        outcomes = one.table(done.outcomes).sort_by("_seq")
        return done.step, done.inserted, done.duplicates, done.refused, outcomes

    told = pair.require_same(
        lambda one: enqueue(one, _items("c1", "a1", "b1", "a2"), "id", trace=trace)[:4]
    )
    assert told == (1, 3, 1, 0)
    pair.require_same(lambda one: enqueue(one, _items("d1", "d2"), on_full="partial")[4])
    refused = pair.require_same(lambda one: enqueue(one, _items("a3"), on_duplicate="raise"))
    assert refused[0] is DuplicateItemError
    for options in ({"on_duplicate": "no"}, {"on_full": "no"}, {"trace": 5}, {"order_by": "no"}):
        error, _ = pair.require_same(lambda one, given: enqueue(one, _items("e"), **given), options)
        assert error in (InvalidArgumentError, SchemaMismatchError)
    claims = [one.queue.claim(9) for one in (pair.engine, pair.twin)]
    assert claims[0].traces == claims[1].traces == dict.fromkeys((1, 3, 4), trace)
    assert pair.require_same(lambda one: one.table(one.queue.status())["id"].to_pylist()) == [
        *("a1", "b1", "c1", "d1"),
    ]


def test_a_claim_takes_one_item_and_can_be_asked_for_again(twins: Twins) -> None:
    """The same defaults and errors; a claim of the same id is the same claim."""
    pair = twins()
    pair.play(lambda one: one.queue.enqueue(_items("a", "b", "c")))

    def claim(one: Seen, *given: Any, **options: Any) -> object:
        got = one.queue.claim(*given, **options)
        return got.count, got.lease, got.claimed_at, got.lease_expires_at

    assert pair.require_same(claim)[0] == 1
    named = [
        pair.require_same(lambda one: claim(one, 1, claim_id="mine", worker_id="w"))
        for _ in range(2)
    ]
    assert named[0] == named[1]
    for options in (
        *({"limit": 0}, {"limit": "1"}, {"run": 0}, {"lease": timedelta(0)}, {"lease": 5}),
        *({"wait": timedelta(-1)}, {"worker_id": 1}, {"claim_id": ""}),
    ):
        error, _ = pair.require_same(lambda one, given: claim(one, **given), options)
        assert error is InvalidArgumentError
    pair.play(lambda one: one.queue.pause())
    assert pair.require_same(lambda one: claim(one, 9))[:2] == (0, 0)


def test_a_wait_is_for_the_items_that_live_when_it_begins(twins: Twins) -> None:
    """Some end while it waits: acked, dead, and cancelled ones are told; others never count."""
    pair = twins("dedup_key")
    pair.play(lambda one: one.queue.enqueue(_items(*"abcde")))
    pair.play(lambda one: one.queue.cancel({"id": "a"}))

    def see_the_end(one: Seen) -> object:
        def act(*_: object) -> None:
            """Do while it waits, between two looks, what is next."""
            next(acts)()

        acts: Iterator[Callable[[], object]] = iter(
            [
                lambda: one.queue.claim(1).ack(),
                lambda: one.queue.claim(1).dead("broken"),
                lambda: (one.advance(1), one.queue.enqueue(_items("aa"))),
                lambda: one.queue.cancel("id = 'd'"),
            ]
        )
        began = one.queue.stats().step
        with mock.patch.object(wait_for_end, "rest_until_news", act):
            waited = one.queue.wait("id < 'e'")
        again = one.queue.wait("id < 'e'", 0, as_of=began)
        return waited, waited.left, waited.failed, bool(waited), len(list(acts)), again == waited

    states = {"acked": 1, "dead": 1, "cancelled": 1}
    told = pair.require_same(see_the_end)
    assert told == ((Waited, repr({"states": states})), 0, 1, False, 0, True)
    for where in ("id = 'e'", {"id": ["a", "b", "e"]}, "false", "true"):
        pair.require_same(lambda one, where: one.queue.wait(where, timedelta(0)), where)
    for options in (
        *({"where": "_state = 'ready'"}, {"where": {"_attempts": 0}}, {"where": {"no": 1}}),
        *({"where": pc.field("id") == "a"}, {"where": "true", "timeout": -1}, {"where": 5}),
        *({"where": "true", "as_of": 999}, {"where": "true", "as_of": datetime(2026, 1, 1)}),  # noqa: DTZ001
    ):
        error, _ = pair.require_same(lambda one, given: one.queue.wait(**given), options)
        assert error is InvalidArgumentError


def test_a_claim_that_is_repeated_has_what_it_still_holds_and_names_the_rest(twins: Twins) -> None:
    """What was settled, given back, failed and taken by another, or cancelled is over for it."""
    pair = twins()
    pair.play(lambda one: one.queue.enqueue(_items(*"abcdef")))

    def again(one: Seen) -> object:
        got = one.queue.claim(6, claim_id="mine", wait=timedelta(seconds=30))
        items = got.table if isinstance(got, LocalClaim) else one.table(got.items)
        return got.lease, got.count, got.over, sorted(items["_seq"].to_pylist())

    assert pair.require_same(again) == (2, 6, (), [1, 2, 3, 4, 5, 6])
    settled: dict[int, Said] = {1: "ack", 2: ("dead", "no"), 3: "release", 4: ("nack", "no")}
    pair.play(lambda one: one.queue.claim(claim_id="mine").settle_each(settled))
    pair.play(lambda one: one.queue.claim(1, claim_id="other"))
    pair.play(lambda one: one.queue.cancel({"_seq": 5}))
    for forgets in (False, True):
        if forgets:
            pair.play(lambda one: one.queue.close())
        assert pair.require_same(again) == (2, 1, (1, 2, 3, 4, 5), [6])
    assert pair.require_same(lambda one: one.queue.claim(claim_id="mine").ack().acked) == 1
    assert pair.require_same(again) == (2, 0, (1, 2, 3, 4, 5, 6), [])
    assert pair.require_same(lambda one: one.queue.claim(claim_id="mine").ack().acked) == 0


# rule: checkpoint that is due
def test_a_claim_writes_the_checkpoint_that_is_due(
    twins: Twins, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is a step before that of the claim, whoever claims."""
    monkeypatch.setattr(admin, "LONG_FOLD", 1)
    pair = twins()
    pair.play(lambda one: one.queue.enqueue(_items(*"abcdefgh")))

    def step(one: Seen) -> object:
        one.queue.claim().release()
        return one.queue.stats().step

    assert [pair.require_same(step) for _ in range(5)] == [3, 5, 7, 10, 12]


def test_each_verb_of_a_claim_says_what_it_did(twins: Twins) -> None:
    """Counts of what was settled; what is not held any more is named, and the rest counts."""
    pair = twins()
    pair.play(lambda one: one.queue.enqueue(_items(*"abcdefghijkl")))

    def settled(one: Seen, verb: str, *given: object) -> object:
        return getattr(one.queue.claim(2), verb)(*given)

    for verb, *given in (("ack",), ("nack", "no"), ("release",), ("dead", "no"), ("defer", 0)):
        _, done = pair.require_same(settled, verb, *given)
        assert f"'{_SETTLED[verb]}': 2" in done

    def contradicted(one: Seen, verb: str, other: str) -> object:
        held = one.queue.claim(1)
        for called in (verb, verb, other):
            getattr(held, called)(*["no"] * (called in ("nack", "dead")))
        raise AssertionError(f"{other} after {verb} is taken")

    def parts(one: Seen) -> object:
        held = one.queue.claim(4)
        first = held.settle_each({7: "ack", 8: ("dead", "no")})
        until = held.renew(timedelta(seconds=99))
        return first, until, held.lease_expires_at, held.ack(), held.ack()

    pair.require_same(parts)
    for verb, other in (("ack", "nack"), ("nack", "release"), ("release", "dead"), ("dead", "ack")):
        error, said = pair.require_same(contradicted, verb, other)
        assert error is LeaseLostError
        assert said == f"the items of the claim are no longer held (settled before, by {verb}())"
    pair.play(lambda one: one.queue.enqueue(_items("m")))
    for outcomes in ({7: "ack"}, {9: "done"}, {"x": "ack"}, ["ack"], {9: ("ack", 5)}):
        error, said = pair.require_same(
            lambda one, given: one.queue.claim(1).settle_each(given), outcomes
        )
        assert error in (LeaseLostError, InvalidArgumentError)
        assert error is InvalidArgumentError or "settled before" in said
    error, _ = pair.require_same(lambda one: one.queue.claim(1).renew(timedelta(0)))
    assert error is InvalidArgumentError


def test_leaving_the_block_of_a_claim_settles_it(twins: Twins) -> None:
    """In good order it acks, an exception fails, an interruption gives back."""
    pair = twins(max_attempts=1)
    pair.play(lambda one: one.queue.enqueue(_items("a", "b", "c")))

    def leave(one: Seen, error: BaseException | None) -> object:
        with suppress(ValueError, KeyboardInterrupt), one.queue.claim():
            if error is not None:
                raise error
        return one.queue.counts()

    pair.require_same(leave, None)
    pair.require_same(leave, ValueError("boom"))
    counts = pair.require_same(leave, KeyboardInterrupt())
    assert (counts["acked"], counts["dead"], counts["ready"]) == (1, 1, 1)
    assert pair.require_same(lambda one: one.table(one.queue.dead())["_error"].to_pylist()) == [
        "ValueError: boom"
    ]


_SETTLED = {
    "ack": "acked",
    "nack": "failed",
    "release": "released",
    "dead": "dead",
    "defer": "deferred",
}


def _ended(one: Seen) -> None:
    """Leave items in every state that an operator changes."""
    one.enqueue([Row(id=name, key=name, tenant=name[0]) for name in ("a1", "a2", "b1", "b2")])
    one.enqueue([Row(id=name, key=name, tenant="c", group="g") for name in ("c1", "c2")])
    one.claim(2).settle("dead", error="no use")
    one.claim(1).settle("ack")
    one.claim(1)


WHERES: list[Any] = [
    {"tenant": "a"},
    {"tenant": ["a", "c"], "_state": ["ready", "dead"]},
    {"tenant": None},
    {"_seq": [], "tenant": "a"},
    {"grp": ["g", None], "_seq": range(3, 99)},
    "tenant = 'a'",
    "_seq IN (4, 5, 6) AND _state = 'ready'",
]

NO_WHERES: list[Any] = [
    *({}, "", None, 5, ["a"], {"tenannt": "a"}, {"_seq": "x"}, {"_state": "done"}),
    {"_enqueued_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - the mistake
    {"tenant": b"a"},
]


def test_items_are_named_alike_by_columns_and_by_sql(twins: Twins) -> None:
    """A dry run counts and shows the same of each condition; what is none is refused alike."""
    pair = twins("dedup_key", "fair_key")
    pair.play(_ended)

    def named(one: Seen, verb: str, where: Any, **options: Any) -> Any:
        return getattr(one.queue, verb)(where, **options)

    # Each verb asks by the same code, so that each condition meets one of them.
    verbs = itertools.cycle(("cancel", "redrive", "purge"))
    for where in WHERES:
        pair.require_same(partial(named, dry_run=True), next(verbs), where)
    for where in NO_WHERES:
        error, _ = pair.require_same(named, next(verbs), where)
        assert error is InvalidArgumentError
    for verb in itertools.islice(verbs, 3):
        error, _ = pair.require_same(partial(named, dry_run=1), verb, {"_seq": 1})
        assert error is InvalidArgumentError
    assert pair.require_same(lambda one: one.queue.counts())["ready"] == 2


def _told(one: Seen, verb: str, *given: Any, **options: Any) -> Any:
    done = getattr(one.queue, verb)(*given, **options)
    return done, getattr(done, "step", None), getattr(done, "becomes", None)


def test_what_operators_change_is_told_and_taken_back_alike(twins: Twins) -> None:
    """Items are cancelled, redriven once, taken back and purged; each answer knows its step."""
    pair = twins("dedup_key", "fair_key")
    pair.play(_ended)

    with acting_as("ann"):
        cancelled = pair.require_same(_told, "cancel", {"tenant": ["a", "c"]})
    assert cancelled[0][0] == 2
    assert pair.require_same(lambda one: _told(one, "redrive", {"tenant": "a"}))[0][0] == 2
    assert pair.require_same(lambda one: _told(one, "redrive", {"tenant": "a"}))[0][0] == 0
    again = pair.require_same(lambda one: _told(one, "redrive", {"_seq": 1}, again=True))
    assert again[0][0] == 0, "its key is taken"
    for restored, left in ((1, 1), (0, 2)):
        _, back = pair.require_same(lambda one: one.queue.undo(cancelled[1]))
        assert f"'restored': {restored}, 'taken': 0, 'holders': (), 'left': {left}" in back
    error, _ = pair.require_same(lambda one: _told(one, "purge", "_seq = 1", now=1))
    assert error is InvalidArgumentError
    purged = pair.require_same(lambda one: _told(one, "purge", "_state = 'acked'", now=True))
    assert purged[0][0] == 1
    pair.require_same(lambda one: one.table(one.queue.status()))


def _needed(one: Seen) -> None:
    """Leave items that a purge keeps: in flight, unread by a reader, redriven from such an item."""
    one.enqueue([Row(id=name, tenant=name[0]) for name in ("a1", "a2", "a3", "b1")])
    one.claim(1).settle("dead", error="no use")
    one.claim(1).settle("ack")
    one.queue.redrive("_seq = 1")
    one.claim(2)
    one.queue.cancel("_seq = 5")
    one.queue.reader("work")
    audit = one.queue.reader("audit", start="beginning")
    audit.claim(5).settle_each({4: "ack", 5: "ack"})


def test_a_purge_tells_what_it_leaves(twins: Twins) -> None:
    """Items stay that are not finished, or unread by a reader, or redriven from one that stays."""
    pair = twins("fair_key")
    pair.play(_needed)

    def purged(one: Seen, where: str, **options: Any) -> Any:
        return one.queue.purge(where, **options)

    kept = {"claimed": 2, "needed": 1, "linked": 1}
    foreseen = pair.require_same(lambda one: purged(one, "true", dry_run=True))
    done = pair.require_same(purged, "true")
    assert (foreseen[0], foreseen[3]) == (done[0], done[3]) == (1, kept)
    assert pair.require_same(purged, "_state = 'acked'")[3] == {}
    pair.play(lambda one: one.enqueue([Row(id="c1", tenant="c")]))
    assert pair.require_same(purged, "tenant = 'c'")[3] == {"ready": 1}


def test_a_pause_of_what_is_paused_writes_nothing(twins: Twins) -> None:
    """It answers with the step by which it is paused, and so does a resume."""
    pair = twins("dedup_key")
    assert pair.require_same(lambda one: one.queue.resume()) == 1
    paused = pair.require_same(lambda one: one.queue.pause())
    changed = pair.require_same(lambda one: int(one.queue.configure(max_attempts=7)))
    assert pair.require_same(lambda one: one.queue.pause()) == paused
    resumed = pair.require_same(lambda one: one.queue.resume())
    assert resumed == changed + 1
    assert pair.require_same(lambda one: one.queue.resume()) == resumed
    assert pair.require_same(lambda one: int(one.queue.configure(max_attempts=5))) == resumed + 1


def test_settings_are_changed_and_taken_back_alike(twins: Twins) -> None:
    """Pause, resume and configure answer with their step; undo names what it cannot take back."""
    pair = twins("dedup_key", "fair_key")
    pair.play(_ended)
    paused = pair.require_same(lambda one: one.queue.pause())
    changed = pair.require_same(lambda one: int(one.queue.configure(max_attempts=7)))
    pair.require_same(lambda one: one.queue.undo(changed))
    pair.require_same(lambda one: one.queue.undo(paused))
    assert pair.require_same(lambda one: (one.queue.paused, one.queue.config.max_attempts)) == (
        *(False, 5),
    )
    pair.require_same(lambda one: one.queue.resume())
    for step, error in (
        (0, InvalidArgumentError),
        (99, InvalidArgumentError),
        (2, CannotUndoError),
    ):
        assert pair.require_same(lambda one, at: one.queue.undo(at), step)[0] is error
    for settings in ({"lease": 5}, {"fair_key": "id"}, {"no": 1}, {"max_attempts": 0}):
        error, _ = pair.require_same(lambda one, given: one.queue.configure(**given), settings)
        assert error is InvalidConfigError


def test_upkeep_ends_drops_and_tells_the_same(twins: Twins) -> None:
    """A dry run says what would end; the run ends it, and drops what finished long ago."""
    pair = twins("dedup_key", on_duplicate="replace", lease=timedelta(seconds=10), max_losses=1)
    pair.play(lambda one: one.enqueue([Row(id="a", ttl=5), Row(id="b"), Row(id="c")]))
    pair.play(lambda one: one.claim(3).settle("ack", ["b"]))
    pair.play(lambda one: one.claim(1))
    pair.play(lambda one: one.enqueue([Row(id="d", key="k")]))
    pair.play(lambda one: one.enqueue([Row(id="e", key="k")]))
    day = timedelta(days=1)

    def kept(one: Seen, **options: Any) -> object:
        done = one.queue.maintain(**options)
        return done.expired, done.dead, done.replaced, done.checkpoint, done.dropped_items

    def ends(one: Seen) -> object:
        rows = one.table(one.queue.status()).select(["id", "_state", "_attempts", "_error"])
        return rows.to_pylist()[3:]

    pair.play(lambda one: one.advance(60))
    assert pair.require_same(lambda one: one.queue.maintain(dry_run=True))[0] == 3
    assert pair.require_same(kept)[:3] == (0, 2, 1)
    assert [
        (row["_state"], row["_attempts"], row["_error"]) for row in pair.require_same(ends)
    ] == [
        ("cancelled", 0, "replaced by 5"),
        ("ready", 0, None),
    ]
    assert pair.require_same(kept)[:3] == (0, 0, 0)
    pair.play(lambda one: one.claim(1).settle("ack"))
    pair.play(lambda one: one.advance(day.total_seconds()))
    pair.require_same(lambda one: one.queue.maintain(retention=day / 2, dry_run=True))
    pair.require_same(lambda one: kept(one, retention=day / 2))
    assert pair.require_same(lambda one: one.table(one.queue.status())["id"].to_pylist()) == []
    for options in ({"retention": 5}, {"archive_to": ""}, {"dry_run": 1}):
        error, _ = pair.require_same(lambda one, given: kept(one, **given), options)
        assert error is InvalidArgumentError


def test_columns_are_added_or_refused_alike(twins: Twins) -> None:
    """New names are answered; another type, a name of the queue's own and no DDL are refused."""
    pair = twins()
    assert pair.require_same(lambda one: one.queue.add_columns("a bigint, id string")) == ["a"]
    assert pair.require_same(lambda one: one.queue.add_columns("a bigint")) == []
    for schema, error in (
        *(("a string", SchemaMismatchError), ("_seq bigint", SchemaMismatchError)),
        *(("a strin", InvalidArgumentError), ("", InvalidArgumentError)),
    ):
        told = pair.require_same(lambda one, given: one.queue.add_columns(given), schema)
        assert told[0] is error


def test_a_queue_has_the_newest_format_and_can_be_closed(twins: Twins) -> None:
    """An upgrade says that there was nothing to do; a closed handle goes on where it was."""
    pair = twins("dedup_key")
    pair.play(lambda one: one.queue.enqueue(_items("a", "b")))
    pair.require_same(lambda one: one.queue.upgrade())
    pair.play(lambda one: one.queue.close())
    pair.play(lambda one: one.queue.close())
    assert pair.require_same(lambda one: one.queue.claim(9).count) == 2
    assert pair.require_same(lambda one: one.queue.enqueue(_items("a")).duplicates) == 1


@pytest.mark.needs("disk")
def test_a_queue_is_made_opened_copied_and_dropped_by_its_path(twins: Twins) -> None:
    """Of a place that is taken, or where nothing is, each verb says the same."""
    engine = twins("dedup_key", "fair_key").engine
    _ended(engine)
    there, copy = engine.queue.name, f"{engine.queue.name}-copy"

    assert _error(lambda: engine.make(there))[0] is QueueExistsError
    assert "exists already; open it, or drop it first" in _error(lambda: engine.make(there))[1]
    clone = engine.queue.clone(copy)
    counts = engine.queue.counts()
    assert clone.counts() == {**counts, "ready": counts["ready"] + 1, "claimed": 0}
    assert _error(lambda: engine.queue.clone(copy))[0] is QueueExistsError
    assert _error(lambda: engine.queue.clone(f"{there}/in"))[0] is InvalidArgumentError
    assert engine.open(copy).counts() == clone.counts()

    assert engine.drop(copy, dry_run=True) == 6
    assert engine.drop(copy) is None
    assert engine.queue.counts() == counts
    missing = {_error(lambda: engine.open(copy)), _error(lambda: engine.drop(copy))}
    assert missing == {
        (
            QueueNotFoundError,
            f"cannot open queue {copy!r}: there is no such queue; make it with create()",
        )
    }
    assert _error(lambda: engine.drop(there, dry_run=1))[0] is InvalidArgumentError
    assert engine.queue.counts() == counts


@pytest.mark.needs("disk")
def test_a_queue_that_is_there_is_opened_where_it_is_the_same(twins: Twins) -> None:
    """With ``exist_ok`` it keeps its items and its live settings; else the difference is named."""
    engine = twins().engine
    place, keys = f"{engine.queue.name}-shared", {"dedup_key": "id", "group_key": "n"}
    made = engine.make(place, "id string, n int", exist_ok=True, **keys, group_limit=2)
    made.configure(group_limit=3)
    before = made.counts(), made.stats().step

    again = engine.make(place, "id string, n int", exist_ok=True, **keys, max_attempts=1)

    assert (again.config.group_limit, again.config.max_attempts) == (3, 5)
    for schema, config, difference in (
        ("id string, n int", {"group_key": "n"}, "its dedup_key is 'id', not None"),
        ("id string, n int", {**keys, "priority": "n"}, "its priority is None, not 'n'"),
        ("id string, n int", {**keys, "dedup_scope": "forever"}, "is 'live', not 'forever'"),
        ("id string, n bigint", keys, "its column 'n' is int, not bigint"),
        ("id string, n int, m int", keys, "it has no column 'm'"),
        ("id string", {"dedup_key": "id", "group_key": "id"}, "it has a column 'n' more"),
        ("n int, id string", keys, "its columns are in another order: id, n"),
    ):
        error, said = _error(partial(engine.make, place, schema, exist_ok=True, **config))
        assert error is QueueExistsError
        assert f"{place!r} cannot be made: it exists, and " in said
        assert difference in said
        assert "open it, create it with what it has, or use another name" in said
    no_flag: Any = 1
    assert _error(lambda: engine.make(place, exist_ok=no_flag))[0] is InvalidArgumentError
    assert (made.counts(), made.stats().step) == before


@pytest.mark.needs("disk")
def test_what_is_no_queue_is_not_opened_for_one(twins: Twins, place: str) -> None:
    """A file, or a table of others, in its place stays as it is."""
    engine = twins().engine
    Path(place, "file").write_text("mine")
    write_deltalake(f"{place}/table/status", pa.table({"n": [1]}))
    for name in ("file", "table"):
        error, _ = _error(partial(engine.make, f"{place}/{name}", exist_ok=True))
        assert error is QueueExistsError
    assert Path(place, "file").read_text() == "mine"
    assert not Path(place, "table/queue").exists()


@pytest.mark.needs("disk")
@pytest.mark.parametrize("given", [None, "", 5])
def test_what_names_no_place_is_refused_by_each_verb(twins: Twins, given: Any) -> None:
    """It is said what was given, before anything is looked for."""
    engine = twins().engine
    for use in (engine.make, engine.open, engine.exists, engine.drop):
        error, said = _error(lambda use=use: use(given))  # type: ignore[misc]
        assert error is InvalidArgumentError
        assert repr(given) in said


@pytest.mark.needs("disk")
@pytest.mark.parametrize(
    ("schema", "config", "error"),
    [
        ("id string", {"dedup_key": "idd"}, InvalidConfigError),
        ("id string", {"fair_key": "tenant"}, InvalidConfigError),
        ("id strin", {}, InvalidArgumentError),
        ("", {}, InvalidArgumentError),
        ("_seq bigint", {}, SchemaMismatchError),
    ],
)
def test_a_queue_that_cannot_be_made_is_not_begun(
    twins: Twins, schema: str, config: dict[str, Any], error: type[Exception]
) -> None:
    """A key over a column that is not there, no DDL, a name of the queue's own: nothing is made."""
    engine = twins().engine
    place = f"{engine.queue.name}-new"
    told = _error(lambda: engine.make(place, schema, **config))
    assert told[0] is error
    assert all(value in told[1] for value in config.values())
    assert not engine.exists(place)


@pytest.mark.needs("disk")
def test_an_archive_gets_what_upkeep_drops_once(twins: Twins) -> None:
    """Items go to a table before they are dropped, and no item twice."""
    engine = twins().engine
    archive = f"{engine.queue.name}-archive"
    for name in ("a", "b"):
        engine.enqueue([Row(id=name)])
        engine.claim(1).settle("ack")
        for _ in range(2):
            engine.advance(100)
            engine.queue.maintain(retention=timedelta(seconds=50), archive_to=archive)
    rows = engine.read(archive)
    kept = rows.select(["id", "_seq", "_queue"]).sort_by("_seq").to_pylist()
    assert kept == [
        {"id": name, "_seq": seq, "_queue": engine.queue.name}
        for seq, name in enumerate(("a", "b"), 1)
    ]
    assert engine.states() == {}


@pytest.mark.needs("disk")
def test_the_path_of_an_archive_is_checked_before_upkeep(twins: Twins) -> None:
    """A path that no table can have is refused by the name of the option; nothing is made."""
    engine = twins().engine
    place = engine.queue.name
    for archive in (f"{place}\\a", f"{place}-a/_delta_log", f"{place}\na", f"{place}/{'a' * 256}"):
        with pytest.raises(InvalidArgumentError, match=r"^archive_to "):
            engine.queue.maintain(archive_to=archive)
    assert not engine.exists(f"{place}-a")


@pytest.mark.needs("disk")
def test_an_archive_with_other_columns_is_refused_before_upkeep(twins: Twins) -> None:
    """The error names the column, and what it is here and there; the queue is as it was."""
    engine = twins().engine
    engine.enqueue([Row(id="a")])
    engine.claim(1).settle("ack")
    engine.advance(100)
    rest = {"_seq": [1], "_enqueued_at": pa.nulls(1, pa.timestamp("us", "UTC")), "_origin": [1]}
    tables: dict[str, dict[str, Any]] = {
        "'id': is (bigint|int64) in the archive .*, and string in the queue": {"id": [1], **rest},
        "'key': is missing in the archive": {"id": ["a"], **rest},
    }
    before = sorted(Path(engine.queue.name).rglob("*.json"))
    for number, (problem, columns) in enumerate(tables.items()):
        archive = f"{engine.queue.name}-archive{number}"
        write_deltalake(archive, pa.table(columns))
        with pytest.raises(SchemaMismatchError, match=problem):
            engine.queue.maintain(retention=timedelta(seconds=50), archive_to=archive)
    assert sorted(Path(engine.queue.name).rglob("*.json")) == before


@pytest.mark.needs("disk")
def test_an_archive_gets_what_a_later_queue_of_the_name_drops(twins: Twins) -> None:
    """What is made in the place of a dropped queue is another one, and loses nothing."""
    engine = twins().engine
    place, archive = f"{engine.queue.name}-again", f"{engine.queue.name}-archive"
    for name in ("a", "b"):
        queue = engine.make(place, "id string")
        queue.enqueue(pa.table({"id": [name]}))
        queue.claim(1).ack()
        engine.advance(100)
        queue.maintain(retention=timedelta(seconds=50), archive_to=archive)
        engine.drop(place)
    assert sorted(engine.read(archive)["id"].to_pylist()) == ["a", "b"]


def _doubled(item: dict[str, Any]) -> dict[str, int]:
    """Return what a handler makes of an item, or fail as its name says."""
    if item["id"] == "nack":
        raise ValueError("boom")
    if item["id"] == "dead":
        raise Reject("no use")
    return {"twice": 2 * item["_seq"]}


def _nothing() -> None:
    """Take no item."""


def _two(item: object, more: object) -> None:
    """Take too much."""


@pytest.mark.needs("disk")
def test_processing_settles_by_what_the_handler_does(twins: Twins) -> None:
    """Done, failed and dead are counted, what returned is in the output, and what is left waits."""
    pair = twins(retry=RetryPolicy(delay=timedelta(hours=1)))
    output = f"{pair.engine.queue.name}-output"
    pair.play(
        lambda one: one.enqueue([Row(id=name) for name in ("a", "dead", "nack", "z")]) and None
    )

    def processed(one: Seen, **options: Any) -> object:
        done = one.queue.process(_doubled, **options)
        return done.acked, done.failed, done.dead, done.released, done.stopped, done.waiting

    def refused(one: Seen, handler: Any, **options: Any) -> object:
        return one.queue.process(handler, **options)

    for handler, options in (
        *((None, {}), (_nothing, {}), (_two, {}), (_doubled, {"per": "row"})),
        *((_doubled, {"limit": 0}), (_doubled, {"output": output}), (_doubled, {"lease": 5})),
        *((_doubled, {"time_limit": 5}), (_doubled, {"stop": 1}), (_doubled, {"on_claim": 1})),
        *((_doubled, {"item_time_limit": 5}), (_doubled, {"max_bytes": 0})),
        (_doubled, {"per": "batch", "max_per_group": 2}),
        (_doubled, {"per": "batch", "item_time_limit": timedelta(seconds=5)}),
    ):
        error, said = pair.require_same(
            lambda one, do, given: refused(one, do, **given), handler, options
        )
        assert error is InvalidArgumentError
        assert handler not in (_nothing, _two) or "called with one argument" in said
    assert pair.require_same(lambda one: one.queue.counts())["ready"] == 4

    error, _ = pair.require_same(lambda one: one.queue.claim(1, max_bytes=0))
    assert error is InvalidArgumentError

    told = processed(pair.engine, returns="twice bigint", output=output)
    assert told == (2, 1, 1, 0, "waiting", {"delayed": 1})
    assert processed(pair.twin, returns="twice bigint") == told
    rows = pair.engine.read(output).select(["_seq", "twice"]).sort_by("_seq").to_pylist()
    assert rows == [{"_seq": 1, "twice": 2}, {"_seq": 4, "twice": 8}]


def test_a_time_without_an_offset_is_refused(twins: Twins) -> None:
    """As an input of an item, as a condition, and as a moment to look back at."""
    pair = twins()
    noon = datetime(2026, 1, 1)  # noqa: DTZ001 - the mistake
    naive = _items("a").append_column("available_at", pa.array([noon], pa.timestamp("us")))
    for use in (
        lambda one: one.queue.enqueue(naive),
        lambda one: one.queue.cancel({"_enqueued_at": noon}),
        lambda one: one.queue.stats(noon),
    ):
        error, said = pair.require_same(use)
        assert error in (InvalidArgumentError, SchemaMismatchError)
        assert "without an offset" in said
    assert pair.require_same(lambda one: one.queue.counts())["ready"] == 0


_TYPED: dict[str, tuple[pa.DataType, list[object]]] = {
    "d": (pa.date32(), [date(2026, 1, 2), "2026-01-02"]),
    "n": (pa.decimal128(10, 2), [Decimal("1.5"), 1.5, "1.5"]),
    "f": (pa.float64(), [0.5, 1, float("nan")]),
    "s": (pa.int16(), [7, 7.0, 70_000, "7"]),
    "y": (pa.bool_(), [True, 1]),
    "b": (pa.binary(), [b"\x00x", "x"]),
    "t": (
        pa.timestamp("us", "UTC"),
        [datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=timezone(timedelta(hours=5)))],
    ),
}


def test_a_value_of_each_type_names_the_same_items(twins: Twins) -> None:
    """What a column cannot have is refused by name; what it can have is found, and null by None."""
    pair = twins()
    added = "d date, n decimal(10, 2), f double, s smallint, y boolean, b binary, t timestamp"
    pair.play(lambda one: one.queue.add_columns(added))
    rows = _items("a", "b")
    for name, (kind, values) in _TYPED.items():
        rows = rows.append_column(name, pa.array([values[0], None], kind))
    pair.play(lambda one: one.queue.enqueue(rows))

    for name, (_, values) in _TYPED.items():
        for value in (*values, None, [values[0], None], []):
            told = pair.require_same(
                lambda one, at: one.queue.cancel(at, dry_run=True), {name: value}
            )
            assert told[0] in (0, 1, 2, InvalidArgumentError), told
            is_there = value is values[0] or value is None
            assert not is_there or told[0] == 1, (name, value)


def test_a_change_of_settings_is_of_what_it_names(twins: Twins) -> None:
    """Weights are changed key by key; the answer has what the step replaced, and what is now."""
    pair = twins("fair_key", weights={"a": 2.0}, max_attempts=5)

    def change(one: Seen, settings: Any, expected: Any = None) -> Any:
        step = one.queue.configure(expected=expected, **settings)
        config = one.queue.config
        return int(step), step.before, step.after, dict(config.weights), config.max_attempts

    first = pair.require_same(change, {"weights": {"b": 3.0}})
    assert first[1:] == ({"weights": {"b": 1.0}}, {"weights": {"b": 3.0}}, {"a": 2.0, "b": 3.0}, 5)
    second = pair.require_same(change, {"weights": {"a": None}, "max_attempts": 6})
    assert second[1] == {"weights": {"a": 2.0}, "max_attempts": 5}
    assert second[3:] == ({"b": 3.0}, 6)
    step = second[0]
    for expected in ({"max_attempts": 5}, {"weights": {"b": 2.0}}, {"lease": timedelta(1)}):
        error, said = pair.require_same(change, {"max_attempts": 7}, expected)
        (name,) = expected
        assert error is SettingsChangedError
        assert f"{name} of queue" in said
    third = pair.require_same(change, {"max_attempts": 7}, {"max_attempts": 6, "weights": {}})
    assert (third[0], third[4]) == (step + 1, 7)
