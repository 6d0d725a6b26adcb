"""A queue with a session of Spark in a child of a fork: the session is the parent's."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from spark_queue import DeltaQueue, DurableQueue
from tests.unit.local.forked import in_child


@pytest.fixture(autouse=True)
def _quiet() -> None:
    """A process with threads that forks is what is tested."""
    warnings.simplefilter("ignore", DeprecationWarning)


def test_every_verb_of_a_child_says_that_it_was_forked(spark: SparkSession, place: str) -> None:
    """The child asks nothing of the parent's session, which goes on undisturbed."""
    queue = DeltaQueue.create(spark, f"{place}/queue", "n int")
    rows = spark.createDataFrame([(1,), (2,), (3,)], "n int")
    queue.enqueue(rows)
    held, reader = queue.claim(1), queue.reader("r")
    queue.status().collect()
    front = DurableQueue(queue, reader=reader)
    verbs: list[Callable[[], object]] = [
        lambda: queue.enqueue(rows),
        lambda: queue.claim(1),
        held.ack,
        held.release,
        queue.status,
        queue.report,
        queue.maintain,
        queue.pause,
        queue.doctor,
        lambda: queue.reader("new"),
        reader.status,
        lambda: reader.process(print, limit=1),
        lambda: DeltaQueue.open(spark, f"{place}/queue"),
        lambda: front.put({"n": 4}).result(),
        lambda: front.get(timeout=0),
    ]
    for verb in verbs:
        became = in_child(verb)
        assert became.startswith("SetupError: "), became
        assert "forked" in became
    assert in_child(front.close) == "ok"
    front.close()
    # The first reader with a name has taken over what was claimed before.
    assert held.ack().acked == 1
    assert reader.claim(3).count == 2
