"""A queue on a shared store: steps are decided in the process, and Spark commits them.

The store is this disk under a name by which nobody knows that: what is there is only to be had
through the session.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextvars import Context

import pytest
from pyspark.sql import SparkSession

from spark_queue.commands import claims
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.errors import LeaseLostError
from spark_queue.log.object.remote_commits import FarCommits
from spark_queue.queue_views import store_of
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import catch_up
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.upkeep import spark_upkeep

_SCHEMA = "path string, tenant string"
_CONFIG = QueueConfig(dedup_key="path", fair_key="tenant")

#: Runs something as another process would, which knows nothing of what this one does.
Elsewhere = Callable[[Callable[[], object]], None]


@pytest.fixture
def far(spark: SparkSession, place: str) -> Iterator[str]:
    """Return where a queue can be made on a shared store."""
    # What a name stands for Spark remembers for good.
    name = f"far{uuid.uuid4().hex}"
    mount = f"fs.viewfs.mounttable.{name}.link./data"
    spark.conf.set(mount, f"file:{place}")
    yield f"viewfs://{name}/data/queue"
    spark.conf.unset(mount)


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Elsewhere:
    """Do something with a memory of its own."""
    others: dict[str, catch_up.Cache] = {}

    def act(do: Callable[[], object]) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(catch_up, "_caches", others)
            # What a command of ours has looked at is not known there either.
            Context().run(do)

    return act


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note of which logs rows are read by a query."""
    asked: list[str] = []
    read = Store.rows_since

    def noted(store: Store, which: str, *rest: object) -> object:
        asked.append(which)
        return read(store, which, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "rows_since", noted)
    return asked


def _rows(*paths: str) -> list[dict[str, str]]:
    return [{"path": path, "tenant": "t"} for path in paths]


def _paths(claim: object) -> list[str]:
    return sorted(row.path for row in claim.items.collect())  # type: ignore[attr-defined]


def _enqueue(spark: SparkSession, queue: DeltaQueue, *paths: str) -> int:
    return queue.enqueue(spark.createDataFrame(_rows(*paths), _SCHEMA)).inserted


def test_a_driver_that_is_alone_reads_nothing_between_its_steps(
    spark: SparkSession, far: str, queries: list[str]
) -> None:
    """What this process has written it knows: only the first steps read the tables."""
    queue = DeltaQueue.create(spark, far, _SCHEMA, _CONFIG)
    assert not store_of(queue).is_local()
    assert _enqueue(spark, queue, "a", "b") == 2
    first = queue.claim(1)
    del queries[:]
    assert _enqueue(spark, queue, "a", "c") == 1
    first.ack()
    second = queue.claim(5)
    second.nack(error="no")
    assert (second.count, queries) == (2, [])
    stats = queue.stats()
    assert (stats.ready, stats.acked, stats.claimed) == (2, 1, 0)


def test_steps_of_others_are_followed(
    spark: SparkSession, far: str, elsewhere: Elsewhere, queries: list[str]
) -> None:
    """Each log of which another driver has made a step is asked for the rows of it, once."""
    queue = DeltaQueue.create(spark, far, _SCHEMA, _CONFIG)
    _enqueue(spark, queue, "a")
    held = queue.claim(1)
    theirs = DeltaQueue.open(spark, far)
    elsewhere(lambda: _enqueue(spark, theirs, "b", "c"))
    del queries[:]
    claim = queue.claim(5)
    assert (_paths(claim), queries) == (["b", "c"], ["queue"])
    claim.release()
    held.ack()
    elsewhere(lambda: theirs.claim(1).ack())
    elsewhere(store_of(theirs).status.compact)
    del queries[:]
    left = queue.claim(5)
    assert (left.count, queries) == (1, ["status"])


def test_a_step_that_was_lost_is_decided_again(
    spark: SparkSession, far: str, elsewhere: Elsewhere
) -> None:
    """Who comes second to a step gives out nothing that the first one has."""
    queue = DeltaQueue.create(spark, far, _SCHEMA, _CONFIG)
    _enqueue(spark, queue, "a", "b")
    queue.claim(1).release()
    theirs = DeltaQueue.open(spark, far)
    store, taken = store_of(queue), []

    def first(log: str) -> None:
        store.handle.hook = None
        assert log == "status"
        elsewhere(lambda: taken.extend(_paths(theirs.claim(1))))

    store.handle.hook = first
    ours = _paths(queue.claim(5))
    assert len(taken) == 1
    assert sorted([*taken, *ours]) == ["a", "b"]


@pytest.mark.parametrize("most", [500, 0], ids=["followed", "read anew"])
def test_what_enters_and_is_taken_while_a_claim_looks_is_not_given_out_twice(
    spark: SparkSession,
    far: str,
    elsewhere: Elsewhere,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
) -> None:
    """A claim that learns of a step that moves items knows by then that they have entered."""
    queue = DeltaQueue.create(spark, far, _SCHEMA, _CONFIG)
    _enqueue(spark, queue, "a")
    queue.claim(1).ack()
    theirs = DeltaQueue.open(spark, far)
    store = store_of(queue)

    def put_and_take() -> None:
        _enqueue(spark, theirs, "b")
        assert theirs.claim(1).count == 1

    at = Snapshot(store)
    assert at.queue.items == 1
    elsewhere(put_and_take)
    with monkeypatch.context() as patch:
        patch.setattr(catch_up, "_FAR", most)
        request = claims.request(at, 1, None, None, 1, None)
        assert claims.claim(at, request).count == 0
    assert queue.claim(1).count == 0


def test_what_somebody_else_has_taken_over_is_lost(
    spark: SparkSession, far: str, elsewhere: Elsewhere
) -> None:
    """A settle is judged by what other drivers have done meanwhile."""
    queue = DeltaQueue.create(spark, far, _SCHEMA, _CONFIG)
    _enqueue(spark, queue, "a")
    held = queue.claim(1)
    theirs = DeltaQueue.open(spark, far)
    elsewhere(lambda: theirs.cancel("path = 'a'"))
    with pytest.raises(LeaseLostError):
        held.ack()


def test_what_was_taken_out_of_a_log_is_known_no_more(
    spark: SparkSession, far: str, elsewhere: Elsewhere, queries: list[str]
) -> None:
    """Rows that are gone are not followed: the tables are read anew."""
    queue = DeltaQueue.create(spark, far, _SCHEMA, QueueConfig(dedup_key="path"))
    _enqueue(spark, queue, "a", "b")
    queue.claim(1).release()
    elsewhere(lambda: store_of(DeltaQueue.open(spark, far)).queue.delete("_seq = 1"))
    del queries[:]
    assert _paths(queue.claim(5)) == ["b"]
    assert queries == ["queue", "status"]


def test_where_commits_are_not_to_be_read_spark_decides(
    spark: SparkSession, far: str, monkeypatch: pytest.MonkeyPatch, queries: list[str]
) -> None:
    """A catalog that keeps the files of its tables to itself is asked by queries, as ever."""

    def refused(*_: object) -> None:
        raise PermissionError("not yours")

    monkeypatch.setattr(FarCommits, "_file", refused)
    queue = DeltaQueue.create(spark, far, _SCHEMA, _CONFIG)
    _enqueue(spark, queue, "a")
    claim = queue.claim(2)
    claim.ack()
    assert (claim.count, queue.stats().acked, queries) == (1, 1, [])


def test_a_clone_beside_it_is_a_queue_of_its_own(spark: SparkSession, far: str) -> None:
    """Its tables are shallow; what is in flight here is ready there, and steps go on from there."""
    queue = DeltaQueue.create(spark, far, _SCHEMA, _CONFIG)
    _enqueue(spark, queue, "a", "b")
    held = queue.claim(1, claim_id="mine")

    clone = queue.clone(f"{far}_clone")

    assert _enqueue(spark, clone, "a", "c") == 1
    assert planner_of(store_of(clone)).find_claim("mine") is None
    assert sorted(_paths(clone.claim(5, claim_id="mine"))) == ["a", "b", "c"]
    again = planner_of(store_of(clone)).find_claim("mine")
    assert again is not None
    assert again.count == 3
    held.ack()
    stats, theirs = queue.stats(), clone.stats()
    assert (stats.ready, stats.acked, stats.claimed) == (1, 1, 0)
    assert (theirs.ready, theirs.acked, theirs.claimed) == (0, 0, 3)


def test_a_clone_is_of_one_instant_whatever_others_do_meanwhile(
    spark: SparkSession, far: str, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What they enqueue and claim between two looks is in it; what comes after those is not."""
    queue = DeltaQueue.create(spark, far, _SCHEMA, _CONFIG)
    _enqueue(spark, queue, "a")
    theirs, looked, came = DeltaQueue.open(spark, far), list[str](), iter("bc")

    def and_then(name: str) -> None:
        act = getattr(spark_upkeep, name)

        def acted(*args: object) -> object:
            done = act(*args)
            if name not in looked:
                elsewhere(lambda: (_enqueue(spark, theirs, next(came)), theirs.claim(1)))
            looked.append(name)
            return done

        monkeypatch.setattr(spark_upkeep, name, acted)

    and_then("version_of")
    and_then("shallow")

    clone = queue.clone(f"{far}_clone")

    assert looked == [*["version_of"] * 6, "shallow", "shallow"]
    assert _paths(clone.claim(5)) == ["a", "b"]
    assert (queue.stats().claimed, queue.stats().ready) == (2, 1)
