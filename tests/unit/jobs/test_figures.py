from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Import = Callable[[str], Any]

#: What has a target, by the section that measures it.
OWED = {
    "one_thread": ["backlog.fair", "backlog.distinct", "singly.fair", "singly.distinct"],
    "two_threads": ["stream.fair", "stream.distinct", "there_and_back.fair"],
    "depth": ["fair", "distinct"],
    "bounds": ["fair", "blocking"],
    "broker": ["hot_group", "flat.grouped", "flat.ungrouped"],
    "singular": ["pipelined", "one_by_one"],
    "memory": ["fair.100_keys", "distinct.100_keys", "blocking.100_keys", "singular.100_keys"],
}


@pytest.mark.parametrize("section", OWED)
def test_every_target_is_measured(script: Import, section: str) -> None:
    """Each section gives a positive figure for everything that has a target."""
    core = script("core")
    size = core.Size(rounds=2, operations=200, deep=1_000, tasks=100, most_tasks=200)
    figures = {figure.name: figure for figure in core.SECTIONS[section](size)}
    assert all(figure.value > 0 for figure in figures.values())
    judged = {name for name, figure in figures.items() if figure.target is not None}
    assert judged >= {f"{section}.{name}" for name in OWED[section]}


def test_items_come_out_of_every_queue(script: Import) -> None:
    """What a benchmark puts into any of the queues it also gets, so it measures the real thing."""
    ends = script("ends")
    work = ends.items(30, keys=3)
    for make in (ends.standard, ends.fair, ends.distinct, ends.blocking, ends.scheduler):
        line = make()
        ends.fill(line, work)
        assert sorted(line.get() for _ in work) == sorted(work)


@pytest.mark.parametrize("name", ["deque", "array", "ring", "bell"])
def test_structures_keep_what_they_are_given(script: Import, name: str) -> None:
    """Each structure hands everything over, from four producers, in the order of each."""
    structures = script("structures")
    make = structures.MAKERS[name]
    assert structures._alone(make, 3, 20) > 0
    assert structures._four_producers(make, 3, 400) > 0
    line = make(8)
    for number in range(8):
        line.put(number)
    assert [line.take() for _ in range(8)] == list(range(8))
