"""What an operator sees and does: counts, explanations, the past, upkeep and refusals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import (
    DuplicateItemError,
    FormatVersionError,
    InvalidArgumentError,
    InvalidConfigError,
    QueueExistsError,
    QueueNotFoundError,
    SchemaMismatchError,
    UnsafeSessionError,
)
from spark_queue.log import session_options
from spark_queue.log.settings import Settings
from spark_queue.queue_views import store_of
from spark_queue.reader_config import ReaderConfig
from spark_queue.retry_policy import RetryPolicy
from spark_queue.spark.spark_look import SparkLook
from spark_queue.upkeep import spark_upkeep
from spark_queue.views import items
from tests.conftest import REMOTE

MINUTE = timedelta(minutes=1)
SCHEMA = "id long, tenant string, grp string"
CONFIG = QueueConfig(
    dedup_key="id",
    fair_key="tenant",
    group_key="grp",
    lease=MINUTE,
    retry=RetryPolicy(backoff="fixed", delay=MINUTE),
)


@pytest.fixture
def queue(spark: SparkSession, queue_path: str, clock: ManualClock) -> DeltaQueue:
    """Return an empty queue with all three keys."""
    return DeltaQueue.create(spark, queue_path, SCHEMA, CONFIG, clock=clock)


def _enqueue(spark: SparkSession, queue: DeltaQueue, *rows: tuple[int, str, str | None]) -> None:
    queue.enqueue(spark.createDataFrame(list(rows), SCHEMA), order_by="id")


def test_spark_counts_only_what_is_too_much_to_read(
    spark: SparkSession, queue: DeltaQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver counts few items without a query, and gets what Spark does, then and now."""
    reader = queue.reader("mail")
    _enqueue(spark, queue, (1, "a", None), (2, "a", None), (3, "b", None), (3, "b", None))
    clock.advance(MINUTE)
    queue.claim(2).ack()

    def seen() -> list[object]:
        counts: Any = (queue.stats(), queue.stats(as_of=1), reader.stats())
        keys = [(stats.per_key.dtypes, stats.per_key.collect()) for stats in counts]
        return [[replace(stats, per_key=None) for stats in counts], keys]

    with monkeypatch.context() as without:
        without.setattr(SparkLook, "_start", _asked)
        here = seen()
    monkeypatch.setattr(items, "_COUNTED", 0)
    assert seen() == here


def _asked(_look: object) -> None:
    raise AssertionError("Spark is asked")


@pytest.mark.parametrize(
    "where", ["id = 1; DROP TABLE x", "id IN (SELECT id FROM other)", "id = 1 -- all", "nope = 1"]
)
def test_a_predicate_that_is_more_than_one_is_refused(queue: DeltaQueue, where: str) -> None:
    """A predicate names columns and calls functions; anything else is an error and does nothing."""
    with pytest.raises(InvalidArgumentError, match="where"):
        queue.cancel(where)


def test_frames_that_do_not_fit_are_refused(spark: SparkSession, queue: DeltaQueue) -> None:
    """A missing, unknown or mistyped column is named, a bad cost too, and nothing is written."""
    with pytest.raises(SchemaMismatchError, match="'grp': is missing"):
        queue.enqueue(spark.createDataFrame([(1, "a")], "id long, tenant string"))
    with pytest.raises(SchemaMismatchError, match="'id': is string"):
        queue.enqueue(
            spark.createDataFrame([("1", "a", "g")], "id string, tenant string, grp string")
        )
    with pytest.raises(SchemaMismatchError, match="'more': is not a column"):
        queue.enqueue(spark.createDataFrame([(1, "a", "g", 1)], SCHEMA + ", more int"))
    with pytest.raises(SchemaMismatchError, match="'cost': has the value -1"):
        queue.enqueue(spark.createDataFrame([(1, "a", "g", -1.0)], SCHEMA + ", cost double"))
    with pytest.raises(DuplicateItemError, match="1 row"):
        queue.enqueue(
            spark.createDataFrame([(1, "a", "g"), (1, "a", "g")], SCHEMA), on_duplicate="raise"
        )
    with pytest.raises(InvalidArgumentError, match="order_by"):
        queue.enqueue(spark.createDataFrame([(1, "a", "g")], SCHEMA), order_by="nope")
    assert queue.stats().enqueued == 0
    assert store_of(queue).queue_head().step == 0


def test_places_that_are_no_queue_are_refused(
    spark: SparkSession, queue: DeltaQueue, place: str
) -> None:
    """A queue that is there, one that is not, and a directory of something else are told apart."""
    with pytest.raises(QueueExistsError, match="exists already"):
        DeltaQueue.create(spark, queue.name, SCHEMA)
    with pytest.raises(QueueNotFoundError, match="no such queue"):
        DeltaQueue.open(spark, f"{place}/other")
    Path(f"{place}/files").mkdir()
    Path(f"{place}/files/a.txt").write_text("a")
    with pytest.raises(QueueNotFoundError):
        DeltaQueue.open(spark, f"{place}/files")
    spark.range(3).write.format("delta").save(f"{place}/table/status")
    with pytest.raises(QueueNotFoundError, match="not a queue"):
        DeltaQueue.open(spark, f"{place}/table")
    assert not DeltaQueue.exists(spark, f"{place}/files")
    assert DeltaQueue.exists(spark, queue.name)
    with pytest.raises(InvalidArgumentError, match="queue name"):
        DeltaQueue.create(spark, "a`; DROP TABLE b", SCHEMA)
    with pytest.raises(InvalidArgumentError, match="queue name"):
        DeltaQueue.open(spark, "a.b.c.d")


def test_configurations_that_do_not_fit_are_refused(spark: SparkSession, queue_path: str) -> None:
    """A key over an unknown column, or one that is a statement, stops the creation."""
    with pytest.raises(InvalidConfigError, match="fair_key is 'nope'"):
        DeltaQueue.create(spark, queue_path, SCHEMA, QueueConfig(fair_key="nope"))
    with pytest.raises(InvalidConfigError, match="dedup_key"):
        DeltaQueue.create(spark, queue_path, SCHEMA, QueueConfig(dedup_key="(SELECT 1)"))
    with pytest.raises(SchemaMismatchError, match="_mine"):
        DeltaQueue.create(spark, queue_path, "_mine long")
    assert not DeltaQueue.exists(spark, queue_path)


def test_a_newer_format_is_refused() -> None:
    """A configuration row of a newer release is not guessed at."""
    with pytest.raises(FormatVersionError, match="format version 99"):
        Settings.from_json("q", '{"format": 99, "something": "else"}')


def test_a_session_with_its_own_transaction_is_refused(
    spark: SparkSession, queue: DeltaQueue
) -> None:
    """A transaction that the session sets for every write would make steps vanish."""
    setting = "spark.databricks.delta.write.txnAppId"
    spark.conf.set(setting, "mine")
    try:
        with pytest.raises(UnsafeSessionError, match="txnAppId"):
            queue.pause()
    finally:
        spark.conf.unset(setting)
    assert queue.pause() == 2


def test_a_handler_that_cannot_travel_is_refused(queue: DeltaQueue, spark: SparkSession) -> None:
    """A handler that holds something of the driver is refused before anything is claimed."""
    with pytest.raises(InvalidArgumentError, match="cannot be sent"):
        queue.process(lambda _item: {"session": str(spark)})
    with pytest.raises(InvalidArgumentError, match="returns"):
        queue.process(print, output="/nowhere/out")


def test_steps_are_reported(spark: SparkSession, queue_path: str) -> None:
    """A listener gets the facts of every step: its log, number, action and counts."""
    seen: list[tuple[str, int, str, dict[str, int]]] = []
    queue = DeltaQueue.create(
        spark,
        queue_path,
        "id long",
        listener=lambda f: seen.append((f.log, f.step, f.action, f.counts)),
    )
    queue.enqueue(spark.range(3))
    with queue.claim(2):
        pass
    assert seen == [
        ("queue", 1, "enqueue", {"inserted": 3, "duplicates": 0}),
        ("status", 2, "claim", {"claimed": 2}),
        ("status", 3, "settle", {"acked": 2}),
    ]


def test_added_column_has_fields_of_any_name(spark: SparkSession, queue_path: str) -> None:
    """What is in a struct is named as it was given, whatever sign SQL has for something else."""
    queue = DeltaQueue.create(spark, queue_path, "id string")
    added = "place struct<`a-b`: int, `order`: string>"

    assert queue.add_columns(added) == ["place"]
    assert queue.schema["place"].dataType == StructType.fromDDL("`a-b` int, `order` string")


def test_a_small_queue_is_kept_in_order_without_a_query(
    spark: SparkSession, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files are read here; a queue whose reader sends items elsewhere is left to Spark."""
    if REMOTE is not None:
        pytest.skip("over Spark Connect Spark decides all")
    queue = DeltaQueue.create(spark, queue_path, "n int")
    for number in range(3):
        queue.enqueue(spark.createDataFrame([(number,)], "n int"))
    queue.claim(2).ack()
    with monkeypatch.context() as patched:
        patched.setattr(SparkSession, "sql", lambda *_: pytest.fail("it makes a query"))
        patched.setattr(SparkSession, "read", property(lambda _: pytest.fail("it reads a table")))
        done = queue.maintain()
        again = queue.maintain()

    assert (done.checkpoint, done.merged_files > 0) == (4, True)
    assert (again.checkpoint, again.merged_files) == (4, 0)
    assert (queue.stats().acked, queue.stats().ready) == (2, 1)
    dead = DeltaQueue.create(spark, f"{queue_path}-dead", "n int")
    queue.reader("sends", config=ReaderConfig(expire_to=dead.name))
    assert spark_upkeep.without_spark(store_of(queue)) is None


@pytest.mark.parametrize("planner", ["memory", "spark"])
def test_upkeep_leaves_large_files_as_they_are(
    spark: SparkSession, queue_path: str, planner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small files become one; a claim skips the large by their places, and one would have all."""
    # As of a queue that is too large for upkeep without Spark.
    monkeypatch.setattr(spark_upkeep, "_MOST_ROWS", 0)
    monkeypatch.setattr(spark_upkeep, "small_steps", lambda _session: planner)
    settings = {name: spark.conf.get(name, None) for name in session_options._SIZES}
    queue = DeltaQueue.create(spark, queue_path, "id long, body string")
    for number in range(2):
        body = [(number, token_hex(25_000)) for _ in range(175)]
        queue.enqueue(spark.createDataFrame(body, "id long, body string").coalesce(1))
    large = _files(queue)
    assert len(large) == 2
    for number in range(3):
        queue.enqueue(spark.createDataFrame([(number, "small")], "id long, body string"))
    queue.maintain()
    assert large < _files(queue)
    assert len(_files(queue)) == 3
    assert {name: spark.conf.get(name, None) for name in settings} == settings
    assert queue.claim(1_000).count == 353


def _files(queue: DeltaQueue) -> set[str]:
    return {file.path for file in store_of(queue).queue.files() if file.gen >= 0}


def test_many_values_of_a_column_mean_the_items_that_have_one(
    spark: SparkSession, queue_path: str
) -> None:
    """A thousand are named by a condition, and more by a table; null is a value like others."""
    queue = DeltaQueue.create(spark, queue_path, "id long")
    queue.enqueue(pa.table({"id": pa.array([1, 2, 3, None], pa.int64())}))
    many = [*range(2, 1_300), None]
    assert queue.cancel({"id": many, "_state": "ready"}, dry_run=True) == 3
    assert queue.cancel({"id": many}) == 3
    assert [row["id"] for row in queue.claim(9).items.collect()] == [1]


@pytest.mark.usefixtures("by_spark")
def test_a_renewal_by_spark_says_how_far_items_are(spark: SparkSession, queue: DeltaQueue) -> None:
    """Its rows are no state of their items, to Spark either."""
    _enqueue(spark, queue, (1, "a", None), (2, "b", None))
    held = queue.claim(2)

    held.renew(2 * MINUTE, progress={1: (0.4, "page 12 of 30"), 2: 0.9})

    assert str(queue.explain(1).progress) == "40% done: page 12 of 30"
    assert [row["_state"] for row in queue.status().collect()] == ["claimed"] * 2
    assert queue.claim(2).count == 0
    assert held.ack().acked == 2
    assert queue.explain(1).progress is None


def test_a_dry_run_by_spark_says_what_would_end(
    spark: SparkSession, queue_path: str, clock: ManualClock
) -> None:
    """Also of items that lost their last lease, or were replaced, where no item is in memory."""
    session = spark.newSession()
    session.conf.set("spark.sparkQueue.smallSteps", "spark")
    config = QueueConfig(dedup_key="id", on_duplicate="replace", max_losses=1)
    queue = DeltaQueue.create(session, queue_path, "id string", config, clock=clock)
    for key in "abcd":
        queue.enqueue(session.createDataFrame([(key,)], "id string"))
    queue.claim(2)
    for _ in range(2):
        queue.enqueue(session.createDataFrame([("d",)], "id string"))
    clock.advance(config.lease * 2)

    found = queue.maintain(dry_run=True)

    assert found.becomes == {"dead": 2, "cancelled": 2}
    assert sorted(row["id"] for row in found.sample) == ["a", "b", "d", "d"]
    done = queue.maintain()
    assert (done.dead, done.replaced) == (2, 2)
