"""Outputs that Spark rewrites while a claim is out: what they have of it is found all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, LocalQueue
from spark_queue.clock import ManualClock
from spark_queue.log.delta.claim_record import ClaimRecord
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output.outputs import ResultTable
from spark_queue.saying import Said
from tests.unit.local.test_evidence import RESULTS, _claimed, _results, _states

#: Statements that people run on a table of results; item 2 goes by an erasure.
REWRITES = {
    "update": ["UPDATE {} SET n = 0 WHERE _seq = 1"],
    "delete": ["DELETE FROM {} WHERE _seq = 2"],
    "merge": [
        "MERGE INTO {} t USING (SELECT 1L AS s) ON t._seq = s WHEN MATCHED THEN UPDATE SET n = 7"
    ],
    "optimize": ["OPTIMIZE {}"],
    "z-order": ["OPTIMIZE {} ZORDER BY (n)"],
    "column": ["ALTER TABLE {} ADD COLUMN more string"],
    "deletion vector": [
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "DELETE FROM {} WHERE _seq = 2",
    ],
    "reorg": [
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "DELETE FROM {} WHERE _seq = 2",
        "REORG TABLE {} APPLY (PURGE)",
    ],
    "wider type": [
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {} ALTER COLUMN n TYPE decimal(20, 0)",
    ],
    "other names": [
        "ALTER TABLE {} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {} RENAME COLUMN n TO number",
    ],
}

#: After these only Spark reads the table: a claim waits for it, and is no finding of a cause.
OF_SPARK = ("other names",)


@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("with_spark", [False, True])
def test_a_rewritten_output_has_what_was_done(
    spark: SparkSession, queue_path: str, clock: ManualClock, name: str, *, with_spark: bool
) -> None:
    """A worker died between output and settle: whoever claims next repeats none of its work."""
    queue = LocalQueue.create(queue_path, "id string", clock=clock)
    queue.enqueue([{"id": one} for one in "abc"])
    out = ResultTable(DiskStorage(Path(queue_path).parent / "out"), is_synced=False)
    out.make(RESULTS)
    claim = _claimed(queue, 3, out.directory)
    record = ClaimRecord(claim_id=claim.id, outcomes={3: Said("release")}, is_whole=True)
    assert out.write(_results(claim, 1, 2), claim.id, record.text())
    for statement in REWRITES[name]:
        spark.sql(statement.format(f"delta.`{out.directory}`"))
    clock.advance(timedelta(hours=1))
    queue.close()

    takers: list[Callable[[], list[str]]] = [
        lambda: [row["id"] for row in LocalQueue.open(queue_path, clock=clock).claim(9).rows],
        lambda: [
            row["id"]
            for row in DeltaQueue.open(spark, queue_path, clock=clock).claim(9).items.collect()
        ],
    ]
    if with_spark:
        assert takers[1]() == ["c"]
    elif name in OF_SPARK:
        assert takers[0]() == []
        assert takers[1]() == ["c"]
    else:
        assert takers[0]() == ["c"]
    states = _states(LocalQueue.open(queue_path, clock=clock))
    assert [states[one][0] for one in "abc"] == ["acked", "acked", "claimed"]


def test_results_are_appended_beside_what_a_platform_turns_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark goes on with what was appended without it: rows, ids, times, and lists of rows."""
    out = f"delta.`{tmp_path / 'out'}`"
    on = ("enableDeletionVectors", "enableRowTracking", "enableInCommitTimestamps")
    given = ", ".join(f"'delta.{name}' = 'true'" for name in (*on, "enableTypeWidening"))
    spark.sql(
        f"CREATE TABLE {out} (n bigint, at timestamp_ntz, _seq bigint, _claim_id string) "
        f"USING delta TBLPROPERTIES ({given}, 'delta.checkpointPolicy' = 'v2', "
        "'delta.checkpointInterval' = '3')"
    )
    queue = LocalQueue.create(str(tmp_path / "queue"), "n long", durability="process")
    rows = spark.read.format("delta")
    for count in (3, 2, 1):
        spark.sql(f"INSERT INTO {out} SELECT 0, null, {count}, 'theirs'")
        queue.enqueue([{"n": count}] * count)
        queue.process(
            lambda item: {"n": item["n"]}, returns="n bigint", output=str(tmp_path / "out")
        )
        DeltaTable.forPath(spark, str(tmp_path / "out")).delete("n = 3 AND _seq = 1")
    found = rows.load(str(tmp_path / "out")).select("n", "_metadata.row_id").collect()
    assert sorted(row["n"] for row in found) == [0, 0, 0, 1, 2, 2, 3, 3]
    assert len({row["row_id"] for row in found} - {None}) == 8
    times = [row["timestamp"] for row in spark.sql(f"DESCRIBE HISTORY {out}").collect()]
    assert times == sorted(times, reverse=True)
    spark.sql(f"OPTIMIZE {out}")
    spark.sql(f"REORG TABLE {out} APPLY (PURGE)")
    assert rows.load(str(tmp_path / "out")).count() == 8


def test_both_zeros_are_found_in_what_is_written_without_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Filters of Spark on 0.0 find -0.0 in items and outputs that have no other zero."""
    queue = LocalQueue.create(str(tmp_path / "queue"), "x double", durability="process")
    queue.enqueue([{"x": -0.0}] * 40)
    queue.process(
        lambda item: {"x": item["x"], "s": {"y": item["x"]}},
        returns="x double, s struct<y: double>",
        output=str(tmp_path / "out"),
    )
    for table, column in (("queue/queue", "x"), ("out", "x"), ("out", "s.y")):
        rows = spark.read.format("delta").load(str(tmp_path / table))
        for condition in ("= 0.0D", ">= 0.0D", "IN (0.0D, 5.0D)", "<= 0.0D"):
            assert rows.where(f"{column} {condition}").count() == 40, (table, column, condition)
