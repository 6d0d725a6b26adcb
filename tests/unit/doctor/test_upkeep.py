"""Whether the doctor sees what upkeep is due."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_queue.clock import ManualClock
from spark_queue.doctor import upkeep
from spark_queue.local_queue import LocalQueue
from spark_queue.log import maintenance
from spark_queue.testing import memory_queue
from tests.unit.doctor.conftest import AGO, Make, anew, only, paste, with_limits

DAY = timedelta(days=1)


def test_a_checkpoint_is_due(queue: LocalQueue, clock: ManualClock) -> None:
    """The rows since the last one are counted, and dated from the first of them on."""
    assert queue.maintain().checkpoint
    clock.advance(DAY)
    begun = clock.now()
    for _ in range(3):
        queue.claim(2).release()
        clock.advance(DAY)

    found = only(with_limits(queue, checkpoint_rows=11), "checkpoint-due")

    assert (found.severity, found.since) == ("warning", begun)
    assert "12 rows" in found.what
    paste(found)
    assert "checkpoint-due" not in with_limits(queue, checkpoint_rows=1).ids()


def test_a_checkpoint_that_is_long_due_keeps_others_from_working(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From where a process without Spark reads no such log on, it is an error."""
    monkeypatch.setattr(upkeep, "LONG_FOLD", 1)

    assert only(with_limits(queue, checkpoint_rows=1), "checkpoint-due").severity == "error"


def test_a_log_that_nobody_sums_up_is_found(
    queue: LocalQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits of processes that end too early are counted, and upkeep sums them up."""
    table = DeltaTable(Path(queue.name, "queue"))
    table.alter.set_table_properties({"delta.checkpointInterval": "3"})
    monkeypatch.setattr(maintenance, "look_after", lambda _log: None)
    seen = anew(queue, clock)
    for name in "defghi":
        seen.enqueue({"id": name})

    found = only(seen.doctor(), "commits-unsummed")

    assert "10 commits of the queue log" in found.what
    assert found.since is not None
    paste(found)
    assert "commits-unsummed" not in anew(queue, clock).doctor().ids()


def test_files_that_are_due_to_be_merged_are_found(
    queue: LocalQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From some on it is good to know, from where processes merge them a warning."""
    assert "could be 2" in only(with_limits(queue, small_files=4), "small-files").what

    monkeypatch.setattr(maintenance, "MANY", 5)
    checkup = with_limits(queue, small_files=4)

    found = only(checkup, "compaction-due")
    assert (found.severity, checkup.worst) == ("warning", "warning")
    assert "6 files of the queue log could be 2" in found.what
    assert found.since is not None
    assert abs(found.since - clock.now() - AGO) < DAY
    paste(found)
    assert found.id not in anew(queue, clock).doctor().ids()


def test_the_same_upkeep_of_several_tables_is_one_finding(queue: LocalQueue) -> None:
    """Both tables are in it, and the readers' by their names."""
    queue.reader("mail")
    audit = queue.reader("audit", start="beginning")
    for _ in range(3):
        queue.reader("mail").claim(1).release()
        audit.claim(1).release()

    found = only(with_limits(queue, small_files=1), "small-files")

    assert re.search(r"\d files of the queue log could be \d; \d+ files of the status", found.what)
    assert "of the status log of reader 'audit' could be" in found.what
    assert found.reader == ""


def test_a_disk_that_fills_is_found(queue: LocalQueue) -> None:
    """What is left and what the queue takes is said, and the command shows the disk."""
    found = only(with_limits(queue, free=2**62), "disk-fills")

    assert found.severity == "warning"
    assert re.fullmatch(r"[\d.,]+ .iB are left on the disk, and the queue takes .+ KiB", found.what)
    assert found.command == f"df -h {Path(queue.name, 'status')}"
    storage = queue.doctor().storage
    assert storage is not None
    files = [file for file in Path(queue.name).glob("*/**/*") if file.is_file()]
    assert storage.size == sum(file.stat().st_size for file in files)
    assert memory_queue("id string").doctor().storage is None


def test_many_files_that_cannot_be_merged_are_not_due(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where few of them are small, who merges those changes nothing."""
    monkeypatch.setattr(maintenance, "MANY", 5)

    assert with_limits(queue, small_files=5).findings == ()


def test_items_that_are_kept_too_long_are_found(make: Make, clock: ManualClock) -> None:
    """What upkeep would drop is counted, and dated from when it could."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    clock.advance(8 * DAY)
    queue.claim(2).ack()
    over = clock.now()
    clock.advance(30 * DAY)

    assert with_limits(queue, retention=31 * DAY).findings == ()
    found = only(with_limits(queue, retention=20 * DAY), "retention-due")

    assert (found.severity, found.since) == ("info", over + 20 * DAY)
    assert "2 items" in found.what
    assert found.command.endswith("maintain " + queue.name + " --retention 1728000")
    queue.maintain(retention=20 * DAY)
    assert with_limits(queue, retention=20 * DAY).findings == ()


def test_items_that_keys_need_are_not_kept_too_long(make: Make, clock: ManualClock) -> None:
    """Where a key is taken for ever its item stays, and nothing is due."""
    queue = make(dedup_key="id", dedup_scope="forever")
    queue.enqueue({"id": "a"})
    queue.claim().ack()
    clock.advance(30 * DAY)

    assert with_limits(queue, retention=7 * DAY).findings == ()


def test_bytes_are_told_by_what_they_are(make: Make) -> None:
    """What upkeep has merged is still there for a week, beside what is read."""
    queue = make(dedup_key="id")
    for _ in range(2):
        queue.enqueue({"id": "a"})
    assert _sizes(queue).keys() == {"commits", "refused", "rows"}

    assert queue.maintain().merged_files

    assert _sizes(queue).keys() == {"commits", "refused", "replaced", "rows"}
    files = Path(queue.name, "queue", "_gen=-2").glob("*.parquet")
    assert _sizes(queue)["refused"] == sum(file.stat().st_size for file in files)


def _sizes(queue: LocalQueue) -> Mapping[str, int]:
    storage = queue.doctor().storage
    assert storage is not None
    assert storage.size == sum(storage.kinds.values())
    return storage.kinds
