"""Queues that something is wrong with, on a clock that tests move, up to the machine's time."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from spark_queue.cli import main
from spark_queue.clock import ManualClock, SystemClock
from spark_queue.config import QueueConfig
from spark_queue.local_queue import LocalQueue
from spark_queue.report.finding import Checkup, Finding, Thresholds
from spark_queue.state import catch_up

#: How far back tests begin: none moves its clock by more, past the machine's.
AGO = timedelta(days=100)

#: Makes a queue: ``make("id string", dedup_key="id")``.
Make = Callable[..., LocalQueue]


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stands long before the machine's time, of which files are."""
    return ManualClock(SystemClock().now() - AGO)


@pytest.fixture
def make(queue_path: str, clock: ManualClock) -> Make:
    """Make a queue of some columns, with any settings."""

    def build(schema: str = "id string", **settings: Any) -> LocalQueue:
        config = QueueConfig(**settings)
        return LocalQueue.create(queue_path, schema, config, clock=clock)

    return build


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Return a queue in which one item is done, and two wait."""
    made = make(dedup_key="id")
    for name in "abc":
        made.enqueue({"id": name})
    made.claim().ack()
    return made


def anew(queue: LocalQueue, clock: ManualClock) -> LocalQueue:
    """Open a queue as a process does that has never seen it."""
    caches: dict[str, object] = vars(catch_up)["_caches"]
    caches.clear()
    return LocalQueue(type(queue._main).of(*_handle(queue, clock)))


def _handle(queue: LocalQueue, clock: ManualClock) -> tuple[Any, ...]:
    handle = queue._main.handle
    return handle.session, handle.address, clock


def only(checkup: Checkup, name: str) -> Finding:
    """Return a finding, which has to be the only one of its kind."""
    (found,) = (one for one in checkup.findings if one.id == name)
    return found


def paste(finding: Finding) -> None:
    """Run the command of a finding, which has to go well."""
    words = shlex.split(finding.command)
    assert words[0] == "spark-queue"
    with pytest.raises(SystemExit) as ended:
        main(words[1:])
    assert not ended.value.code


def with_limits(queue: LocalQueue, **limits: Any) -> Checkup:
    """Look at a queue, with some thresholds."""
    return queue.doctor(Thresholds(**limits))
