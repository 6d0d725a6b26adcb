"""Kills at each named point of ``process`` without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_queue import LocalQueue
from tests import kills


@pytest.fixture(scope="module")
def workers() -> Iterator[kills.Workers]:
    """Start the program that has workers kill themselves."""
    found = kills.Workers()
    yield found
    found.end()


def _rescue(place: str, *, in_order: bool) -> None:
    queue = LocalQueue.open(f"{place}/queue", durability="process")
    kills.work(queue, place, "second")
    rows = queue.status().to_pylist()
    states = {row["id"]: (row["_state"], row["_attempts"]) for row in rows}
    kills.require_law(place, states, in_order=in_order)


@pytest.mark.parametrize(("on_failure", "group_limit"), [("block", 1), ("skip", 1), ("skip", 2)])
@pytest.mark.parametrize("point", kills.POINTS)
def test_a_worker_is_killed_at_each_point(
    workers: kills.Workers, place: str, point: str, on_failure: str, group_limit: int
) -> None:
    """Whoever goes on keeps the order of each group, and what was decided does not run again."""
    kills.make(place, on_failure, group_limit)

    workers.kill_at(point, place, "without Spark")

    _rescue(place, in_order=on_failure == "block")


@pytest.mark.parametrize("on_failure", ["block", "skip"])
@pytest.mark.parametrize("point", kills.COMMITS)
def test_a_worker_is_killed_at_each_commit(
    workers: kills.Workers, place: str, point: str, on_failure: str
) -> None:
    """A commit is there or not, and the order of each group is kept either way."""
    kills.make(place, on_failure)

    workers.kill_at(point, place, "without Spark")

    _rescue(place, in_order=on_failure == "block")


@pytest.mark.parametrize("point", kills.RESCUES)
def test_a_rescuer_is_killed_at_each_point(workers: kills.Workers, place: str, point: str) -> None:
    """A rescuer that dies leaves to the next one what it found."""
    kills.make(place, "block")
    workers.kill_at("the output is committed", place, "without Spark")

    workers.kill_at(point, place, "without Spark")

    _rescue(place, in_order=True)
