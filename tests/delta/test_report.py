"""A report of one queue, read without Spark and by Spark."""

from __future__ import annotations

from datetime import timedelta
from operator import itemgetter
from typing import TYPE_CHECKING

import pytest

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError
from spark_queue.local_queue import LocalQueue
from spark_queue.queue_views import store_of
from spark_queue.replay import history
from spark_queue.report import following, publishing, reading
from spark_queue.report.model import HOUR
from spark_queue.retry_policy import RetryPolicy
from spark_queue.spark import frames
from spark_queue.spark.spark_engines import SparkDatabase
from spark_queue.state.store import Store
from spark_queue.views.answers import ends_at
from spark_queue.views.file_source import FileSource
from spark_queue.views.spark_source import SparkSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECOND = timedelta(seconds=1)


def _busy_queue(path: str, clock: ManualClock) -> None:
    """Make a queue to which everything happened that a panel tells of."""
    config = QueueConfig(
        dedup_key="id",
        fair_key="tenant",
        group_key="path",
        max_attempts=2,
        retry=RetryPolicy(delay=20 * _SECOND),
    )
    schema = "id string, tenant string, path string"
    queue = LocalQueue.create(path, schema, config, durability="process", clock=clock)
    rows = [{"id": str(n), "tenant": "ab"[n % 2], "path": f"/{n % 5}"} for n in range(24)]
    queue.enqueue([*rows, rows[3], {"id": "x", "tenant": None, "path": None}])
    errors = ["ValueError: it's row 17 of /x/1.csv", "no 9fceb02d0ae5 at s3://a/b", "first\nsecond"]
    for n in range(9):
        claim = queue.claim(2, worker_id=f"w{n % 3}", lease=15 * _SECOND)
        outcomes = ["nack", "dead", "ack", "release"]
        for row in claim.rows[: 2 - n % 2]:
            outcome = outcomes[n % 4]
            said = (outcome, errors[n % 3]) if outcome in ("nack", "dead") else outcome
            claim.settle_each({row["_seq"]: said})
        clock.advance(7 * _SECOND)
    queue.pause()
    queue.resume()
    queue.configure(max_in_flight=2)
    queue.cancel({"_seq": [20, 21]})
    queue.redrive({"_state": "dead"})
    held = queue.claim(1, worker_id="w9")
    (last,) = held.rows
    held.renew(99 * _SECOND, progress={last["_seq"]: (0.4, "page 12 of 30")})
    clock.advance(_SECOND)


@pytest.fixture
def no_room(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let this process have room for no rows, so that Spark answers."""
    monkeypatch.setattr(frames, "most_rows", lambda: 0)
    return monkeypatch


def test_both_engines_give_one_report(
    spark: SparkSession, queue_path: str, clock: ManualClock, no_room: pytest.MonkeyPatch
) -> None:
    """Every figure of every panel, and an item's time line, is the same by Spark and without."""
    _busy_queue(queue_path, clock)
    store = store_of(DeltaQueue.open(spark, queue_path, clock=clock))
    there, here = SparkSource(), FileSource()

    without = reading.read(store, source=here)

    assert reading.read(store, source=there) == without
    assert min(map(len, (without.errors, without.groups, without.workers, without.steps))) > 1
    ends = ends_at(store, None)
    asked = reading.asked_of(store, ends, HOUR)
    with there.over(store, ends, asked) as one, here.over(store, ends, asked) as other:
        assert isinstance(one._look.database, SparkDatabase)
        told, expected = (
            sorted(answers.rows("history", "TRUE"), key=itemgetter("log", "step", "seq"))
            for answers in (one, other)
        )
        assert told == expected
        assert [row["worker_id"] for row in told][-2:] == ["w9", "w9"]
        assert one.rows("longest_wait") == other.rows("longest_wait")
        assert one.count("reasons", "state = 'ready'") == without.overview.ready
    assert not _views(spark)
    for statement in publishing.statements(queue_path)[:2]:
        spark.sql(statement)
    row = spark.sql("SELECT * FROM sq_asked").collect()[0]
    assert (row["group_limit"], row["max_in_flight"], row["paused"]) == (1, 2, False)
    for name in _views(spark):
        spark.sql(f"DROP VIEW {name}")
    no_room.undo()
    assert reading.read(store, source=there) == without


def test_spark_takes_each_published_view(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Each is made over empty tables in place of those before it, which are planned anew else."""
    _busy_queue(queue_path, clock)
    for statement in publishing.statements(queue_path):
        head, _, query = statement.partition(" AS\n")
        columns = spark.sql(query).schema
        spark.createDataFrame([], columns).createOrReplaceTempView(head.rpartition(" ")[2])
    made = {*_views(spark)}
    for name in made:
        spark.catalog.dropTempView(name)
    assert {f"sq_{view}" for view in publishing.VIEWS} <= made


@pytest.mark.usefixtures("no_room")
def test_both_engines_find_items_and_their_places(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """A place in line is the same by Spark and without, and so is what a condition finds."""
    _busy_queue(queue_path, clock)
    store = store_of(DeltaQueue.open(spark, queue_path, clock=clock))
    there, here = SparkSource(), FileSource()
    ends = ends_at(store, None)
    asked = reading.asked_of(store, ends, HOUR)
    with there.over(store, ends, asked) as one, here.over(store, ends, asked) as other:
        assert isinstance(one._look.database, SparkDatabase)
        assert one.rows("claim_rates") == other.rows("claim_rates")
        line = sorted(other.rows("places_in_line"), key=itemgetter("seq"))
        assert sorted(one.rows("places_in_line"), key=itemgetter("seq")) == line
        assert {row["ahead"] > 0 for row in line} == {True, False}
    wanted = following.Wanted(where="tenant = 'a' AND _seq > 8", state="ready")
    lists = [following.follow(store, source=by).find(wanted, 3) for by in (there, here)]
    assert lists[0] == lists[1]
    assert [sorted(one.columns) for one in lists[0].items] == [["id"]] * 3
    held = following.Wanted(text="w9", state="claimed")
    progress = [following.follow(store, source=by).find(held, 3).items[0] for by in (there, here)]
    assert progress[0] == progress[1]
    assert str(progress[0].progress) == "40% done: page 12 of 30"
    told = [reading.read_item(store, progress[0].seq, source=by) for by in (there, here)]
    assert told[0] == told[1]
    assert told[0].chain[0].progress == progress[0].progress
    only_spark = following.Wanted(where="sqrt(_seq) = 3")
    assert [one.seq for one in following.follow(store, source=there).find(only_spark, 3).items] == [
        9
    ]


@pytest.mark.usefixtures("no_room")
def test_both_engines_find_who_gets_no_turn(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Tenants and priorities that starve are the same by Spark and without, with the first item."""
    config = QueueConfig(fair_key="tenant", priority="p", group_key="path")
    schema = "tenant string, p int, path string"
    queue = LocalQueue.create(queue_path, schema, config, durability="process", clock=clock)
    low = [{"tenant": tenant, "p": 1, "path": None} for tenant in ("b", None, "b", "a")]
    queue.enqueue([*low, *({"tenant": "a", "p": 5, "path": "g"} for _ in range(9))])
    clock.advance(HOUR)
    for _ in range(3):
        queue.claim(1).ack()
    store = store_of(DeltaQueue.open(spark, queue_path, clock=clock))
    ends = ends_at(store, None)
    asked = reading.asked_of(store, ends, HOUR)

    with (
        SparkSource().over(store, ends, asked) as one,
        FileSource().over(store, ends, asked) as other,
    ):
        assert isinstance(one._look.database, SparkDatabase)
        for view in ("starving", "outranked", "flow"):
            assert one.rows(view) == other.rows(view)
        assert [row["fair_key"] for row in other.rows("starving")] == ["b", None]
        assert [row["seq"] for row in other.rows("outranked")] == [1]


def test_a_past_that_spark_reads_is_the_same_and_has_an_end(
    spark: SparkSession, queue_path: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a process reads by itself Spark brings it, too, and no more rows than it looks at."""
    _busy_queue(queue_path, clock)
    queue = DeltaQueue.open(spark, queue_path, clock=clock)
    past = history(queue)
    monkeypatch.setattr(Store, "native", lambda _store, _which: None)

    assert history(queue) == past
    monkeypatch.setitem(history.__globals__, "MOST", 20)
    with pytest.raises(InvalidArgumentError, match=r"the queue log of .* more than the 20 rows"):
        history(queue)


def _views(spark: SparkSession) -> list[str]:
    return [row["viewName"] for row in spark.sql("SHOW VIEWS LIKE 'sq_*'").collect()]
