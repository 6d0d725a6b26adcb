"""Steps of the status log: committed without Spark, or by it, and one after the other."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue
from spark_queue.errors import WriterLockedError
from spark_queue.log.delta import table_creation
from spark_queue.log.disk import jvms, write_lock
from spark_queue.log.spark.spark_log import SparkLog
from spark_queue.queue_views import main_store_of
from spark_queue.state.store import Store
from spark_queue.upkeep.rewriter import rewriting
from tests.conftest import REMOTE


@pytest.fixture
def queue(spark: SparkSession, queue_path: str) -> DeltaQueue:
    """Make a queue of six items."""
    queue = DeltaQueue.create(spark, queue_path, "n int")
    queue.enqueue(spark.range(6).selectExpr("cast(id as int) n"))
    return queue


def _engines(queue: DeltaQueue) -> list[str]:
    """Return who made each commit of the status log, the creation of the table left out."""
    spark, path = main_store_of(queue).spark, f"{queue.name}/status"
    rows = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").orderBy("version").collect()
    return ["spark" if "Spark" in (row["engineInfo"] or "") else "native" for row in rows[1:]]


def _worked_off(queue: DeltaQueue) -> None:
    queue.claim(1).ack()


def _counts(queue: DeltaQueue) -> tuple[int, int]:
    stats = queue.stats()
    return stats.acked, stats.ready


def test_steps_of_both_lanes_follow_upon_each_other(
    queue: DeltaQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever commits them, steps are numbered in one line, and say the same."""
    _worked_off(queue)
    with monkeypatch.context() as without:
        without.setattr(table_creation, "is_installed", lambda: False)
        queue.close()
        _worked_off(queue)
    queue.close()
    _worked_off(queue)

    assert _counts(queue) == (3, 3)
    assert _engines(queue) == ["native"] * 3 + ["spark"] * 2 + ["native"] * 2


@pytest.mark.skipif(REMOTE is not None, reason="the server outlives its clients")
def test_spark_leaves_its_jvm_in_the_lock_as_long_as_it_writes(
    queue: DeltaQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever finds the lock of a killed driver knows which JVM may still be writing."""
    lock, found = Path(queue.name, "status", "_writer.lock"), []
    with_head: Any = SparkLog._with_head

    def noted(*asked: object, **options: bool) -> object:
        found.append(jvms.still_running(lock.read_bytes()[20:]))
        return with_head(*asked, **options)

    monkeypatch.setattr(table_creation, "is_installed", lambda: False)
    monkeypatch.setattr(SparkLog, "_with_head", noted)
    queue.close()
    queue.claim(1)

    assert [Path(f"/proc/{pid}/comm").read_text() for pid in found] == ["java\n"]
    assert lock.read_bytes()[20:] == jvms.NOBODY


@pytest.mark.parametrize(
    "demand",
    [
        "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        "ADD CONSTRAINT known CHECK (_step >= 0)",
    ],
)
def test_a_table_that_asks_for_more_is_left_to_spark(
    queue: DeltaQueue, spark: SparkSession, demand: str
) -> None:
    """What a table asks of its writers beyond the plain protocol, Spark knows."""
    queue.close()
    spark.sql(f"ALTER TABLE delta.`{queue.name}/status` {demand}")

    _worked_off(queue)

    assert _engines(queue)[-2:] == ["spark"] * 2
    assert _counts(queue) == (1, 5)


def test_files_are_not_rewritten_beside_a_native_step(queue: DeltaQueue) -> None:
    """On a local disk whoever rewrites files keeps steps waiting: Spark's commit would undo one."""
    queue.claim(1)
    store = main_store_of(queue)
    free = []
    with rewriting(store, "status"):
        other = threading.Thread(target=lambda: free.append(_is_free(store)))
        other.start()
        other.join()

    assert free == [False]
    assert _is_free(store)


def _is_free(store: Store) -> bool:
    """Tell whether this thread could write a step of the status log now."""
    try:
        with write_lock.holding("the log", store.handle.place.directory(), timeout=0):
            return True
    except WriterLockedError:
        return False
