from __future__ import annotations

import os
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.commands import evidence
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError, Reject, RetryAfter
from spark_queue.flow import Rate
from spark_queue.log.step_events import StepFacts
from spark_queue.processing import loop, staged_outcomes
from spark_queue.processing.loop import ProcessResult
from spark_queue.retry_policy import RetryPolicy
from spark_queue.state import spark_frames
from spark_queue.views import items


@pytest.fixture
def steps() -> list[StepFacts]:
    """Return where the listener of the queue puts the facts of its steps."""
    return []


@pytest.fixture
def queue(spark: SparkSession, queue_path: str, steps: list[StepFacts]) -> DeltaQueue:
    """Twelve items in three groups; what fails is retried at once."""
    config = QueueConfig(group_key="grp", retry=RetryPolicy(delay=timedelta(0)))
    made = DeltaQueue.create(
        spark, queue_path, "id long, grp string", config, listener=steps.append
    )
    rows = spark.range(12).selectExpr("id", "concat('g', id % 3) AS grp")
    made.enqueue(rows, order_by="id")
    steps.clear()
    return made


def _actions(steps: list[StepFacts]) -> list[str]:
    return [step.action for step in steps]


def _states(queue: DeltaQueue) -> dict[int, tuple[str, int, int]]:
    return {
        row["id"]: (row["_state"], row["_attempts"], row["_losses"])
        for row in queue.status().collect()
    }


def test_a_settle_and_the_next_claim_are_one_step(
    queue: DeltaQueue, steps: list[StepFacts]
) -> None:
    """Where all that was worked on is over, its groups are free in the very step that says so."""
    done = queue.process(lambda _: None, limit=6, max_per_group=1)

    assert (done.acked, done.claims, done.stopped) == (12, 4, "empty")
    assert _actions(steps) == ["claim", *["settle and claim"] * 3, "settle"]
    assert set(_states(queue).values()) == {("acked", 0, 0)}


def test_what_goes_back_is_settled_before_the_next_claim(
    queue: DeltaQueue, steps: list[StepFacts]
) -> None:
    """A failed item is retried before those behind it; a rejected one is dead and frees them."""

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 0 and item["_attempts"] == 0:
            raise ValueError("the first time")
        if item["id"] == 1:
            raise Reject("never")

    done = queue.process(handle, limit=6, max_per_group=2)

    assert (done.acked, done.dead) == (11, 1)
    assert _actions(steps)[:3] == ["claim", "settle", "claim"]
    states = _states(queue)
    assert (states[0], states[1], states[3]) == (("acked", 1, 0), ("dead", 0, 0), ("acked", 0, 0))


def test_a_group_is_in_one_task_where_spark_has_the_claim(
    spark: SparkSession, queue: DeltaQueue, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its members run one after another, also of a claim that is no rows of this process."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "8")
    monkeypatch.setattr(items, "read_table", lambda *_: None)

    def handle(item: dict[str, Any]) -> None:
        task = TaskContext.get()
        assert task is not None
        Path(f"{place}/{item['grp']}.{item['id']}.{task.partitionId()}").touch()

    wide = DeltaQueue.open(session, queue.name)
    assert wide.process(handle, limit=12, max_per_group=4).claims == 1
    done = [file.name.split(".") for file in Path(place).glob("g*")]
    tasks = {group: {task for each, _, task in done if each == group} for group, _, _ in done}
    assert len(done) == 12
    assert [len(found) for found in tasks.values()] == [1, 1, 1]


def test_a_claim_of_a_deep_group_is_as_long_as_it_is_worked_off(
    spark: SparkSession, queue: DeltaQueue
) -> None:
    """What went back after a failure makes the next claims of the group shorter."""
    deep = spark.range(100, 700).selectExpr("id", "'deep' AS grp")
    queue.enqueue(deep, order_by="id")

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 110 and item["_attempts"] == 0:
            raise ValueError("the first time")

    done = queue.process(handle, limit=1_000)

    assert (done.acked, done.failed, done.released, done.claims) == (612, 1, 489, 4)


def test_no_item_begins_behind_a_third_of_the_lease(queue: DeltaQueue) -> None:
    """What has not begun goes back uncharged, and the next claims are as long as was worked off."""
    done = queue.process(lambda _: time.sleep(0.7), lease=timedelta(seconds=6))

    assert (done.acked, done.failed, done.dead) == (12, 0, 0)
    assert done.released > 0
    assert set(_states(queue).values()) == {("acked", 0, 0)}


def test_a_claim_that_nobody_works_on_is_given_back(
    queue: DeltaQueue, steps: list[StepFacts]
) -> None:
    """Whoever stops the worker after a claim finds nothing in flight, and nothing charged."""
    stop = threading.Event()

    done = queue.process(lambda _: None, limit=6, stop=stop, on_claim=lambda _: stop.set())

    assert (done.acked, done.stopped) == (6, "stop")
    assert _actions(steps) == ["claim", "settle and claim", "recover"]
    assert set(_states(queue).values()) == {("acked", 0, 0), ("ready", 0, 0)}


def test_what_a_worker_died_of_is_found_and_dead(
    queue: DeltaQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were in one claim with it are done, and none of them is charged."""
    monkeypatch.setattr(staged_outcomes, "_OTHERS_END", 1.0)
    queue.configure(max_losses=1)
    queue.cancel("id >= 5")

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 2:
            os._exit(9)

    done = queue.process(handle, limit=3)

    assert (done.acked, done.dead) == (4, 1)
    errors = [(row["id"], row["_error"]) for row in queue.dead().collect()]
    assert errors == [(2, "the worker died of it (exit code 9)")]
    states = _states(queue)
    assert [states[number] for number in range(4)] == [
        *[("acked", 0, 0)] * 2,
        ("dead", 0, 1),
        ("acked", 0, 0),
    ]


def test_an_item_that_kills_or_does_not_fit_is_charged_alone(
    queue: DeltaQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who ends its worker is lost until ``max_losses``, a wrong result fails, and all others run.

    A claim takes all of a group, and with ``skip`` those behind a failure are done in it.
    """
    monkeypatch.setattr(staged_outcomes, "_OTHERS_END", 4.0)
    queue.configure(on_failure="skip", max_losses=2, max_attempts=1)

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        if item["id"] == 4:
            os._exit(9)
        return {"n": "n/a" if item["id"] == 5 else item["id"]}

    done = queue.process(handle, returns="n bigint")

    assert (done.acked, done.dead, done.failed, done.stopped) == (10, 2, 1, "empty")
    states = _states(queue)
    assert (states.pop(4), states.pop(5)) == (("dead", 0, 2), ("dead", 1, 0))
    assert set(states.values()) == {("acked", 0, 0)}
    # What a worker died of in the first claim is not known; the second has all that may run.
    assert (done.claims, done.released) == (3, 12)
    errors = {row["id"]: row["_error"] for row in queue.dead().collect()}
    assert errors[4] == "the worker died of it (exit code 9)"
    assert "seq 6 does not fit returns: column 'n' is 'n/a' (str)" in errors[5]


def test_what_still_waits_is_told(queue: DeltaQueue) -> None:
    """A queue of which nothing may run is not called empty: how much waits, for what, how long."""
    queue.pause()
    paused = queue.process(print)
    assert (paused.claims, paused.stopped, paused.waiting) == (0, "paused", {"paused": 12})
    assert paused.until is None
    queue.resume()
    queue.configure(retry=RetryPolicy(delay=timedelta(hours=1)))
    held = queue.claim(1)

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 1:
            raise ValueError("no")

    done = queue.process(handle, limit=100)

    assert (done.acked, done.failed, done.released, done.stopped) == (4, 1, 3, "waiting")
    assert done.waiting == {"leased": 1, "delayed": 1, "held by group": 6}
    assert done.until == held.lease_expires_at
    assert "waiting: 1 leased, 1 delayed, 6 held by group, until 20" in done._repr_html_()


def test_a_long_log_is_folded_the_same(queue: DeltaQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too much was written to compute it once, it is read as it is needed."""
    monkeypatch.setattr(spark_frames, "LONG", 0)

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 0 and item["_attempts"] == 0:
            raise ValueError("the first time")

    done = queue.process(handle, limit=6, max_per_group=2)

    # Item 3 waits behind the failed item 0 of its group: it is given back, and has not failed.
    assert (done.acked, done.failed, done.released) == (12, 1, 1)
    assert {state for state, _, _ in _states(queue).values()} == {"acked"}


def test_what_the_output_has_is_acked_and_not_buried(
    spark: SparkSession,
    queue_path: str,
    place: str,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker that died between its output and its settle has done its items, whoever asks."""
    config = QueueConfig(lease=timedelta(minutes=1), max_losses=1)
    queue = DeltaQueue.create(spark, queue_path, "n int", config, clock=clock)
    queue.enqueue(spark.createDataFrame([(1,), (2,)], "n int"), order_by="n")
    with monkeypatch.context() as dying:
        dying.setattr(loop._Ahead, "settle", _die)
        dying.setattr(evidence, "abandon", lambda *_: None)
        with pytest.raises(RuntimeError, match="gone"):
            queue.process(lambda _: {"x": 1}, returns="x int", output=f"{place}/out", limit=2)
    clock.advance(timedelta(minutes=2))
    assert queue.maintain().dead == 0
    assert queue.stats().acked == 2


def _die(*_: object, **__: object) -> None:
    raise RuntimeError("gone")


def test_it_stays_and_works_off_what_comes_later(spark: SparkSession, queue: DeltaQueue) -> None:
    """With `forever` a queue that is empty is waited at, until it is told to stop."""
    stop, is_empty = threading.Event(), threading.Event()

    def tell(done: ProcessResult) -> None:
        if done.acked == 12:
            is_empty.set()
        if done.acked == 13:
            stop.set()

    with ThreadPoolExecutor(1) as pool:
        worked = pool.submit(queue.process, lambda _: None, forever=True, stop=stop, on_claim=tell)
        assert is_empty.wait(120)
        queue.enqueue(spark.range(1).selectExpr("id + 12 AS id", "'g' AS grp"))
        result = worked.result(120)

    assert (result.acked, result.stopped) == (13, "stop")


def test_rows_that_nobody_asked_for_are_told_of_once(queue: DeltaQueue) -> None:
    """A handler that returns rows without ``returns`` is noticed, however many claims there are."""
    with pytest.warns(UserWarning, match="returns rows, which are dropped") as warned:
        done = queue.process(lambda item: {"n": item["id"]}, limit=6, max_per_group=1)

    assert (done.acked, done.claims, len(warned)) == (12, 4, 1)


def _described(item: dict[str, Any]) -> dict[str, str]:
    return {"item": repr(item)}


def _told(table: Any) -> Any:
    rows = [{"_seq": row["_seq"], "item": repr(row)} for row in table.to_pylist()]
    return type(table).from_pylist(rows)


@pytest.mark.parametrize("per", ["item", "batch"])
def test_a_handler_gets_the_same_from_this_process_as_from_a_query(
    spark: SparkSession,
    queue_path: str,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    per: Literal["item", "batch"],
) -> None:
    """Values are of the same types, and instants in the zone of the session."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    columns = "n int, x double, f float, ok boolean, d decimal(10, 2), b binary, day date"
    made = DeltaQueue.create(session, queue_path, columns + ", at timestamp, name string")
    at = "timestamp'2026-07-01 12:00:00.000001+05:00'"
    full = f"(1, 0.5D, 0.1F, true, 1.50BD, X'00FF', date'2026-07-01', {at}, 'a')"
    nothing = f"({', '.join(['null'] * 9)})"
    seen = []
    for number in range(2):
        rows = session.sql(f"values {full}, {nothing}").toDF(*made.schema.names).to(made.schema)
        made.enqueue(rows)
        asked: dict[str, Any] = {"returns": "item string", "output": f"{place}/{number}"}
        handler: Any = _told if per == "batch" else _described
        with monkeypatch.context() as patched:
            if number:
                patched.setattr(items, "read_table", lambda *_: None)
            assert made.process(handler, per=per, **asked).acked == 2
        found = session.read.format("delta").load(f"{place}/{number}").collect()
        seen.append(sorted(re.sub("'_(seq|lease)': \\d+", "", row["item"]) for row in found))

    assert len(seen[0]) == 2
    assert seen[0] == seen[1]


# rule: deferral of an item, pause of a key
def test_executors_say_when_they_want_an_item_again(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """What is behind it in its group goes back, the key is paused in the step of the settle."""
    config = QueueConfig(fair_key="grp", group_key="grp")
    queue = DeltaQueue.create(spark, queue_path, "id long, grp string", config, clock=clock)
    queue.enqueue(spark.range(12).selectExpr("id", "concat('g', id % 3) AS grp"), order_by="id")

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 3:
            raise RetryAfter(30, "HTTP 429", pause=True)

    done = queue.process(handle)
    assert (done.acked, done.deferred, done.released, done.failed) == (9, 1, 2, 0)
    row = queue.status().where("id = 3").select("_state", "_attempts", "_deferrals", "_error")
    assert tuple(row.collect()[0]) == ("ready", 0, 1, "RetryAfter: HTTP 429")
    queue.enqueue(spark.createDataFrame([(13, "g0")], "id long, grp string"))
    assert queue.process(lambda _: None).acked == 0
    clock.advance(timedelta(seconds=30))
    assert queue.process(lambda _: None).acked == 4


# rule: deferral of an item
def test_a_frame_of_outcomes_says_how_long_items_wait(
    spark: SparkSession, queue: DeltaQueue
) -> None:
    """In seconds; what is deferred without, or for no time, is refused before it is written."""
    queue.claim(1).ack()
    held = queue.claim(2)
    columns = "_seq long, outcome string, after double"
    for wrong in (None, -1.0, float("nan")):
        said = spark.createDataFrame([(2, "defer", wrong)], columns)
        with pytest.raises(InvalidArgumentError, match="after of seq 2 is"):
            held.settle(said)
    said = spark.createDataFrame([(2, "defer", 30.5), (3, "nack", None)], columns)
    done = held.settle(said)
    assert (done.deferred, done.failed, done.released) == (1, 1, 0)
    (row,) = queue.status().where("_seq = 2").collect()
    assert row["_available_at"] - row["_claimed_at"] > timedelta(seconds=30)


# rule again: units that come back
def test_units_come_back_of_what_a_failure_held_up(queue: DeltaQueue) -> None:
    """Law 11: of a run of four two begin, and three units of five are left."""
    queue.configure(rates=(Rate(limit=1, per=timedelta(days=1), burst=5),), max_attempts=1)

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 3:
            raise ValueError("no")

    stop = threading.Event()
    queue.cancel("grp <> 'g0'")
    done = queue.process(handle, limit=5, on_claim=lambda _: stop.set(), stop=stop)
    assert (done.acked, done.dead, done.released) == (1, 1, 2)
    assert queue.claim(5, run=5).count == 2
