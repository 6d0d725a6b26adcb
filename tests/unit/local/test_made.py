"""A queue is made and opened without Spark, and what is wrong with that is said."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import spark_queue
from spark_queue.config import QueueConfig
from spark_queue.errors import (
    FormatVersionError,
    InvalidArgumentError,
    InvalidConfigError,
    LogDamagedError,
    QueueExistsError,
    QueueNotFoundError,
    SparkNeededError,
)
from spark_queue.local_queue import LocalQueue
from tests.unit.local.conftest import Make


def _commits(path: str, log: str) -> list[Path]:
    return sorted(Path(path, log, "_delta_log").glob("*.json"))


def test_a_queue_is_opened_by_its_path(make: Make, queue_path: str) -> None:
    """Whoever opens it has the configuration that it was made with."""
    made = make(max_attempts=7)

    opened = spark_queue.open(Path(queue_path))

    assert opened.name == made.name == queue_path
    assert opened.config.max_attempts == 7


def test_a_name_without_a_slash_is_a_path(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no catalog that could know the name."""
    monkeypatch.chdir(place)
    LocalQueue.create("jobs", "id string", durability="process").enqueue({"id": "a"})

    assert spark_queue.open(f"{place}/jobs").counts()["ready"] == 1


def test_a_place_that_is_taken_is_refused(make: Make, queue_path: str) -> None:
    """What is there stays as it is, a queue as well as a file."""
    make().enqueue({"id": "a"})
    Path(queue_path + "-file").write_text("mine")

    for taken in (queue_path, queue_path + "-file"):
        with pytest.raises(QueueExistsError):
            LocalQueue.create(taken, "id string")

    assert spark_queue.open(queue_path).counts()["ready"] == 1
    assert Path(queue_path + "-file").read_text() == "mine"


def test_processes_that_create_a_queue_at_once_all_get_it(queue_path: str) -> None:
    """One makes it, the others open it: each enqueues its item."""
    code = f"""
import os, sys
from spark_queue import LocalQueue
sys.stdin.read()
LocalQueue.create({queue_path!r}, "n int", exist_ok=True).enqueue({{"n": os.getpid()}})
"""
    waits, goes = os.pipe()
    command = [sys.executable, "-c", code]
    started = [
        subprocess.Popen(command, stdin=waits, stderr=subprocess.PIPE)  # noqa: S603 - our own
        for _ in range(3)
    ]
    os.close(waits)
    os.close(goes)

    assert [one.communicate()[1] for one in started] == [b""] * 3
    numbers = spark_queue.open(queue_path).status()["n"].to_pylist()
    assert sorted(numbers) == sorted(one.pid for one in started)


def test_a_queue_of_columns_that_only_spark_makes_is_compared_before(queue_path: str) -> None:
    """Where nothing is they are left to Spark; where a queue is, it has others."""
    with pytest.raises(SparkNeededError):
        LocalQueue.create(queue_path, "n array<int>", exist_ok=True)
    LocalQueue.create(queue_path, "n int", exist_ok=True)

    with pytest.raises(QueueExistsError, match="its column 'n' is int, not array<int>"):
        LocalQueue.create(queue_path, "n array<int>", exist_ok=True)


def test_what_is_not_a_queue_is_not_opened(queue_path: str, place: str) -> None:
    """Neither a path where nothing is, nor a directory of something else."""
    for nothing in (queue_path, place):
        with pytest.raises(QueueNotFoundError):
            spark_queue.open(nothing)

    assert not Path(queue_path).exists()


@pytest.mark.parametrize(
    ("schema", "config", "expected"),
    [
        ("id nope", QueueConfig(), InvalidArgumentError),
        ("id string", QueueConfig(dedup_key="nope"), InvalidConfigError),
        ("id string", QueueConfig(dedup_key="upper(id)"), SparkNeededError),
        ("id variant", QueueConfig(), SparkNeededError),
    ],
)
def test_what_cannot_be_made_leaves_nothing(
    queue_path: str, schema: str, config: QueueConfig, expected: type[Exception]
) -> None:
    """Columns and keys are checked before there is a table."""
    with pytest.raises(expected):
        LocalQueue.create(queue_path, schema, config)

    assert not Path(queue_path).exists()


def test_a_promise_that_nobody_knows_is_refused(queue_path: str) -> None:
    """Steps survive a power cut, or the end of the process; there is no third."""
    with pytest.raises(InvalidArgumentError, match="durability is 'never'"):
        LocalQueue.create(queue_path, "id string", durability="never")  # type: ignore[arg-type]


def test_a_dropped_queue_is_gone_for_every_handle(
    make: Make, again: Callable[[], LocalQueue]
) -> None:
    """Whoever has it open is told that it is not there; another may be made in its place."""
    queue, other = make(), again()
    queue.enqueue({"id": "a"})
    assert other.counts()["ready"] == 1

    LocalQueue.drop(queue.name)

    for use in (other.counts, other.claim, lambda: other.enqueue({"id": "b"})):
        with pytest.raises(QueueNotFoundError):
            use()
    make().enqueue({"id": "c"})
    assert [row["id"] for row in again().claim().rows] == ["c"]


def test_a_commit_that_is_cut_is_seen(make: Make, queue_path: str) -> None:
    """A log whose newest commit is not whole is damaged, for whoever opens it next."""
    queue = make()
    queue.enqueue({"id": "a"})
    for log in ("queue", "status"):
        newest = _commits(queue_path, log)[-1]
        whole = newest.read_bytes()
        newest.write_bytes(whole[: len(whole) // 2])
        queue._store.forget()

        with pytest.raises(LogDamagedError):
            spark_queue.open(queue_path).enqueue({"id": "b"})
        newest.write_bytes(whole)


def test_commits_that_are_gone_are_missed(make: Make, queue_path: str) -> None:
    """An item log that was set back takes no step on top of what is left."""
    queue = make()
    queue.enqueue({"id": "a"})
    queue.enqueue({"id": "b"})
    queue.claim(2)
    _commits(queue_path, "queue")[-1].unlink()

    with pytest.raises(LogDamagedError):
        queue.enqueue({"id": "c"})
    with pytest.raises(LogDamagedError):
        queue.claim()


def test_a_queue_of_a_newer_release_is_not_opened(
    make: Make, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What this release does not know it does not work with."""
    make()
    monkeypatch.setattr("spark_queue.log.settings.FORMAT_VERSION", 0)
    LocalQueue.open(queue_path)._store.forget()

    with pytest.raises(FormatVersionError):
        spark_queue.open(queue_path)
