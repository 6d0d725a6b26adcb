"""Keys, order and words of the operators on streams, before and after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession, functions as F
from pyspark.sql.pandas.group_ops import PandasGroupedOpsMixin

from spark_queue.errors import InvalidArgumentError, SetupError, SparkQueueError
from spark_queue.streaming import (
    bucketed,
    distinct_in_flight,
    fair_rounds,
    one_active_per_group,
)
from spark_queue.streaming.processor import BucketProcessor
from spark_queue.streaming.stream_pages import lines_of
from tests.streaming.feeds import BUCKETS, Feed, Sink

SCHEMA = "path string, at long, outcome string"

_ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def arrivals(spark: SparkSession, place: str) -> Feed:
    """Make a stream of rows that arrive."""
    return Feed(spark, f"{place}/arrivals", SCHEMA)


@pytest.fixture
def completions(spark: SparkSession, place: str) -> Feed:
    """Make a stream of rows that are done."""
    return Feed(spark, f"{place}/completions", SCHEMA)


@pytest.fixture
def sink(spark: SparkSession, place: str) -> Sink:
    """Make a table to write to."""
    return Sink(spark, place)


@pytest.fixture
def zone(spark: SparkSession) -> Iterator[None]:
    """Give the session its time zone back."""
    before = spark.conf.get(_ZONE)
    yield
    spark.conf.set(_ZONE, str(before))


@pytest.fixture
def still(spark: SparkSession) -> DataFrame:
    """Make a frame that is no stream."""
    return spark.createDataFrame([("a", 1)], "path string, at long")


def _ats(sink: Sink) -> list[int]:
    return sorted(row["at"] for row in sink.rows())


@pytest.mark.usefixtures("zone")
def test_times_within_a_key_are_exact_in_any_zone(
    spark: SparkSession, place: str, sink: Sink
) -> None:
    """A microsecond tells two keys apart, and a session of another zone finds a key in flight."""
    schema = "at long, one timestamp, two timestamp, three timestamp_ntz"
    arrivals = Feed(spark, f"{place}/arrivals", schema)
    completions = Feed(spark, f"{place}/completions", schema)
    key = [
        F.struct("one").alias("struct"),
        F.array("two", F.lit(None)).alias("array"),
        F.array(F.struct("three")).alias("within"),
    ]

    def put(feed: Feed, at: int, one: int = 0, two: int = 0, three: int = 0) -> None:
        wall = [f"2024-03-10T12:00:00.12345{micros}" for micros in (one, two, three)]
        times = {"one": f"{wall[0]}Z", "two": f"{wall[1]}Z", "three": wall[2]}
        feed.put([{"at": at, **times}])

    def passed() -> list[int]:
        sink.run(
            distinct_in_flight(
                arrivals.stream, completions.stream, key, order_by="at", buckets=BUCKETS
            )
        )
        return _ats(sink)

    put(arrivals, 1)
    put(arrivals, 2, one=1)
    put(arrivals, 3, two=1)
    put(arrivals, 4, three=1)
    put(arrivals, 5)
    assert passed() == [1, 2, 3, 4]
    spark.conf.set(_ZONE, "Asia/Kolkata")
    put(arrivals, 6)
    put(completions, 7, one=1)
    put(arrivals, 8, one=1)
    assert passed() == [1, 2, 3, 4, 8]


def test_a_completion_that_comes_again_frees_nothing_newer(
    arrivals: Feed, completions: Feed, sink: Sink
) -> None:
    """With an order, a completion frees what came before it, once."""

    def batch(at: int, feed: Feed) -> list[int]:
        feed.put([{"path": "a", "at": at}])
        sink.run(
            distinct_in_flight(
                arrivals.stream, completions.stream, "path", order_by="at", buckets=BUCKETS
            )
        )
        return _ats(sink)

    assert batch(1, arrivals) == [1]
    batch(2, completions)
    assert batch(3, arrivals) == [1, 3]
    batch(2, completions)
    assert batch(4, arrivals) == [1, 3]


def test_keys_of_an_older_state_are_refused_at_the_call(
    arrivals: Feed, completions: Feed, sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint with keys of the old text is named before a query starts; others go on."""

    # Here, so that it travels to the workers by value.
    class OlderProcessor(BucketProcessor):
        def __init__(self, make: Any, buckets: int, _oldest: int) -> None:
            super().__init__(make, buckets)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
            yield from super().handleInputRows(key, rows, timerValues)
            page = self._pages.getValue((0,))
            self._pages.clear()
            live = [] if page is None else [json.loads(name) for name, *_ in lines_of(page[0])]
            body = {"rules": {"live": live}, "rows": [[], 1]}
            self._state.update((1, self._buckets, json.dumps(body), "{}", None))

    def passing(checkpoint: str | None = None) -> DataFrame:
        key = F.struct("path", F.timestamp_seconds("at"))
        streams = arrivals.stream, completions.stream
        return distinct_in_flight(*streams, key, buckets=BUCKETS, checkpoint=checkpoint)

    monkeypatch.setattr(bucketed, "BucketProcessor", OlderProcessor)
    arrivals.put([{"path": "a", "at": 1}])
    sink.run(passing())
    with pytest.raises(InvalidArgumentError, match=r"format 1, in which.*or start with a new"):
        passing(sink.checkpoint)
    passing(f"{sink.checkpoint}-of-another")
    assert _ats(sink) == [1]

    completions.put([{"path": "a", "at": 1}])
    sink.run(passing())
    monkeypatch.undo()
    arrivals.put([{"path": "a", "at": 1}])
    sink.run(passing(sink.checkpoint))
    assert _ats(sink) == [1, 1]


def test_a_spark_without_stateful_operators_is_named(
    arrivals: Feed, completions: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark 4.0 has none in Python: each operator says so at the call."""
    monkeypatch.delattr(PandasGroupedOpsMixin, "transformWithState")
    for name in "dfs":
        given = {"arrivals": arrivals.stream, "completions": completions.stream}
        with pytest.raises(SetupError, match=r"need Spark 4\.1 or newer, this is "):
            _call(name, {**given, "key": "path", "order_by": "at"})


def test_a_place_that_is_null_is_named_and_left_out(arrivals: Feed, sink: Sink) -> None:
    """A null in the order stops the query by name; without such rows it goes on where it was."""
    arrivals.put([{"path": "a", "at": 1}])
    ordered = arrivals.stream
    sink.run(fair_rounds(ordered, "path", order_by="at", buckets=BUCKETS))
    arrivals.put([{"path": "a", "at": None}, {"path": "a", "at": 2}])
    with pytest.raises(Exception, match=r"order_by of arrivals is null in a row: leave"):
        sink.run(fair_rounds(ordered, "path", order_by="at", buckets=BUCKETS))
    known = ordered.where("at IS NOT NULL")
    sink.run(fair_rounds(known, "path", order_by="at", buckets=BUCKETS))
    assert [(row["at"], row["round"]) for row in sorted(sink.rows())] == [(1, 1.0), (2, 2.0)]


def test_an_outcome_that_is_no_word_is_named(arrivals: Feed, completions: Feed, sink: Sink) -> None:
    """A completion with another word stops the query, which names it; put right, it goes on."""
    arrivals.put([{"path": "g", "at": 1}, {"path": "g", "at": 2}])

    def run(done: DataFrame) -> None:
        sink.run(one_active_per_group(arrivals.stream, done, "path", "at", buckets=BUCKETS))

    run(completions.stream)
    completions.put([{"path": "g", "at": 1, "outcome": "ACK"}])
    with pytest.raises(Exception, match=r"outcome of completions is 'ACK': it must be one of ack"):
        run(completions.stream)
    run(completions.stream.withColumn("outcome", F.lower("outcome")))
    assert _ats(sink) == [1, 2]


#: Calls with one thing wrong, and what the error says: of distinct, fair, serial.
BAD: list[tuple[str, dict[str, Any], str]] = [
    ("dfs", {"arrivals": [("a", 1)]}, "arrivals is a list: give it a DataFrame"),
    ("ds", {"completions": {"a": 1}}, "completions is a dict: give it a DataFrame"),
    ("ds", {"completions": None}, "completions is a NoneType"),
    ("f", {"served": [1.0]}, "served is a list: give it a DataFrame"),
    ("s", {"heartbeats": [1.0], "at": "t"}, "heartbeats is a list: give it a DataFrame"),
    ("dfs", {"key": 5}, "the key of arrivals is 5: name a column"),
    ("dfs", {"key": []}, r"the key of arrivals is \[\]: name a column"),
    ("dfs", {"key": "map"}, "'map': is map<string,int>, no key"),
    ("dfs", {"key": "variant"}, "'variant': is variant, no key"),
    ("dfs", {"key": ["at", "collated"]}, "'collated': is string collate UTF8_LCASE, no key"),
    ("dfs", {"order_by": 5}, "order_by of arrivals is 5: name one column"),
    ("dfs", {"order_by": []}, r"order_by of arrivals is \[\]: name one column"),
    ("fs", {"order_by": None}, "order_by of arrivals is None: name one column"),
    ("dfs", {"order_by": "path"}, "'order_by of arrivals': is string"),
    ("dfs", {"order_by": F.col}, "order_by of arrivals is <function"),
    ("dfs", {"buckets": "64"}, "buckets is '64'"),
    ("dfs", {"buckets": True}, "buckets is True"),
    ("dfs", {"buckets": 2.0}, "buckets is 2.0"),
    ("dfs", {"checkpoint": 5}, "checkpoint is 5"),
    ("dfs", {"checkpoint": ""}, "checkpoint is ''"),
    ("f", {"weights": [2]}, r"weights is \[2\]"),
    ("f", {"weights": {"a": True}}, r"weights\['a'\] is True"),
    ("f", {"cost": "path"}, "'cost': is string, not a number"),
    ("s", {"at": "at"}, "'at of arrivals': is bigint: a time is a timestamp"),
    ("s", {"limit": "2"}, "limit is '2'"),
    ("s", {"on_failure": "wait"}, "on_failure is 'wait'"),
    ("s", {"max_attempts": 1.5}, "max_attempts is 1.5"),
    ("s", {"retry": 3}, "retry is 3"),
    ("s", {"time_out": 3, "at": "t"}, "time_out is 3"),
    ("s", {"max_losses": "1"}, "max_losses is '1'"),
]


def test_each_argument_is_checked_at_the_call(arrivals: Feed, completions: Feed) -> None:
    """What is wrong with a call is an error that names it, before there is a query."""
    odd = {"map": "map('a', 1)", "variant": "parse_json('1')", "t": "timestamp'2024-01-01'"}
    odd["collated"] = "path COLLATE utf8_lcase"
    more = {name: F.expr(text) for name, text in odd.items()}
    frames = {
        "arrivals": arrivals.stream.withColumns(more),
        "completions": completions.stream.withColumns(more),
    }
    for names, wrong, message in BAD:
        for name in names:
            given = {**frames, "key": "path", "order_by": "at", **wrong}
            with pytest.raises(SparkQueueError, match=message):
                _call(name, given)


def _call(name: str, given: dict[str, Any]) -> DataFrame:
    if name == "f":
        del given["completions"]
        return fair_rounds(given.pop("arrivals"), given.pop("key"), **given)
    arrivals, completions, key = (given.pop(part) for part in ("arrivals", "completions", "key"))
    operator: Any = distinct_in_flight if name == "d" else one_active_per_group
    return operator(arrivals, completions, key, **given)  # type: ignore[no-any-return]


def test_columns_of_ours_and_columns_of_a_wrong_type_are_named(
    arrivals: Feed, completions: Feed, still: DataFrame
) -> None:
    """A column that is named as operators name theirs, and one of another type, are refused."""
    a, c = arrivals.stream, completions.stream
    ours = a.withColumn("__spark_queue_number", F.lit(1))
    for name in "dfs":
        given = {"arrivals": ours, "completions": c, "key": "path", "order_by": "at"}
        with pytest.raises(SparkQueueError, match=r"'__spark_queue_number'.*rename it"):
            _call(name, given)
    with pytest.raises(SparkQueueError, match="'outcome of completions': is int, not a text"):
        one_active_per_group(a, c.withColumn("outcome", F.lit(1)), "path", "at")
    with pytest.raises(SparkQueueError, match="'run of completions': is string, not a number"):
        one_active_per_group(a, c.withColumn("run", F.lit("1")), "path", "at")
    with pytest.raises(SparkQueueError, match="'round of served': is string, not a number"):
        fair_rounds(a, "path", order_by="at", served=c.withColumn("round", F.lit("1")))
    with pytest.raises(SparkQueueError, match="the frame has a column 'run': rename it"):
        one_active_per_group(a.withColumn("run", F.lit(1)), c, "path", "at")
    with pytest.raises(SparkQueueError, match="heartbeats is no stream"):
        one_active_per_group(a, c, "path", "at", heartbeats=still, at="t")
