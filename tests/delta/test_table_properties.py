"""Properties and columns that others set on a queue's tables, in a session of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, LocalQueue
from spark_queue.errors import InvalidConfigError, SchemaMismatchError, SparkNeededError
from spark_queue.log.delta.table_properties import FEATURES, PROPERTIES
from spark_queue.session import SMALL_STEPS
from tests.conftest import REMOTE
from tests.unit.delta.properties_page import DOCUMENTED

_DEFAULTS = "spark.databricks.delta.properties.defaults"

#: Properties by which nothing changes for a queue, each with another value than its own.
KEPT = {
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": "interval 60 days",
    "delta.deletedFileRetentionDuration": "interval 30 days",
    "delta.isolationLevel": "Serializable",
    "delta.checkpoint.writeStatsAsStruct": "false",
    "delta.dataSkippingNumIndexedCols": "1",
    "delta.dataSkippingStringPrefixLength": "4",
    "delta.randomizeFilePrefixes": "true",
    "delta.randomPrefixLength": "3",
    "delta.parquet.format.version": "2.12.0",
    "delta.autoOptimize": "true",
    "delta.autoOptimize.autoCompact": "true",
    "delta.autoOptimize.optimizeWrite": "true",
    "delta.sampleRetentionDuration": "interval 8 days",
    "delta.checkpointRetentionDuration": "interval 1 days",
    "delta.enableFullRetentionRollback": "false",
    "delta.dropFeatureTruncateHistory.retentionDuration": "interval 1 hours",
    "delta.castIcebergTimeType": "true",
    "delta.ignoreIcebergBucketPartition": "true",
    "delta.universalFormat.iceberg.atomicConversion.supported": "true",
    "delta.rowTrackingSuspended": "true",
    "delta.requireCheckpointProtectionBeforeVersion": "1",
    "delta.writePartitionColumnsToParquet": "true",
    "delta.feature.appendOnly": "supported",
    "delta.feature.invariants": "supported",
    "delta.feature.vacuumProtocolCheck": "supported",
    "delta.enableInCommitTimestamps": "true",
}

#: Properties that turn on what only Spark keeps.
OF_SPARK = {
    "delta.compatibility.symlinkFormatManifest.enabled": "true",
    "delta.enableChangeDataFeed": "true",
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableRowTracking": "true",
    "delta.enableTypeWidening": "true",
    "delta.enableVariantShredding": "true",
    "delta.enableMaterializePartitionColumnsFeature": "true",
    "delta.checkpointPolicy": "v2",
    "delta.feature.allowColumnDefaults": "supported",
    "delta.feature.generatedColumns": "supported",
    "delta.feature.identityColumns": "supported",
    "delta.feature.timestampNtz": "supported",
    "delta.feature.variantType": "supported",
    "delta.constraints.known": "_step >= 0",
}

#: What a table of a queue is refused by Delta.
NOT = {
    "delta.universalFormat.enabledFormats": "iceberg",
    "delta.coordinatedCommits.commitCoordinator-preview": "x",
    "delta.redirectReaderWriter-preview": "x",
    "delta.redirectWriterOnly-preview": "x",
    "delta.enableIcebergCompatV1": "true",
    "delta.enableIcebergCompatV2": "true",
    "delta.enableIcebergCompatV3": "true",
    "delta.feature.clustering": "supported",
    "delta.feature.catalogManaged": "supported",
}


@pytest.fixture
def queue(spark: SparkSession, queue_path: str) -> DeltaQueue:
    """Make a queue of six items."""
    queue = DeltaQueue.create(spark, queue_path, "n int")
    queue.enqueue(spark.range(6).selectExpr("cast(id as int) n"))
    queue.close()
    return queue


@contextmanager
def _decided_by(spark: SparkSession, steps: str) -> Iterator[None]:
    """Have small steps decided in this process, or by Spark."""
    was = spark.conf.get(SMALL_STEPS, None)
    spark.conf.set(SMALL_STEPS, steps)
    try:
        yield
    finally:
        spark.conf.unset(SMALL_STEPS) if was is None else spark.conf.set(SMALL_STEPS, was)


def _alter(queue: DeltaQueue, spark: SparkSession, change: str, *logs: str) -> None:
    for log in logs or ("queue", "status"):
        spark.sql(f"ALTER TABLE delta.`{queue.name}/{log}` {change}")


def _set(queue: DeltaQueue, spark: SparkSession, name: str, value: str, *logs: str) -> None:
    if name.startswith("delta.constraints."):
        _alter(queue, spark, f"ADD CONSTRAINT {name.rpartition('.')[2]} CHECK ({value})", *logs)
        return
    _alter(queue, spark, f"SET TBLPROPERTIES ('{name}' = '{value}')", *logs)


def _work(queue: DeltaQueue, spark: SparkSession, *, removes: bool = True) -> tuple[int, int]:
    """Do a bit of everything, and return what is acked and ready."""
    queue.claim(1).ack()
    queue.enqueue(spark.range(1).selectExpr("cast(id as int) n"))
    if removes:
        queue.purge("true")
        queue.maintain()
        queue.claim(1).ack()
    counts = queue.counts()
    return counts["acked"], counts["ready"]


def test_each_property_and_feature_of_the_page_is_tried() -> None:
    """What the page says has a test here, but for what ``create`` sets and what others bring."""
    tried = {*KEPT, *OF_SPARK, *NOT, "delta.minReaderVersion", "delta.minWriterVersion"}
    named = {one.name for one in DOCUMENTED if one.treatment != "set"}
    turned = {one.value for one in FEATURES if one.value.startswith("delta.")}
    of_feature = {name.removeprefix("delta.feature.") for name in tried}
    assert named <= tried
    assert turned - {"delta.appendOnly", "delta.invariants"} <= tried
    beside = {"domainMetadata", "checkpointProtection", "collations", "checkConstraints"}
    assert {one.name for one in FEATURES if not one.value.startswith("delta.")} <= (
        of_feature | beside
    )


def test_a_queue_is_made_against_the_defaults_of_a_session(
    spark: SparkSession, queue_path: str
) -> None:
    """What it depends on is as ever, and the rest as the session wishes."""
    wishes = {
        "appendOnly": "true",
        "setTransactionRetentionDuration": "interval 1 days",
        "checkpoint.writeStatsAsJson": "false",
        "enableDeletionVectors": "true",
        "dataSkippingStatsColumns": "_kind",
        "enableChangeDataFeed": "true",
    }
    for name, value in wishes.items():
        spark.conf.set(f"{_DEFAULTS}.{name}", value)
    try:
        queue = DeltaQueue.create(spark, queue_path, "n int")
    finally:
        for name in wishes:
            spark.conf.unset(f"{_DEFAULTS}.{name}")
    for log in ("queue", "status"):
        made = DeltaTable(Path(queue.name, log)).metadata().configuration
        assert made["delta.enableChangeDataFeed"] == "true"
        for one in PROPERTIES:
            assert one.treatment != "set" or made[one.name] == one.value
    queue.enqueue(spark.range(3).selectExpr("cast(id as int) n"))
    queue.claim(1).ack()
    assert queue.purge("true") == 1
    assert "property-changed" not in queue.doctor().ids()


def _make_output(spark: SparkSession, path: str) -> DeltaTable:
    """Have an output made, of whose columns one is never null and one has a comment."""
    queue = DeltaQueue.create(spark, f"{path}-queue", "n int")
    queue.enqueue(spark.range(1).selectExpr("cast(id as int) n"))
    returns = (
        "size bigint NOT NULL, name string COMMENT 'of a file', cost decimal(9,2), at timestamp"
    )
    made = {
        "size": 1,
        "name": "a",
        "cost": Decimal(2),
        "at": datetime(2026, 1, 2, tzinfo=timezone.utc),
    }
    assert queue.process(lambda _: made, returns=returns, output=path).acked == 1
    return DeltaTable(path)


def test_an_output_is_the_same_whoever_makes_it(spark: SparkSession, place: str) -> None:
    """A process makes the table that Spark would make, without Spark."""
    here = _make_output(spark, f"{place}/here")
    with _decided_by(spark, "spark"):
        by_spark = _make_output(spark, f"{place}/by-spark")
    assert here.schema().to_json() == by_spark.schema().to_json()
    assert here.protocol() == by_spark.protocol()
    made, other = here.metadata(), by_spark.metadata()
    assert made.configuration == other.configuration
    assert made.partition_columns == other.partition_columns == []
    makers = [table.history()[-1]["engineInfo"].partition(":")[0] for table in (here, by_spark)]
    assert makers[0] == "delta-rs"
    assert makers[1].startswith("Apache-Spark")


def test_an_output_is_made_by_the_defaults_of_a_session(spark: SparkSession, place: str) -> None:
    """What a session wishes of new tables is wished of an output, too."""
    spark.conf.set(f"{_DEFAULTS}.enableChangeDataFeed", "true")
    try:
        made = _make_output(spark, f"{place}/out").metadata().configuration
    finally:
        spark.conf.unset(f"{_DEFAULTS}.enableChangeDataFeed")
    assert made["delta.enableChangeDataFeed"] == "true"


def test_what_changes_nothing_is_kept(queue: DeltaQueue, spark: SparkSession) -> None:
    """All of them at once: with Spark and without, a queue goes on."""
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for name, value in KEPT.items():
        _set(queue, spark, name, value)
    assert _work(queue, spark) == (1, 5)
    queue.close()
    local = LocalQueue.open(queue.name)
    local.enqueue([{"n": 9}])
    assert local.claim(2).ack().acked == 2
    assert local.purge("true") == 3


@pytest.mark.parametrize("name", OF_SPARK)
def test_what_only_spark_keeps_is_left_to_it(
    queue: DeltaQueue, spark: SparkSession, name: str
) -> None:
    """With a session a queue goes on; without one it is refused, and the cause is named."""
    _set(queue, spark, name, OF_SPARK[name])
    removes = name in ("delta.enableDeletionVectors", "delta.enableChangeDataFeed")
    assert _work(queue, spark, removes=removes) == (1, 5 if removes else 6)
    queue.close()

    asked = next((one.name for one in FEATURES if one.value == name), name)
    asked = asked.removeprefix("delta.feature.").removeprefix("delta.enable")
    with pytest.raises(SparkNeededError) as refused:
        LocalQueue.open(queue.name).enqueue([{"n": 9}])
    assert asked.lower().removesuffix("feature") in str(refused.value).lower()
    assert "which only Spark keeps" in str(refused.value)
    again = DeltaQueue.open(spark, queue.name)
    assert again.claim(1).ack().acked == 1


@pytest.mark.parametrize("name", NOT)
def test_what_a_queue_cannot_have_changes_nothing(
    queue: DeltaQueue, spark: SparkSession, name: str
) -> None:
    """Delta refuses it, and the queue goes on in any process."""
    with pytest.raises(Exception, match=r"\w"):
        _set(queue, spark, name, NOT[name])
    assert _work(queue, spark, removes=False) == (1, 6)
    queue.close()
    assert LocalQueue.open(queue.name).enqueue([{"n": 9}]).inserted == 1


def test_a_feature_is_taken_back_as_the_error_says(queue: DeltaQueue, spark: SparkSession) -> None:
    """Then a queue without Spark goes on."""
    _set(queue, spark, "delta.enableChangeDataFeed", "true")
    asks: list[Callable[[LocalQueue], object]] = [
        lambda one: one.enqueue([{"n": 9}]),
        lambda one: one.claim(1),
    ]
    for ask in asks:
        with pytest.raises(SparkNeededError) as refused:
            ask(LocalQueue.open(queue.name))
        way = str(refused.value).partition("to take it back: ")[2].partition("; open the")[0]
        for statement in way.split("; "):
            spark.sql(statement)
    assert LocalQueue.open(queue.name).claim(1).count == 1


@pytest.mark.parametrize("steps", ["memory", "spark"])
def test_a_quiet_queue_takes_its_next_step(
    queue: DeltaQueue, spark: SparkSession, steps: str
) -> None:
    """Where its tables forget transactions, whoever decides its steps."""
    _set(queue, spark, "delta.setTransactionRetentionDuration", "interval 0 seconds")
    with _decided_by(spark, steps):
        assert _work(DeltaQueue.open(spark, queue.name), spark) == (1, 5)


@pytest.mark.parametrize("steps", ["memory", "spark"])
def test_rows_that_stay_are_not_removed(queue: DeltaQueue, spark: SparkSession, steps: str) -> None:
    """What would remove rows is refused by the property before anything is written."""
    queue.claim(2).ack()
    _set(queue, spark, "delta.appendOnly", "true", "queue")
    with _decided_by(spark, steps):
        kept = DeltaQueue.open(spark, queue.name)
        step = kept.stats().step
        for refused in (
            lambda: kept.purge("true"),
            lambda: kept.maintain(retention=timedelta(days=1)),
            lambda: kept.maintain(retention=timedelta(days=1), dry_run=True),
        ):
            with pytest.raises(InvalidConfigError, match=r"queue` has delta.appendOnly = true"):
                refused()
        assert kept.stats().step == step
        kept.maintain()
        assert kept.claim(9).ack().acked == 4


@pytest.mark.parametrize("steps", ["memory", "spark"])
def test_a_column_of_somebody_else_stops_nobody(
    queue: DeltaQueue, spark: SparkSession, steps: str
) -> None:
    """Frames go on without it, views do not show it, and ``add_columns`` makes it the queue's."""
    with _decided_by(spark, steps):
        opened = DeltaQueue.open(spark, queue.name)
        _alter(queue, spark, "ADD COLUMN extra string", "queue")
        for handle in (opened, DeltaQueue.open(spark, queue.name)):
            assert handle.enqueue(spark.createDataFrame([(7,)], "n int")).inserted == 1
        assert "extra" not in opened.status().columns
        assert "extra" not in opened.claim(1).items.columns
        with pytest.raises(SchemaMismatchError, match="'extra'"):
            opened.enqueue(spark.createDataFrame([(8, "x")], "n int, extra string"))

        assert opened.add_columns("extra string") == ["extra"]
        assert opened.enqueue(spark.createDataFrame([(8, "x")], "n int, extra string")).inserted
        assert [row["extra"] for row in opened.status().where("n = 8").collect()] == ["x"]


@pytest.mark.skipif(REMOTE is not None, reason="types of the session of this process")
def test_a_type_that_only_spark_keeps_is_adopted_by_it(
    queue: DeltaQueue, spark: SparkSession
) -> None:
    """The statement that Spark runs lists it among the queue's columns."""
    _alter(queue, spark, "ADD COLUMN tags array<string>", "queue")
    opened = DeltaQueue.open(spark, queue.name)
    assert opened.enqueue(spark.createDataFrame([(7,)], "n int")).inserted == 1
    assert opened.add_columns("tags array<string>") == ["tags"]
    frame = spark.createDataFrame([(8, ["x"])], "n int, tags array<string>")
    assert opened.enqueue(frame).inserted == 1
