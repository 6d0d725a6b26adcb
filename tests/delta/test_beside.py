"""A process with Spark and one without work on the same queue at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from threading import Timer

import pytest
from pyspark.sql import SparkSession, functions as F

from spark_queue import DeltaQueue, LocalQueue, QueueConfig
from spark_queue.log.schema import CLAIMED, ITEM
from spark_queue.queue_views import store_of

#: What the process without Spark enqueues, one after the other.
ITEMS = 30

#: What the one with Spark enqueues.
OURS = 6

#: Enqueues, claims and acks until it is told to end, and says what it has done.
_WORKER = f"""
import sys, time
import spark_queue
queue = spark_queue.open(sys.argv[1], durability="process")
done, put = [], 0
print(flush=True)
while put < {ITEMS} or not queue.paused:
    if put < {ITEMS}:
        queue.enqueue({{"k": f"local {{put}}", "g": str(put % 3)}})
        put += 1
    with queue.claim(2) as claim:
        done += [row["k"] for row in claim.rows]
    time.sleep(0.01)
print(*done, sep="\\n")
"""

#: Claims an item, and holds it until it is killed.
_HOLDER = """
import sys, time, spark_queue
print(spark_queue.open(sys.argv[1]).claim().count, flush=True)
time.sleep(600)
"""


def test_a_claim_waits_for_what_the_dead_held(spark: SparkSession, place: str) -> None:
    """What a process held comes back when it ends, to a session of Spark that waits for items."""
    queue = DeltaQueue.create(spark, f"{place}/queue", "k string")
    queue.enqueue(spark.createDataFrame([("a",)], "k string"))
    holder = subprocess.Popen(  # noqa: S603 - our own package
        [sys.executable, "-c", _HOLDER, queue.name], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "1\n"
    assert queue.claim(1).count == 0
    Timer(0.5, holder.kill).start()

    claim = queue.claim(1, wait=timedelta(seconds=60))

    assert claim.count == 1
    row = queue.status().select("_losses", "_worker_id").collect()[0]
    assert row["_losses"] == 1
    assert f"/{os.getpid()}/" in row["_worker_id"]
    holder.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("planned", [False, True])
def test_nothing_is_lost_or_done_twice_between_them(
    spark: SparkSession, place: str, *, planned: bool
) -> None:
    """Each enqueues, claims and acks; what Spark plans takes its turn as what is decided here."""
    path = f"{place}/queue"
    config = QueueConfig(dedup_key="k", dedup_scope="forever", group_key="g")
    LocalQueue.create(path, "k string, g string", config, durability="process")
    session = spark.newSession()
    session.conf.set("spark.sparkQueue.smallSteps", "spark" if planned else "memory")
    queue = DeltaQueue.open(session, path)
    worker = subprocess.Popen(  # noqa: S603 - our own package
        [sys.executable, "-c", _WORKER, path], stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    worker.stdout.readline()

    ours = _worked(queue)
    queue.pause()
    said, _ = worker.communicate(timeout=120)

    assert worker.returncode == 0
    told = Counter([*ours, *said.splitlines()])
    assert max(told.values()) == 1
    acked = {row[0] for row in queue.status().where("_state = 'acked'").select("k").collect()}
    assert acked == set(told)
    assert queue.status().count() == ITEMS + OURS
    assert _leases_that_overlap(queue) == []


def _worked(queue: DeltaQueue) -> list[str]:
    """Enqueue and work off one item after the other; return what was done."""
    done: list[str] = []
    for number in range(OURS):
        rows = store_of(queue).spark.createDataFrame([(f"spark {number}", "0")], queue.schema)
        queue.enqueue(rows)
        with queue.claim(2) as claim:
            done += [row["k"] for row in claim.items.collect()]
    return done


def _leases_that_overlap(queue: DeltaQueue) -> list[int]:
    """Return the items that a lease was granted for while another one held them."""
    log = store_of(queue).status.read().where(F.col("_kind") == ITEM)
    held: dict[int, int] = {}
    twice = []
    for row in log.orderBy("_step").select("_seq", "_state", "_lease").collect():
        if row["_state"] == CLAIMED and held.get(row["_seq"], row["_lease"]) != row["_lease"]:
            twice.append(row["_seq"])
        if row["_state"] == CLAIMED:
            held[row["_seq"]] = row["_lease"]
        else:
            held.pop(row["_seq"], None)
    return twice
