"""The checkpoint of an operator, as counts and as a frame."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions as F

from spark_queue.checks import require_methods, require_text
from spark_queue.streaming.processor import PAGES, STATE, plain_of
from spark_queue.streaming.stream_pages import GroupTail, lines_of
from spark_queue.streaming.stream_rules import UNKNOWN


class InFlight(NamedTuple):
    """Something that is in flight, or waits at the head of its key."""

    key: str | None
    state: str
    """In flight, or waits."""
    since: int | None
    """When it passed, or was last started."""
    seq: int | None
    """Of a row of a group, its sequence."""
    number: float | None
    """The run of the row, or the last round of the key."""
    behind: int
    """How many rows wait behind it in its group."""


def items_of(key: str | None, value: Any) -> Iterator[InFlight]:
    """Yield the items of an entry: of a key in flight, of a key with rounds, or of a group."""
    if isinstance(value, int):
        yield InFlight(key, "in flight", None if value == UNKNOWN else value, None, None, 0)
    elif isinstance(value, float):
        yield InFlight(key, "waits", None, None, value, 0)
    else:
        runs, *tail = value
        behind = sum(len(GroupTail({}, plain, plain[2])) for plain in tail)
        for order, number, since, _, _, _, _, lease, _ in runs:
            yield InFlight(key, "in flight" if lease else "waits", since, order, number, behind)


def items_of_bucket(plain: Mapping[str, Any]) -> Iterator[InFlight]:
    """Yield the items of a bucket in a format before 3."""
    for entry in plain.get("live", ()):
        key, at = (entry, UNKNOWN) if isinstance(entry, str) else entry
        yield from items_of(key, at)
    for key, last in plain.get("last", ()):
        yield from items_of(key, float(last))
    for key, live, tail in plain.get("groups", ()):
        for order, _, _, lease, number in live:
            yield InFlight(key, "in flight" if lease else "waits", None, order, number, len(tail))


_ITEMS = "key string, state string, since long, seq long, number double, behind long"


def stored_counts(spark: SparkSession, checkpoint: str) -> dict[str, int]:
    """Return what an operator has counted since its query first started.

    Parameters
    ----------
    spark : SparkSession
        The caller's session.
    checkpoint : str
        Where the query keeps its state.

    Returns
    -------
    dict
        By name: rows that passed, were refused or tagged or started, completions that were taken,
        unknown or stale; each operator says which it has. Empty where nothing is stored yet.
    """
    state = stored_state(spark, checkpoint)
    total: dict[str, int] = {}
    for row in () if state is None else state.select("value.counts").collect():
        for name, count in json.loads(row[0]).items():
            total[name] = total.get(name, 0) + count
    return total


def stored_items(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return the keys and rows in flight after the last micro-batch of a query.

    Parameters
    ----------
    spark : SparkSession
        The caller's session.
    checkpoint : str
        Where the query keeps its state.

    Returns
    -------
    DataFrame
        A row for each key in flight, for each key with a round to come, or for each row of a group
        that runs or could run; none where nothing is stored yet:

        - ``key`` (string): the key or group, as a text.
        - ``state`` (string): ``"in flight"``, or ``"waits"``: for its next run, or its round.
        - ``since`` (long): when it passed, by ``order_by``, or was last started, by ``at``; in
          microseconds where that is a time. Null where it never ran or nothing tells.
        - ``seq`` (long): the ``order_by`` of the row of a group.
        - ``number`` (double): the run of the row, or the last round of the key.
        - ``behind`` (long): how many rows wait behind it in its group.
    """
    state = stored_state(spark, checkpoint)
    if state is None:
        return spark.createDataFrame([], _ITEMS)
    written = F.col("value.format").alias("format")
    heads = state.select(written, F.col("value.body").alias("text"))
    found = heads.where("format < 3").mapInArrow(_of_buckets, _ITEMS)
    pages = stored_state(spark, checkpoint, PAGES)
    if pages is None:
        return found
    texts = pages.where("user_map_key.page >= 0").select("user_map_value.body")
    return found.unionAll(texts.mapInArrow(_of_pages, _ITEMS))


def _of_buckets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for written, body in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield _batch(items_of_bucket(plain_of(written, body)))


def _of_pages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column(0).to_pylist():
            yield _batch(
                item
                for name, _, _, value in lines_of(text)
                for item in items_of(json.loads(name), json.loads(value))
            )


def _batch(items: Iterable[InFlight]) -> pa.RecordBatch:
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("state", pa.string()),
            ("since", pa.int64()),
            ("seq", pa.int64()),
            ("number", pa.float64()),
            ("behind", pa.int64()),
        ]
    )
    return pa.RecordBatch.from_pylist([item._asdict() for item in items], schema=schema)


def stored_state(spark: SparkSession, checkpoint: str, variable: str = STATE) -> DataFrame | None:
    """Return a variable of an operator's state; None where it is not stored yet."""
    require_methods("spark", spark, "sql")
    require_text("checkpoint", checkpoint)
    # A session knows its state stores only when its streams have been asked for once.
    _ = spark.streams.active
    try:
        frame = spark.read.format("statestore").option("stateVarName", variable).load(checkpoint)
        _ = frame.schema
    except Exception as exc:
        if _is_empty(exc):
            return None
        raise
    return frame


def _is_empty(exc: Exception) -> bool:
    signs = (
        "STDS_COMMITTED_BATCH_UNAVAILABLE",
        "STDS_FAILED_TO_READ_OPERATOR_METADATA",
        "STDS_INVALID_OPTION_VALUE",
        "STDS_NO_PARTITION_DISCOVERED_IN_STATE_STORE",
        "STDS_OFFSET_LOG_UNAVAILABLE",
        "does not exist",
    )
    return any(sign in str(exc) for sign in signs)
