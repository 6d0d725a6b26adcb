"""Damaged tables, clocks that go back, a disk that is full: a clear error, or replay."""

from __future__ import annotations

import logging
import os
import re
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import LogDamagedError, QueueExistsError

HOUR = timedelta(hours=1)


@pytest.fixture
def jobs(spark: SparkSession, queue_path: str, clock: ManualClock) -> DeltaQueue:
    """Return a queue with three items."""
    made = DeltaQueue.create(spark, queue_path, "id long", clock=clock)
    made.enqueue(spark.range(3).select("id"), order_by="id")
    return made


def test_a_reader_whose_position_is_gone_reads_again(
    spark: SparkSession,
    jobs: DeltaQueue,
    queue_path: str,
    clock: ManualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """LB-08, decision 5: without its position a reader replays from its start, and says so."""
    jobs.reader("first")
    reader = jobs.reader("second", start="beginning")
    reader.claim(2).ack()
    jobs.close()
    shutil.rmtree(f"{queue_path}/reader_{reader.number}")

    again = DeltaQueue.open(spark, queue_path, clock=clock).reader("second")

    assert again.claim(10).count == 3
    assert "position" in caplog.text


@pytest.mark.parametrize("by", ["memory", "spark"])
def test_what_a_cut_create_left_is_replaced(
    spark: SparkSession, queue_path: str, clock: ManualClock, by: str
) -> None:
    """A table without a whole commit, and one without a step, whoever makes the queue."""
    DeltaQueue.create(spark, queue_path, "id long", clock=clock).close()
    (Path(queue_path, "queue", "_delta_log") / f"{0:020}.json").write_bytes(b"")
    shutil.rmtree(f"{queue_path}/status")
    session = spark.newSession()
    session.conf.set("spark.sparkQueue.smallSteps", by)

    queue = DeltaQueue.create(session, queue_path, "id long", clock=clock)

    queue.enqueue(session.range(3).select("id"))
    assert queue.claim(9).count == 3


def test_a_table_that_was_set_back_says_so(
    spark: SparkSession, jobs: DeltaQueue, queue_path: str
) -> None:
    """A log that was restored to an older version takes no step, and its error says why."""
    jobs.claim(1).ack()
    jobs.close()
    spark.sql(f"RESTORE TABLE delta.`{queue_path}/status` TO VERSION AS OF 1")

    with pytest.raises(LogDamagedError, match="restored to an older version"):
        jobs.claim(1)


def test_commits_that_are_gone_are_missed(
    spark: SparkSession, jobs: DeltaQueue, queue_path: str, place: str, clock: ManualClock
) -> None:
    """Whatever names a commit that is gone is believed, and nothing is written on top."""
    jobs.claim(2)
    jobs.enqueue(spark.range(3, 6).select("id"), order_by="id")
    jobs.claim(3)
    jobs.close()
    gone = {
        # A checksum names the commit, or what was noted of it.
        "queue/*.json": ("queue", r"0002\.json is gone"),
        "status/*.json": ("status", r"0003\.json is gone"),
        # Nothing of the commit is left: the other log names its items, or its step.
        "queue/*2.*": ("queue", "names seq 5, and the item log ends with 3"),
        "status/*[23].*": ("status", "names step 2, and it ends with 1"),
    }
    for number, (files, (log, why)) in enumerate(gone.items()):
        copy = _without(queue_path, f"{place}/copy-{number}", files)
        before = sorted(Path(copy).rglob("*"))

        with pytest.raises(LogDamagedError, match=f"the {log} log .*{why}.*Restore its newest"):
            DeltaQueue.open(spark, copy, clock=clock).claim(10)
        assert sorted(Path(copy).rglob("*")) == before


@pytest.mark.parametrize("log", ["queue", "status"])
def test_a_commit_that_a_power_cut_has_left_is_named(
    spark: SparkSession, jobs: DeltaQueue, queue_path: str, log: str, clock: ManualClock
) -> None:
    """An empty or cut newest commit is refused before a write; without it all goes on."""
    jobs.claim(2)
    jobs.close()
    commits = sorted(Path(queue_path, log, "_delta_log").glob("*.json"))
    cut = Path(commits[-1].parent, f"{len(commits):020}.json")
    for left in (b"", commits[-1].read_bytes()[:-20]):
        cut.write_bytes(left)
        with pytest.raises(LogDamagedError, match=f"the {log} log .*{cut.name} is empty, or ends"):
            DeltaQueue.open(spark, queue_path, clock=clock).claim(10)
    cut.unlink()
    assert DeltaQueue.open(spark, queue_path, clock=clock).claim(10).count == 1


def _without(queue: str, copy: str, files: str) -> str:
    """Copy a queue without the newest of some files of a log, or without all that a digit names."""
    shutil.copytree(queue, copy)
    log, pattern = files.split("/")
    found = sorted((Path(copy) / log / "_delta_log").glob(pattern))
    for file in found[-1:] if pattern == "*.json" else found:
        file.unlink()
    if pattern != "*.json":
        (Path(copy) / log / "_newest_commit").unlink(missing_ok=True)
    return copy


def test_a_log_of_items_that_was_set_back_gives_nothing_out(
    spark: SparkSession, jobs: DeltaQueue, queue_path: str
) -> None:
    """No claim passes over items that are gone; with the newest version back, all goes on."""
    jobs.enqueue(spark.range(3, 5).select("id"), order_by="id")
    table = f"delta.`{queue_path}/queue`"

    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    with pytest.raises(LogDamagedError, match=r"the queue log .*step 2, which is gone"):
        jobs.claim(10)
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 2")
    assert jobs.claim(10).count == 5

    jobs.close()
    spark.sql(f"DELETE FROM delta.`{queue_path}/status` WHERE _kind = 'config'")  # noqa: S608
    with pytest.raises(LogDamagedError, match=r"configuration .* step 1, is gone"):
        jobs.claim(1)


def test_a_queue_that_is_made_again_is_another_one(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Nothing of a queue whose directory was removed is remembered for the one in its place."""
    two = spark.sql("SELECT 1L AS id UNION ALL SELECT 1L")
    old = DeltaQueue.create(spark, queue_path, "id long", clock=clock)
    assert old.enqueue(two).inserted == 2
    shutil.rmtree(queue_path)

    new = DeltaQueue.create(spark, queue_path, "id long", QueueConfig(dedup_key="id"), clock=clock)

    assert new.config.dedup_key == "id"
    assert new.enqueue(two).inserted == 1
    assert old.config.dedup_key == "id"
    assert old.enqueue(two).duplicates == 2
    assert new.stats().enqueued == 1


@pytest.mark.parametrize("taken", ["queue", "queue/queue", "queue/status"])
def test_a_file_in_the_place_of_a_queue_is_refused(
    spark: SparkSession, place: str, taken: str
) -> None:
    """Where a plain file stands no queue is made, and the file stays."""
    file = Path(place, taken)
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")

    with pytest.raises(QueueExistsError, match="plain file"):
        DeltaQueue.create(spark, f"{place}/queue", "id long")
    assert file.read_text() == "mine"


def test_a_file_that_is_gone_is_named(jobs: DeltaQueue, queue_path: str) -> None:
    """Rows that vanish from the disk make an error that names the file, and no empty claim."""
    files = sorted(Path(f"{queue_path}/queue/_gen=0").glob("*.parquet"))
    jobs.close()
    for file in files:
        file.unlink()

    with pytest.raises(Exception, match=re.escape(files[0].name)):
        jobs.claim(1)


@pytest.mark.parametrize(
    "file", ["queue/_delta_log/*1.json", "status/_gen=-1/*.parquet", "queue/_gen=-1/*.parquet"]
)
def test_a_file_of_garbage_is_named_with_spark_too(
    spark: SparkSession, jobs: DeltaQueue, queue_path: str, clock: ManualClock, file: str
) -> None:
    """Spark is not asked for what it cannot read either: the file is named."""
    jobs.close()
    damaged = max(Path(queue_path).glob(file), key=lambda path: path.stat().st_mtime_ns)
    damaged.write_bytes(b"garbage\n" * 20)

    with pytest.raises(LogDamagedError, match=damaged.name):
        DeltaQueue.open(spark, queue_path, clock=clock).claim(1)


def test_a_clock_that_goes_back_frees_nothing(jobs: DeltaQueue, clock: ManualClock) -> None:
    """Steps go on in their order, leases end later, and nothing is handed out twice."""
    held = jobs.claim(1, lease=HOUR)
    clock.advance(-24 * HOUR)

    assert jobs.claim(10).count == 2
    assert jobs.claim(1).count == 0
    held.ack()
    assert jobs.stats().acked == 1


def test_a_full_disk_is_an_error_and_no_half_step(
    spark: SparkSession, jobs: DeltaQueue, caplog: pytest.LogCaptureFixture
) -> None:
    """An enqueue that the disk has no room for raises; what is there stays, and later ones go."""
    caplog.set_level(logging.CRITICAL)
    frame = spark.range(50_000).selectExpr("id + 100 AS id")

    with _files_of_at_most(10_000), pytest.raises(Exception, match=r"(?i)too large|job aborted"):
        jobs.enqueue(frame)

    assert jobs.stats().enqueued == 3
    assert jobs.enqueue(frame.limit(1)).inserted == 1


@contextmanager
def _files_of_at_most(size: int) -> Iterator[None]:
    """Let no file of this process, or of the session's JVM, grow beyond a size: a full disk."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    writers = [os.getpid(), *map(int, children)]
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in writers}
    for pid, (_, hard) in before.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
