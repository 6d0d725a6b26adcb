"""Batches of a source without Spark: killed writers, fronts, commands, and older formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue import DurableQueue, LocalQueue, QueueConfig
from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.errors import InvalidConfigError
from spark_queue.results import RepeatedBatch
from tests.conftest import CommandLine
from tests.programs import run_python
from tests.unit.local.conftest import Make

#: Enqueues a batch, and kills itself before or behind its commit.
_MORTAL = """
import os, signal, sys, spark_queue
from spark_queue.state import steps
commit = steps.commit_items
def die(*given, **named):
    if sys.argv[2] == "behind":
        commit(*given, **named)
    os.kill(os.getpid(), signal.SIGKILL)
steps.commit_items = die
queue = spark_queue.open(sys.argv[1], durability="process")
queue.enqueue([{"id": "a"}, {"id": "b"}], batch=("nightly", 17))
"""


@pytest.mark.parametrize(("killed", "before"), [("before", 0), ("behind", 2)])
def test_a_writer_that_was_killed_repeats_its_batch(make: Make, killed: str, before: int) -> None:
    """It is there once, whether its first writer had committed or not."""
    queue = make()
    assert run_python("-c", _MORTAL, queue.name, killed).returncode == -9
    assert queue.stats().ready == before

    done = queue.enqueue([{"id": "a"}, {"id": "b"}], batch=("nightly", 17))

    assert (done.step, queue.stats().ready) == (1, 2)
    assert done.inserted == 2 - before
    assert (done.repeated is not None) == bool(before)
    assert done.outcomes["_seq"].to_pylist() == [1, 2]


def test_a_front_takes_a_batch_in_a_step_of_its_own(make: Make) -> None:
    """For threads and for coroutines; whoever waits for an item gets one of it."""
    queue = make()
    with DurableQueue(queue) as front:
        first = front.enqueue([{"id": "a"}, {"id": "b"}], batch=("nightly", 17))
        again = asyncio.run(front.aio.enqueue({"id": "z"}, batch=("nightly", 17)))
        assert front.get(timeout=5).item["id"] == "a"
    assert (again.step, again.inserted) == (first.step, 0)
    assert again.repeated == RepeatedBatch(number=17, last=17, inserted=2, duplicates=0, refused=0)
    assert queue.stats().ready == 2


def test_the_command_takes_a_batch(make: Make, tmp_path: Path, command_line: CommandLine) -> None:
    """Repeated, it says so, and what the first one did; what is no batch is refused."""
    queue, rows = make(), tmp_path / "rows.csv"
    rows.write_text("id\na\nb\n")

    def say(batch: str, *more: str) -> str:
        words = ["enqueue", queue.name, "--files", str(rows), "--batch", batch, *more]
        ended = command_line(*words, "--engine", "local")
        assert not ended.code, ended.err
        return " ".join(ended.out.split())

    def enqueue(batch: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(say(batch, "--json"))
        return told

    assert enqueue("daily:nightly:17") == {
        "step": 1,
        "inserted": 2,
        "duplicates": 0,
        "busy": 0,
        "repeated": None,
    }
    again = enqueue("daily:nightly:17")
    assert (again["inserted"], again["repeated"]["inserted"]) == (0, 2)
    assert say("daily:nightly:17") == (
        "repeated: nothing was written; batch 17 had 2 items enqueued before"
    )
    assert say("daily:nightly:16") == (
        "repeated: nothing was written; batch 16 comes after batch 17, the last one of its source"
    )
    rows.write_text("id\na\n")
    with pytest.raises(AssertionError, match=r"with 2 rows, and comes with 1 now"):
        say("daily:nightly:17", "--on-mismatch", "raise")
    assert enqueue("daily:nightly:18")["step"] == 2
    assert queue.stats().ready == 3
    for text in ("nightly", "nightly:", "nightly:x"):
        with pytest.raises(AssertionError, match=f"batch is '{text}'"):
            enqueue(text)


def test_a_queue_of_an_older_format_knows_the_number_of_a_batch_alone(
    make: Make, again: Callable[[], LocalQueue], clock: ManualClock
) -> None:
    """Its sources are kept for good; after an upgrade they age from the next batch on."""
    queue = make(dedup_key="id", forget_sources_after=timedelta(hours=1))
    admin.configure(
        queue._main, lambda _, __: type(_)(config=QueueConfig(dedup_key="id"), format=4)
    )
    queue.enqueue({"id": "x"}, batch=("s", 1))
    queue.enqueue([{"id": "a"}, {"id": "a"}], batch=("s", 2))
    queue.enqueue({"id": "y"})
    clock.advance(timedelta(days=900))
    queue.enqueue([], batch=("t", 2))

    def told(number: int) -> tuple[int, int, RepeatedBatch | None]:
        done = again().enqueue({"id": "z"}, batch=("s", number))
        return done.step, done.inserted, done.repeated

    for _ in range(2):
        assert told(1) == (0, 0, RepeatedBatch(number=1, last=2))
        assert told(2) == (0, 0, RepeatedBatch(number=2, last=2))
        queue.upgrade()
    queue.enqueue({"id": "b"}, batch=("t", 3))
    assert told(2) == (0, 0, RepeatedBatch(number=2, last=2))
    clock.advance(timedelta(days=91))
    queue.enqueue({"id": "c"}, batch=("u", 1))
    assert list(queue._main.queue_head().streams) == ["u"]


def test_how_long_sources_are_known_is_not_changed_in_an_older_format(make: Make) -> None:
    """A release of that format would not know the setting; others are changed."""
    queue = make()
    admin.configure(queue._main, lambda old, _: type(old)(config=old.config, format=4))

    with pytest.raises(InvalidConfigError, match=r"forget_sources_after.*format 5.*upgrade it"):
        queue.configure(forget_sources_after=None)
    queue.configure(max_attempts=2)
    queue.upgrade()
    queue.configure(forget_sources_after=None)
    assert queue.config.forget_sources_after is None
