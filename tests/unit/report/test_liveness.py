"""Whether the worker that holds an item lives, on every face that names one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta

import pytest

import spark_queue
from spark_queue import LocalQueue, QueueConfig
from spark_queue.cli import main
from spark_queue.clock import ManualClock
from spark_queue.queue_views import store_of
from spark_queue.report import sheets
from spark_queue.report.following import follow, id_of
from spark_queue.results import Liveness

#: Claims an item, says how many it got, and works until it is killed.
_WORKER = """
import sys, time, spark_queue
claim = spark_queue.open(sys.argv[1]).claim(1)
print(claim.count, flush=True)
time.sleep(600)
"""

_MINUTE = timedelta(minutes=1)


@pytest.fixture
def queue(queue_path: str) -> LocalQueue:
    """Make a queue of one group, by the time of the machine, as its workers have it."""
    config = QueueConfig(group_key="id", lease=60 * _MINUTE)
    made = LocalQueue.create(queue_path, "id string", config)
    made.enqueue([{"id": "g"}, {"id": "g"}])
    return made


@pytest.fixture
def worker(queue: LocalQueue) -> Iterator[subprocess.Popen[str]]:
    """Start a process that holds the first item."""
    program = [sys.executable, "-c", _WORKER, queue.name]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        yield process
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)


def _liveness(queue: LocalQueue) -> set[Liveness | None]:
    report = queue.report()
    return {*(one.liveness for one in report.workers), *(one.liveness for one in report.groups)}


def test_a_worker_that_was_killed_is_gone_on_every_face(
    queue: LocalQueue, worker: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """While it runs it is alive; killed, no face says that it holds its item for an hour yet."""
    assert _liveness(queue) == {Liveness.ALIVE}
    assert "in the hands of" in queue.report_item(1).text
    assert queue.explain(1).detail.startswith("leased by ")
    assert queue.doctor().findings == ()

    worker.kill()
    worker.wait()

    assert _liveness(queue) == {Liveness.GONE}
    name = queue.report().workers[0].worker_id
    told = queue.report_item(2)
    assert told.text == (
        f"item 2 waits for item 1, which was in the hands of {name}, which is gone; "
        "the next claim takes it over"
    )
    assert queue.explain(1).detail == f"{name} held it, and is gone; the next claim takes it over"
    assert queue.explain(1) == told.chain[1]
    (finding,) = queue.doctor().findings
    assert finding.id == "workers-gone"
    assert f"{name} is gone; its 1 item waits" in finding.what
    _require_shown_as_gone(queue, str(name), capsys)
    claim = queue.claim(1)
    assert [row["_seq"] for row in claim.rows] == [1]
    assert queue.doctor().findings == ()
    # One that has left nothing ended, well or not.
    ended = next(one for one in queue.report().workers if one.worker_id == name)
    assert (ended.items, ended.liveness) == (0, Liveness.ENDED)


def _require_shown_as_gone(
    queue: LocalQueue, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    told = follow(store_of(queue)).items("group", id_of("g"), 10)
    assert [one.liveness for one in told.items] == [Liveness.GONE, None]
    assert f"{name} (gone)" in sheets.items(told.items, told.as_of).rows[0]
    page = queue.report().html()
    assert "1 of a worker that is gone" in page
    # A lease that keeps nobody from its items has no end to wait for.
    assert '<td class="left">in ' not in page
    assert ">gone<" in page
    assert f"{name} (gone)" in page
    with pytest.raises(SystemExit):
        main(["report", queue.name])
    assert " gone " in capsys.readouterr().out


def test_who_is_known_by_a_lease_alone_is_late_for_ever(
    queue_path: str, clock: ManualClock
) -> None:
    """A worker with a name of its own has no life lock: nobody knows that it is gone."""
    queue = LocalQueue.create(queue_path, "id string", clock=clock)
    queue.enqueue([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    queue.claim(1, worker_id="crew", lease=_MINUTE)
    begun = clock.now()

    def crew() -> Liveness | None:
        return next(one.liveness for one in queue.report().workers if one.worker_id == "crew")

    assert crew() is Liveness.ALIVE
    clock.advance(_MINUTE)
    assert crew() is Liveness.LATE
    clock.advance(60 * _MINUTE)
    assert crew() is Liveness.LATE
    assert "workers-gone" not in queue.doctor().ids()
    assert "leases-overdue" in queue.doctor().ids()
    assert queue.report(begun).workers[0].liveness is Liveness.ALIVE
    queue.claim(1, worker_id="crew", lease=9 * _MINUTE)
    assert crew() is Liveness.ALIVE


def test_a_process_that_runs_past_its_lease_is_late(queue_path: str, clock: ManualClock) -> None:
    """Its life lock tells that it runs, however long ago its lease ran out; idle it is alive."""
    queue = LocalQueue.create(queue_path, "id string", clock=clock)
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    claim = queue.claim(1, lease=_MINUTE)
    clock.advance(240 * _MINUTE)

    (late,) = queue.report().workers

    assert late.liveness is Liveness.LATE
    assert "leases-overdue" in queue.doctor().ids()
    assert "workers-gone" not in queue.doctor().ids()
    shown = next(one for one in sheets.sheets(queue.report()) if one.name == "workers")
    assert "late" in shown.rows[0]
    queue.claim(1).ack()
    assert claim is not None
    assert queue.report().workers[0].liveness is Liveness.ALIVE


def test_liveness_is_a_word_for_programs(queue: LocalQueue) -> None:
    """It is a string in JSON, and a public name."""
    queue.claim(1)

    (worker,) = queue.report().as_dict()["workers"]

    assert worker["liveness"] == "alive"
    assert spark_queue.Liveness is Liveness
