"""Streaming queries that put rows into a queue, and that work a queue off."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.query import StreamingQuery

from spark_queue import stream_files
from spark_queue.checks import require_duration, require_string
from spark_queue.columns import key_rules
from spark_queue.columns.columns import OrderBy, add_keys, of_spark
from spark_queue.commands import batches, enqueue
from spark_queue.commands.batches import SourceBatch
from spark_queue.errors import InvalidArgumentError, OldCheckpointError
from spark_queue.log.session_options import is_remote
from spark_queue.processing.loop import ProcessResult
from spark_queue.state import spark_frames
from spark_queue.state.request import EnqueueRules
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.stream_files import literal
from spark_queue.wording import shorten

#: How a query is triggered: again after a time, or once for everything that is there.
Trigger = timedelta | None


#: Works a queue off, in the session of a micro-batch, for at most a time if one is given.
Processing = Callable[[SparkSession, Trigger], ProcessResult]


def enqueue_stream(
    store: Store,
    df: DataFrame,
    checkpoint: str,
    *,
    order_by: OrderBy,
    trigger: Trigger,
    name: str | None,
) -> StreamingQuery:
    """Start a query that enqueues each micro-batch as one step."""
    require_query(checkpoint, trigger, name)
    _require_stream(df)
    # A mismatch raises now, and not in a query that stops.
    schema, settings = spark_frames.user_schema(store), store.settings(store.status_head())
    key_rules.require_same_texts(store.name, settings, of_spark(schema))
    add_keys(df, schema, settings.config, order_by)
    _require_own(store, checkpoint)

    def put(batch: DataFrame, number: int) -> None:
        place = store.in_session(batch.sparkSession)
        rows = stream_files.each_once(batch, checkpoint, number)
        mark = SourceBatch(query_id(batch.sparkSession, checkpoint), number, of_stream=True)
        enqueue.enqueue(place, rows, order_by=order_by, rules=EnqueueRules(), batch=mark)

    return _start(stream_files.with_files(df), put, checkpoint, trigger, name)


def process_stream(
    spark: SparkSession,
    process: Processing,
    checkpoint: str,
    *,
    trigger: Trigger,
    name: str | None,
) -> StreamingQuery:
    """Start a query whose every micro-batch works the queue off; without a trigger it is one."""

    def work(batch: DataFrame, _number: int) -> None:
        process(batch.sparkSession, trigger)

    beats = spark.readStream
    if trigger is not None:
        rate = beats.format("rate").option("rowsPerSecond", 1).load()
        return _start(rate, work, checkpoint, trigger, name)
    # A row for each run, at once; its offsets are others than those of the rate.
    once = beats.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    return _start(once, work, f"{checkpoint.rstrip('/')}/once", None, name)


def require_query(checkpoint: object, trigger: object, name: object) -> None:
    """Raise where a query has no place, or a pace that is none; without one it runs once."""
    if not isinstance(checkpoint, str) or not checkpoint.strip():
        raise InvalidArgumentError(
            f"checkpoint is {shorten(checkpoint)}: name a directory that is this query's own"
        )
    if trigger is not None:
        require_duration("trigger", trigger)
    require_string("name", name)


def query_id(spark: SparkSession, checkpoint: str) -> str:
    """Return the id of the query that keeps its state at a checkpoint."""
    lines = spark.read.text(literal(f"{checkpoint.rstrip('/')}/metadata")).collect()
    return str(json.loads("".join(line[0] for line in lines))["id"])


def require_called(spark: SparkSession, on_claim: object) -> None:
    """Raise where a query would call a copy of a function, on another machine.

    Raises
    ------
    InvalidArgumentError
        When there is a function, and the session is of Spark Connect.
    """
    if on_claim is not None and is_remote(spark):
        raise InvalidArgumentError(
            f"on_claim is {on_claim!r}: over Spark Connect a stream runs on the server, which "
            "would call a copy of it; leave it out and look at stats(), or use process()"
        )


def _require_own(store: Store, checkpoint: str) -> None:
    """Raise where a checkpoint has batches of which the queue has none, or is an older copy."""
    done = _last_batch(store.spark, checkpoint)
    if done is None:
        return
    source = query_id(store.spark, checkpoint)
    last = batches.last_of(Snapshot(store), source)
    if last is not None and last.number > done + 1:
        # A crash leaves one batch that the query does not know to be done, and no more.
        raise OldCheckpointError(store.name, source, done + 1, last.number, "batch")
    if last is None:
        raise InvalidArgumentError(
            f"checkpoint {checkpoint!r} is of a query that is done with batch {done}, and none of "
            f"its batches is in queue {store.name!r}: it is another queue's, or another query's; "
            "name a directory that is this query's own"
        )


def _last_batch(spark: SparkSession, checkpoint: str) -> int | None:
    """Return the last batch that a query is done with; None where there is none."""
    number = F.max(F.col("_metadata.file_name").try_cast("long"))
    try:
        found = spark.read.text(literal(f"{checkpoint.rstrip('/')}/commits")).select(number).head()
    except AnalysisException as exc:
        if exc.getCondition() != "PATH_NOT_FOUND":
            raise
        return None
    return None if found is None else found[0]


def _start(
    df: DataFrame,
    each: Callable[[DataFrame, int], None],
    checkpoint: str,
    trigger: Trigger,
    name: str | None,
) -> StreamingQuery:
    writer = df.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    if trigger is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{trigger.total_seconds()} seconds").start()


def _require_stream(df: object) -> None:
    if not isinstance(df, DataFrame) or not df.isStreaming:
        raise InvalidArgumentError(
            "the frame is no stream: read it with spark.readStream, or use enqueue"
        )
