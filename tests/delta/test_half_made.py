"""Tables that a process of Spark has begun to make, or was killed over."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, FileDamagedError, LocalQueue

pytestmark = pytest.mark.spark

_FIRST = "00000000000000000000.json"

#: What Spark came to last.
STAGES = ("log", "commit under another name", "commit without content")


def _begin(spark: SparkSession, directory: Path, stage: str, *, rows: bool) -> None:
    """Leave what a kill leaves of a table that Spark makes by a write of no rows, or by name."""
    if rows:
        spark.createDataFrame([], "id string").write.format("delta").save(str(directory))
    else:
        spark.sql(f"CREATE TABLE delta.`{directory}` (id string) USING delta")
    log = directory / "_delta_log"
    for found in log.glob("*0*"):
        found.unlink()
    # Spark 4.0 makes none.
    (log / "_staged_commits").mkdir(exist_ok=True)
    if stage == "commit under another name":
        (log / f".{_FIRST}.0123-4567.tmp").write_text('{"commitInfo":{')
        (log / f"..{_FIRST}.0123-4567.tmp.crc").write_bytes(b"crc")
    if stage == "commit without content":
        (log / _FIRST).touch()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("runner", ["Spark", "without Spark"])
def test_an_output_that_was_begun_is_made(
    spark: SparkSession, place: str, runner: str, stage: str, *, rows: bool
) -> None:
    """Nobody has seen it as a table, and no claim was granted for it."""
    out = Path(place, "out")
    _begin(spark, out, stage, rows=rows)
    here = LocalQueue.create(f"{place}/queue", "id string")
    here.enqueue([{"id": name} for name in "ab"])
    queue = DeltaQueue.open(spark, here.name) if runner == "Spark" else here

    queue.process(lambda item: {"id": item["id"]}, returns="id string", output=str(out))

    found = spark.read.format("delta").load(str(out)).collect()
    assert sorted(row["id"] for row in found) == ["a", "b"]
    assert queue.counts()["acked"] == 2


def test_workers_that_start_together_make_one_output(spark: SparkSession, place: str) -> None:
    """Delta refuses whoever commits second: that worker goes on with the table of the first."""
    here = LocalQueue.create(f"{place}/queue", "id int")
    here.enqueue([{"id": number} for number in range(12)])

    def work(_: int) -> int:
        queue = DeltaQueue.open(spark, here.name)
        done = queue.process(
            lambda item: {"id": item["id"]}, returns="id int", output=f"{place}/out", limit=2
        )
        return done.acked

    with ThreadPoolExecutor(3) as pool:
        assert sum(pool.map(work, range(3))) == 12

    found = spark.read.format("delta").load(f"{place}/out").collect()
    assert sorted(row["id"] for row in found) == [*range(12)]


def test_a_table_that_may_have_had_rows_is_not_made_anew(spark: SparkSession, place: str) -> None:
    """A power cut may have taken its first commit: it is to be put back."""
    out = Path(place, "out")
    _begin(spark, out, "commit without content", rows=True)
    spark.range(3).coalesce(1).write.mode("append").parquet(str(out))
    queue = LocalQueue.create(f"{place}/queue", "id string")
    queue.enqueue([{"id": "a"}])

    for one in (queue, DeltaQueue.open(spark, queue.name)):
        with pytest.raises(FileDamagedError, match=_FIRST):
            one.process(lambda item: {"id": item["id"]}, returns="id string", output=str(out))

    assert spark.read.parquet(str(out)).count() == 3
    assert queue.counts()["ready"] == 1


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("log", ["queue", "status"])
def test_a_queue_that_was_begun_is_made(
    spark: SparkSession, place: str, log: str, stage: str
) -> None:
    """Each of its logs may be the one that was not finished."""
    path = Path(place, "q")
    _begin(spark, path / log, stage, rows=False)

    assert not DeltaQueue.exists(spark, str(path))
    DeltaQueue.create(spark, str(path), "id string")
    queue = LocalQueue.open(path)
    queue.enqueue([{"id": "a"}])

    assert queue.counts()["ready"] == 1
