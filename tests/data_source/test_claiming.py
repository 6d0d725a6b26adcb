"""Streams of claims by ``format("spark_queue")``: each item at least once, and acked when done."""

from __future__ import annotations

import pickle
import random
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from spark_queue import LocalQueue, QueueConfig
from spark_queue.data_source.claiming import ClaimReader
from spark_queue.errors import SparkNeededError

SCHEMA = "path string, folder string"


@pytest.fixture
def queue(queue_path: str) -> LocalQueue:
    """Make a queue whose items of a folder run one after another."""
    config = QueueConfig(group_key="folder", lease=timedelta(minutes=5))
    return LocalQueue.create(queue_path, SCHEMA, config, durability="process")


def _fill(queue: LocalQueue, folders: int, each: int) -> None:
    rows = [(f"{n}", f"f{n % folders}") for n in range(folders * each)]
    queue.enqueue([{"path": path, "folder": folder} for path, folder in rows])


class _KilledError(Exception):
    """Raised where a query is killed."""


class _Query:
    """What Spark does with a source, and what its checkpoint has; it may be killed at each step."""

    def __init__(self, path: str, seed: int, **options: str) -> None:
        self.options = {"path": path, **options}
        self.draw = random.Random(seed)  # noqa: S311 - no secret
        self.planned: list[dict[str, Any]] = []
        self.done = 0
        self.got: list[str] = []
        self.kills = 0

    def run(self) -> None:
        """Work until nothing may run; a kill begins again, with what the checkpoint has."""
        while self._is_killed():
            self.kills += 1

    def _is_killed(self) -> bool:
        reader = ClaimReader(self.options)
        try:
            self._work(reader)
        except _KilledError:
            return True
        finally:
            # Its threads end with its process.
            reader.stop()
        return False

    def _work(self, reader: ClaimReader) -> None:
        if not self.planned:
            self.planned.append(reader.initialOffset())
        while self.done < len(self.planned) - 1 or self._plan(reader):
            start, end = self.planned[self.done : self.done + 2]
            for part in pickle.loads(pickle.dumps(reader.partitions(start, end))):  # noqa: S301
                self._read(reader, part)
            self.done += 1
            self._may_die()
            if self.draw.random() < 0.5:
                reader.commit(end)

    def _plan(self, reader: ClaimReader) -> bool:
        end = reader.latestOffset(self.planned[-1], ReadMaxRows(4))
        self._may_die()
        is_more = end != self.planned[-1]
        if is_more:
            self.planned.append(end)
        return is_more

    def _read(self, reader: ClaimReader, part: Any) -> None:
        task = pickle.loads(pickle.dumps(reader))  # noqa: S301 - as Spark sends it
        for batch in task.read(part):
            self.got += batch["path"].to_pylist()
        self._may_die()

    def _may_die(self) -> None:
        if self.draw.random() < 0.15:
            raise _KilledError


@pytest.mark.parametrize("seed", range(5))
def test_each_item_is_read_at_least_once_and_acked(queue: LocalQueue, seed: int) -> None:
    """Killed wherever it may be, the query goes on; items of a folder come in order."""
    _fill(queue, folders=6, each=5)
    query = _Query(queue.name, seed, numPartitions="2")

    query.run()

    assert query.kills
    assert Counter(query.got).keys() == {str(number) for number in range(30)}
    assert queue.counts()["acked"] == 30
    first = list(dict.fromkeys(query.got))
    for folder in range(6):
        assert [int(path) for path in first if int(path) % 6 == folder] == list(
            range(folder, 30, 6)
        )


def test_a_query_whose_checkpoint_is_lost_goes_on_by_its_name(queue: LocalQueue) -> None:
    """What it had claimed comes at once; without a name it comes when the lease is over."""
    _fill(queue, folders=9, each=1)
    lost = ClaimReader({"path": queue.name, "sourceId": "mine"})
    offset = lost.initialOffset()
    for _ in range(4):
        offset = lost.latestOffset(offset, ReadMaxRows(2))
    lost.stop()
    assert queue.counts()["acked"] == 6

    query = _Query(queue.name, 0, sourceId="mine")
    query.run()

    assert queue.counts()["acked"] == 9
    assert {"6", "7", "8"} == set(query.got)


def test_a_part_that_cannot_be_read_whole_fails_its_query(queue: LocalQueue) -> None:
    """What it left out would be acked with the rest; started again, the query has what is left."""
    _fill(queue, folders=2, each=1)
    reader = ClaimReader({"path": queue.name})
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(2))
    (part,) = reader.partitions(start, end)
    queue.cancel({"path": "0"})
    queue.purge({"path": "0"})

    with pytest.raises(SparkNeededError, match="purged"):
        list(reader.read(part))

    reader.stop()
    again = ClaimReader({"path": queue.name})
    (left,) = again.partitions(start, end)
    assert [batch["path"].to_pylist() for batch in again.read(left)] == [["1"]]
    again.commit(end)
    assert queue.counts()["acked"] == 1


def test_a_lease_is_renewed_while_a_micro_batch_runs(queue: LocalQueue) -> None:
    """Nobody else gets the items until the query is done with them, or is gone."""
    _fill(queue, folders=2, each=1)
    reader = ClaimReader({"path": queue.name, "lease": "0.6"})
    offset = reader.latestOffset(reader.initialOffset(), ReadMaxRows(9))
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert queue.claim(9).count == 0
        time.sleep(0.1)
    reader.stop()
    time.sleep(0.8)
    other = queue.claim(9)
    assert other.count == 2
    # A late query has had them, and is told nothing but by the log.
    reader.commit(offset)
    assert other.ack().acked == 2


def _stream(spark: SparkSession, queue: LocalQueue, out: str, **options: Any) -> Any:
    items = spark.readStream.format("spark_queue").options(**options).load(queue.name)
    writer = items.writeStream.format("json").option("checkpointLocation", f"{out}-ckpt")
    return writer.option("path", out)


def test_a_stream_works_a_queue_off_and_ends(
    spark: SparkSession, queue: LocalQueue, place: str
) -> None:
    """With ``availableNow``, when nothing may run; started again it takes what came since."""
    out = f"{place}/out"
    for done in (6, 9):
        _fill(queue, folders=3, each=(done - queue.counts()["acked"]) // 3)
        query = _stream(spark, queue, out, maxItemsPerTrigger=3, numPartitions=2)
        query.trigger(availableNow=True).start().awaitTermination()
        assert queue.counts()["acked"] == done
        assert spark.read.json(out).count() == done
    assert {"path", "folder", "_seq", "_lease", "_attempts"} == set(spark.read.json(out).columns)


def test_a_micro_batch_that_comes_again_acks_its_items_once(
    spark: SparkSession, queue: LocalQueue, place: str
) -> None:
    """The query died before it could note that the batch was done."""
    _fill(queue, folders=3, each=1)
    out = f"{place}/out"
    _stream(spark, queue, out).trigger(availableNow=True).start().awaitTermination()
    for note in Path(f"{out}-ckpt/commits").iterdir():
        note.unlink()
    _stream(spark, queue, out).trigger(availableNow=True).start().awaitTermination()
    assert queue.counts()["acked"] == 3
    assert spark.read.json(out).count() == 3


def test_a_stream_of_a_view_is_refused(spark: SparkSession, queue: LocalQueue, place: str) -> None:
    """A view is as of an instant."""
    with pytest.raises(PySparkException, match="a view is no stream"):
        _stream(spark, queue, f"{place}/out", view="status").start().awaitTermination()
