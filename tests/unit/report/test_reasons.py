"""Why items do not run, asked of all at once, against the rules; and where they stand."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from spark_queue.clock import ManualClock
from spark_queue.errors import LeaseLostError
from spark_queue.flow import Limit, Rate
from spark_queue.local_queue import LocalQueue, LocalVerbs
from spark_queue.queue_views import store_of
from spark_queue.reader_config import ReaderConfig
from spark_queue.report.condition import fewer_start
from spark_queue.report.model import HOUR
from spark_queue.report.reading import asked_of
from spark_queue.report.sheets import sheets
from spark_queue.retry_policy import RetryPolicy
from spark_queue.rules.bounds import Played
from spark_queue.sql import choosing, sql_planner
from spark_queue.sql.look import QueueLook
from spark_queue.views.answers import Answer, ends_at
from spark_queue.views.file_source import FileSource
from tests.unit.report.conftest import Make

_SECONDS = timedelta(seconds=1)

_SETTINGS: list[dict[str, Any]] = [
    {"group_key": "path", "on_failure": "block"},
    {"group_key": "path", "on_failure": "skip", "group_limit": 2, "max_losses": 2},
    {"group_key": "path", "max_in_flight": 3, "max_losses": 1, "max_attempts": 2},
    {"fair_key": "tenant", "max_in_flight": 2},
]


def rows_of(queue: LocalVerbs, view: str) -> dict[int, Answer]:
    """Return the rows of a view over all items of a queue, by seq."""
    store = store_of(queue)
    ends = ends_at(store, None)
    with FileSource().over(store, ends, asked_of(store, ends, HOUR)) as answers:
        return {row["seq"]: row for row in answers.rows(view)}


def _play(queue: LocalQueue, clock: ManualClock, chance: random.Random) -> None:
    """Do one thing of those that move items."""
    held = queue.claim(chance.randint(1, 4), lease=chance.choice([5, 60]) * _SECONDS)
    for seq in [row["_seq"] for row in held.rows]:
        outcome = chance.choice(["ack", "nack", "release", "dead", None, None])
        if outcome is not None:
            with suppress(LeaseLostError):
                held.settle_each({seq: (outcome, "failed") if outcome == "nack" else outcome})
    clock.advance(chance.choice([0, 3, 20]) * _SECONDS)
    if chance.random() < 0.2:
        queue.cancel({"_seq": chance.randint(1, 30)})


@pytest.mark.parametrize("settings", _SETTINGS)
@pytest.mark.parametrize("seed", range(1))
def test_every_item_has_the_reason_that_explain_gives(
    make: Make, clock: ManualClock, settings: dict[str, Any], seed: int
) -> None:
    """Reason, who is in the way and until when are those of ``explain``, whatever was done."""
    chance = random.Random(seed)  # noqa: S311 - a history that can be played again
    queue = make(retry=RetryPolicy(delay=10 * _SECONDS), **settings)
    now = clock.now()
    for _ in range(3):
        rows = [
            {
                "id": str(n),
                "tenant": chance.choice("ab"),
                "path": chance.choice(["x", "y", "z", None]),
                "available_at": chance.choice([None, None, now + 25 * _SECONDS]),
                "expires_at": chance.choice([None, None, now + 30 * _SECONDS]),
            }
            for n in range(10)
        ]
        queue.enqueue(rows)
        for _ in range(4):
            _play(queue, clock, chance)
        queue.pause() if chance.random() < 0.2 else queue.resume()
        found = rows_of(queue, "reasons")
        states = dict(
            zip(*queue.status().select(["_seq", "_state"]).to_pydict().values(), strict=True)
        )
        assert set(found) == {seq for seq, state in states.items() if state in {"ready", "claimed"}}
        for seq, row in found.items():
            told = queue.explain(seq)
            assert (row["reason"], row["held_by"], row["until"]) == (
                told.reason,
                told.by,
                told.until,
            ), (seq, told)
        link = queue.report_item(min(found, default=1)).chain[0]
        assert link == queue.explain(min(found, default=1))


_MINUTE = timedelta(minutes=1)

#: Bounds, and whether four items of ``a`` and two of ``b`` meet them where all of them start.
_MET: list[tuple[dict[str, Any], bool]] = [
    ({"limits": (Limit(by="tenant", default=4),)}, False),
    ({"limits": (Limit(by="tenant", default=4, overrides={"b": 1}),)}, True),
    ({"limits": (Limit(by="tenant", default=3),)}, True),
    ({"rates": (Rate(by="tenant", limit=60, per=_MINUTE, burst=5),)}, False),
    ({"rates": (Rate(by="tenant", limit=60, per=_MINUTE, burst=3),)}, True),
    ({"rates": (Rate(limit=60, per=_MINUTE, burst=5),)}, True),
    ({"max_in_flight": 6}, False),
    ({"max_in_flight": 5}, True),
]


@pytest.mark.parametrize(("settings", "is_met"), _MET)
def test_a_claim_is_played_where_items_meet_a_bound(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    is_met: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """What is in flight and what keys owe counts; else each item by itself says the same."""
    played, play = list[int](), choosing.play

    def count(*given: Any, **options: Any) -> Played:
        played.append(1)
        return play(*given, **options)

    monkeypatch.setattr(choosing, "play", count)
    queue = make("id string, tenant string", fair_key="tenant", **settings)
    queue.enqueue([{"id": str(n), "tenant": tenant} for n, tenant in enumerate("aaaabb")])
    for _ in range(2):
        found = rows_of(queue, "reasons")
        assert bool(played) is is_met
        with monkeypatch.context() as always:
            always.setattr(QueueLook, "_meets_bounds", lambda _: True)
            assert rows_of(queue, "reasons") == found
        played.clear()
        # One that starts counts as before, though a rate owes for it.
        queue.claim(1)


@pytest.mark.parametrize(("settings", "is_met"), _MET)
def test_a_report_says_that_it_judged_each_item_by_itself(
    make: Make,
    monkeypatch: pytest.MonkeyPatch,
    clock: ManualClock,
    settings: dict[str, Any],
    is_met: bool,  # noqa: FBT001 - as above
) -> None:
    """Of many items, or of a past instant, where fewer of them may start than it counts."""
    queue = make("id string, tenant string", fair_key="tenant", **settings)
    queue.enqueue([{"id": str(n), "tenant": tenant} for n, tenant in enumerate("aaaabb")])
    then = clock.now()
    clock.advance(_MINUTE)
    queue.configure(max_attempts=9)
    note = "each item is judged by itself: fewer may start"

    assert not queue.report().overview.judges_each
    assert note not in queue.report().html()
    past = queue.report(as_of=then)
    monkeypatch.setattr(sql_planner, "_COUNTED", 5)
    for found in (queue.report(), past):
        assert found.overview.judges_each is is_met
        assert (note in str(sheets(found)[0]), note in found.html()) == (is_met, is_met)
        assert [*fewer_start(replace(found.overview, runnable=0))] == []


def test_an_item_that_its_reader_redrove_stands_there_without_its_times(
    make: Make, clock: ManualClock
) -> None:
    """It has no delay and no deadline any more, save the one that the reader gives to all."""
    made = make("id string")
    queue = made.reader("first", config=ReaderConfig(max_age=HOUR))
    later, aged = clock.now() + 9 * _SECONDS, clock.now() + HOUR
    made.enqueue([{"id": "a", "available_at": later, "expires_at": later}])
    queue.cancel("true")
    (was,) = rows_of(queue, "status").values()

    queue.redrive("true")

    (row,) = rows_of(queue, "reasons").values()
    assert (was["available_at"], was["expires_at"]) == (later, later)
    assert (row["reason"], row["available_at"], row["expires_at"]) == ("runnable", None, aged)


def test_items_stand_where_status_says(make: Make, clock: ManualClock) -> None:
    """State, counts and times of each item are those that ``status`` shows."""
    chance = random.Random(7)  # noqa: S311 - as above
    queue = make(group_key="path", max_attempts=2, retry=RetryPolicy(delay=5 * _SECONDS))
    queue.enqueue([{"id": str(n), "tenant": "a", "path": str(n % 4)} for n in range(20)])
    for _ in range(12):
        _play(queue, clock, chance)
    queue.redrive({"_state": "dead"})

    found = pa.Table.from_pylist(list(rows_of(queue, "status").values())).sort_by("seq")

    expected = queue.status()
    for name in (
        *("state", "attempts", "losses", "available_at", "expires_at", "first_claimed_at"),
        *("claimed_at", "finished_at", "lease", "worker_id", "lease_expires_at", "origin"),
    ):
        assert found[name].to_pylist() == expected[f"_{name}"].to_pylist(), name
