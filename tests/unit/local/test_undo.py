"""What an operator did is taken back: by a step of its own, once, and as far as that can be."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spark_queue import acting
from spark_queue.acting import acting_as
from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.errors import CannotUndoError, FencedError, InvalidArgumentError
from spark_queue.local_queue import LocalQueue, LocalVerbs
from spark_queue.log.step_events import StepFacts
from tests.conftest import CommandLine
from tests.unit.local.conftest import Make

Again = Callable[[], LocalQueue]


def _put(queue: LocalQueue, ids: str, **columns: object) -> None:
    queue.enqueue([{"id": name, **columns} for name in ids])


def _order(queue: LocalVerbs, limit: int = 100) -> str:
    return "".join(row["id"] for row in queue.claim(limit).rows)


@pytest.mark.parametrize("is_kept_up", [False, True])
def test_cancelled_items_come_back_to_their_places(
    make: Make, again: Again, *, is_kept_up: bool
) -> None:
    """As new items that name the old ones, served where the old would have been."""
    queue = make()
    _put(queue, "abcdefg")
    assert _order(queue, 2) == "ab"
    step = queue.cancel("id IN ('b', 'c', 'e')").step
    if is_kept_up:
        queue.maintain()

    done = queue.undo(step)

    assert (done.what, done.restored, done.taken, done.left) == ("cancel", 3, 0, 0)
    names = {row["id"]: row["_origin"] for row in queue.status().to_pylist() if row["_origin"]}
    assert names == {"b": 2, "c": 3, "e": 5}
    if is_kept_up:
        queue.maintain()
    other = again()
    assert _order(other, 1) == "b"
    _put(queue, "h")
    assert _order(queue) == "cdefgh"


def _brought_back(queue: LocalQueue, verb: str) -> int:
    """Cancel an item and have it again as a new one; return the step that made it."""
    _put(queue, "a")
    step = queue.cancel("true").step
    with acting_as("ann"):
        if verb == "undo":
            assert queue.undo(step).restored == 1
        else:
            assert queue.redrive("true") == 1
    return queue._store.queue_head().step


@pytest.mark.parametrize("verb", ["undo", "redrive"])
def test_who_brings_items_back_is_named(make: Make, verb: str) -> None:
    """An undo is signed as a redrive is, though both are steps whose rows have no name."""
    queue = make()

    made = _brought_back(queue, verb)

    action, detail = ("undone", "step 2") if verb == "undo" else ("redriven", "")
    (told,) = [step for step in queue.report().steps if step.action == action]
    assert (told.log, told.step, told.who, told.detail) == ("queue", made, "ann", detail)


@pytest.mark.parametrize("verb", ["undo", "redrive"])
def test_items_are_back_though_nobody_can_be_named(
    make: Make, verb: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who is told that it failed would ask again, and be told that there was nothing to do."""

    def fails(*_: object, **__: object) -> None:
        raise FencedError("queue", "a front")

    queue = make()
    monkeypatch.setattr(admin, "configure", fails)

    made = _brought_back(queue, verb)

    assert f"who redrove by step {made} is not in the log" in caplog.text
    assert queue.counts()["ready"] == 1


def test_a_key_keeps_its_turns(make: Make) -> None:
    """Items of a fair key have the turns that they had, and its next ones those that follow."""
    queue = make("id string, t string", fair_key="t")
    _put(queue, "abcdef", t="x")
    _put(queue, "uvwxyz", t="y")
    assert sorted(_order(queue, 2)) == ["a", "u"]
    step = queue.cancel("t = 'x'").step
    queue.undo(step)
    _put(queue, "g", t="x")

    served = [row["id"] for row in queue.claim(100).rows]

    assert served[0] == "a"
    assert served[1:] == list("vbwcxdyezfg")


def test_a_group_forbids_to_overtake(make: Make) -> None:
    """A member that comes back is behind those that stayed, as it is the youngest now."""
    queue = make("id string, g string", group_key="g", group_limit=10)
    _put(queue, "abc", g="one")
    _put(queue, "xy", g="two")
    _put(queue, "z", g=None)
    step = queue.cancel("id IN ('a', 'x', 'y', 'z')").step

    queue.undo(step)

    assert queue.config.group_limit == 10
    assert [row["id"] for row in queue.claim(10, run=10).rows] == list("bcaxyz")


def test_keys_that_were_taken_are_reported(make: Make, clock: ManualClock) -> None:
    """Their items stay as they are, until the key is free; the others come back at once."""
    queue = make(dedup_key="id")
    _put(queue, "abc")
    step = queue.cancel("true").step
    clock.advance(timedelta(seconds=1))
    _put(queue, "b")

    done = queue.undo(step)

    assert (done.restored, done.taken, done.holders) == (2, 1, [(2, 4)])
    queue.cancel("_seq = 4")
    assert queue.undo(step).restored == 1
    assert queue.counts()["ready"] == 3


def test_an_item_comes_back_as_it_was(make: Make, clock: ManualClock) -> None:
    """With its failures, its delay, its deadline and its cost; whoever held it lost it."""
    queue = make("id string, t string", fair_key="t", max_attempts=2)
    soon, later = (clock.now() + timedelta(hours=hours) for hours in (1, 2))
    queue.enqueue({"id": "a", "t": "x", "cost": 3.0, "available_at": soon, "expires_at": later})
    queue.enqueue({"id": "b", "t": "x"})
    queue.claim(1).settle_each({2: ("nack", "bad")})
    clock.advance(timedelta(minutes=30))

    queue.undo(queue.cancel("true").step)

    rows = {row["id"]: row for row in queue.status().to_pylist() if row["_origin"]}
    assert (rows["a"]["_available_at"], rows["a"]["_expires_at"]) == (soon, later)
    assert (rows["a"]["_cost"], rows["a"]["_attempts"], rows["b"]["_attempts"]) == (3.0, 0, 1)
    queue.claim(1).settle_each({4: ("nack", "worse")})
    assert queue.counts()["dead"] == 1


def test_a_pause_and_a_configuration_are_put_back(make: Make, again: Again) -> None:
    """What the step changed is as it was before, and what others changed since stays."""
    queue = make("id string, t string", fair_key="t", weights={"a": 2.0})
    paused = queue.pause()
    changed = queue.configure(weights={"a": 9.0}, max_in_flight=3)
    queue.configure(max_attempts=7)

    assert queue.undo(paused).what == "pause"
    done = queue.undo(changed)

    assert (done.what, done.settings) == (
        "configure",
        {"weights": {"a": 2.0}, "max_in_flight": None},
    )
    for one in (queue, again()):
        assert not one.paused
        assert (one.config.weights, one.config.max_attempts) == ({"a": 2.0}, 7)
    assert queue.undo(changed).step == 0
    assert queue.undo(done.step).settings == {"weights": {"a": 9.0}, "max_in_flight": 3}


def test_one_of_several_readers_takes_back_for_itself(make: Make) -> None:
    """Its items are ready again at their places; the other reader sees nothing of it."""
    queue = make()
    _put(queue, "abc")
    first, second = queue.reader("first"), queue.reader("second", start="beginning")
    step = first.cancel("id <> 'c'").step

    done = first.undo(step)

    assert (done.restored, first.undo(step).restored) == (2, 0)
    assert _order(first) == "abc"
    assert second.status().num_rows == 3


def test_one_of_several_readers_takes_items_back_as_they_were(
    make: Make, again: Again, clock: ManualClock
) -> None:
    """With their failures and losses, their delay and their deadline, to whoever looks."""
    queue = make(max_attempts=2)
    first = queue.reader("first")
    queue.reader("second")
    soon, later = (clock.now() + timedelta(hours=hours) for hours in (1, 2))
    queue.enqueue([{"id": "a", "available_at": soon, "expires_at": later}, {"id": "b"}])
    first.claim(1, lease=timedelta(seconds=1))
    clock.advance(timedelta(seconds=2))
    first.claim(1).settle_each({2: ("nack", "bad")})
    clock.advance(timedelta(minutes=30))
    columns = ["_attempts", "_losses", "_available_at", "_expires_at"]
    was = first.status().select(columns)

    first.undo(first.cancel("true").step)

    assert first.status().select(columns) == was
    assert was["_losses"].to_pylist() == [0, 1]
    assert first.claim(2).settle_each({2: ("nack", "bad")}).dead == 1
    clock.advance(timedelta(hours=1))
    queue.close()
    assert _order(again().reader("first")) == "a"


def _replace(queue: LocalQueue) -> object:
    return queue.enqueue({"id": "a"}, on_duplicate="replace")


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda queue: queue.claim(1).ack(), "settled items as done"),
        (lambda queue: queue.claim(1).settle_each({1: ("dead", "bad")}), "redrive them"),
        (lambda queue: queue.claim(1).release(), "gave items back"),
        (lambda queue: queue.claim(1), "leased items"),
        (lambda queue: queue.maintain(), "expired"),
        (lambda queue: (queue.claim(1), queue.maintain()), "wrote a checkpoint"),
        (lambda queue: (_replace(queue), queue.maintain()), "others had replaced"),
        (lambda queue: (queue.cancel("true"), queue.purge("true")), "purged"),
        (lambda queue: queue.configure(max_in_flight=1), "changed again"),
        (lambda _queue: None, "is the first one"),
    ],
)
def test_what_is_not_taken_back_is_said(
    make: Make, clock: ManualClock, act: Callable[[LocalQueue], Any], why: str
) -> None:
    """With what the step was, and what there is to do instead; nothing was written."""
    told: list[StepFacts] = []
    queue = make(dedup_key="id")
    queue.enqueue({"id": "a", "expires_at": clock.now() + timedelta(days=1)})
    if why == "expired":
        clock.advance(timedelta(days=2))
    if why == "changed again":
        queue.configure(max_in_flight=2)
    act(queue)
    steps = {
        "expired": 2,
        "others had replaced": 2,
        "purged": 2,
        "wrote a checkpoint": 3,
        "changed again": 2,
    }
    last = steps.get(why, queue._store.status_head().step)
    queue._store.handle.listener = told.append

    with pytest.raises(CannotUndoError, match=why) as refused:
        queue.undo(last)

    assert (refused.value.step, told) == (last, [])


@pytest.mark.parametrize("step", [0, -1, 5, "2", True])
def test_a_step_that_is_none_is_refused(make: Make, step: Any) -> None:
    """It is named, with the steps that there are."""
    queue = make()

    with pytest.raises(InvalidArgumentError, match="step is"):
        queue.undo(step)


def test_the_command_says_what_is_back(
    make: Make, queue_path: str, command_line: CommandLine
) -> None:
    """And what is not, and why; what cannot be taken back is an error with a line."""
    queue = make(dedup_key="id")
    _put(queue, "ab")
    step = queue.cancel("true").step
    _put(queue, "b")
    paused = queue.pause()

    said = []
    for argv in ((step,), (step, "--json"), (paused,), (paused,), (1,), (99,)):
        ended = command_line("undo", queue_path, *argv, "--engine", "local")
        said.append((ended.code, ended.out + ended.err))

    assert said[0] == (
        0,
        (
            "1 item back, by step 3 of the item log\n"
            "1 item stays out, as its key is taken: item 2 by item 3\n"
        ),
    )
    assert json.loads(said[1][1])["left"] == 1
    assert said[2] == (0, "paused is False again\nin force from step 5 on\n")
    assert said[3] == (0, "nothing is left to take back\n")
    assert "is the first one" in said[4][1]
    assert (said[4][0], said[5][0]) == (1, 2)


def test_it_is_told_like_any_step(make: Make) -> None:
    """A listener hears of it under its own name."""
    told: list[StepFacts] = []
    queue = make()
    _put(queue, "ab")
    step, paused = queue.cancel("true").step, queue.pause()
    queue._store.handle.listener = told.append

    queue.undo(step)
    queue.undo(paused)

    kept = [replace(facts, seconds=0.0, tries=1) for facts in told]
    assert [(facts.action, facts.log, dict(facts.counts)) for facts in kept] == [
        ("undo", "queue", {"inserted": 2, "duplicates": 0}),
        # Its name: rows of items have no place for one.
        ("undo", "status", {}),
        ("undo", "status", {}),
    ]


def test_an_item_keeps_its_age(make: Make, clock: ManualClock) -> None:
    """Since when it waits is what it was before the cancel, in lists, counts and reports."""
    queue = make()
    _put(queue, "a")
    since = clock.now()
    clock.advance(timedelta(hours=2))
    step = queue.cancel("true").step
    clock.advance(timedelta(hours=1))

    queue.undo(step)

    (row,) = [row for row in queue.status().to_pylist() if row["_state"] == "ready"]
    assert row["_enqueued_at"] == since
    assert queue.stats().oldest_age == timedelta(hours=3)
    report = queue.report()
    assert report.overview.oldest_age == 3 * 3600
    assert max(point.items for point in report.depth) == 1
    assert report.steps[0].at == clock.now()


def test_a_dry_run_of_one_of_several_readers(make: Make) -> None:
    """It counts what would be ready again, and leaves it cancelled."""
    queue = make()
    _put(queue, "ab")
    first, _ = queue.reader("first"), queue.reader("second")
    step = first.cancel("true").step

    assert first.undo(step, dry_run=True).restored == 2
    assert first.counts()["cancelled"] == 2
    assert first.undo(step).restored == 2
    (told,) = [one for one in first.report().steps if one.action == "undone"]
    assert (told.log, told.detail, told.items) == ("status", f"step {step}", 2)


def test_the_command_line_signs_what_it_takes_back(
    make: Make, queue_path: str, command_line: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report has the step, who did it by which command, and the command that undoes it."""
    monkeypatch.setattr(acting, "whoami", lambda: "ann@ops")
    queue = make()
    _put(queue, "ab")
    for argv in (
        ["pause", queue_path],
        ["cancel", queue_path, "--where", "id = 'a'"],
        ["undo", queue_path, "2"],
        ["undo", queue_path, "3"],
        ["report", queue_path],
    ):
        shown = command_line(*argv, "--engine", "local").out

    steps = {(one.log, one.step): one for one in queue.report().steps}
    assert [
        (one.action, one.detail, one.who)
        for one in (steps["status", 2], steps["status", 3], steps["status", 4], steps["queue", 2])
    ] == [
        ("paused", "", "ann@ops (spark-queue pause)"),
        ("cancelled", "", "ann@ops (spark-queue cancel)"),
        ("undone", "step 2: resumed", "ann@ops (spark-queue undo)"),
        ("undone", "step 3", "ann@ops (spark-queue undo)"),
    ]
    assert [step for step, one in steps.items() if one.undo] == [("status", 4)]
    assert shown.rstrip().endswith(f"spark-queue undo {queue_path} 4")
    assert f"spark-queue undo {queue_path} 4" in queue.report().html()
