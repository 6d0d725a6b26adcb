"""A queue on an object store, in a session of Spark beside processes that have none.

Spark reads the store by a file system of its own, or, where it has none, the copy that the process
keeps. Either way all commits are conditional PUTs.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from obstore.store import LocalStore
from pyspark.sql import DataFrame, SparkSession

from spark_queue.clock import ManualClock
from spark_queue.commands import claims
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import InvalidArgumentError, SetupError
from spark_queue.front.durable import DurableQueue
from spark_queue.local_queue import LocalQueue
from spark_queue.log import addresses
from spark_queue.log.object_tables import ObjectTables
from spark_queue.queue_views import store_of
from spark_queue.spark import spark_enqueue
from spark_queue.state.snapshot import Snapshot
from tests.logs.stores import ShakyStore
from tests.streaming.feeds import Feed, Sink

_SCHEMA = "path string, tenant string"
_CONFIG = QueueConfig(dedup_key="path", fair_key="tenant")


class Shared:
    """A bucket, and a queue in it that a session and a process without Spark have opened.

    They name it in two ways, by which one knows nothing of what the other has seen.
    """

    def __init__(self, spark: SparkSession, place: str, bucket: ShakyStore) -> None:
        self.spark, self.place, self.bucket = spark, place, bucket
        self.clock = ManualClock()
        self.queue = DeltaQueue.create(
            spark, place, _SCHEMA, _CONFIG, storage=bucket, clock=self.clock
        )
        self.other = LocalQueue.open(
            f"s3://elsewhere{urlsplit(place).path}", storage=bucket, clock=self.clock
        )

    def opened(self) -> DeltaQueue:
        """Return the queue as it is opened again."""
        return DeltaQueue.open(self.spark, self.place, storage=self.bucket, clock=self.clock)

    def frame(self, first: int, count: int) -> DataFrame:
        """Return rows with paths of their own, in two parts."""
        named = ("lpad(id, 3, '0') AS path", "concat('t', id % 2) AS tenant")
        return self.spark.range(first, first + count, 1, 2).selectExpr(*named)

    def commits(self) -> list[str]:
        """Return the commits of items that were sent, oldest first."""
        return [name for name in self.bucket.names if name.startswith(self.commits_to_come())]

    def commits_to_come(self) -> str:
        """Return how requests for them begin."""
        return f"PUT {urlsplit(self.place).path.strip('/')}/queue/_delta_log/"

    def files(self) -> set[str]:
        """Return the files of rows that the bucket has."""
        return {name for name in self.bucket.found() if "/step-" in name}


@pytest.fixture
def seen(spark: SparkSession, place: str) -> Iterator[Shared]:
    """Return a queue in a bucket that is this disk, under a name by which Spark reads it."""
    # What a name stands for Spark remembers for good.
    name = f"far{uuid.uuid4().hex}"
    mount = f"fs.viewfs.mounttable.{name}.link./data"
    Path(place, "data").mkdir()
    spark.conf.set(mount, f"file:{place}/data")
    yield Shared(spark, f"viewfs://{name}/data/files", ShakyStore(LocalStore(place)))
    spark.conf.unset(mount)


@pytest.fixture
def unseen(spark: SparkSession) -> Shared:
    """Return a queue in a bucket in the memory of this process, for which Spark has no files."""
    return Shared(spark, "s3://bucket/team/files", ShakyStore())


@pytest.fixture(params=["seen", "unseen"])
def shared(request: pytest.FixtureRequest, spark: SparkSession) -> Shared:
    """Return one of both."""
    del spark  # It marks what asks for it.
    made: Shared = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have frames of three rows planned by Spark, as those of hundreds of thousands are."""
    monkeypatch.setattr(spark_enqueue, "_MANY", 2)


def test_items_of_a_small_frame_take_two_requests(shared: Shared) -> None:
    """Rows that are few are a step of this process, as without Spark."""
    queue = shared.opened()
    assert queue.enqueue(shared.frame(0, 2)).inserted == 2
    shared.bucket.asked.clear()
    assert queue.enqueue(shared.frame(2, 2)).inserted == 2
    # The second GET looks at what has ended meanwhile.
    assert shared.bucket.asked == {"PUT": 2, "GET": 1}


@pytest.mark.usefixtures("large")
def test_a_large_frame_is_staged_and_committed_by_one_put(shared: Shared) -> None:
    """Keys are distinct over it and what was there; a process without Spark claims its items."""
    assert shared.queue.enqueue(shared.frame(0, 5)).inserted == 5
    done = shared.queue.enqueue(shared.frame(3, 5))
    assert (done.inserted, done.duplicates) == (3, 2)
    refused = done.outcomes.where("outcome = 'duplicate'").collect()
    holders = {row["path"]: row["_seq"] for row in shared.queue.status().collect()}
    assert {row["path"]: row["duplicate_of"] for row in refused} == {
        path: holders[path] for path in ("003", "004")
    }

    with shared.other.claim(100) as claim:
        assert sorted(row["path"] for row in claim.rows) == [f"{n:03}" for n in range(8)]
    assert shared.queue.counts()["acked"] == 8


def test_both_work_on_the_same_items(shared: Shared) -> None:
    """Neither gets what the other holds, and each sees what the other has settled."""
    shared.other.enqueue([{"path": f"{n:03}", "tenant": "t"} for n in range(6)])
    mine, theirs = shared.queue.claim(3), shared.other.claim(3)
    assert [row.path for row in mine.items.orderBy("_seq").collect()] == ["000", "001", "002"]
    assert [row["path"] for row in theirs.rows] == ["003", "004", "005"]

    mine.settle_each({1: "ack", 2: "ack"})
    mine.nack("broken")
    theirs.release()
    counts = shared.other.counts()
    assert (counts["acked"], counts["ready"]) == (2, 4)
    states = {row.path: row["_state"] for row in shared.queue.status().collect()}
    assert states == {f"{n:03}": "acked" if n < 2 else "ready" for n in range(6)}
    assert shared.queue.stats().ready == 4


def test_items_are_processed_into_an_output(shared: Shared, place: str) -> None:
    """The rows of a handler are in its table, and the items over, by whomever they came."""
    shared.other.enqueue([{"path": f"{n:03}", "tenant": "t"} for n in range(4)])
    out = f"{place}/out"
    done = shared.queue.process(
        lambda item: {"size": len(item["path"])}, returns="size int", output=out, limit=2
    )
    assert done.acked == 4
    assert shared.spark.read.format("delta").load(out).count() == 4
    assert shared.other.counts()["acked"] == 4


def test_upkeep_and_a_purge_are_commits_of_ours(shared: Shared) -> None:
    """What is over goes, in both logs; what waits stays, and a foreign look sees the same."""
    shared.queue.enqueue(shared.frame(0, 6))
    shared.other.claim(4).ack()
    assert shared.queue.maintain().checkpoint > 0
    assert shared.queue.purge("path < '002'") == 2
    assert shared.other.counts()["ready"] == 2
    assert sorted(row.path for row in shared.queue.status().collect()) == [
        f"{n:03}" for n in range(2, 6)
    ]
    assert shared.other.claim(10).count == 2


def test_finished_generations_are_archived_by_spark(shared: Shared, place: str) -> None:
    """Its table has what was dropped, and the logs have not."""
    archive = f"{place}/archive"
    for first in (0, 2):
        shared.queue.enqueue(shared.frame(first, 2))
        shared.other.claim(2).ack()
        for _ in range(2):
            shared.clock.advance(timedelta(seconds=100))
            shared.queue.maintain(retention=timedelta(seconds=50), archive_to=archive)
    assert shared.spark.read.format("delta").load(archive).count() == 4
    assert shared.queue.status().count() == 0


def test_streams_fill_the_queue_and_work_it_off(shared: Shared, place: str) -> None:
    """A micro-batch is one step, once; what a query claims and acks others see."""
    feed = Feed(shared.spark, f"{place}/feed", _SCHEMA, files=1)
    for batch in range(2):
        feed.put([{"path": f"{batch}{n}", "tenant": "t"} for n in range(2)])
        shared.queue.enqueue_stream(feed.stream, f"{place}/in").awaitTermination()
    assert shared.other.counts()["ready"] == 4

    done = shared.queue.process_stream(lambda _: None, f"{place}/out", trigger=None)
    done.awaitTermination()
    assert shared.other.counts()["acked"] == 4


def test_its_items_are_a_stream_where_spark_sees_the_store(seen: Shared, place: str) -> None:
    """The items of all writers, each once."""
    items = seen.queue.read_stream("copy", start="beginning")
    seen.other.enqueue([{"path": f"{n}", "tenant": "t"} for n in range(3)])
    sink = Sink(seen.spark, f"{place}/sink")
    for _ in range(2):
        sink.run(items)
    assert sorted(row.path for row in sink.rows()) == ["0", "1", "2"]


def test_its_items_are_no_stream_where_spark_has_no_files(unseen: Shared) -> None:
    """The copy of the process is no table that a query follows."""
    with pytest.raises(SetupError, match="hadoop-aws"):
        unseen.queue.read_stream("copy")


def test_a_front_puts_and_takes(shared: Shared) -> None:
    """A put is durable when its future says so, and what is acked others see."""
    with DurableQueue(shared.queue) as front:
        assert front.put({"path": "a", "tenant": "t"}).result(30).seq == 1
        with front.receive(timeout=30) as delivery:
            assert delivery.item["path"] == "a"
    assert shared.other.counts()["acked"] == 1


@pytest.mark.usefixtures("large")
def test_an_answer_that_is_lost_doubles_nothing(seen: Shared) -> None:
    """The same bytes are put again; what is there then is whose it is."""
    seen.queue.enqueue(seen.frame(0, 5))
    seen.bucket.names.clear()
    seen.bucket.fail_next(seen.commits_to_come(), _lose)
    assert seen.queue.enqueue(seen.frame(5, 5)).inserted == 5
    first, second = seen.commits()
    assert first == second
    assert seen.other.counts()["ready"] == 10


@pytest.mark.usefixtures("large")
def test_a_frame_that_loses_its_step_is_planned_again(seen: Shared) -> None:
    """Who commits while its files are written is not written over, and its files go later."""
    seen.queue.enqueue(seen.frame(0, 5))
    known, staged = seen.files(), set()

    def overtake(ask: Callable[[], Any]) -> Any:
        staged.update(seen.files() - known)
        assert seen.other.enqueue([{"path": "007", "tenant": "t"}]).inserted == 1
        return ask()

    seen.bucket.fail_next(seen.commits_to_come(), overtake)
    done = seen.queue.enqueue(seen.frame(5, 5))
    assert (done.inserted, done.duplicates) == (4, 1)
    assert sorted(row.path for row in seen.queue.status().collect()) == [
        f"{n:03}" for n in range(10)
    ]
    log: Any = store_of(seen.queue).queue
    log._table().interval = 1
    seen.queue.maintain()
    assert staged
    assert seen.files() & staged == set()


@pytest.mark.usefixtures("large")
def test_what_a_killed_driver_has_staged_is_swept(seen: Shared, place: str) -> None:
    """Its files are in no commit: nobody reads them, and upkeep removes them after a day."""
    seen.queue.enqueue(seen.frame(0, 5))
    known = seen.files()
    seen.bucket.fail_next(seen.commits_to_come(), _die)
    with pytest.raises(SystemExit):
        seen.queue.enqueue(seen.frame(5, 5))
    left = seen.files() - known
    assert left
    assert seen.opened().counts()["ready"] == 5

    old = time.time() - 2 * 86_400
    for name in left:
        os.utime(Path(place, name), (old, old))
    log: Any = store_of(seen.queue).queue
    log._table().interval = 1
    assert seen.queue.maintain().removed_files == len(left)
    assert seen.files() & left == set()
    assert seen.queue.claim(10).count == 5


def test_files_that_only_this_process_sees_are_not_read_elsewhere(
    unseen: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster without a file system for the store is told so; small steps go on."""
    unseen.queue.enqueue(unseen.frame(0, 2))
    monkeypatch.setattr(addresses, "are_local", lambda _: False)
    with pytest.raises(SetupError, match="hadoop-aws"):
        unseen.queue.status().collect()
    with unseen.queue.claim(2) as claim:
        assert claim.count == 2


def test_a_queue_that_delta_writes_is_not_written(spark: SparkSession, place: str) -> None:
    """Of a queue that was made without storage Spark has the commits, and it is said how."""
    DeltaQueue.create(spark, f"{place}/data/files", _SCHEMA)
    queue = DeltaQueue.open(spark, "s3://bucket/data/files", storage=LocalStore(place))
    with pytest.raises(InvalidArgumentError, match="without storage="):
        queue.enqueue(spark.createDataFrame([("a", "t")], _SCHEMA))


def test_a_queue_on_a_store_is_not_cloned(unseen: Shared) -> None:
    """A shallow clone would be written by Delta."""
    with pytest.raises(InvalidArgumentError, match="conditional PUTs"):
        unseen.queue.clone("s3://bucket/team/again")


def _lose(ask: Callable[[], Any]) -> None:
    ask()
    raise TimeoutError("operation timed out")


def _die(_: Callable[[], Any]) -> None:
    raise SystemExit("killed")


def test_a_session_asks_the_output_of_a_process_without_spark(shared: Shared) -> None:
    """What a dead worker has written there is done, and the rest of its claim is served again."""
    shared.queue.enqueue(shared.frame(0, 2))
    worker = LocalQueue.open(shared.place, storage=shared.bucket, clock=shared.clock)
    out, store = f"{shared.place}-out", store_of(worker)
    asked = claims.request(Snapshot(store), 2, timedelta(minutes=1), "crew", 1, None)
    named = replace(asked, output=out)
    held = claims.claim(Snapshot(store), named)
    rows = pa.table({"length": [3], "_seq": [1], "_claim_id": [held.claim_id]})
    table = ObjectTables(shared.bucket).results(out, "output", "returns")
    table.make(rows.schema)
    assert table.write(rows, held.claim_id)
    shared.clock.advance(timedelta(minutes=2))

    queue = shared.opened()
    assert [row["path"] for row in queue.claim(5).items.collect()] == ["001"]
    assert queue.stats().acked == 1


def test_a_session_writes_no_output_whose_commits_are_conditional(seen: Shared) -> None:
    """Delta on Spark would write over the commits of the others: that is said first."""
    seen.queue.enqueue(seen.frame(0, 2))
    worker = LocalQueue.open(seen.place, storage=seen.bucket, clock=seen.clock)
    out = f"{seen.place}-out"
    done = worker.process(lambda _: {"length": 3}, limit=2, returns="length int", output=out)

    assert done.acked == seen.spark.read.format("delta").load(out).count() == 2
    with pytest.raises(InvalidArgumentError, match=r"conditional PUTs.*name another table"):
        seen.queue.process(lambda _: {"length": 3}, returns="length int", output=out)
