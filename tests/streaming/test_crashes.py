"""Streaming queries that are killed in the middle, and started again from their checkpoints."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, QueueConfig
from spark_queue.streaming.stream_groups import SerialRules
from spark_queue.streaming.stream_rules import (
    ARRIVAL,
    COMPLETION,
    BucketRules,
    DistinctRules,
    Event,
    FairRules,
)
from tests.conftest import memory_place
from tests.streaming import crash, kills
from tests.streaming.feeds import Sink

ROOT = Path(__file__).parents[2]

_CONFIG = QueueConfig(group_key="g", lease=timedelta(days=9_999))

#: The rules of each query, and the column in which they say something of a row.
RULES: dict[str, tuple[Callable[[], BucketRules], str | None]] = {
    "distinct": (DistinctRules, None),
    "fair": (partial(FairRules, {}, at_once=True), "round"),
    "serial": (partial(SerialRules, _CONFIG), "run"),
}

NAMES = ("distinct", "fair", "serial", "enqueue")


def cuts(root: str, name: str) -> list[list[range]]:
    """Return which files of each source each batch of a query had, as its checkpoint says.

    One file each, but for what a kill leaves: a source may know a file of which the query does not
    know yet, and the next batch then has that one and its own.
    """
    offsets = Path(root) / name / "checkpoint" / "offsets"
    batches = sorted((path for path in offsets.glob("*") if path.name.isdigit()), key=_number)
    ends = [[_end(line) for line in path.read_text().splitlines()[2:]] for path in batches]
    starts = [[0] * len(ends[0]), *ends]
    return [
        [range(*cut) for cut in zip(*both, strict=True)] for both in zip(starts, ends, strict=False)
    ]


def _number(path: Path) -> int:
    return int(path.name)


def _end(line: str) -> int:
    """Return how many files of a source there were up to an offset; ``-`` stands for none."""
    return 0 if line == "-" else json.loads(line)["logOffset"] + 1


def expected(
    make: Callable[[], BucketRules], batches: list[list[range]]
) -> list[tuple[int, float]]:
    """Return what goes out when the rules see the batches of files: the row, and its number."""
    rules = make()
    found = []
    for arrivals, *completions in batches:
        events = [Event(0, ARRIVAL, at, f"k{at % 6}", 1.0, None, at) for at in _ats(arrivals)]
        for files in completions:
            events += [
                Event(0, COMPLETION, at - 10, f"k{(at - 10) % 6}", 0.0, None, -1)
                for at in _ats(files)
                if at % 2 == 0
            ]
        answers = rules.apply(sorted(events, key=lambda event: event[:3]))
        found += [(answer.row, answer.number) for answer in answers]
    return sorted(found)


def _ats(files: range) -> list[int]:
    return [at for number in files for at in range(number * 10, number * 10 + 10)]


@pytest.fixture(scope="module")
def killed_at_points(spark: SparkSession) -> Iterator[str]:
    """Run a query for each verb and point in one process, and kill it when all are there.

    Then other queries are in the middle of their work.
    """
    root = tempfile.mkdtemp(prefix="spark-queue-", dir=memory_place())
    try:
        _make_ready(spark, root)
        command = [sys.executable, "-m", "tests.streaming.kills", root]
        with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as child:  # noqa: S603
            try:
                _wait_until_all_stand_still(child, root)
                _wait_until_all_have_begun(child, kills.running(root))
            finally:
                os.killpg(child.pid, signal.SIGKILL)
        done = {name: crash.commits(kills.running(root), name) for name in NAMES}
        assert min(done.values()) < crash.FILES, f"all had ended: {done}"
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _make_ready(spark: SparkSession, root: str) -> None:
    crash.fill(spark, root, files=3)
    middle = kills.running(root)
    crash.fill(spark, middle)
    DeltaQueue.create(spark, f"{middle}/queue", crash.SCHEMA, QueueConfig(fair_key="path")).close()
    for verb, point in kills.CASES:
        place = kills.home(root, verb, point)
        if verb == "enqueue_stream":
            DeltaQueue.create(spark, f"{place}/queue", crash.SCHEMA).close()
        elif verb == "process_stream":
            with closing(DeltaQueue.create(spark, f"{place}/queue", kills.QUEUED)) as queue:
                queue.enqueue(pa.table({"n": pa.array(range(kills.ITEMS), pa.int32())}))


def _wait_until_all_stand_still(child: subprocess.Popen[bytes], root: str) -> None:
    deadline = time.monotonic() + 900
    marks = [kills.mark(kills.home(root, *case)) for case in kills.CASES]
    while missing := [mark.parent.name for mark in marks if not mark.exists()]:
        assert child.poll() is None, f"the queries ended before they were killed: {missing}"
        assert time.monotonic() < deadline, f"not every query came to its point: {missing}"
        time.sleep(0.1)


def _wait_until_all_have_begun(child: subprocess.Popen[bytes], place: str) -> None:
    deadline = time.monotonic() + 180
    while min(crash.commits(place, name) for name in NAMES) < 1:
        assert child.poll() is None, "the queries ended before they could be killed"
        assert time.monotonic() < deadline, "the queries did not get going"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_query_goes_on_exactly_where_it_was(
    spark: SparkSession, killed_at_points: str
) -> None:
    """After kill -9 in the middle and a restart, every row is out, and queued, exactly once."""
    place = kills.running(killed_at_points)
    for query in crash.started(spark, place):
        query.awaitTermination()
    for name, (rules, number) in RULES.items():
        wanted = expected(rules, cuts(place, name))
        rows = Sink(spark, f"{place}/{name}").rows()
        found = sorted((row["at"], row[number] if number else 0.0) for row in rows)
        assert found == wanted, name
    queue = DeltaQueue.open(spark, f"{place}/queue")
    assert sorted(row["at"] for row in queue.status().collect()) == list(range(crash.FILES * 10))
    assert queue.stats().ready == crash.FILES * 10


@pytest.mark.slow
@pytest.mark.parametrize("point", kills.POINTS["enqueue_stream"])
def test_a_stream_that_fills_a_queue_is_killed_at_each_point(
    spark: SparkSession, killed_at_points: str, point: str
) -> None:
    """What an operator lets out is in the queue once, however far its batch had come."""
    kills.enqueue(spark, killed_at_points, point).awaitTermination()
    place = kills.home(killed_at_points, "enqueue_stream", point)
    rows = DeltaQueue.open(spark, f"{place}/queue").status().collect()
    wanted = expected(DistinctRules, cuts(killed_at_points, Path(place).name))
    assert sorted(row["at"] for row in rows) == [at for at, _ in wanted]


@pytest.mark.slow
@pytest.mark.parametrize("point", kills.POINTS["process_stream"])
def test_a_stream_that_works_a_queue_off_is_killed_at_each_point(
    spark: SparkSession, killed_at_points: str, point: str
) -> None:
    """Every item is done, and its result is in the output once, however far its claim had come."""
    place = kills.home(killed_at_points, "process_stream", point)
    queue = DeltaQueue.open(spark, f"{place}/queue")
    query = kills.process(spark, killed_at_points, point, stands=False)
    try:
        deadline = time.monotonic() + 180
        while queue.stats().acked < kills.ITEMS:
            assert query.exception() is None, query.exception()
            assert time.monotonic() < deadline, queue.stats()
            time.sleep(0.2)
    finally:
        query.stop()
    found = spark.read.format("delta").load(f"{place}/out").collect()
    assert sorted(row["twice"] for row in found) == [2 * n for n in range(kills.ITEMS)]


@pytest.mark.slow
@pytest.mark.parametrize("name", kills.OPERATORS)
@pytest.mark.parametrize("point", kills.POINTS["distinct"])
def test_an_operator_is_killed_at_each_point(
    spark: SparkSession, killed_at_points: str, name: str, point: str
) -> None:
    """What goes out is what its rules say of the batches, once: no row is lost or comes again."""
    kills.operator(spark, killed_at_points, name, point, stands=False).awaitTermination()
    place = kills.home(killed_at_points, name, point)
    rules, number = RULES[name]
    rows = spark.read.format("delta").load(f"{place}/out").collect()
    found = sorted((row["at"], row[number] if number else 0.0) for row in rows)
    assert found == expected(rules, cuts(killed_at_points, Path(place).name))
    assert found
