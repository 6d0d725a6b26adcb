"""Rates of a queue without Spark: what waiters, workers, checkpoints and questions do of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue import (
    DurableQueue,
    FrontOptions,
    InvalidConfigError,
    LocalQueue,
    QueueConfig,
    Rate,
)
from spark_queue.claim import Claim
from spark_queue.clock import Clock, ManualClock
from spark_queue.commands import settle
from spark_queue.commands.admin import checkpoint
from spark_queue.front.leases import Leases
from spark_queue.front.queue_ends import LocalOutlet
from spark_queue.local_queue import LocalReader
from spark_queue.log.step_events import LogName
from spark_queue.rules.bounds import Pass
from spark_queue.sql.sql_planner import SqlPlanner
from spark_queue.state import replica_choice
from spark_queue.state.settle_decision import Every
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.views import explaining

SECOND = timedelta(seconds=1)


def _queue(place: Path, *rates: Rate, clock: Clock | None = None) -> LocalQueue:
    config = QueueConfig(fair_key="tenant", rates=rates)
    path = str(place / "queue")
    return LocalQueue.create(
        path, "id string, tenant string", config, durability="process", clock=clock
    )


def _put(queue: LocalQueue, *names: str) -> None:
    queue.enqueue([{"id": name, "tenant": name[0]} for name in names])


def _ids(queue: LocalQueue | LocalReader) -> list[str]:
    return [row["id"] for row in queue.claim(100).rows]


def test_a_claim_that_waits_wakes_when_units_come_back(tmp_path: Path) -> None:
    """R9: not at the next look of an idle waiter, which is later."""
    queue = _queue(tmp_path, Rate(by="tenant", limit=4, per=SECOND, burst=1))
    _put(queue, "a1", "a2")
    assert _ids(queue) == ["a1"]
    began = time.monotonic()
    assert [row["id"] for row in queue.claim(wait=timedelta(seconds=20)).rows] == ["a2"]
    assert time.monotonic() - began < 2


def test_a_process_takes_what_its_hands_begin_at_once(tmp_path: Path) -> None:
    """R12: the handler is entered at the rate, and one early for each hand at most."""
    queue, begun = _queue(tmp_path, Rate(limit=20, per=SECOND, burst=2)), list[float]()
    _put(queue, *(f"a{n}" for n in range(8)))

    def handle(_: object) -> None:
        begun.append(time.monotonic())
        time.sleep(0.02)

    while queue.process(handle, max_workers=2).stopped == "waiting":
        time.sleep(0.01)
    assert len(begun) == 8
    # The first two are the burst, each other comes 50 ms after the one before.
    assert begun[-1] - begun[0] >= 6 * 0.05 - 0.05


# rule again: calls at a rate
def test_a_front_takes_of_a_rate_what_it_hands_out(tmp_path: Path, clock: ManualClock) -> None:
    """R12: it claims nothing ahead, so that what comes after it finds the units."""
    queue = _queue(tmp_path, Rate(limit=1, per=100 * SECOND, burst=8), clock=clock)
    _put(queue, *(f"a{n}" for n in range(30)))
    for _ in range(2):
        with DurableQueue(queue) as front:
            for _ in range(4):
                front.ack(front.get(0))


# rule again: units that come back
def test_units_come_back_of_what_came_too_late_for_its_taker(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7: a front gives it back, whose lease is over, and nothing has begun it."""
    queue = _queue(tmp_path, Rate(limit=1, per=100 * SECOND), clock=clock)
    _put(queue, "a1")
    lease, rows, claims = 10 * SECOND, LocalOutlet.rows, list[int]()

    def read(outlet: LocalOutlet, claim: Claim) -> Any:
        claims.append(claim.lease)
        if len(claims) == 1:
            clock.advance(lease)
        return rows(outlet, claim)

    monkeypatch.setattr(LocalOutlet, "rows", read)
    # It may be renewed just as it is handed out.
    monkeypatch.setattr(Leases, "renew", lambda _: None)
    with DurableQueue(queue, options=FrontOptions(lease=lease)) as front:
        delivery = front.get(20)
        assert (delivery.item["id"], claims) == ("a1", [claims[0], delivery.lease])
        front.ack(delivery)


# rule again: units that come back
@pytest.mark.parametrize("engine", ["memory", "files", "sql"])
def test_units_come_back_of_what_a_runner_did_not_begin(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7: of a claim that was made ahead and given up, but not where a caller releases."""
    clock, stop = ManualClock(), threading.Event()
    rate = Rate(by="tenant", limit=1, per=100 * SECOND, burst=4)
    queue = _queue(tmp_path, rate, Rate(limit=1, per=100 * SECOND, burst=3), clock=clock)
    _put(queue, "a1", "a2", "a3", "a4", "a5")
    if engine == "sql":
        monkeypatch.setattr(replica_choice, "LARGE", 0)

    def look(_: object) -> None:
        stop.set()
        if engine == "files":
            queue._store.forget()

    done = queue.process(lambda _: None, limit=1, stop=stop, on_claim=look)
    assert (done.acked, done.stopped) == (1, "stop")
    claim = queue.claim(100)
    assert [row["id"] for row in claim.rows] == ["a2", "a3"]
    claim.release()
    assert _ids(queue) == []


def test_debts_are_known_after_a_checkpoint_and_in_another_process(tmp_path: Path) -> None:
    """A checkpoint keeps what is owed, and a state that is read anew has it."""
    clock = ManualClock()
    queue = _queue(tmp_path, Rate(by="tenant", limit=1, per=10 * SECOND), clock=clock)
    _put(queue, "a1", "a2", "b1")
    assert _ids(queue) == ["a1", "b1"]
    checkpoint(queue._store)
    for forgets in (False, True):
        if forgets:
            queue._store.forget()
        clock.advance(timedelta(seconds=4))
        assert _ids(queue) == []
    clock.advance(timedelta(seconds=2))
    assert _ids(queue) == ["a2"]
    checkpoint(queue._store)
    with queue._store.cache().lock:
        replica = replica_choice.at_hand(Snapshot(queue._store))
        assert replica is not None
        assert [key for _, key in replica.debts] == ["a"]


# rule: debt ahead of a clock
@pytest.mark.parametrize("forgets", [False, True])
@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_clock_that_is_ahead_stops_others_for_no_more_than_the_time_of_the_rate(
    tmp_path: Path, ahead: int, *, forgets: bool
) -> None:
    """R6, FC-23: others start again at the rate, and no window has much more than allowed."""
    clocks = ManualClock(), ManualClock()
    clocks[0].advance(timedelta(seconds=max(ahead, 0)))
    clocks[1].advance(timedelta(seconds=max(-ahead, 0)))
    rate = Rate(limit=10, per=10 * SECOND, burst=2)
    first = _queue(tmp_path, rate, clock=clocks[0])
    second = LocalQueue.open(str(tmp_path / "queue"), clock=clocks[1], durability="process")
    _put(first, *(f"a{n:03d}" for n in range(100)))
    starts = [0.0] * len(_ids(first))
    for step in range(1, 120):
        for clock in clocks:
            clock.advance(timedelta(seconds=0.25))
        # From the half on both take turns.
        at = first if step > 60 and step % 2 else second
        if forgets and not step % 10:
            # As in another process, which knows what rows say.
            at._store.forget()
        starts += [step / 4] * len(_ids(at))
    assert all(sum(b <= at < b + 10 for at in starts) <= 10 + 3 * 2 for b in starts)
    assert sum(at < 15 for at in starts) >= 10


# rule: debt under a changed rate
def test_a_rate_that_is_no_more_leaves_no_debt_and_each_reader_has_its_own(tmp_path: Path) -> None:
    """R8: processes that go on forget it, too; a reader's settings are in its own log."""
    clock = ManualClock()
    slow = Rate(by="tenant", limit=1, per=100 * SECOND)
    queue = _queue(tmp_path, slow, clock=clock)
    readers = [queue.reader(name) for name in ("x", "y")]
    _put(queue, "a1", "a2", "a3", "a4")
    assert [_ids(reader) for reader in readers] == [["a1"], ["a1"]]
    clock.advance(SECOND)
    readers[0].configure(rates=(Rate(by="tenant", limit=100, per=100 * SECOND, burst=1),))
    clock.advance(0.99 * SECOND)
    assert [_ids(reader) for reader in readers] == [["a2"], []]
    readers[1].configure(rates=(replace(slow, limit=None),))
    readers[1].configure(rates=(slow,))
    assert [_ids(reader) for reader in readers] == [[], ["a2"]]


# rule again: reason of an item, next event
@pytest.mark.parametrize("engine", ["memory", "sql"])
def test_an_explanation_says_when_units_come_back(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It names the key, the units and the instant of the first reason, and counts the others."""
    if engine == "sql":
        monkeypatch.setattr(explaining, "live", lambda *_: None)
        monkeypatch.setattr(SqlPlanner, "coming", SqlPlanner.coming_by_tables)
    clock = ManualClock()
    slow, rate = Rate(limit=1, per=60 * SECOND), Rate(by="tenant", limit=2, per=10 * SECOND)
    queue = _queue(tmp_path, slow, replace(rate, burst=1, overrides={"c": None}), clock=clock)
    _put(queue, "a1", "a2", "b1", "c1")
    assert _ids(queue) == ["a1"]
    assert [(queue.explain(n).reason, queue.explain(n).more) for n in (2, 3)] == [
        ("key rate", 1),
        ("rate", 0),
    ]
    assert queue.explain(2).detail.endswith("; 1 more reason holds it")
    queue.configure(rates=(replace(slow, limit=None),))
    queue.cancel("id IN ('b1', 'c1')")
    why = queue.explain(2)
    assert (why.reason, why.until) == ("key rate", clock.now() + timedelta(seconds=5))
    assert "tenant 'a' may start 1 of 2 units in 10 s again from" in why.detail
    done = queue.process(lambda _: None)
    assert (done.stopped, dict(done.waiting)) == ("waiting", {"leased": 1, "key rate": 1})
    assert done.until == why.until
    queue.cancel("id = 'a2'")
    later = clock.now() + timedelta(seconds=60)
    queue.enqueue([{"id": "a3", "tenant": "a", "available_at": later}])
    assert queue.process(lambda _: None).until == later


@pytest.fixture(params=["memory", "sql"])
def by_either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have items in memory, or tables by SQL, say when time lets one run."""
    if request.param == "sql":
        monkeypatch.setattr(SqlPlanner, "coming", SqlPlanner.coming_by_tables)


# rule: next event
@pytest.mark.usefixtures("by_either")
def test_a_process_that_ends_says_when_the_first_of_a_key_has_its_units(tmp_path: Path) -> None:
    """R5, R9: a smaller item behind it has its units sooner, and does not pass."""
    clock = ManualClock()
    rate = Rate(by="tenant", limit=10, per=10 * SECOND, burst=10, units="size")
    config, schema = QueueConfig(fair_key="tenant", rates=(rate,)), "tenant string, size int"
    queue = LocalQueue.create(tmp_path / "queue", schema, config, clock=clock)
    sizes = [("a", 10), ("a", 5), ("a", 1), ("b", 10), ("b", 7)]
    queue.enqueue([{"tenant": tenant, "size": size} for tenant, size in sizes])
    done = queue.process(lambda _: None)
    assert (done.acked, dict(done.waiting)) == (2, {"key rate": 3})
    assert done.until == clock.now() + 5 * SECOND == queue.explain(2).until
    clock.advance(5 * SECOND)
    assert queue.process(lambda _: None).acked == 1


def _first_start(queue: LocalQueue, clock: ManualClock) -> None:
    """Hold what a process tells of its end against when something really starts."""
    told = queue.process(lambda _: None)
    assert told.acked == 0
    assert told.until is not None
    while not queue.process(lambda _: None).acked:
        assert clock.now() < told.until
        clock.advance(SECOND)
    assert clock.now() == told.until


# rule: next event
@pytest.mark.usefixtures("by_either")
@pytest.mark.parametrize("head", ["of two keys", "that expires"])
def test_a_process_that_ends_says_no_later_instant_than_the_first_start(
    tmp_path: Path, head: str
) -> None:
    """R5: what stands behind a head starts once one of its keys is open, or the head is over."""
    clock = ManualClock()
    rate = Rate(by="a", limit=10, per=10 * SECOND, burst=10, units="x")
    other = Rate(by="b", limit=10, per=20 * SECOND, burst=10, units="y")
    config = QueueConfig(rates=(rate, other) if head == "of two keys" else (rate,))
    schema = "a string, b string, x int, y int"
    queue = LocalQueue.create(tmp_path / "queue", schema, config, clock=clock)
    queue.enqueue({"a": "k", "b": "k", "x": 10, "y": 10})
    assert queue.process(lambda _: None).acked == 1
    first = {"a": "k", "b": "k", "x": 5, "y": 10, "expires_at": None}
    if head == "that expires":
        first |= {"x": 10, "expires_at": clock.now() + 5 * SECOND}
    queue.enqueue([first, {"a": "k", "b": "other", "x": 1, "y": 1, "expires_at": None}])
    _first_start(queue, clock)


# rule: next event, debt ahead of a clock
@pytest.mark.usefixtures("by_either")
def test_a_process_that_ends_knows_when_a_debt_of_a_clock_ahead_is_set_right(
    tmp_path: Path,
) -> None:
    """R6: it is once in the time of the rate, not an hour later."""
    clock, ahead = ManualClock(), ManualClock()
    ahead.advance(3_600 * SECOND)
    queue = _queue(tmp_path, Rate(by="tenant", limit=1, per=10 * SECOND), clock=clock)
    fast = LocalQueue.open(queue.name, clock=ahead)
    _put(queue, *(f"a{n}" for n in range(6)))
    assert [one.claim(1).count for one in (fast, queue, queue)] == [1, 1, 0]
    ahead.advance(10 * SECOND)
    assert fast.claim(1).count == 1
    clock.advance(SECOND)
    _first_start(queue, clock)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"limit": 0}, "above 0"),
        ({"limit": True}, "above 0"),
        ({"limit": 1, "burst": 0.5}, "could never start"),
        ({"limit": 1, "per": timedelta(0)}, "rate.per"),
        ({"limit": 1, "overrides": {"a": 2}}, "whole queue"),
        ({"limit": 1, "by": "tenant", "overrides": {1: 2}}, "use a text"),
        ({"limit": 1, "by": ""}, "rate.by"),
        ({"limit": 1, "per": timedelta(days=36_526)}, "rate.per"),
        ({"limit": 1e-10}, "100 years"),
        ({"limit": 1, "by": "t", "overrides": {"a": 1e-10}}, "of 'a' by t .* 100 years"),
    ],
)
def test_a_rate_that_cannot_be_is_refused(settings: dict[str, object], why: str) -> None:
    """The error names what is wrong."""
    with pytest.raises(InvalidConfigError, match=why):
        Rate(**{"per": SECOND, **settings})  # type: ignore[arg-type]


# rule again: debt ahead of a clock
def test_a_report_says_of_a_clock_ahead_what_a_claim_makes_of_it(tmp_path: Path) -> None:
    """R6: a key whose debt is set right may start, and is not said to wait."""
    ahead, behind = ManualClock(), ManualClock()
    ahead.advance(3600 * SECOND)
    _put(queue := _queue(tmp_path, Rate(by="tenant", limit=1, per=SECOND), clock=ahead), "a1", "a2")
    assert _ids(queue) == ["a1"]
    other = LocalQueue.open(tmp_path / "queue", clock=behind)
    assert other.explain(2).reason == "runnable"
    assert other.report().rates[0].paced == 0
    assert _ids(other) == ["a2"]


def test_rates_are_read_as_they_are_written() -> None:
    """A file has seconds."""
    config = QueueConfig(rates=(Rate(limit=2, per=SECOND, burst=3),))
    assert QueueConfig.from_dict(config.to_dict()) == config
    with pytest.raises(InvalidConfigError, match="what time"):
        QueueConfig.from_dict({"rates": [{"limit": 2}]})


def test_a_claim_asks_for_the_time_within_its_step(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units that come back while it waits for the right to write are its own."""
    queue = _queue(tmp_path, Rate(limit=1, per=SECOND, burst=1), clock=clock)
    _put(queue, "a1", "a2")
    assert _ids(queue) == ["a1"]
    writing = Store.writing

    @contextmanager
    def wait(store: Store, which: LogName) -> Iterator[None]:
        with writing(store, which):
            clock.advance(SECOND)
            yield

    monkeypatch.setattr(Store, "writing", wait)
    assert _ids(queue) == ["a2"]


def test_units_that_others_took_while_a_settle_waited_do_not_come_back(
    tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R7 at the instant of the step: what time has paid back by then is no debt any more."""
    queue = _queue(tmp_path, Rate(limit=1, per=SECOND, burst=4), clock=clock)
    _put(queue, *(f"a{n}" for n in range(9)))
    other, claim, writing = (
        LocalQueue.open(queue.name, durability="process", clock=clock),
        queue.claim(2),
        Store.writing,
    )
    taken = list[str]()

    @contextmanager
    def wait(store: Store, which: LogName) -> Iterator[None]:
        monkeypatch.undo()
        clock.advance(2 * SECOND)
        taken.extend(_ids(other))
        with writing(store, which):
            yield

    monkeypatch.setattr(Store, "writing", wait)
    settle.settle(queue._store, claim.lease, Every("release", is_begun=False))
    assert taken == ["a2", "a3", "a4", "a5"]
    assert _ids(queue) == []


# rule: reason of an item
def test_an_item_is_explained_by_what_comes_before_it_where_a_claim_takes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many wait behind it, they are not looked at; of one that waits all may matter."""
    rate = Rate(by="tenant", limit=1, per=timedelta(hours=1), overrides={"a": None})
    config = QueueConfig(fair_key="tenant", rates=(rate,))
    queue = LocalQueue.create(str(tmp_path / "queue"), "tenant string", config)
    queue.enqueue([{"tenant": "b"}, {"tenant": "b"}, *[{"tenant": "a"}] * 500])
    looked, real = list[int](), Pass.takes

    def takes(taking: Pass, seq: int, *args: Any, **options: Any) -> bool:
        looked.append(seq)
        return real(taking, seq, *args, **options)

    monkeypatch.setattr(Pass, "takes", takes)
    assert queue.explain(1).reason == "runnable"
    assert looked == [1]
    assert queue.explain(2).reason == "key rate"
    assert len(looked) == 1 + 502
    assert queue.explain(502).reason == "runnable"
    assert len(looked) == 1 + 2 * 502
