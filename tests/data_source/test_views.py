"""Views of a queue by ``format("spark_queue")``, as frames and in SQL."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyspark_spark_queue import DefaultSource
from spark_queue import DeltaQueue, LocalQueue
from spark_queue.data_source import views
from spark_queue.sql.look import SHORT_STATUS

SCHEMA = "path string, n int"


@pytest.fixture
def queue(queue_path: str) -> LocalQueue:
    """Make a queue with an acked, a dead and a ready item, and a refused row."""
    made = LocalQueue.create(queue_path, SCHEMA, durability="process")
    made.enqueue([{"path": name, "n": number} for number, name in enumerate("abc")])
    made.claim(1).ack()
    made.claim(1).dead("no such file")
    return made


def _read(spark: SparkSession, path: str, view: str, **options: Any) -> DataFrame:
    return spark.read.format("spark_queue").options(view=view, **options).load(path)


def test_each_view_is_a_frame(spark: SparkSession, queue: LocalQueue) -> None:
    """The format is known without an import, and a frame is filtered and counted like any other."""
    found = _read(spark, queue.name, "status").where("_state = 'acked'").select("path").collect()
    assert [row.path for row in found] == ["a"]
    for view, options, expected in (
        ("dead", {}, [("b", "no such file")]),
        ("items", {}, [("a", 1), ("b", 1), ("c", 1)]),
        ("history", {"seq": 2}, ["ready", "claimed", "dead"]),
        ("history", {}, ["ready", "claimed", "acked", "ready", "claimed", "dead", "ready"]),
        ("outcomes", {"step": 1}, ["inserted"] * 3),
        ("overview", {}, [(1, 1, 1)]),
        ("tenants", {}, [1]),
        ("steps", {}, ["created"]),
    ):
        columns = {
            "dead": ("path", "_error"),
            "items": ("path", "_step"),
            "history": ("_state",),
            "outcomes": ("outcome",),
            "overview": ("runnable", "acked", "dead"),
            "tenants": ("ready",),
            "steps": ("action",),
        }[view]
        rows = _read(spark, queue.name, view, **options).select(*columns).collect()
        said = [tuple(row) if len(columns) > 1 else row[0] for row in rows]
        assert said == expected, view


def test_the_format_may_be_registered_by_hand(spark: SparkSession, queue: LocalQueue) -> None:
    """A session that was there before the package was installed learns of it so."""

    class Own(DefaultSource):
        """The same under a name of this test."""

        @classmethod
        def name(cls) -> str:
            """Return what ``format`` calls it."""
            return "own_spark_queue"

    spark.dataSource.register(Own)
    rows = spark.read.format("own_spark_queue").option("view", "status").load(queue.name)
    assert rows.count() == 3


def test_a_view_looks_back_and_is_that_of_a_reader(spark: SparkSession, queue: LocalQueue) -> None:
    """As of a step of the status log; the items of a reader have states of their own."""
    back = _read(spark, queue.name, "status", asOf=2).groupBy("_state").count().collect()
    assert {row["_state"]: row["count"] for row in back} == {"ready": 2, "claimed": 1}
    queue.reader("mail")
    queue.reader("audit", start="beginning").claim(3)
    for reader, state, count in (("mail", "acked", 1), ("audit", "claimed", 3)):
        mine = _read(spark, queue.name, "status", reader=reader)
        assert mine.where(f"_state = '{state}'").count() == count


def test_a_status_is_read_in_short(spark: SparkSession, queue: LocalQueue) -> None:
    """Its columns and rows are those of the verb."""
    frame = _read(spark, queue.name, "status", short=True)
    table = queue.status(short=True)
    assert frame.columns == table.column_names == [*queue.schema.names, *SHORT_STATUS]
    assert [row.asDict() for row in frame.orderBy("_seq").collect()] == table.to_pylist()


def test_every_view_is_read_with_the_columns_that_it_says(
    spark: SparkSession, queue: LocalQueue
) -> None:
    """Also one without rows; which is what a frame of a panel has, as nothing is held."""
    for view in (*views.VIEWS, *views.PANELS):
        frame = _read(spark, queue.name, view, seq=1, step=1)
        asked = {"path": queue.name, "view": view, "seq": "1", "step": "1"}
        assert len(frame.collect()) == sum(part.num_rows for part in views.read(asked))


def test_a_view_of_sql(spark: SparkSession, queue: LocalQueue) -> None:
    """A temporary view reads the queue each time that it is asked."""
    options = f"path '{queue.name}', view 'status'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW files_now USING spark_queue OPTIONS ({options})")
    text = "SELECT count(*) FROM files_now WHERE _state = 'ready'"
    assert spark.sql(text).first()[0] == 1  # type: ignore[index]
    queue.enqueue({"path": "d", "n": 3})
    assert spark.sql(text).first()[0] == 2  # type: ignore[index]
    spark.catalog.dropTempView("files_now")


@pytest.mark.parametrize(
    ("path", "options", "why"),
    [
        (None, {}, "has no path"),
        ("main.ops.files", {"view": "status"}, "only a session of Spark reaches"),
        ("hdfs://lake/files", {"view": "status"}, "only a session of Spark reaches"),
        ("QUEUE/none", {"view": "status"}, "there is no such|is no queue|QueueNotFound"),
        ("QUEUE", {}, "is read by a view"),
        ("QUEUE", {"view": "statsu"}, "'statsu'.*'status'"),
        ("QUEUE", {"view": "outcomes"}, "option step is not given"),
        ("QUEUE", {"view": "outcomes", "step": "x"}, "option step is 'x'"),
        ("QUEUE", {"view": "status", "asOf": "noon"}, "option asOf is 'noon'"),
        ("QUEUE", {"view": "status", "short": "yes"}, "option short is 'yes'"),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: SparkSession, queue: LocalQueue, path: str | None, options: dict[str, str], why: str
) -> None:
    """A queue that only Spark reaches, a missing one, unknown views and options."""
    reader = spark.read.format("spark_queue").options(**options)
    place = None if path is None else path.replace("QUEUE", queue.name)
    with pytest.raises(PySparkException, match=why):
        (reader.load() if place is None else reader.load(place)).collect()


def test_a_queue_that_spark_made_is_read(spark: SparkSession, queue_path: str) -> None:
    """Both kinds of handles and the format are doors of one queue."""
    made = DeltaQueue.create(spark, queue_path, SCHEMA)
    made.enqueue(spark.createDataFrame([("a", 1)], SCHEMA))
    assert [row.path for row in _read(spark, queue_path, "items").collect()] == ["a"]
