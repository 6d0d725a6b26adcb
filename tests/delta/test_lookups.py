"""Values that are looked up among all rows of a log, by Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from spark_queue import DeltaQueue, LocalQueue, QueueConfig
from spark_queue.log.session_options import TOGETHER, size_files
from spark_queue.spark import frames
from tests.conftest import REMOTE

pytestmark = pytest.mark.spark

#: A way to find the rows that have one of some values in a column.
Find = Callable[[DataFrame, DataFrame | pa.Table, str], DataFrame]


@pytest.mark.parametrize(("named", "sent"), [(1_000, 8_000), (0, 8_000), (0, 0)])
@pytest.mark.parametrize("name", ["number", "text"])
@pytest.mark.parametrize("find", [frames.having, frames.seldom_having])
def test_rows_that_have_one_of_some_values_are_found(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    find: Find,
    name: str,
    named: int,
    sent: int,
) -> None:
    """Named, sent to the rows or joined: they are the same, and a null has none of them."""
    monkeypatch.setattr(frames, "_NAMED", named)
    monkeypatch.setattr(frames, "SENT", sent)
    rows = spark.createDataFrame(
        [(1, "a", 0), (2, "b", 0), (None, None, 0), (2, "b", 1), (3, "c", 0)],
        "number long, text string, `a.place` int",
    )
    wanted = spark.createDataFrame(
        [(2, "b"), (None, None), (2, "b"), (9, "z")], "number long, text string"
    )
    for values in (wanted, wanted.toArrow()):
        found = find(rows, values, name)
        assert found.columns == rows.columns
        assert sorted(map(tuple, found.collect())) == [(2, "b", 0), (2, "b", 1)]
    nothing = find(rows, wanted.where("number = 7"), name)
    assert nothing.collect() == []


@pytest.mark.skipif(REMOTE is not None, reason="a plan is read in the JVM")
@pytest.mark.parametrize("name", ["number", "text"])
def test_all_rows_of_a_log_are_not_sent_to_find_some(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The values are, as what is looked through may be a hundred times as much."""
    monkeypatch.setattr(frames, "_NAMED", 0)
    monkeypatch.setattr(frames, "SENT", 10)
    rows = spark.range(100).selectExpr("id AS number", "cast(id AS string) AS text")
    found = frames.having(rows, rows.limit(2).localCheckpoint(), name)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "BroadcastHashJoin" in plan
    assert found.count() == 2


@pytest.mark.skipif(REMOTE is not None, reason="a plan is read in the JVM")
def test_all_rows_of_a_log_are_not_sent_to_tell_which_a_renewal_holds(
    spark: SparkSession, place: str
) -> None:
    """By the size of their files Spark would: ten million rows did not fit into its driver."""
    path = Path(place, "q")
    queue = LocalQueue.create(path, "id int")
    queue.enqueue([{"id": n} for n in range(3)])
    lease = queue.claim(2)
    lease.renew()
    history = DeltaQueue.open(spark, str(path)).history().where("state = 'claimed'")
    plan = history._jdf.queryExecution().executedPlan().toString()
    assert "LeftAnti" in plan
    assert not [line for line in plan.splitlines() if "Broadcast" in line and "Anti" in line]
    assert history.count() == 4


@pytest.mark.skipif(REMOTE is not None, reason="jobs are counted in the JVM")
def test_values_that_are_here_ask_spark_for_nothing(spark: SparkSession) -> None:
    """A small step looks up some: each job would take it tens of milliseconds."""
    rows, here = spark.range(10), pa.table({"id": [2, 3]})
    spark.sparkContext.setJobGroup("lookups", "values that are here")
    try:
        found = frames.having(rows, here, "id")
        assert list(spark.sparkContext.statusTracker().getJobIdsForGroup("lookups")) == []
        assert sorted(found.toArrow()["id"].to_pylist()) == [2, 3]
        assert spark.sparkContext.statusTracker().getJobIdsForGroup("lookups")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")


@pytest.mark.usefixtures("by_spark")
def test_keys_and_groups_of_earlier_parts_count(
    spark: SparkSession, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of a later enqueue are duplicates of earlier ones, and stand behind their groups."""
    monkeypatch.setattr(frames, "_NAMED", 0)
    config = QueueConfig(dedup_key="id", fair_key="tenant", group_key="parent")
    columns = "id int, tenant string, parent string"
    queue = DeltaQueue.create(spark, str(Path(place, "q")), columns, config)
    queue.enqueue(spark.createDataFrame([(n, "a", f"g{n % 2}") for n in range(6)], columns))
    done = queue.enqueue(
        spark.createDataFrame([(n, "b", f"g{n % 3}") for n in range(4, 9)], columns)
    )
    assert (done.inserted, done.duplicates) == (3, 2)
    served, here = [], LocalQueue.open(Path(place, "q"))
    while (claim := here.claim(10)).count:
        served += [(row["parent"], row["id"]) for row in claim.rows]
        claim.ack()
    assert [n for parent, n in served if parent == "g0"] == [0, 2, 4, 6]
    assert [n for parent, n in served if parent == "g1"] == [1, 3, 5, 7]
    assert [n for parent, n in served if parent == "g2"] == [8]


@pytest.mark.skipif(REMOTE is not None, reason="a plan is read in the JVM")
def test_rows_that_hardly_ever_have_one_are_read_by_one_column(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An enqueue looks for its keys among all items: where none has one, no more is read."""
    monkeypatch.setattr(frames, "_NAMED", 2)
    rows = spark.range(100).selectExpr("id", "cast(id AS string) AS text")
    wanted = spark.range(200, 210)
    for values in (wanted, wanted.toArrow()):
        plan = frames.seldom_having(rows, values, "id")._jdf.queryExecution().optimizedPlan()
        assert plan.getClass().getSimpleName() == "LocalRelation"


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="its Parquet knows no limit of rows")
def test_a_claim_reads_a_part_of_what_spark_wrote(spark: SparkSession, place: str) -> None:
    """Rows of a few bytes would lie together by hundreds of thousands, in the order of service."""
    path = Path(place, "rows")
    with size_files(spark):
        spark.range(0, 3 * TOGETHER, 1, numPartitions=1).write.parquet(str(path))
    (file,) = path.glob("*.parquet")
    known = pq.ParquetFile(file).metadata
    groups = [known.row_group(at).num_rows for at in range(known.num_row_groups)]
    assert groups == [TOGETHER] * 3
