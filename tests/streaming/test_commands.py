"""The commands that run streaming queries."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue
from spark_queue.queue_views import store_of


def test_a_directory_goes_into_a_queue_and_is_worked_off(
    run: Callable[..., Any],
    spark: SparkSession,
    place: str,
    queue_path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Files that land in a directory are enqueued once, and a query works the queue off."""
    queue = DeltaQueue.create(spark, queue_path, "n int, tenant string")
    landing = Path(place, "landing")
    landing.mkdir()
    (landing / "one.csv").write_text("n,tenant\n1,a\n2,b\n")
    options = ("--files", str(landing), "--format", "csv", "--checkpoint", f"{place}/in")
    assert run("stream-enqueue", queue_path, *options)["inserted"] == 2
    (landing / "two.csv").write_text("n,tenant\n3,a\n")
    assert run("stream-enqueue", queue_path, *options)["inserted"] == 1
    assert run("stream-enqueue", queue_path, *options)["steps"] == 0

    monkeypatch.syspath_prepend(place)
    Path(place, "handlers_of_a_stream.py").write_text("def twice(item):\n    return None\n")
    watcher = threading.Thread(target=_stop_when_done, args=(spark, queue))
    watcher.start()
    out = ("--checkpoint", f"{place}/work", "--every", "1", "--time-limit", "120")
    done = run("stream-dispatch", queue_path, "handlers_of_a_stream:twice", *out)
    watcher.join()
    assert done == {"acked": 3, "failed": 0, "deferred": 0, "released": 0, "dead": 0}
    assert queue.stats().acked == 3


def _stop_when_done(spark: SparkSession, queue: DeltaQueue) -> None:
    deadline = time.monotonic() + 100
    while (
        store_of(queue).status_head().finished.get("acked", 0) < 3 and time.monotonic() < deadline
    ):
        time.sleep(0.2)
    for query in spark.streams.active:
        query.stop()


def test_a_missing_directory_is_a_usage_error(
    run: Callable[..., Any], spark: SparkSession, place: str, queue_path: str
) -> None:
    """A directory that is not there ends the command with code 2, before any query."""
    DeltaQueue.create(spark, queue_path, "n int")
    options = ("--files", f"{place}/nowhere", "--checkpoint", f"{place}/in")
    refused = run("stream-enqueue", queue_path, *options, code=2)
    assert "is not a directory" in refused["message"]
