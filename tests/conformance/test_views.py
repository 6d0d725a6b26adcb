"""Verbs that read: each gives the same columns, types, rows and errors on every engine.

A story is played on the engine under test and on a queue in memory. What both show is compared
whole, so that a new column is compared, too.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from inspect import signature
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from spark_queue.commands import readers
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import (
    InvalidArgumentError,
    QueueNotFoundError,
    ReaderNotFoundError,
)
from spark_queue.local_queue import LocalQueue, LocalReader
from spark_queue.reader import Reader
from spark_queue.reader_config import ReaderConfig
from tests.conformance.engines import Row
from tests.conformance.memory import MemoryEngine
from tests.conformance.twins import Pair, Seen, Twins

pytestmark = pytest.mark.needs("views")

_ALL_KEYS = ("dedup_key", "fair_key", "group_key", "priority")

_NOW = None

#: No queue is here, as a file has no folders.
_MISSING = "/dev/null/queue"


def _everything(engine: Seen) -> None:
    """Bring items into every state, with failures, losses, ends, and some of them redriven."""
    engine.enqueue(
        [
            *(Row(id=f"a{n}", key=f"a{n}", tenant="ann", group="g", priority=n) for n in range(3)),
            *(Row(id=f"b{n}", key=f"b{n}", tenant="bob", cost=n + 0.5) for n in range(4)),
            Row(id="c", key="a0", tenant="cyd"),
            Row(id="d", key="d", delay=500),
            Row(id="e", key="e", tenant="eve", ttl=5),
        ]
    )
    engine.advance(1.25)
    first = engine.claim_as("w1", "first", 4)
    engine.advance(2)
    first.settle("ack", first.ids[:1])
    first.settle("nack", first.ids[1:2], "no luck")
    first.settle("dead", first.ids[2:3], "no use")
    engine.claim_as("w2", "second", 2).settle("release")
    engine.advance(120)
    engine.enqueue([Row(id="f", key="f", tenant="bob"), Row(id="f2", key="f", tenant="dan")])
    engine.claim_as("w3", "third", 6).renew(90)
    engine.queue.configure(weights={"bob": 2.0})
    engine.queue.pause()
    engine.queue.cancel("id = 'f'")
    engine.queue.redrive("_state = 'dead' OR _state = 'cancelled'")
    engine.queue.maintain()
    engine.advance(3)


def _moments(pair: Pair) -> list[int | datetime | None]:
    """Return now, some steps, and instants: before, between and after what was done."""
    start = pair.twin.queue.instant_of(1)
    last = pair.twin.queue.stats().step
    instants = [start + timedelta(seconds=seconds) for seconds in (-1, 2, 999)]
    return [_NOW, 4, last + 1, *instants]


def test_items_are_shown_the_same_now_and_as_they_were(twins: Twins) -> None:
    """Status, dead letters, counts and statistics; at any step and instant, or the same error."""
    pair = twins(*_ALL_KEYS, max_attempts=3)
    pair.play(_everything)

    letters, stats = {}, {}
    for moment in _moments(pair):
        pair.require_same(lambda one, at: one.table(one.queue.status(at)), moment)
        letters[moment] = pair.require_same(lambda one, at: one.table(one.queue.dead(at)), moment)
        stats[moment] = pair.require_same(lambda one, at: one.queue.stats(at), moment)
        if isinstance(moment, int):
            pair.require_same(lambda one, at: one.queue.instant_of(at), moment)

    counts = pair.require_same(lambda one: one.queue.counts())
    assert counts == {state: stats[_NOW][state] for state in counts}
    assert (counts["dead"], counts["cancelled"], counts["refused"]) == (1, 1, 2)
    names = [row["fair_key"] for row in stats[_NOW]["per_key"][1]]
    assert names == [None, "ann", "bob", "cyd", "dan", "eve"]
    columns, rows = letters[_NOW]
    assert [name for name, _ in columns][-2:] == ["_gen", "_successor"]
    assert [row["_successor"] is None for row in rows] == [False]


def test_a_short_status_has_what_is_looked_at_first(twins: Twins) -> None:
    """The user's columns, the state, tries, worker and error; the rows are those of the status."""
    pair = twins(*_ALL_KEYS, max_attempts=3)
    pair.play(_everything)

    for moment in _moments(pair):
        pair.require_same(lambda one, at: one.table(one.queue.status(at, short=True)), moment)
    columns, rows = pair.require_same(lambda one: one.table(one.queue.status(short=True)))
    _, whole = pair.require_same(lambda one: one.table(one.queue.status()))

    names = [name for name, _ in columns]
    assert names[:5] == ["id", "key", "tenant", "grp", "prio"]
    assert names[5:] == ["_seq", "_state", "_attempts", "_worker_id", "_error"]
    assert rows == [{name: row[name] for name in names} for row in whole]
    flag: Any = "yes"
    assert pair.require_same(lambda one: one.queue.status(short=flag))[0] is InvalidArgumentError


def test_a_notebook_shows_how_a_queue_does(twins: Twins) -> None:
    """Its condition, its numbers and where its items are, as a report has them."""
    pair = twins(*_ALL_KEYS, max_attempts=3)
    pair.play(_everything)

    seen = pair.require_same(
        lambda one: one.queue._repr_html_().replace(one.queue.name, "the queue")
    )

    assert "<h1>the queue</h1>" in seen
    assert "PAUSED" in seen
    assert '<div class="tiles">' in seen
    assert ">acked</td>" in seen


def test_a_history_is_the_same_of_every_row(twins: Twins) -> None:
    """It begins with the enqueue, also of a refused row; a row that is none has no transition."""
    pair = twins(*_ALL_KEYS, max_attempts=3)
    pair.play(_everything)
    last = pair.twin.queue.status()["_seq"].to_pylist()[-1]

    told = {
        seq: pair.require_same(lambda one, seq: one.table(one.queue.history(seq)), seq)
        for seq in (-1, 1, 2, 3, 8, 11, last, last + 1)
    }

    assert [name for name, _ in told[1][0]] == [
        *("log", "_step", "_at", "_state", "_duplicate_of", "_origin", "_attempts", "_losses"),
        *(
            "_deferrals",
            "_lease",
            "_claim_id",
            "_worker_id",
            "_lease_expires_at",
            "_available_at",
            "_error",
        ),
    ]
    (refused,) = told[8][1]
    assert (refused["log"], refused["_state"], refused["_duplicate_of"]) == ("queue", "refused", 1)
    errors = [(row["_state"], row["_error"]) for row in told[1][1]]
    assert errors[2:4] == [("ready", "no luck"), ("claimed", None)]
    states = {seq: [row["_state"] for row in rows] for seq, (_, rows) in told.items()}
    assert (states[-1], states[last + 1]) == ([], [])
    assert {moves[0] for moves in states.values() if moves} == {"ready", "refused"}
    names, rows = pair.require_same(lambda one: one.table(one.queue.history()))
    assert [name for name, _ in names][:3] == ["log", "_seq", "_step"]
    assert {seq: [row["_state"] for row in rows if row["_seq"] == seq] for seq in states} == states


def _renews(engine: Seen) -> None:
    """Renew a claim twice, of which one item is settled first, and one between the two."""
    engine.enqueue([Row(id="a"), Row(id="b"), Row(id="c")])
    held = engine.claim_as("w1", "first", 3)
    engine.advance(10)
    held.settle("release", held.ids[2:])
    held.renew(90)
    engine.advance(10)
    held.settle("ack", held.ids[1:2])
    held.renew(80)
    engine.claim_as("w2", "second").settle("nack", error="no luck")


def test_a_renewal_is_shown_of_each_item_that_its_claim_held(twins: Twins) -> None:
    """It is in their histories, and their lease ends by the last one; of others nothing is."""
    pair = twins(max_attempts=3)
    pair.play(_renews)

    told = [pair.require_same(lambda one, n: one.table(one.queue.history(n)), n) for n in (1, 2, 3)]
    stands = pair.require_same(lambda one: one.table(one.queue.status()))

    moves = [[(row["_state"], row["_step"]) for row in rows] for _, rows in told]
    assert [state for state, _ in moves[0]] == ["ready", "claimed", "claimed", "claimed"]
    assert [state for state, _ in moves[1]] == ["ready", "claimed", "claimed", "acked"]
    assert [state for state, _ in moves[2]] == ["ready", "claimed", "ready", "claimed", "ready"]
    grant, first, second = told[0][1][1:]
    assert first["_step"] < moves[1][-1][1] < second["_step"]
    assert [row["_lease"] for row in (first, second)] == [grant["_lease"]] * 2
    held_for = [row["_lease_expires_at"] - row["_at"] for row in (first, second)]
    assert held_for == [timedelta(seconds=90), timedelta(seconds=80)]
    ends = [row["_lease_expires_at"] for row in stands[1]]
    assert ends == [second["_lease_expires_at"], None, None]


def _outcomes(engine: Seen, *ids: str) -> pa.Table:
    rows = [{"id": name, "key": name} for name in ids]
    table = pa.Table.from_pylist(rows, schema=engine.columns())
    return engine.table(engine.queue.enqueue(table).outcomes)


def test_outcomes_of_an_enqueue_are_the_same(twins: Twins) -> None:
    """Of each row, in their order, also where there is none; the types are always those."""
    pair = twins("dedup_key")

    for ids in ([], ["b", "a", "b"], ["a", "c"]):
        columns, rows = pair.require_same(_outcomes, *ids)
        assert columns[-4:] == [
            ("_seq", pa.int64()),
            ("outcome", pa.string()),
            ("duplicate_of", pa.int64()),
            ("holder", pa.string()),
        ]
        assert [row["id"] for row in rows] == ids


def _in_every_way(engine: Seen) -> None:
    """Leave items of which each has another reason not to run."""
    engine.enqueue(
        [
            Row(id="1 over"),
            Row(id="2 lost", group="h"),
            Row(id="3 leased", group="g"),
            Row(id="4 behind", group="g"),
            Row(id="5 later", delay=900, group="d"),
            Row(id="6 waits", group="d"),
            Row(id="7 ends", ttl=15),
            Row(id="8 twice", key="k"),
            Row(id="9 again", key="k"),
        ]
    )
    held = engine.claim_as("w1", "first", 2)
    held.settle("ack", ["1 over"])
    engine.advance(9)
    engine.claim_as("w2", "second").renew(500)
    engine.advance(11)


def _explained(engine: Seen, seq: int) -> tuple[str, object]:
    told = engine.queue.explain(seq)
    return told.reason, told


@pytest.mark.parametrize("who", ["this process", "the logs"])
def test_every_reason_is_given_in_full(
    twins: Twins, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reason, sentence, who is in the way and until when; also of what a process does not know."""
    if who == "the logs":
        monkeypatch.setattr("spark_queue.views.explaining.live", lambda *_: None)
    lease = timedelta(seconds=10)
    pair = twins("dedup_key", "fair_key", "group_key", lease=lease, max_losses=1)
    pair.play(_in_every_way)

    def reasons() -> dict[int, str]:
        return {seq: pair.require_same(_explained, seq)[0] for seq in range(11)}

    assert list(reasons().values()) == [
        *("unknown", "finished", "lease lost", "leased", "held by group", "delayed"),
        *("held by group", "expired", "runnable", "duplicate", "unknown"),
    ]
    pair.play(lambda one: one.queue.configure(max_in_flight=1))
    assert reasons()[8] == "limit"
    pair.play(lambda one: one.queue.pause())
    assert reasons()[8] == "paused"


def _loses_a_lease(engine: Seen) -> None:
    """Claim an item again whose lease ran out, where one more may be in flight."""
    engine.enqueue([Row(id="a"), Row(id="b")])
    engine.claim_as("w1", "first")
    engine.advance(10)
    engine.claim_as("w2", "second")


def test_an_item_that_is_claimed_again_is_in_flight_once(twins: Twins) -> None:
    """The limit has room for another one."""
    pair = twins(lease=timedelta(seconds=10), max_in_flight=2)
    pair.play(_loses_a_lease)

    counts = pair.require_same(lambda one: one.queue.counts())
    assert (counts["ready"], counts["claimed"]) == (1, 1)
    assert [pair.require_same(_explained, seq)[0] for seq in (1, 2)] == ["leased", "runnable"]


def test_reports_are_the_same(twins: Twins) -> None:
    """Of a queue, of each item, now and as they were; the window is checked."""
    pair = twins(*_ALL_KEYS, max_attempts=3)
    pair.play(_everything)

    for moment in (_NOW, 3, 99):
        pair.require_same(lambda one, at: one.queue.report(at), moment)
        for seq in (1, 3, 8, 99):
            pair.require_same(lambda one, at, seq: one.queue.report_item(seq, at), moment, seq)
    short = timedelta(seconds=1)
    pair.require_same(lambda one: one.queue.report(window=short))
    error, _ = pair.require_same(lambda one: one.queue.report(window=-short))
    assert error is InvalidArgumentError


def _read_by_three(engine: Seen) -> None:
    engine.enqueue([Row(id=f"before{n}") for n in range(3)])
    engine.queue.reader("first")
    engine.queue.reader("late", start="tail")
    engine.queue.reader("all", start="beginning", config=ReaderConfig(max_age=timedelta(days=1)))
    engine.advance(30)
    engine.enqueue([Row(id=f"ünder{n}", tenant="t") for n in range(4)])
    engine.queue.open_reader("all").claim(4, worker_id="w", claim_id="c")
    engine.advance(5)
    # Only Spark reads a stream; how far it is may be seen without.
    readers.register(engine.queue._main, "stream", None, "beginning", streams=True)


def test_readers_are_found_and_lag_the_same(twins: Twins) -> None:
    """Names, numbers and limits, and how far each is behind; one that is not there is refused."""
    pair = twins("fair_key")
    pair.play(_read_by_three)

    assert pair.require_same(lambda one: one.queue.readers()) == ("first", "late", "all", "stream")
    pair.require_same(lambda one: one.queue.open_reader("stream").lag())
    for name in ("first", "late", "all", "none", ""):
        pair.require_same(_facts, name)
        pair.require_same(lambda one, name: one.queue.open_reader(name).lag(), name)
        pair.require_same(lambda one, name: one.table(one.queue.open_reader(name).status()), name)
    start = pair.twin.queue.open_reader("first").instant_of(1)
    for name, moment in product(("late", "all"), (1, start)):
        pair.require_same(_looked_back, name, moment)
    assert pair.require_same(lambda one: one.queue.drop_reader("late", dry_run=True))[0] == 4
    assert pair.require_same(lambda one: one.queue.drop_reader("late")) is None
    assert pair.require_same(lambda one: one.queue.readers()) == ("first", "all", "stream")
    error, _ = pair.require_same(lambda one: one.queue.drop_reader("late"))
    assert error is ReaderNotFoundError
    error, _ = pair.require_same(lambda one: one.queue.reader("x", start="soon"))
    assert error is InvalidArgumentError
    missing = ReaderConfig(expire_to=_MISSING)
    error, _ = pair.require_same(lambda one: one.queue.reader("y", config=missing))
    assert error is QueueNotFoundError


def _looked_back(engine: Seen, name: str, moment: int | datetime) -> object:
    reader = engine.queue.open_reader(name)
    return engine.table(reader.status(moment)), reader.stats(moment)


def _facts(engine: Seen, name: str) -> tuple[object, ...]:
    reader = engine.queue.open_reader(name)
    return reader.reader, reader.number, reader.limits.to_dict(), reader.paused, reader.counts()


def test_a_queue_says_what_it_is(twins: Twins) -> None:
    """Its columns have one type in each engine; there is a queue where one was made."""
    pair = twins()
    pair.play(lambda one: one.add_notes())

    assert pair.require_same(lambda one: one.columns())[-1] == ("note", pa.string())
    engine = pair.engine
    if not isinstance(engine, MemoryEngine):
        assert engine.exists(engine.queue.name)
    assert not engine.exists(_MISSING)


_OF_ANY = (
    *("counts", "dead", "doctor", "explain", "explain_step", "history", "instant_of", "report"),
    *("report_item", "stats", "status"),
)
_CALLS = [
    *((DeltaQueue, LocalQueue, verb) for verb in _OF_ANY),
    *((Reader, LocalReader, verb) for verb in (*_OF_ANY, "lag")),
    *(
        (DeltaQueue, LocalQueue, verb)
        for verb in ("drop_reader", "open_reader", "reader", "readers")
    ),
]


def _with_every_type(engine: Seen) -> None:
    """Have a column of each type that is kept without Spark, with a value and without."""
    engine.queue.add_columns(
        "day date, at timestamp, x double, f float, ok boolean, raw binary, big bigint, "
        "small smallint, tiny tinyint, price decimal(10,2)"
    )
    moment = datetime(2025, 7, 1, 12, 30, 0, 250, tzinfo=timezone.utc)
    values = (moment.date(), moment, -0.5, 0.1, True, b"\x00\xff", 2**60, -1, 7, Decimal("1.50"))
    schema = engine.columns()
    own = dict(zip(schema.names[-len(values) :], values, strict=True))
    engine.queue.enqueue(pa.Table.from_pylist([{"id": "a", **own}, {"id": "b"}], schema=schema))


def test_columns_of_every_type_are_shown_the_same(twins: Twins) -> None:
    """Types and values of the user's columns are those of Arrow, whoever reads them."""
    pair = twins()
    pair.play(_with_every_type)

    assert pa.decimal128(10, 2) in dict(pair.require_same(lambda one: one.columns())).values()
    _, rows = pair.require_same(lambda one: one.table(one.queue.status()))
    assert [row["price"] for row in rows] == [Decimal("1.50"), None]


@pytest.mark.parametrize(("by_spark", "alone", "verb"), _CALLS)
def test_a_verb_takes_the_same_with_spark_and_without(
    by_spark: type[Any], alone: type[Any], verb: str
) -> None:
    """Parameters have the same names, order, kinds and defaults."""
    taken = [
        [
            (one.name, one.kind, one.default)
            for one in signature(getattr(owner, verb)).parameters.values()
        ]
        for owner in (by_spark, alone)
    ]
    assert taken[0] == taken[1]


_WRONG: dict[str, Callable[[Seen], Any]] = {
    "a step as a text": lambda one: one.queue.status("1"),  # type: ignore[arg-type]
    "a naive time": lambda one: one.queue.status(datetime(2026, 1, 1)),  # noqa: DTZ001
    "a naive time of letters": lambda one: one.queue.dead(datetime(2026, 1, 1)),  # noqa: DTZ001
    "a fraction of a step": lambda one: one.queue.stats(1.5),  # type: ignore[arg-type]
    "a step that is to come": lambda one: one.queue.stats(99),
    "a naive report": lambda one: one.queue.report(datetime(2026, 1, 1)),  # noqa: DTZ001
    "the instant of no step": lambda one: one.queue.instant_of(99),
    "the length of no step": lambda one: one.queue.explain_step(99),
    "the instant of an instant": lambda one: one.queue.instant_of(None),  # type: ignore[arg-type]
    "an item as a text": lambda one: one.queue.history("1"),  # type: ignore[arg-type]
    "an item that is true": lambda one: one.queue.explain(True),
    "an item too far": lambda one: one.queue.report_item(2**63),
    "a reader that is a number": lambda one: one.queue.open_reader(1),  # type: ignore[arg-type]
    "a reader of nothing": lambda one: one.queue.drop_reader(None),  # type: ignore[arg-type]
    "a flag that is a number": lambda one: one.queue.drop_reader("a", dry_run=1),  # type: ignore[arg-type]
    "a reader without a name": lambda one: one.queue.reader(""),
}


def test_wrong_calls_are_refused_in_the_same_words(twins: Twins) -> None:
    """The same error with the same text, whoever is asked."""
    pair = twins()

    for what, call in _WRONG.items():
        error, _ = pair.require_same(call)
        assert issubclass(error, InvalidArgumentError), what
