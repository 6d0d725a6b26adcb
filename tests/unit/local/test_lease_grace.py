"""A lease is left alone for the grace of its queue after its end, on every face that shows it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from spark_queue.cli import views
from spark_queue.clock import ManualClock
from spark_queue.commands import admin
from spark_queue.config import QueueConfig
from spark_queue.errors import InvalidConfigError
from spark_queue.local_queue import LocalQueue
from spark_queue.results import Liveness
from spark_queue.state import step_waits
from tests.conftest import CommandLine
from tests.unit.local.conftest import Make

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Make a queue whose leases take a minute, and are left alone for two more; one is held."""
    queue = make(lease=MINUTE, lease_grace=2 * MINUTE, max_losses=1)
    queue.enqueue({"id": "a"})
    queue.claim(1, worker_id="crew 7")
    return queue


def _lapsed(queue: LocalQueue) -> tuple[int, int, set[Liveness | None]]:
    """Return how many leases ``status`` and a report show as over, and how their holders live."""
    _, status, _ = views.items(queue, None, None, 10, views.SHOWN)
    report = queue.report()
    return status["lapsed"], report.overview.late, {one.liveness for one in report.workers}


def test_explain_names_the_instant_of_the_takeover(queue: LocalQueue, clock: ManualClock) -> None:
    """Beside the end of the lease, before that and after it."""
    end = clock.now() + MINUTE
    said = "leased by crew 7 until 2026-01-01 00:01:00Z, and left alone until 2026-01-01 00:03:00Z"
    for _ in range(2):
        why = queue.explain(1)
        assert (why.reason, why.until, why.detail) == ("leased", end + 2 * MINUTE, said)
        clock.advance(MINUTE)
    assert queue.report_item(1).text == (
        "item 1 is in the hands of crew 7, and may be taken over in 60 s"
    )

    clock.advance(MINUTE)

    assert queue.explain(1).reason == "lease lost"


def test_a_report_shows_a_lease_as_over_once_it_may_be_taken_over(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """Until then its holder is alive; it is late from then on."""
    until = clock.now() + 3 * MINUTE
    clock.advance(3 * MINUTE - SECOND)
    assert _lapsed(queue) == (0, 0, {Liveness.ALIVE})
    assert [one.until for one in queue.report().workers] == [until]

    clock.advance(SECOND)

    assert _lapsed(queue) == (1, 1, {Liveness.LATE})


def test_doctor_counts_from_the_takeover(queue: LocalQueue, clock: ManualClock) -> None:
    """A lease is overdue when nobody took it over for a minute, though that was allowed."""
    clock.advance(4 * MINUTE - SECOND)
    assert "leases-overdue" not in queue.doctor().ids()

    clock.advance(SECOND)

    (found,) = (one for one in queue.doctor().findings if one.id == "leases-overdue")
    assert found.since == clock.now() - MINUTE


def test_upkeep_does_not_end_what_is_left_alone(queue: LocalQueue, clock: ManualClock) -> None:
    """An item whose last lease ran out is dead when it may be taken over, and not before."""
    clock.advance(3 * MINUTE - SECOND)
    queue.maintain()
    assert queue.counts()["claimed"] == 1

    clock.advance(SECOND)
    queue.maintain()

    assert queue.counts()["dead"] == 1


def test_who_waits_is_woken_at_the_takeover(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to look for at the end of the lease."""
    queue = make(lease=SECOND, lease_grace=SECOND)
    queue.enqueue({"id": "a"})
    queue.claim(1)
    waited: list[float] = []

    def passed(_: object, seconds: float, __: object) -> None:
        waited.append(seconds)
        clock.advance(timedelta(seconds=seconds))

    monkeypatch.setattr(step_waits, "_wait", passed)
    monkeypatch.setattr(step_waits, "pause", lambda _: 60.0)

    assert queue.claim(wait=MINUTE).count == 1
    assert waited == [pytest.approx(2.0)]


def test_a_process_that_waits_says_until_when(queue: LocalQueue, clock: ManualClock) -> None:
    """What is left in other hands comes back by the takeover."""
    ended = queue.process(lambda row: row)

    assert (ended.stopped, ended.until) == ("waiting", clock.now() + 3 * MINUTE)


@pytest.mark.parametrize("grace", [timedelta(seconds=-1), timedelta(days=365_001), 5, None])
def test_a_grace_is_a_duration_and_may_be_none_at_all(grace: timedelta) -> None:
    """Zero is the default: a lease may be taken over at its end."""
    assert QueueConfig().lease_grace == timedelta(0)
    with pytest.raises(InvalidConfigError, match="lease_grace is"):
        QueueConfig(lease_grace=grace)


def test_a_grace_is_for_queues_of_this_format(make: Make) -> None:
    """A release of an older one would take leases over at their end."""
    queue = make()
    admin.configure(queue._main, lambda old, _: type(old)(config=old.config, format=5))

    with pytest.raises(InvalidConfigError, match=r"lease_grace.*format 6.*upgrade it"):
        queue.configure(lease_grace=MINUTE)
    queue.upgrade()
    queue.configure(lease_grace=MINUTE)
    assert queue.config.lease_grace == MINUTE


def test_a_command_changes_it(queue: LocalQueue, command_line: CommandLine) -> None:
    """It may be zero, and takes parts of a second."""
    ended = command_line("configure", queue.name, "--lease-grace", "0.5", "--json")
    assert json.loads(ended.out)["settings"] == {"lease_grace": 0.5}
    assert queue.config.lease_grace == timedelta(seconds=0.5)
    assert command_line("configure", queue.name, "--lease-grace", "0").code == 0
    assert queue.config.lease_grace == timedelta(0)
    assert command_line("configure", queue.name, "--lease-grace", "-1").code == 2
