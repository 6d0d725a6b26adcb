"""``process`` without Spark: a handler over claim after claim, by threads and by children."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_queue.clock import ManualClock
from spark_queue.errors import (
    InvalidArgumentError,
    Reject,
    SchemaMismatchError,
    SparkNeededError,
)
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue
from spark_queue.log.step_events import StepFacts
from spark_queue.processing.crew import Using
from spark_queue.queue_views import store_of
from spark_queue.retry_policy import RetryPolicy
from spark_queue.sql import sql_planner
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import step_waits
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from tests.unit.local.conftest import Make, Worker

BOTH = pytest.mark.parametrize("using", ["threads", "processes"])

AT_ONCE = RetryPolicy(delay=timedelta(0))


@pytest.fixture
def grouped(make: Make) -> LocalQueue:
    """Twelve items in three groups; what fails is retried at once."""
    queue = make("id long, grp string", group_key="grp", retry=AT_ONCE)
    queue.enqueue([{"id": number, "grp": f"g{number % 3}"} for number in range(12)])
    return queue


def _states(queue: LocalQueue) -> dict[int, tuple[str, int, int]]:
    rows = queue.status().to_pylist()
    return {row["id"]: (row["_state"], row["_attempts"], row["_losses"]) for row in rows}


@pytest.mark.parametrize("other", ["at work", "late", "ended"])
def test_a_settle_is_one_step_with_the_next_claim_beside_others(
    make: Make, again: Callable[[], LocalQueue], start: Callable[..., Worker], clock: ManualClock,
    other: str,
) -> None:  # fmt: skip
    """What others hold is left to them; what they lost comes back before that claim."""
    queue, worker, minute = make(), start(), timedelta(minutes=1)
    queue.enqueue([{"id": str(n)} for n in range(3)])
    if other == "ended":
        assert worker.says("queue.claim(1).count") == "1"
    else:
        again().claim(1, lease=minute, worker_id="other")
    seen: list[str] = []

    def handle(item: dict[str, Any]) -> None:
        if not seen and other == "late":
            clock.advance(minute)
        if not seen and other == "ended":
            worker.kill()
        seen.append(item["id"])

    steps: list[StepFacts] = []
    LocalQueue.open(queue.name, durability="process", clock=clock, listener=steps.append).process(
        handle, limit=1
    )

    assert steps[1].action == ("settle and claim" if other == "at work" else "settle")
    assert sorted(seen) == (["1", "2"] if other == "at work" else ["0", "1", "2"])


@BOTH
def test_each_item_is_worked_on_and_settled(grouped: LocalQueue, using: Using) -> None:
    """All that waits is claimed, run and acked; a claim is made in the step that settles one."""
    told: list[int] = []

    done = grouped.process(
        lambda item: {"twice": 2 * item["id"]},
        limit=6,
        returns="twice bigint",
        using=using,
        max_workers=3,
        on_claim=lambda so_far: told.append(so_far.acked),
    )

    assert (done.acked, done.claims, done.stopped, done.waiting) == (12, 2, "empty", {})
    assert told == [6, 12]
    assert set(_states(grouped).values()) == {("acked", 0, 0)}


@BOTH
def test_what_a_handler_does_is_what_becomes_of_its_item(make: Make, using: Using) -> None:
    """An error fails an item, a reject ends it, a wrong result fails it; the others are done."""
    queue = make("id long", max_attempts=2, retry=AT_ONCE)
    queue.enqueue([{"id": number} for number in range(5)])

    def handle(item: dict[str, Any]) -> dict[str, Any] | None:
        if item["id"] == 0 and item["_attempts"] == 0:
            raise ValueError("the first time")
        if item["id"] == 1:
            raise Reject("never")
        if item["id"] == 2:
            return {"n": "n/a"}
        return {"n": item["id"]}

    done = queue.process(handle, returns="n bigint", using=using)

    assert (done.acked, done.failed, done.dead) == (3, 2, 2)
    states = _states(queue)
    assert (states[0], states[1], states[2]) == (("acked", 1, 0), ("dead", 0, 0), ("dead", 2, 0))
    errors = {row["id"]: row["_error"] for row in queue.dead().to_pylist()}
    assert errors[1] == "Reject: never"
    assert "column 'n' is 'n/a' (str), which does not fit into bigint" in errors[2]


@BOTH
def test_a_group_is_worked_off_in_order_and_stops_at_a_failure(
    grouped: LocalQueue, using: Using, tmp_path: Path
) -> None:
    """What is behind a failure goes back uncharged, and runs after it."""
    log = tmp_path / "log"

    def handle(item: dict[str, Any]) -> None:
        with log.open("a") as file:
            file.write(f"{item['grp']} {item['id']}\n")
        if item["id"] == 3 and item["_attempts"] == 0:
            raise ValueError("once")

    done = grouped.process(handle, using=using, max_workers=2)

    assert (done.acked, done.failed, done.released) == (12, 1, 2)
    order = defaultdict(list)
    for line in log.read_text().splitlines():
        order[line.split()[0]].append(int(line.split()[1]))
    assert order == {"g0": [0, 3, 3, 6, 9], "g1": [1, 4, 7, 10], "g2": [2, 5, 8, 11]}


def test_items_run_in_the_order_of_service_and_at_the_same_time(make: Make) -> None:
    """One worker takes what comes next; several meet in the middle of their items."""
    queue = make("id long, who string", fair_key="who")
    queue.enqueue([{"id": n, "who": who} for n, who in enumerate(["a", "a", "a", "b"])])
    order: list[int] = []
    queue.process(lambda item: order.append(item["id"]))
    assert order == [0, 3, 1, 2]

    queue.enqueue([{"id": n, "who": "a"} for n in range(3)])
    together = threading.Barrier(3, timeout=20)

    def meet(_: dict[str, Any]) -> None:
        together.wait()

    assert queue.process(meet, max_workers=3).acked == 3


@BOTH
def test_a_batch_is_a_table(grouped: LocalQueue, using: Using) -> None:
    """A handler of batches gets tables, and gives rows by ``_seq``; where it raises, all fail."""
    grouped.configure(max_attempts=1)

    def handle(table: pa.Table) -> pa.Table:
        if 4 in table["id"].to_pylist():
            raise ValueError("no")
        return table.select(["_seq", "id"])

    done = grouped.process(handle, per="batch", returns="id bigint", using=using, limit=2)

    assert done.acked + done.dead == 12
    assert _states(grouped)[4] == ("dead", 1, 0)
    assert 1 <= done.dead <= 2


def test_an_item_that_kills_its_child_is_charged_alone(grouped: LocalQueue) -> None:
    """It is lost until ``max_losses``; those behind it in its group wait for it, all others run."""
    grouped.configure(max_losses=2)

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 4:
            os.kill(os.getpid(), signal.SIGKILL)

    done = grouped.process(handle, using="processes", max_workers=3)

    assert (done.acked, done.dead, done.failed) == (11, 1, 1)
    states = _states(grouped)
    assert states.pop(4) == ("dead", 0, 2)
    assert set(states.values()) == {("acked", 0, 0)}
    assert grouped.dead()["_error"].to_pylist() == ["the worker died of it (SIGKILL)"]


def test_a_batch_that_kills_its_child_is_divided(make: Make) -> None:
    """Nobody is charged until the culprit is alone in a call."""
    queue = make("id long", max_losses=1)
    queue.enqueue([{"id": number} for number in range(8)])

    def handle(table: pa.Table) -> None:
        if 5 in table["id"].to_pylist():
            os._exit(3)

    done = queue.process(handle, per="batch", using="processes")

    assert (done.acked, done.dead) == (7, 1)
    assert queue.dead()["_error"].to_pylist() == ["the worker died of it (exit code 3)"]
    assert queue.dead()["id"].to_pylist() == [5]


def test_a_lease_is_renewed_while_a_handler_runs(make: Make, clock: ManualClock) -> None:
    """Who works longer than the lease keeps the items."""
    steps: list[StepFacts] = []
    path, lease = make("id long").name, timedelta(seconds=0.3)
    seen = LocalQueue.open(path, durability="process", clock=clock, listener=steps.append)
    seen.enqueue([{"id": 1}])

    def renewed() -> int:
        return [step.action for step in steps].count("renew")

    def handle(_item: dict[str, Any]) -> None:
        ends_at = time.monotonic() + 20
        for _ in range(3):
            # On the clock of the queue the lease would be over after two.
            renewals = renewed()
            clock.advance(lease * 0.6)
            while renewed() == renewals:
                assert time.monotonic() < ends_at
                time.sleep(0.005)
            assert seen.claim(1).count == 0

    done = seen.process(handle, lease=lease)

    assert (done.acked, done.failed) == (1, 0)


def test_what_waits_for_several_things_is_told_of_each(make: Make) -> None:
    """Law 4: in a queue with groups a key that is full, or lacks units, is none that is held."""
    queue = make(
        "tenant string, grp string",
        fair_key="tenant",
        group_key="grp",
        limits=(Limit(by="tenant", default=1, overrides={"b": None, "c": None}),),
        rates=(Rate(by="tenant", limit=1, per=timedelta(hours=1), overrides={"a": None}),),
    )
    rows = [("a", None), ("a", None), ("b", None), ("b", None), ("b", None), ("c", "g"), ("c", "g")]
    queue.enqueue([{"tenant": tenant, "grp": group} for tenant, group in rows])
    queue.claim(9)
    done = queue.process(print)
    assert (done.claims, done.stopped) == (0, "waiting")
    assert done.waiting == {"leased": 3, "key limit": 1, "key rate": 2, "held by group": 1}


def test_others_write_while_what_waits_is_counted(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 4: all items are read for it, which takes long in a large queue."""
    limit = Limit(by="tenant", default=1)
    queue = make("tenant string, grp string", fair_key="tenant", group_key="grp", limits=(limit,))
    queue.enqueue([{"tenant": "a", "grp": None}] * 2)
    held, count = queue.claim(1), sql_planner.SqlPlanner.count_reasons
    do: list[Callable[[], object]] = [held.ack, lambda: queue.cancel({"tenant": "a"})]

    def count_meanwhile(*args: Any) -> Any:
        other = threading.Thread(target=do.pop(0))
        other.start()
        other.join(30)
        assert not other.is_alive()
        return count(*args)

    monkeypatch.setattr(sql_planner.SqlPlanner, "count_reasons", count_meanwhile)
    assert queue.process(print).waiting == {"runnable": 1}
    queue.enqueue([{"tenant": "a", "grp": None}] * 2)
    queue.claim(1)
    done = queue.process(print)
    assert (done.stopped, done.waiting, done.until) == ("empty", {}, None)


def test_who_works_off_what_there_is_watches_for_nothing_new(
    grouped: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only one that waits for ever looks at the logs to be woken by what others write."""
    looks = list[Store]()
    real = step_waits.look_at

    def look(store: Store) -> step_waits.Look:
        looks.append(store)
        return real(store)

    monkeypatch.setattr(step_waits, "look_at", look)
    assert grouped.process(print, limit=3).acked == 12
    assert looks == []
    assert grouped.process(print, forever=True, time_limit=timedelta(seconds=0.05)).acked == 0
    assert looks != []


def test_what_still_waits_is_told(grouped: LocalQueue, clock: ManualClock) -> None:
    """A queue of which nothing may run is not called empty: how much waits, for what, how long."""
    grouped.pause()
    paused = grouped.process(print)
    assert (paused.claims, paused.stopped, paused.waiting) == (0, "paused", {"paused": 12})
    grouped.resume()
    grouped.configure(retry=RetryPolicy(delay=timedelta(hours=1), jitter=0.0))
    held = grouped.claim(1)

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 1:
            raise ValueError("no")

    done = grouped.process(handle, limit=100)

    assert (done.acked, done.failed, done.released, done.stopped) == (4, 1, 3, "waiting")
    assert done.waiting == {"leased": 1, "delayed": 1, "held by group": 6}
    assert done.until == held.lease_expires_at
    clock.advance(timedelta(hours=2))
    assert grouped.process(print).acked == 8


def test_what_waits_is_the_same_by_the_tables(grouped: LocalQueue, clock: ManualClock) -> None:
    """Whether all open items are in memory or not, as many wait, and as long."""
    grouped.configure(retry=RetryPolicy(delay=timedelta(hours=1), jitter=0.0))
    grouped.claim(2).nack("no")
    held, store = grouped.claim(1), store_of(grouped)
    for _ in range(2):
        at, planner = Snapshot(store), planner_of(store)
        by_tables = planner.coming_by_tables(at, clock.now())
        here = planner.coming(at, clock.now())
        assert here == by_tables
        assert (here.delayed, here.held_until) == (
            0 if grouped.paused else 2,
            held.lease_expires_at,
        )
        grouped.pause()


@pytest.mark.parametrize("seconds", [20, 30])
def test_what_lacks_units_has_them_at_the_same_time_by_the_tables(
    make: Make, clock: ManualClock, seconds: int
) -> None:
    """Law 11: what has its units by now waits for none, and is not taken for started."""
    rate = Rate(by="tenant", limit=1, per=timedelta(seconds=30), burst=1)
    queue = make("tenant string", fair_key="tenant", rates=(rate,))
    queue.enqueue([{"tenant": "a"}] * 2)
    claimed_at = queue.claim(1).claimed_at
    clock.advance(timedelta(seconds=seconds))
    at, planner = Snapshot(store_of(queue)), planner_of(store_of(queue))
    by_tables = planner.coming_by_tables(at, clock.now())
    assert by_tables == planner.coming(at, clock.now())
    assert by_tables.due == (claimed_at + timedelta(seconds=30) if seconds < 30 else None)


@pytest.mark.parametrize("rested", [20, 30])
def test_a_lease_that_is_over_is_no_next_event_without_units(
    make: Make, clock: ManualClock, rested: int
) -> None:
    """Law 11: by the tables as in memory, until the item may be taken over."""
    rate = Rate(by="tenant", limit=1, per=timedelta(seconds=30), burst=1)
    queue = make("tenant string", fair_key="tenant", rates=(rate,), lease=timedelta(seconds=10))
    queue.enqueue([{"tenant": "a"}, {"tenant": "b"}])
    first = queue.claim(1)
    held = queue.claim(1, lease=timedelta(hours=1))
    clock.advance(timedelta(seconds=rested))
    at, planner = Snapshot(store_of(queue)), planner_of(store_of(queue))
    by_tables = planner.coming_by_tables(at, clock.now())
    assert by_tables == planner.coming(at, clock.now())
    is_short = rested < 30
    assert by_tables.due == (first.claimed_at + timedelta(seconds=30) if is_short else None)
    over = held if is_short else first
    assert by_tables.held_until == over.lease_expires_at


@pytest.mark.parametrize("state", ["dead", "expired"])
def test_what_the_next_claim_ends_is_a_next_event(
    make: Make, clock: ManualClock, state: str
) -> None:
    """Law 11: by the tables as in memory, a lease that is over counts though nothing may start."""
    lease = timedelta(seconds=10)
    queue = make(lease=lease, max_losses=1 if state == "dead" else None)
    expires = {} if state == "dead" else {"expires_at": clock.now() + lease}
    queue.enqueue([{"id": "a", **expires}])
    held = queue.claim(1)
    clock.advance(lease)
    at, planner = Snapshot(store_of(queue)), planner_of(store_of(queue))
    coming = planner.coming(at, clock.now())
    assert coming == planner.coming_by_tables(at, clock.now())
    assert coming.held_until == held.lease_expires_at
    assert queue.claim(1).count == 0
    assert queue.counts()[state] == 1


def test_stop_and_the_time_limit_end_it_after_a_claim(grouped: LocalQueue) -> None:
    """No further claim is made, and one that was made ahead goes back uncharged."""
    stop = threading.Event()
    done = grouped.process(lambda _: None, limit=3, stop=stop, on_claim=lambda _: stop.set())
    assert (done.acked, done.stopped) == (3, "stop")
    done = grouped.process(lambda _: None, time_limit=timedelta(0))
    assert (done.acked, done.stopped) == (0, "time limit")
    assert sorted(_states(grouped).values()) == [("acked", 0, 0)] * 3 + [("ready", 0, 0)] * 9


@BOTH
@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, SystemExit), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_ends_it_in_good_order(
    make: Make,
    using: Using,
    number: signal.Signals,
    error: type[BaseException],
    tmp_path: Path,
) -> None:
    """What is done is settled, what a child was at and what was not begun go back uncharged."""
    queue = make("id long")
    queue.enqueue([{"id": number} for number in range(3)])
    parent, begun = os.getpid(), tmp_path / "begun"

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 1:
            begun.touch()
            os.kill(parent, number)
            time.sleep(0.5 if using == "threads" else 60)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(error):
            queue.process(handle, using=using)
    finally:
        signal.signal(signal.SIGINT, before)

    assert begun.exists()
    at_it = ("acked", 0, 0) if using == "threads" else ("ready", 0, 0)
    assert _states(queue) == {0: ("acked", 0, 0), 1: at_it, 2: ("ready", 0, 0)}


def test_who_interrupts_a_handler_gives_the_claim_back(grouped: LocalQueue) -> None:
    """What is raised in a handler, but not by it, ends the work, and nobody is charged."""

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grouped.process(handle, max_workers=2)

    assert set(_states(grouped).values()) == {("ready", 0, 0)}


def test_rows_that_nobody_asked_for_are_told_of_once(grouped: LocalQueue) -> None:
    """A handler that returns rows without ``returns`` is noticed."""
    with pytest.warns(UserWarning, match="returns rows, which are dropped") as warned:
        grouped.process(lambda item: item, limit=3)
    assert len(warned) == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_workers": 0}, "max_workers is 0"),
        ({"using": "thread"}, "using is 'thread', which is no choice; did you mean 'threads'"),
        ({"per": "items"}, "per is 'items'"),
        ({"output": "./out"}, "output is given without returns"),
        ({"returns": "n int, _seq bigint"}, "returns has the column '_seq'"),
        ({"returns": "n int, N int"}, "returns has the column 'n'"),
        ({"returns": "n in"}, "returns is 'n in', which is no DDL"),
        ({"limit": 0}, "limit is 0"),
        ({"max_per_group": 2, "per": "batch"}, "with per='batch' it must be 1"),
        ({"stop": True}, "stop is True"),
    ],
)
def test_options_that_are_none_are_refused(
    grouped: LocalQueue, options: dict[str, Any], problem: str
) -> None:
    """They are named before anything is claimed."""
    with pytest.raises(InvalidArgumentError, match=problem):
        grouped.process(lambda _: None, **options)
    assert grouped.counts()["ready"] == 12


def _rows(out: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(out)).to_pyarrow_table().sort_by("_seq").to_pylist()
    return rows


@BOTH
@pytest.mark.parametrize("returns", ["n bigint", pa.schema([("n", pa.int64())])])
def test_results_go_to_the_output(
    grouped: LocalQueue, using: Using, returns: Any, tmp_path: Path
) -> None:
    """Each item that is done has its row, and a claim's rows are one commit."""

    def handle(item: dict[str, Any]) -> dict[str, Any] | None:
        return None if item["id"] == 5 else {"n": 10 * item["id"]}

    done = grouped.process(
        handle, limit=6, returns=returns, output=f"{tmp_path}/out", using=using, max_workers=2
    )

    assert done.acked == 12
    rows = _rows(tmp_path / "out")
    assert [row["n"] for row in rows] == [10 * n for n in range(12) if n != 5]
    assert [row["_seq"] for row in rows] == [n for n in range(1, 13) if n != 6]
    assert len({row["_claim_id"] for row in rows}) == 2
    assert DeltaTable(str(tmp_path / "out")).version() == 2


def test_what_may_not_be_null_is_asked_of_each_row(make: Make, tmp_path: Path) -> None:
    """A result without such a value is its item's failure; the table takes any, as Spark's does."""
    queue = make("id long", max_attempts=1)
    queue.enqueue([{"id": 1}, {"id": 2}])

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        return {"n": 5 if item["id"] == 1 else None}

    done = queue.process(handle, returns="n bigint not null", output=f"{tmp_path}/out")

    assert (done.acked, done.dead) == (1, 1)
    assert "column 'n' is None, and it must have a bigint" in queue.dead()["_error"][0].as_py()
    assert [row["n"] for row in _rows(tmp_path / "out")] == [5]


def test_an_output_that_does_not_fit_is_refused(grouped: LocalQueue, tmp_path: Path) -> None:
    """A column of another type, one that is missing, a place that only Spark writes to."""
    grouped.process(lambda _: None, returns="n bigint", output=f"{tmp_path}/out", limit=1)
    ready = grouped.counts()["ready"]

    for returns in ("n int", "n bigint, m int"):
        with pytest.raises(SchemaMismatchError, match="in the output"):
            grouped.process(lambda _: None, returns=returns, output=f"{tmp_path}/out")
    for output in ("facts", "s3://bucket/facts", "hdfs:/facts"):
        with pytest.raises(SparkNeededError, match="to write to the output"):
            grouped.process(lambda _: None, returns="n bigint", output=output)
    with pytest.raises(SparkNeededError, match="times without a zone"):
        grouped.process(lambda _: None, returns="at timestamp_ntz", output=f"{tmp_path}/ntz")
    assert grouped.counts()["ready"] == ready
    assert not (tmp_path / "ntz").exists()


def test_who_was_taken_over_drops_his_results(
    make: Make, again: Callable[[], LocalQueue], clock: ManualClock, tmp_path: Path
) -> None:
    """A worker that was taken over meanwhile leaves no row and settles nothing."""
    queue, other = make("id long"), again()
    queue.enqueue([{"id": 1}])
    taken: list[int] = []

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        if not taken:
            clock.advance(timedelta(hours=1))
            taken.append(other.claim().count)
        return {"n": item["id"]}

    done = queue.process(handle, returns="n bigint", output=f"{tmp_path}/out")

    assert taken == [1]
    assert (done.acked, done.waiting) == (0, {"leased": 1})
    assert _rows(tmp_path / "out") == []


def test_a_claim_made_ahead_is_not_begun_when_its_lease_is_over(
    make: Make, clock: ManualClock
) -> None:
    """Where what follows a claim takes longer than a lease, others have the next items by then."""
    queue = make("id long", lease=timedelta(minutes=1))
    queue.enqueue([{"id": 1}, {"id": 2}])
    worked: list[int] = []

    def others_go_on(_: object) -> None:
        clock.advance(timedelta(minutes=2))
        queue.claim(1, worker_id="another").ack()

    done = queue.process(lambda item: worked.append(item["id"]), limit=1, on_claim=others_go_on)

    assert worked == [1]
    assert (done.acked, queue.counts()["acked"]) == (1, 2)
