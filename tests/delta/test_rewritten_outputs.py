"""Outputs that Spark rewrites while a claim is out: what they have of it is found all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
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
}

#: After these only Spark reads the table: a claim waits for it, and is no finding of a cause.
OF_SPARK = ("deletion vector", "reorg", "wider type")


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
