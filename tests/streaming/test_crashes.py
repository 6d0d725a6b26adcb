"""Streaming queries that are killed in the middle, and started again from their checkpoints."""

from __future__ import annotations

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
from spark_queue.streaming.rules.events import ARRIVAL, COMPLETION, Event, Rules
from spark_queue.streaming.rules.fair import FairRules
from spark_queue.streaming.rules.serial import SerialRules
from tests.streaming import crash
from tests.streaming.feeds import Sink

ROOT = Path(__file__).parents[2]

NAMES = ("distinct", "fair", "serial", "enqueue")


def expected(make: Callable[[], Rules], *, completions: bool = True) -> list[tuple[int, float]]:
    """Return what goes out when the rules see the files one by one: the row, and its number."""
    rules = make()
    found = []
    for number in range(crash.FILES):
        ats = range(number * 10, number * 10 + 10)
        events = [Event(0, ARRIVAL, at, f"k{at % 6}", 1.0, None, at) for at in ats]
        if completions:
            events += [
                Event(0, COMPLETION, at - 10, f"k{at % 6}", 0.0, None, -1) for at in ats[::2]
            ]
        answers = rules.apply(sorted(events, key=lambda event: event[:3]))
        found += [(answer.row, answer.number) for answer in answers]
    return sorted(found)


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
    outputs = {
        "distinct": (expected(DistinctRules), None),
        "fair": (expected(partial(FairRules, {}, at_once=True), completions=False), "round"),
        "serial": (expected(partial(SerialRules, config)), "run"),
    }
    for name, (wanted, number) in outputs.items():
        rows = Sink(spark, f"{place}/{name}").rows()
        found = sorted((row["at"], row[number] if number else 0.0) for row in rows)
        assert found == wanted, name
    queue = DeltaQueue.open(spark, f"{place}/queue")
    assert sorted(row["at"] for row in queue.status().collect()) == list(range(crash.FILES * 10))
    assert queue.stats().ready == crash.FILES * 10
