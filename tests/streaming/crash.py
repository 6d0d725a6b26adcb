"""The queries of the crash tests, and what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_queue import DeltaQueue
from spark_queue.streaming import distinct_in_flight, fair_rounds, one_active_per_group
from tests.streaming.feeds import BUCKETS, Feed, Sink

SCHEMA = "path string, at long"

#: Micro-batches that the queries have before them: a file each.
FILES = 5


def fill(spark: SparkSession, root: str, files: int = FILES) -> None:
    """Write what the queries read: rows of six keys, and completions of what came before."""
    arrivals, completions = _feeds(spark, root)
    for number in range(files):
        ats = range(number * 10, number * 10 + 10)
        arrivals.put([{"path": f"k{at % 6}", "at": at} for at in ats])
        completions.put([{"path": f"k{(at - 10) % 6}", "at": at - 10} for at in ats[::2]])


def queries(
    spark: SparkSession,
    root: str,
    arriving: Callable[[DataFrame], DataFrame] = lambda rows: rows,
) -> Mapping[str, DataFrame]:
    """Return the streams, by name; what arrives goes through a transform before."""
    arrivals, completions = (feed.stream for feed in _feeds(spark, root))
    arrivals = arriving(arrivals)
    return {
        "distinct": distinct_in_flight(arrivals, completions, "path", buckets=BUCKETS),
        "fair": fair_rounds(arrivals, "path", order_by="at"),
        "serial": one_active_per_group(arrivals, completions, "path", "at", buckets=BUCKETS),
    }


def started(spark: SparkSession, root: str) -> list[StreamingQuery]:
    """Start all queries, and the one that fills a queue."""
    running = [
        Sink(spark, f"{root}/{name}").started(df) for name, df in queries(spark, root).items()
    ]
    queue = DeltaQueue.open(spark, f"{root}/queue")
    arrivals, _ = _feeds(spark, root)
    return [*running, queue.enqueue_stream(arrivals.stream, f"{root}/enqueue/checkpoint")]


def commits(root: str, name: str) -> int:
    """Return how many micro-batches a query has finished."""
    folder = Path(root) / name / "checkpoint" / "commits"
    return len([path for path in folder.glob("*") if path.name.isdigit()])


def _feeds(spark: SparkSession, root: str) -> tuple[Feed, Feed]:
    return (
        Feed(spark, f"{root}/arrivals", SCHEMA, files=1),
        Feed(spark, f"{root}/completions", SCHEMA, files=1),
    )
