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
from spark_queue.errors import LogDamagedError
from spark_queue.queue import DeltaQueue

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


def test_a_table_that_was_set_back_says_so(
    spark: SparkSession, jobs: DeltaQueue, queue_path: str
) -> None:
    """A log that was restored to an older version takes no step, and its error says why."""
    jobs.claim(1).ack()
    jobs.close()
    spark.sql(f"RESTORE TABLE delta.`{queue_path}/status` TO VERSION AS OF 1")

    with pytest.raises(LogDamagedError, match="restored to an older version"):
        jobs.claim(1)


def test_a_file_that_is_gone_is_named(jobs: DeltaQueue, queue_path: str) -> None:
    """Rows that vanish from the disk make an error that names the file, and no empty claim."""
    files = sorted(Path(f"{queue_path}/queue/_gen=0").glob("*.parquet"))
    jobs.close()
    for file in files:
        file.unlink()

    with pytest.raises(Exception, match=re.escape(files[0].name)):
        jobs.claim(1)


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
    """Let no file of the session's JVM grow beyond a size, as on a disk that is full."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    before = {int(pid): resource.prlimit(int(pid), resource.RLIMIT_FSIZE) for pid in children}
    for pid, (_, hard) in before.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)
