"""Whether the doctor sees why a queue gives nothing out, or should not be relied upon."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_queue.acting import whoami
from spark_queue.cli.commands.checkup import checkups
from spark_queue.cli.words import plain
from spark_queue.clock import ManualClock
from spark_queue.commands import readers
from spark_queue.doctor.service import unsafe_session
from spark_queue.doctor.subject import Subject
from spark_queue.local_queue import LocalQueue
from spark_queue.log.schema import FORMAT_VERSION
from spark_queue.reader_config import ReaderConfig
from spark_queue.report.finding import Thresholds
from spark_queue.testing import memory_queue
from tests.programs import run_python
from tests.unit.doctor.conftest import Make, anew, only, paste

MINUTE = timedelta(minutes=1)

#: Holds a queue as a front does, and ends in the middle of that.
_DIES = """
import os, sys, spark_queue
from spark_queue.state.steps import Step, on_items
from spark_queue.state import fence
from spark_queue.log.heads import following
store = spark_queue.open(sys.argv[1])._store
token = store.handle.holder = fence.new_holder(store.handle.place.directory())

def taken(at):
    return Step(head=fence.with_hold(following(at.queue), token, store.clock.now()), answer=None)

on_items(store, "take over", taken)
os._exit(9)
"""


def test_a_pause_is_found_with_its_beginning(queue: LocalQueue, clock: ManualClock) -> None:
    """It is dated from the pause on, whatever was configured since, and ended by its command."""
    queue.pause()
    queue.resume()
    clock.advance(MINUTE)
    queue.pause()
    begun = clock.now()
    clock.advance(MINUTE)
    queue.configure(lease=MINUTE)

    found = only(queue.doctor(), "paused")

    assert (found.severity, found.since, found.reader) == ("warning", begun, "")
    assert f"paused by {whoami()}, and 2 items wait" in found.what
    paste(found)
    assert found.id not in queue.doctor().ids()


def test_who_has_no_name_is_named_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container without users a pause still says whose it was."""

    def nobody() -> str:
        raise KeyError("uid")

    monkeypatch.setattr("getpass.getuser", nobody)
    monkeypatch.setattr("socket.gethostname", lambda: "ops-1")

    assert whoami() == f"user {os.getuid()}@ops-1"


def test_a_pause_of_one_reader_is_its_own(queue: LocalQueue) -> None:
    """The reader is named, and so it is in the command."""
    queue.reader("first")
    second = queue.reader("second odd one", start="beginning")
    second.pause()

    found = only(queue.doctor(), "paused")

    assert found.reader == "second odd one"
    assert found.command.endswith("--reader 'second odd one'")
    paste(found)
    assert not second.paused


def test_a_front_that_died_is_found(queue: LocalQueue) -> None:
    """Its process is named, and upkeep notes that nobody holds the queue any more."""
    assert run_python("-c", _DIES, queue.name).returncode == 9

    found = only(queue.doctor(), "front-gone")

    holder = queue._main.queue_head().hold.by
    assert holder
    assert holder in found.what
    paste(found)
    assert found.id not in queue.doctor().ids()
    assert len(queue.claim(9).rows) == 2


def _written_in_format(queue: LocalQueue, version: int) -> None:
    """Write the configuration of a queue as a release with another format would have."""
    place = Path(queue.name, "status")
    rows = pa.table(DeltaTable(place).to_pyarrow_table())
    bodies = [
        body if kind != "config" else json.dumps({**json.loads(body), "format": version})
        for kind, body in zip(rows["_kind"].to_pylist(), rows["_body"].to_pylist(), strict=True)
    ]
    column = rows.column_names.index("_body")
    write_deltalake(place, rows.set_column(column, "_body", pa.array(bodies)), mode="overwrite")


def test_a_format_of_a_later_release_is_refused_by_name(make: Make, clock: ManualClock) -> None:
    """Both versions are said, and a newer release is advised."""
    queue = make()
    _written_in_format(queue, FORMAT_VERSION + 1)

    found = only(anew(queue, clock).doctor(), "format-newer")

    assert found.severity == "error"
    assert f"format version {FORMAT_VERSION + 1}" in found.what
    assert f"reads up to {FORMAT_VERSION}" in found.what


def test_what_cannot_go_to_another_queue_is_found_at_its_source(
    make: Make, clock: ManualClock
) -> None:
    """How many items wait for which queue, and why: it is full, or gone."""
    queue = make()
    late = LocalQueue.create(f"{queue.name}-late", "id string", durability="process")
    late.reader("small", config=ReaderConfig(max_items=1))
    reader = queue.reader("r", config=ReaderConfig(punt_to=late.name))
    assert "send-refused" not in queue.doctor().ids()
    queue.enqueue([{"id": name} for name in "abc"])
    for _ in range(3):
        reader.claim(1).nack("no")

    found = only(queue.doctor(), "send-refused")
    assert (found.severity, found.reader) == ("warning", "r")
    assert found.what.startswith(f"2 items wait for {late.name!r}, which refuses them: reader 'sm")
    assert found.command == f"spark-queue status {late.name}"
    paste(found)

    LocalQueue.drop(late.name)
    found = only(anew(queue, clock).doctor(), "send-refused")
    assert found.what.startswith(f"what ends cannot go to {late.name!r}: ")


def test_a_format_of_an_earlier_release_is_good_to_know(make: Make, clock: ManualClock) -> None:
    """Such a queue works, and an upgrade is advised."""
    queue = make()
    _written_in_format(queue, FORMAT_VERSION - 1)

    checkup = anew(queue, clock).doctor()
    found = only(checkup, "format-older")
    assert checkup.storage is not None
    assert (checkup.storage.format, checkup.storage.newest_format) == (
        FORMAT_VERSION - 1,
        FORMAT_VERSION,
    )
    shown = checkups({"queues": [plain(checkup)]})
    due = f"; format {FORMAT_VERSION - 1}: an upgrade to {FORMAT_VERSION} is due"
    assert str(shown[1]).endswith(due)

    assert found.severity == "info"
    assert found.command == f"spark-queue upgrade {queue.name}"
    paste(found)
    assert "format-older" not in anew(queue, clock).doctor().ids()


def test_a_promise_that_ends_with_the_process_is_good_to_know(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """Whoever gave up power cuts by themselves is told once more, and nobody else."""
    hasty = LocalQueue.open(queue.name, durability="process", clock=clock)

    found = only(hasty.doctor(), "unsafe-session")

    assert (found.severity, found.command) == (
        "info",
        'spark.conf.set("spark.sparkQueue.durability", "disk")',
    )
    assert queue.doctor().findings == ()


def test_a_session_that_runs_tasks_twice_is_found(queue: LocalQueue) -> None:
    """A handler would run twice for one lease: that is an error, and the setting is named."""
    subject = Subject(queue._main, Thresholds())
    conf = {"spark.speculation": "true"}
    log = SimpleNamespace(require_own_transactions=lambda: None)
    subject.store = SimpleNamespace(session=SimpleNamespace(conf=conf), queue=log)  # type: ignore[assignment]

    (found,) = unsafe_session(subject)

    assert (found.severity, found.what.split()[0]) == ("error", "spark.speculation")
    assert found.command == "spark-submit --conf spark.speculation=false"


def test_a_queue_that_only_a_stream_reads_is_examined(make: Make) -> None:
    """A stream claims nothing and has no log: nobody is waited for, and every check is made."""
    queue = make()
    queue.enqueue({"id": "a"})
    readers.register(queue._main, "stream", None, "beginning", streams=True)

    checkup = queue.doctor()

    assert (checkup.findings, checkup.unchecked) == ((), {})
    assert checkup.storage is not None


def test_a_queue_in_memory_is_examined(clock: ManualClock) -> None:
    """It has no files to look at; what is asked of its items is asked there, too."""
    queue = memory_queue("id string", clock=clock)
    queue.enqueue({"id": "a"})
    queue.claim(worker_id="w")
    queue.pause()
    clock.advance(60 * MINUTE)

    checkup = queue.doctor()

    assert checkup.ids() == ["paused", "leases-overdue"]
    assert checkup.findings[0].since == clock.now() - 60 * MINUTE
    assert checkup.unchecked == {}
    queue.resume()
    queue.enqueue({"id": "b"})
    clock.advance(60 * MINUTE)
    idle = only(queue.doctor(), "nobody-claims")
    assert idle.what == "1 item could run, and no worker has claimed for 1 h; no lease is in force"
