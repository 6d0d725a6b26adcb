"""Streaming queries that are killed in the middle, and started again from their checkpoints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, QueueConfig
from spark_queue.streaming.rules.distinct import DistinctRules
from spark_queue.streaming.rules.events import ARRIVAL, COMPLETION, BucketRules, Event
from spark_queue.streaming.rules.fair import FairRules
from spark_queue.streaming.rules.serial import SerialRules
from tests.streaming import crash
from tests.streaming.feeds import Sink

ROOT = Path(__file__).parents[2]

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
                Event(0, COMPLETION, at - 10, f"k{at % 6}", 0.0, None, -1)
                for at in _ats(files)
                if at % 2 == 0
            ]
        answers = rules.apply(sorted(events, key=lambda event: event[:3]))
        found += [(answer.row, answer.number) for answer in answers]
    return sorted(found)


def _ats(files: range) -> list[int]:
    return [at for number in files for at in range(number * 10, number * 10 + 10)]


def killed(root: str) -> dict[str, int]:
    """Run the queries in a process of their own, and kill it in the middle of its work."""
    command = [sys.executable, "-m", "tests.streaming.crash", root]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as child:  # noqa: S603
        deadline = time.monotonic() + 180
        while min(crash.commits(root, name) for name in NAMES) < 1:
            assert child.poll() is None, "the queries ended before they could be killed"
            assert time.monotonic() < deadline, "the queries did not get going"
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGKILL)
    return {name: crash.commits(root, name) for name in NAMES}


def test_a_killed_query_goes_on_exactly_where_it_was(spark: SparkSession, place: str) -> None:
    """After kill -9 in the middle and a restart, every row is out, and queued, exactly once."""
    crash.fill(spark, place)
    DeltaQueue.create(spark, f"{place}/queue", crash.SCHEMA, QueueConfig(fair_key="path")).close()
    done = killed(place)
    assert min(done.values()) < crash.FILES, f"all had ended: {done}"
    for query in crash.started(spark, place):
        query.awaitTermination()
    config = QueueConfig(group_key="g", lease=timedelta(days=9_999))
    outputs: dict[str, tuple[Callable[[], BucketRules], str | None]] = {
        "distinct": (DistinctRules, None),
        "fair": (partial(FairRules, {}, at_once=True), "round"),
        "serial": (partial(SerialRules, config), "run"),
    }
    for name, (rules, number) in outputs.items():
        wanted = expected(rules, cuts(place, name))
        rows = Sink(spark, f"{place}/{name}").rows()
        found = sorted((row["at"], row[number] if number else 0.0) for row in rows)
        assert found == wanted, name
    queue = DeltaQueue.open(spark, f"{place}/queue")
    assert sorted(row["at"] for row in queue.status().collect()) == list(range(crash.FILES * 10))
    assert queue.stats().ready == crash.FILES * 10
