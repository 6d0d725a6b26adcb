"""Outputs of workers with Spark and without: each takes over from the other by what is there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, LocalQueue, QueueConfig
from spark_queue.clock import ManualClock
from spark_queue.commands import evidence
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output.outputs import ResultTable
from spark_queue.processing import loop
from tests.programs import run_python

LEASE = timedelta(minutes=1)

_MORTALS = Path(__file__).parents[1] / "unit" / "local"

#: Works a queue off without Spark, and kills itself when its first results are there.
_WORKER = """
import sys
sys.path.insert(0, sys.argv[3])
import mortals, spark_queue
mortals.MOMENTS["output written"][0](1)
queue = spark_queue.open(sys.argv[1], durability="process")
queue.process(lambda _: {"who": "first"}, returns="who string", output=sys.argv[2], limit=3)
"""


def _gone(*_: object, **__: object) -> Any:
    raise RuntimeError("gone")


@pytest.fixture
def filled(queue_path: str, clock: ManualClock) -> Callable[[], LocalQueue]:
    """Make a queue of five items, and open it."""
    config = QueueConfig(lease=LEASE)
    made = LocalQueue.create(queue_path, "id long", config, durability="process", clock=clock)
    made.enqueue([{"id": number} for number in range(5)])
    return lambda: LocalQueue.open(queue_path, durability="process", clock=clock)


def _by(who: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda _: {"who": who}


def _rows(spark: SparkSession, out: str) -> list[tuple[int, str]]:
    rows = spark.read.format("delta").load(out).orderBy("_seq").collect()
    return [(row["_seq"], row["who"]) for row in rows]


@pytest.fixture
def died(
    spark: SparkSession,
    place: str,
    queue_path: str,
    clock: ManualClock,
    filled: Callable[[], LocalQueue],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let a worker with Spark die when its results are there, unsettled, and its lease end."""
    filled()
    queue = DeltaQueue.open(spark, queue_path, clock=clock)
    with monkeypatch.context() as dying:
        dying.setattr(loop._Ahead, "settle", _gone)
        dying.setattr(evidence, "abandon", lambda *_: None)
        with pytest.raises(RuntimeError, match="gone"):
            queue.process(_by("first"), returns="who string", output=f"{place}/out", limit=3)
    clock.advance(2 * LEASE)


_EXACT = [(1, "first"), (2, "first"), (3, "first"), (4, "second"), (5, "second")]


@pytest.mark.parametrize("left", ["a log", "a part of a commit"])
def test_an_output_whose_maker_was_killed_is_made(
    spark: SparkSession, place: str, queue_path: str, filled: Callable[[], LocalQueue], left: str
) -> None:
    """A log without a whole commit is no table: a worker makes it, and writes its results."""
    filled()
    log = Path(place, "out", "_delta_log")
    log.mkdir(parents=True)
    if left == "a part of a commit":
        (log / f"{0:020}.json").write_text('{"commitInfo":')

    queue = DeltaQueue.open(spark, queue_path)
    queue.process(_by("first"), returns="who string", output=f"{place}/out", limit=5)

    assert _rows(spark, f"{place}/out") == [(seq, "first") for seq in range(1, 6)]
    assert queue.stats().acked == 5


def test_spark_goes_on_where_a_process_without_it_was_killed(
    spark: SparkSession, place: str, queue_path: str, filled: Callable[[], LocalQueue]
) -> None:
    """What the killed one had written is done, and Spark adds the rest to the same table."""
    filled()
    words = [queue_path, f"{place}/out", str(_MORTALS)]
    ended = run_python("-c", _WORKER, *words)
    assert ended.returncode == -9

    queue = DeltaQueue.open(spark, queue_path)
    done = queue.process(_by("second"), returns="who string", output=f"{place}/out")

    assert done.acked == 2
    assert _rows(spark, f"{place}/out") == _EXACT
    assert queue.stats().acked == 5


@pytest.mark.usefixtures("died")
def test_a_process_without_spark_goes_on_where_one_with_it_died(
    spark: SparkSession, place: str, queue_path: str, clock: ManualClock
) -> None:
    """The table that Spark made and wrote is evidence, and takes more rows without it."""
    queue = filled_again(queue_path, clock)
    done = queue.process(_by("second"), returns="who string", output=f"{place}/out")

    assert done.acked == 2
    assert _rows(spark, f"{place}/out") == _EXACT
    assert queue.counts()["acked"] == 5
    assert not ResultTable(DiskStorage(Path(f"{place}/out")), is_synced=False).shut_out("another")


@pytest.mark.parametrize("small_steps", ["memory", "spark"])
@pytest.mark.usefixtures("died")
def test_a_claim_by_spark_takes_over_nothing_that_the_output_has(
    spark: SparkSession, queue_path: str, clock: ManualClock, small_steps: str
) -> None:
    """An item whose lease ran out is done if its row is there, whoever decides the claim."""
    session = spark.newSession()
    session.conf.set("spark.sparkQueue.smallSteps", small_steps)

    queue = DeltaQueue.open(session, queue_path, clock=clock)

    with queue.claim(9) as claim:
        assert sorted(row["id"] for row in claim.items.collect()) == [3, 4]
    assert queue.stats().acked == 5


@pytest.mark.usefixtures("died")
def test_an_output_that_cannot_be_asked_holds_up_nobody_else(
    spark: SparkSession, place: str, queue_path: str, clock: ManualClock
) -> None:
    """Its claim stays as it is, and others go on with what is ready."""
    for file in Path(f"{place}/out").glob("*.parquet"):
        file.unlink()

    queue = DeltaQueue.open(spark, queue_path, clock=clock)

    with queue.claim(9) as claim:
        assert sorted(row["id"] for row in claim.items.collect()) == [3, 4]
    assert (queue.stats().claimed, queue.stats().acked) == (3, 2)


def filled_again(queue_path: str, clock: ManualClock) -> LocalQueue:
    """Open the queue without Spark."""
    return LocalQueue.open(queue_path, durability="process", clock=clock)


def test_spark_reads_and_goes_on_with_what_was_written_without_it(
    spark: SparkSession, place: str, filled: Callable[[], LocalQueue]
) -> None:
    """Values of every type are the same there, and so are columns within columns."""
    returns = (
        "d decimal(12,2), at timestamp, on date, b binary, l array<int>, m map<string,bigint>, "
        "s struct<a:string,b:double>, f float, t tinyint, ok boolean"
    )
    at = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=timezone.utc)
    values = {
        "d": Decimal("-1.25"), "at": at, "on": at.date(), "b": b"\x00\xff", "l": [1, None],
        "m": {"k": 7}, "s": {"a": "ä", "b": 0.1}, "f": 0.5, "t": -128, "ok": None,
    }  # fmt: skip
    queue = filled()

    queue.process(lambda _: values, returns=returns, output=f"{place}/out", limit=3)

    frame = spark.read.format("delta").load(f"{place}/out")
    assert frame.count() == 5
    first = frame.where("_seq = 1").collect()[0]
    found = first.asDict(recursive=True)
    name = found.pop("_claim_id")
    assert found.pop("_seq") == 1
    assert {**found, "at": found["at"].astimezone(timezone.utc)} == values
    assert frame.where(frame["_claim_id"] == name).count() == 3
    frame.limit(1).write.format("delta").mode("append").save(f"{place}/out")
    table = ResultTable(DiskStorage(Path(f"{place}/out")), is_synced=False)
    assert table.shut_out(name) == {1, 2, 3}


def test_spark_writes_instants_as_every_reader_reads_them(
    by_spark: None, spark: SparkSession, place: str
) -> None:
    """Far years are the same for all: in the queue, its results and its archive."""
    del by_spark
    setting, clock = "spark.sql.parquet.outputTimestampType", ManualClock()
    before = spark.conf.get(setting)
    queue = DeltaQueue.create(spark, f"{place}/queue", "id long, at timestamp", clock=clock)
    times = "VALUES (1L, timestamp'9999-12-31 00:00:00Z'), (2L, timestamp'0001-01-01 00:00:00Z')"
    queue.enqueue(spark.sql(f"{times} AS t(id, at)"))
    queue.process(lambda item: {"at": item["at"]}, returns="at timestamp", output=f"{place}/out")
    clock.advance(timedelta(days=9))
    queue.maintain(retention=timedelta(days=1), archive_to=f"{place}/archive")

    for table in ("queue/queue", "queue/status", "out", "archive"):
        files = [file for file in Path(place, table).rglob("*.parquet") if "_log" not in str(file)]
        schemas = [pq.ParquetFile(file).schema for file in files]
        kinds = {one.column(at).physical_type for one in schemas for at in range(len(one))}
        assert "INT64" in kinds, table
        assert "INT96" not in kinds, table
    for table in ("out", "archive"):
        found = DeltaTable(f"{place}/{table}").to_pyarrow_table(columns=["at"])["at"].to_pylist()
        first, last = (datetime(*day, tzinfo=timezone.utc) for day in ((1, 1, 1), (9999, 12, 31)))
        assert sorted(found) == [first, last]
    assert spark.conf.get(setting) == before != "TIMESTAMP_MICROS"
