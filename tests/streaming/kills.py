"""Streaming queries that are killed at once, most as they stand still at a point of their own."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_queue import DeltaQueue, streams
from spark_queue.commands.evidence import Output
from spark_queue.session import SMALL_STEPS_CONF, local_session
from spark_queue.state import steps
from spark_queue.streaming import STREAMING_CONF
from tests.streaming import crash

#: When a call stands still: before or after its work, and the how manieth it is.
When = tuple[str, int]

#: Calls that a query makes in the driver, with the points at which it is killed, by verb.
CALLS: Mapping[str, Mapping[str, Mapping[When, str]]] = {
    "enqueue_stream": {
        "query_id": {("before", 2): "a batch has begun", ("before", 3): "a batch is noted"},
        "commit_items": {
            ("before", 2): "the rows are decided",
            ("after", 2): "the rows are committed",
        },
    },
    "process_stream": {
        "commit_status": {
            ("before", 1): "the claim is decided",
            ("after", 1): "the claim is committed",
            ("before", 2): "the outcomes are decided",
            ("after", 2): "the outcomes are committed",
        },
        "write": {
            ("before", 1): "the results are there",
            ("after", 1): "the results are committed",
        },
    },
}

#: Points of a handler, and of an operator on a stream.
RUNS = "the handler runs"
COMES, GOES = "rows come in", "rows go out"
WRITTEN, NOTED = "a batch is written", "a batch is noted"

OPERATORS = ("distinct", "fair", "serial")

#: Every verb, and the points at which a query of it is killed.
POINTS: Mapping[str, tuple[str, ...]] = {
    **{
        verb: tuple(point for points in calls.values() for point in points.values())
        for verb, calls in CALLS.items()
    },
    **dict.fromkeys(OPERATORS, (COMES, GOES, WRITTEN, NOTED)),
}
POINTS = {**POINTS, "process_stream": (*POINTS["process_stream"], RUNS)}

CASES = [(verb, point) for verb, points in POINTS.items() for point in points]

#: The first row of the micro-batch in which an operator is killed.
SECOND = 10

QUEUED = "n int"

#: Items that ``process_stream`` works off, in claims of some.
ITEMS, LIMIT = 6, 4


def home(root: str, verb: str, point: str) -> str:
    """Return the directory of a case."""
    return f"{root}/{verb}-{point.replace(' ', '-')}"


def running(root: str) -> str:
    """Return the directory of the queries that are killed in the middle of their work."""
    return f"{root}/running"


def mark(directory: str) -> Path:
    """Return the file that says that a query has come to its point."""
    return Path(directory, "reached")


def stand_still(directory: str) -> None:
    """Say that the point is reached, and wait for the kill."""
    mark(directory).touch()
    while True:
        time.sleep(1)


def passing(directory: str | None) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return what passes rows on, and with a directory stands still in the second batch."""

    def passed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            second = pc.any(pc.greater_equal(batch.column("at"), SECOND)).as_py()
            if directory is not None and second:
                stand_still(directory)
            yield batch

    return passed


def operator(
    spark: SparkSession, root: str, name: str, point: str, *, stands: bool
) -> StreamingQuery:
    """Start a query with an operator, which writes each batch to a table once."""
    place = home(root, name, point)

    def at(here: str) -> str | None:
        return place if stands and here == point else None

    def write(batch: DataFrame, number: int) -> None:
        # A write that is left out leaves the batch unread, and its state behind.
        batch = batch.localCheckpoint()
        if number == 2 and at(NOTED):
            stand_still(place)
        writer = batch.write.format("delta").mode("append")
        writer.option("txnAppId", point).option("txnVersion", number).save(f"{place}/out")
        if number == 1 and at(WRITTEN):
            stand_still(place)

    def arriving(rows: DataFrame) -> DataFrame:
        return rows.mapInArrow(passing(at(COMES)), rows.schema)

    out = crash.queries(spark, root, arriving)[name]
    out = out.mapInArrow(passing(at(GOES)), out.schema)
    writer = out.writeStream.foreachBatch(write).trigger(availableNow=True)
    return writer.option("checkpointLocation", f"{place}/checkpoint").start()


def enqueue(spark: SparkSession, root: str, point: str) -> StreamingQuery:
    """Start a query that fills a queue, with an operator before."""
    place = home(root, "enqueue_stream", point)
    queue = DeltaQueue.open(spark, f"{place}/queue")
    return queue.enqueue_stream(crash.queries(spark, root)["distinct"], f"{place}/checkpoint")


def process(spark: SparkSession, root: str, point: str, *, stands: bool) -> StreamingQuery:
    """Start a query that works a queue off into a table."""
    place = home(root, "process_stream", point)
    queue = DeltaQueue.open(spark, f"{place}/queue")

    def handle(item: Any) -> dict[str, int]:
        if stands and point == RUNS and item["n"] == 1:
            stand_still(place)
        return {"twice": item["n"] * 2}

    return queue.process_stream(
        handle,
        f"{place}/checkpoint",
        trigger=timedelta(seconds=1),
        limit=LIMIT,
        returns="twice int",
        output=f"{place}/out",
    )


def patch(owner: Any, name: str, place_of: Callable[..., str], verb: str, root: str) -> None:
    """Let calls of a function stand still at the points of their cases."""
    original, points = getattr(owner, name), CALLS[verb][name]
    calls: Counter[str] = Counter()

    def reach(place: str, when: When) -> None:
        if when in points and place == home(root, verb, points[when]):
            stand_still(place)

    def patched(*given: Any, **options: Any) -> Any:
        place = place_of(*given, **options)
        calls[place] += 1
        reach(place, ("before", calls[place]))
        done = original(*given, **options)
        reach(place, ("after", calls[place]))
        return done

    setattr(owner, name, patched)


def main(root: str) -> None:
    """Start the queries of all cases, then those that run until the kill."""
    settings: dict[str, Any] = {
        **SMALL_STEPS_CONF,
        **STREAMING_CONF,
        "spark.sql.warehouse.dir": f"{root}/warehouse",
        "spark.python.daemon.module": "tests.worker_daemon",
    }
    # Tasks that stand still keep their cores.
    spark = local_session("kills", master=f"local[{len(CASES) + 2}]", quiet=True, **settings)

    def of_snapshot(at: Any, *_given: Any, **_options: Any) -> str:
        return str(Path(at.store.name).parent)

    def of_checkpoint(_spark: Any, checkpoint: str) -> str:
        return str(Path(checkpoint).parent)

    def of_output(output: Output, *_given: Any, **_options: Any) -> str:
        return str(Path(output.address.target).parent)

    patch(streams, "query_id", of_checkpoint, "enqueue_stream", root)
    patch(steps, "commit_items", of_snapshot, "enqueue_stream", root)
    patch(steps, "commit_status", of_snapshot, "process_stream", root)
    patch(Output, "write", of_output, "process_stream", root)
    started: Mapping[str, Callable[[str], StreamingQuery]] = {
        "enqueue_stream": partial(enqueue, spark, root),
        "process_stream": partial(process, spark, root, stands=True),
        **{name: partial(operator, spark, root, name, stands=True) for name in OPERATORS},
    }
    # One after another: many workers of Python that start at once come too late for Spark.
    for verb, point in CASES:
        query = started[verb](point)
        while not mark(home(root, verb, point)).exists():
            time.sleep(0.05)
            if not query.isActive:
                raise SystemExit(f"{verb} has not come to {point!r}: {query.exception()}")
    for query in crash.started(spark, running(root)):
        query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1])
