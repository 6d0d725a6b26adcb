"""Checkpoints that an earlier release made, and those of other buckets: the queries go on."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_queue.streaming import distinct_in_flight, stored_counts, stored_items
from tests.streaming.feeds import Feed, Sink
from tests.streaming.golden import GOLDEN, HERE, Query


@pytest.fixture
def golden(place: str) -> str:
    """Unpack the golden checkpoints, with their texts as if they had been made here."""
    with zipfile.ZipFile(GOLDEN) as archive:
        archive.extractall(place)
    for path in Path(place).rglob("*"):
        if path.is_file() and HERE.encode() in path.read_bytes():
            path.write_text(path.read_text().replace(HERE, place))
    return place


def _items(spark: SparkSession, root: str, name: str) -> set[tuple[Any, ...]]:
    found = stored_items(spark, f"{root}/{name}/checkpoint").collect()
    return {tuple(row) for row in found}


def test_keys_in_flight_of_format_2_stay_in_flight(spark: SparkSession, golden: str) -> None:
    """A key that passed is refused until its completion, and has its place."""
    query = Query(spark, golden, "distinct")
    assert _items(spark, golden, "distinct") == {("a", "in flight", 1, None, None, 0)}
    out = query.run([("a", 5), ("b", 6), ("a", 8)], [("a", 7)])
    assert out == {(1, "a"), (3, "b"), (6, "b"), (8, "a")}
    assert _items(spark, golden, "distinct") == {
        ("a", "in flight", 8, None, None, 0),
        ("b", "in flight", 6, None, None, 0),
    }


def test_rounds_of_format_2_go_on(spark: SparkSession, golden: str) -> None:
    """A key goes on from its last round, the others from the round that is served."""
    query = Query(spark, golden, "fair")
    assert ("big", "waits", None, None, 7.0, 0) in _items(spark, golden, "fair")
    out = query.run([("small", 7), ("big", 8)], [("any", 0, 5.0)])
    assert out >= {(5, 7.0), (6, 3.0), (7, 6.0), (8, 8.0)}
    assert _items(spark, golden, "fair") == {
        ("big", "waits", None, None, 8.0, 0),
        ("small", "waits", None, None, 6.0, 0),
    }


def test_groups_of_format_2_go_on(spark: SparkSession, golden: str) -> None:
    """What ran runs, what waited comes in its order, whole, and is not taken twice."""
    query = Query(spark, golden, "serial")
    assert _items(spark, golden, "serial") == {
        ("g", "in flight", None, 1, 1.0, 7),
        ("h", "in flight", None, 9, 1.0, 1),
    }
    out = query.run([("g", 3)], [("g", 1), ("h", 9)])
    assert out == {(1, 1), (9, 1), (2, 1), (10, 1)}
    out |= query.run([("g", 12)], [("g", 2), ("h", 10)])
    assert out == {(1, 1), (9, 1), (2, 1), (10, 1), (3, 1)}
    ((key, state, since, seq, number, behind),) = _items(spark, golden, "serial")
    assert (key, state, seq, number, behind) == ("g", "in flight", 3, 1.0, 6)
    assert since is not None
    counts = stored_counts(spark, f"{golden}/serial/checkpoint")
    assert (counts["started"], counts["ack"], counts["duplicate"]) == (5, 4, 1)


def test_a_query_goes_on_with_other_buckets(spark: SparkSession, place: str) -> None:
    """With its checkpoint named, a query may be started with any number of buckets."""
    arrivals = Feed(spark, f"{place}/arrivals", "path string, at long")
    completions = Feed(spark, f"{place}/completions", "path string, at long")
    sink = Sink(spark, place)
    paths = [f"p{number}" for number in range(20)]
    assert stored_items(spark, sink.checkpoint).collect() == []
    for at, buckets in enumerate((3, 8, 1)):
        arrivals.put([{"path": path, "at": at} for path in paths])
        streams = arrivals.stream, completions.stream
        sink.run(distinct_in_flight(*streams, "path", buckets=buckets, checkpoint=sink.checkpoint))
    assert len(sink.rows()) == 20
    assert stored_counts(spark, sink.checkpoint) == {"passed": 20, "refused": 40}
    assert {row.key for row in stored_items(spark, sink.checkpoint).collect()} == set(paths)
