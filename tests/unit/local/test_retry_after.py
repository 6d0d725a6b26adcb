"""``RetryAfter``: a handler says when it wants its item again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from queue import Empty
from typing import Any

import pyarrow as pa
import pytest

from spark_queue import (
    DurableQueue,
    FrontOptions,
    Limit,
    LocalQueue,
    QueueConfig,
    RetryAfter,
    RetryPolicy,
)
from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, LeaseLostError
from spark_queue.state import replica_choice
from spark_queue.testing import memory_queue

SCHEMA = "id string, tenant string, grp string"

#: Runs a handler, with the options of ``process``.
Run = Callable[..., Any]


def _queue(clock: ManualClock, **config: Any) -> LocalQueue:
    config = {"fair_key": "tenant", "retry": RetryPolicy(delay=timedelta(minutes=9)), **config}
    return memory_queue(SCHEMA, QueueConfig(**config), clock=clock)


def _put(queue: LocalQueue, *ids: str) -> None:
    queue.enqueue([{"id": one, "tenant": one[0], "grp": one[0]} for one in ids])


def _busy(*ids: str, **options: Any) -> Callable[[dict[str, Any]], None]:
    def handle(item: dict[str, Any]) -> None:
        if item["id"] in ids:
            raise RetryAfter(30, "HTTP 429", **options)

    return handle


def _status(queue: LocalQueue) -> dict[str, tuple[Any, ...]]:
    """Return state, attempts, deferrals and error of each item, by its id."""
    rows = queue.status().to_pylist()
    names = ("_state", "_attempts", "_deferrals", "_error")
    return {row["id"]: tuple(row[name] for name in names) for row in rows}


def _plain(queue: LocalQueue, handle: Any, **options: Any) -> Any:
    return queue.process(handle, **options)


def _async(queue: LocalQueue, handle: Any, **options: Any) -> Any:
    async def handler(item: dict[str, Any]) -> None:
        handle(item)

    return queue.process(handler, **options)


def _apart(queue: LocalQueue, handle: Any, **options: Any) -> Any:
    return queue.process(handle, using="processes", **options)


RUNS = pytest.mark.parametrize("run", [_plain, _async, _apart])


# rule: deferral of an item
@RUNS
def test_a_handler_has_its_item_again_when_it_said(clock: ManualClock, run: Run) -> None:
    """It is charged no attempt, the others are done, and it comes back in its old place."""
    queue = _queue(clock)
    _put(queue, "a1", "a2", "b1")
    done = run(queue, _busy("a1"))
    assert (done.acked, done.deferred, done.failed, done.released) == (2, 1, 0, 0)
    assert (done.stopped, dict(done.waiting)) == ("waiting", {"delayed": 1})
    assert done.until == clock.now() + timedelta(seconds=30)
    assert _status(queue)["a1"] == ("ready", 0, 1, "RetryAfter: HTTP 429")
    _put(queue, "a3")
    clock.advance(timedelta(seconds=30))
    seen: list[str] = []
    queue.process(lambda item: seen.append(item["id"]))
    assert seen == ["a1", "a3"]


# rule: deferral of an item
@RUNS
def test_a_handler_that_always_defers_has_a_dead_item(clock: ManualClock, run: Run) -> None:
    """FC-30: after ``max_deferrals``, not before, with no attempt; nothing is punted for it."""
    queue = _queue(clock, max_deferrals=3, max_attempts=1)
    _put(queue, "a1")
    for _ in range(2):
        assert run(queue, _busy("a1")).deferred == 1
        clock.advance(timedelta(seconds=30))
    done = run(queue, _busy("a1"))
    assert (done.deferred, done.dead) == (0, 1)
    assert _status(queue)["a1"] == ("dead", 0, 3, "deferred too often")


# rule: outcome of an item
@RUNS
def test_a_charged_wait_is_a_failure(clock: ManualClock, run: Run) -> None:
    """Its delay is in the place of the policy's, and it may be the last one."""
    queue = _queue(clock, max_attempts=2)
    _put(queue, "a1")
    done = run(queue, _busy("a1", charge=True))
    assert (done.failed, done.deferred) == (1, 0)
    assert done.until == clock.now() + timedelta(seconds=30)
    clock.advance(timedelta(seconds=30))
    assert run(queue, _busy("a1", charge=True)).dead == 1
    assert _status(queue)["a1"] == ("dead", 2, 0, "RetryAfter: HTTP 429")


# rule: work of a group
@RUNS
@pytest.mark.parametrize(("on_failure", "back"), [("block", 2), ("skip", 0)])
def test_a_deferred_item_stops_its_group_as_a_failed_one(
    clock: ManualClock, run: Run, on_failure: str, back: int
) -> None:
    """With ``block`` what is behind it goes back, uncharged; what was done before is done."""
    queue = _queue(clock, group_key="grp", on_failure=on_failure)
    _put(queue, "a1", "a2", "a3", "a4", "b1")
    done = run(queue, _busy("a2"))
    assert (done.deferred, done.released, done.acked) == (1, back, 4 - back)
    assert queue.process(_busy()).acked == 0
    clock.advance(timedelta(seconds=30))
    seen: list[str] = []
    queue.process(lambda item: seen.append(item["id"]))
    assert seen == ["a2", "a3", "a4"][: back + 1]


@pytest.mark.parametrize("using", ["threads", "processes"])
def test_a_batch_is_deferred_as_a_whole(clock: ManualClock, using: Any) -> None:
    """Which item it was nobody knows."""
    queue = _queue(clock)
    _put(queue, "a1", "b1")

    def handle(table: pa.Table) -> None:
        assert table.num_rows == 2
        raise RetryAfter(timedelta(seconds=30))

    done = queue.process(handle, per="batch", using=using)
    assert (done.deferred, done.acked) == (2, 0)
    assert _status(queue)["b1"] == ("ready", 0, 1, "RetryAfter: again in 30 s")


def test_results_say_how_long_an_item_waits(clock: ManualClock, place: str) -> None:
    """Who takes a claim over by its output reads it in the record there."""
    queue = _queue(clock)
    _put(queue, "a1", "a2")

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        _busy("a1")(item)
        return {"n": 1}

    done = queue.process(handle, returns="n bigint", output=f"{place}/out")
    assert (done.acked, done.deferred) == (1, 1)
    assert queue.explain(1).until == clock.now() + timedelta(seconds=30)


# rule: deferral of an item
def test_a_holder_defers_by_hand(clock: ManualClock) -> None:
    """All that is left, or single items; leaving a block by ``RetryAfter`` does it, too."""
    queue = _queue(clock, max_attempts=1)
    _put(queue, "a1", "a2", "a3", "a4")
    held = queue.claim(2)
    one, other = (row["_seq"] for row in held.rows)
    done = held.settle_each({one: ("defer", None, 30), other: ("nack", "no", timedelta(minutes=1))})
    assert (done.deferred, done.dead, done.released) == (1, 1, 0)
    assert queue.claim(1).defer(5).deferred == 1
    with pytest.raises(RetryAfter), queue.claim(1):
        raise RetryAfter(7)
    assert [queue.explain(seq).reason for seq in (1, 3, 4)] == ["delayed"] * 3
    clock.advance(timedelta(seconds=5))
    assert [row["id"] for row in queue.claim(5).rows] == ["a3"]


def test_a_front_defers(clock: ManualClock) -> None:
    """By its verb, and where a scope ends by ``RetryAfter``."""
    queue = _queue(clock)
    _put(queue, "a1", "a2", "a3")
    with DurableQueue(queue) as front:
        front.defer(front.get(), 30, "busy").result(30)
        with pytest.raises(RetryAfter), front.receive():
            raise RetryAfter(30)
        with pytest.raises(RetryAfter), front.receive():
            raise RetryAfter(30, charge=True)
        front.sync()
    assert [one[1:3] for _, one in sorted(_status(queue).items())] == [(0, 1), (0, 1), (1, 0)]


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), "30", None, True, -timedelta(1)])
def test_a_wait_is_a_time(clock: ManualClock, after: Any) -> None:
    """Seconds or a duration, of at least 0; nothing is written before that is known."""
    queue = _queue(clock)
    _put(queue, "a1")
    held = queue.claim(1)
    wrong = r"^after( of seq 1)? is .*: it must be seconds or a timedelta, from 0 to 100 years$"
    with pytest.raises(InvalidArgumentError, match=wrong):
        RetryAfter(after)
    with pytest.raises(InvalidArgumentError, match=wrong):
        held.defer(after)
    with pytest.raises(InvalidArgumentError, match=wrong):
        held.settle_each({1: ("defer", None, after)})
    with pytest.raises(InvalidArgumentError, match="an item waits after nack and defer only"):
        held.settle_each({1: ("ack", None, 30)})
    with pytest.raises(InvalidArgumentError, match="it must be True or False"):
        RetryAfter(1, charge="yes")  # type: ignore[arg-type]
    assert queue.counts()["claimed"] == 1


def test_reports_say_how_often_an_item_was_deferred(clock: ManualClock) -> None:
    """A deferral is no failure, and nothing that was given back."""
    queue = _queue(clock)
    _put(queue, "a1")
    for count in (1, 2):
        queue.process(_busy("a1"))
        why = queue.explain(1)
        assert (why.reason, why.given_back) == ("delayed", 0)
        times = {1: "once", 2: "twice"}[count]
        assert why.detail.endswith(f"; was deferred {times} with 'RetryAfter: HTTP 429'")
        clock.advance(timedelta(seconds=30))
    assert [row["_deferrals"] for row in queue.history(1).to_pylist()] == [None, 0, 1, 1, 2]
    report = queue.report()
    assert (sum(one.failures for one in report.tenants), list(report.errors)) == (0, [])
    assert "was deferred" in queue.explain(1).detail


def _pauses(queue: LocalQueue) -> dict[tuple[str, str], timedelta | None]:
    """Return how long keys are paused from now on."""
    store = queue._store
    settings, now = store.settings(store.status_head()), store.clock.now()
    return {
        (one.by, one.key): None if one.until is None else one.until - now
        for one in settings.paused_at(now)
    }


# rule: pause of a key
@RUNS
@pytest.mark.parametrize("group_key", ["grp", None])
def test_a_handler_pauses_the_key_of_its_item(
    clock: ManualClock, run: Run, group_key: str | None
) -> None:
    """FC-31: what of it has not begun goes back uncharged; others go on; then all runs."""
    queue = _queue(clock, group_key=group_key, on_failure="skip")
    names = [f"a{n:02d}" for n in range(1, 51)]
    _put(queue, *names, "b1")
    done = run(queue, _busy("a03", pause=True), limit=100, max_per_group=50 if group_key else None)
    assert (done.acked, done.deferred, done.released, done.failed) == (3, 1, 47, 0)
    assert _pauses(queue) == {("tenant", "a"): timedelta(seconds=30)}
    found = _status(queue)
    assert found["a03"] == ("ready", 0, 1, "RetryAfter: HTTP 429")
    assert {found[name] for name in names[3:]} == {("ready", 0, 0, None)}
    _put(queue, "b2")
    clock.advance(timedelta(seconds=29))
    assert run(queue, _busy()).acked == 1
    clock.advance(timedelta(seconds=1))
    seen: list[str] = []
    queue.process(lambda item: seen.append(item["id"]))
    assert seen == names[2:]


# rule: pause of a key
def test_a_pause_by_another_key_is_of_that(clock: ManualClock) -> None:
    """By the text of its expression; what is no key of items is left out, and logged."""
    queue = _queue(clock, limits=(Limit(by="grp", default=None),))
    queue.enqueue([{"id": f"{t}{g}", "tenant": t, "grp": g} for g in "xy" for t in "ab"])
    done = queue.process(_busy("ax", pause="grp"), limit=1)
    assert (done.acked, done.deferred) == (2, 1)
    assert _pauses(queue) == {("grp", "x"): timedelta(seconds=30)}
    _put(queue, "c1")
    assert queue.process(_busy("c1", pause="endpoint")).deferred == 1
    assert len(_pauses(queue)) == 1


# rule: pause of a key, holder of a lease
def test_a_holder_pauses_in_the_step_of_its_settle(clock: ManualClock) -> None:
    """A late one pauses nothing; what is no key is refused before anything is written."""
    queue = _queue(clock, lease=timedelta(seconds=10))
    _put(queue, "a1", "a2")
    held = queue.claim(1)
    with pytest.raises(
        InvalidArgumentError, match=r"by is 'grp': no such key is stored .* 'tenant'$"
    ):
        held.defer(30, pause="grp")
    with pytest.raises(InvalidArgumentError, match="pause is True, and after is not given"):
        held.nack("busy", pause=True)
    clock.advance(timedelta(seconds=10))
    other = queue.claim(1)
    with pytest.raises(LeaseLostError):
        held.defer(30, pause=True)
    assert _pauses(queue) == {}
    before = queue._store.status_head().step
    assert other.defer(30, pause=True).step == before + 1
    assert queue._store.status_head().config_step == before + 1
    assert queue.claim(5).count == 0
    clock.advance(timedelta(seconds=30))
    assert [row["id"] for row in queue.claim(5).rows] == ["a1", "a2"]


# rule: pause of a key
@pytest.mark.parametrize("charge", [False, True])
def test_a_scope_pauses_by_what_it_raises(clock: ManualClock, charge: bool) -> None:  # noqa: FBT001
    """That of a claim and that of a front, and a verb of a front."""
    queue = _queue(clock)
    _put(queue, "a1", "b1", "c1")
    with pytest.raises(RetryAfter), queue.claim(1):
        raise RetryAfter(30, pause=True, charge=charge)
    with DurableQueue(queue) as front:
        with pytest.raises(RetryAfter), front.receive():
            raise RetryAfter(20, pause="tenant", charge=charge)
        front.defer(front.get(), 10, pause=True).result(30)
        front.sync()
    ends = {one: timedelta(seconds=n) for one, n in {"a": 30, "b": 20, "c": 10}.items()}
    assert _pauses(queue) == {("tenant", one): end for one, end in ends.items()}


# rule: pause of a key
def test_a_front_hands_out_nothing_of_a_key_that_a_taker_paused(clock: ManualClock) -> None:
    """H3: what it has claimed ahead of the key goes back, uncharged."""
    queue = _queue(clock)
    _put(queue, "a1", "a2", "a3", "b1")
    with DurableQueue(queue, options=FrontOptions(prefetch=9)) as front:
        front.defer(front.get(), 30, pause=True).result(30)
        assert front.get(0).item["id"] == "b1"
        with pytest.raises(Empty):
            front.get(0)
    assert _status(queue)["a2"] == ("ready", 0, 0, None)


# rule: pause of a key
def test_sql_settles_with_a_pause(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of settings goes into the step of any engine."""
    monkeypatch.setattr(replica_choice, "LARGE", 0)
    queue = _queue(clock, limits=(Limit(by="grp", default=None),))
    _put(queue, "a1", "a2", "b1")
    assert queue.process(_busy("a1", pause="grp"), limit=2).deferred == 1
    assert _pauses(queue) == {("grp", "a"): timedelta(seconds=30)}
    assert queue.claim(3).count == 0
    clock.advance(timedelta(seconds=30))
    with pytest.raises(RetryAfter), queue.claim(1):
        raise RetryAfter(5, pause=True)
    assert _pauses(queue) == {("tenant", "a"): timedelta(seconds=5)}


@pytest.mark.parametrize("large", [1_000, 0])
def test_in_an_older_format_a_deferral_is_a_failure(
    clock: ManualClock,
    large: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """There is no column to count it in, and for ever is no way out; of a pause it says no."""
    monkeypatch.setattr(replica_choice, "LARGE", large)
    queue = _queue(clock, max_attempts=2)
    admin.configure(queue._main, lambda old, _: type(old)(config=old.config, format=5))
    _put(queue, "a1")
    done = queue.process(_busy("a1", pause=True))
    assert (done.failed, done.deferred) == (1, 0)
    no_pause = "a pause of a key came with format 6, and the queue is of format 5; upgrade it"
    assert f"item 1 pauses no key: {no_pause}" in caplog.text
    assert queue.explain(1).until == clock.now() + timedelta(seconds=30)
    clock.advance(timedelta(seconds=30))
    held = queue.claim(1)
    for verb in (partial(held.defer, 30), partial(held.nack, "no", after=30)):
        with pytest.raises(InvalidConfigError, match=no_pause):
            verb(pause=True)
    assert held.defer(30).dead == 1
    assert _status(queue)["a1"][:3] == ("dead", 2, 0)
