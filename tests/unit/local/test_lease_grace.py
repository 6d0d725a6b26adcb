"""The grace of leases on the faces of a queue; the law of it is in the conformance suite."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from spark_queue import LocalQueue, QueueConfig
from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.errors import InvalidConfigError
from tests.conftest import CommandLine

MINUTE = timedelta(minutes=1)


@pytest.fixture
def queue(queue_path: str, clock: ManualClock) -> LocalQueue:
    """Return a queue with a lapsed lease within its grace."""
    config = QueueConfig(lease=MINUTE, lease_grace=2 * MINUTE)
    made = LocalQueue.create(queue_path, "id string", config, clock=clock)
    made.enqueue({"id": "a"})
    made.claim()
    clock.advance(MINUTE)
    return made


def test_explain_says_until_when_a_lease_is_left_alone(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """It is leased until its grace is over; then a claim gets it."""
    why = queue.explain(1)
    assert (why.reason, why.until) == ("leased", clock.now() + 2 * MINUTE)
    assert why.detail.endswith(
        f"and left alone until {clock.now() + 2 * MINUTE:%Y-%m-%d %H:%M:%SZ}"
    )

    clock.advance(2 * MINUTE)
    assert queue.explain(1).reason == "runnable"


def test_a_lease_within_its_grace_has_not_run_out(queue: LocalQueue, clock: ManualClock) -> None:
    """Status and findings count it from then on only."""
    assert queue.status(short=True).to_pylist()[0]["_state"] == "claimed"
    assert [one.id for one in queue.doctor().findings if one.id == "leases-overdue"] == []

    clock.advance(4 * MINUTE)
    assert "leases-overdue" in [one.id for one in queue.doctor().findings]


def test_a_command_shows_and_changes_it(queue: LocalQueue, command_line: CommandLine) -> None:
    """It may be zero, and takes parts of a second."""
    ended = command_line("configure", queue.name, "--lease-grace", "0.5", "--json")
    assert json.loads(ended.out)["settings"] == {"lease_grace": 0.5}
    assert queue.config.lease_grace == timedelta(seconds=0.5)
    assert command_line("configure", queue.name, "--lease-grace", "0").code == 0
    assert queue.config.lease_grace == timedelta(0)
    assert command_line("configure", queue.name, "--lease-grace", "-1").code == 2


def test_a_queue_of_an_older_format_has_no_grace(queue: LocalQueue) -> None:
    """A release of that format would take over at once; an upgrade brings it."""
    admin.configure(queue._main, lambda old, _: type(old)(config=QueueConfig(), format=5))
    with pytest.raises(InvalidConfigError, match=r"lease_grace.*format 6.*upgrade it"):
        queue.configure(lease_grace=MINUTE)
    queue.upgrade()
    queue.configure(lease_grace=MINUTE)
    assert queue.config.lease_grace == MINUTE
