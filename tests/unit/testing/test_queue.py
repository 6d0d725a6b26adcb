"""A queue in memory is the queue on a disk, but for the disk."""

from __future__ import annotations

import builtins
import gc
import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_queue.claim import LocalClaim
from spark_queue.clock import ManualClock
from spark_queue.commands import create_drop
from spark_queue.config import QueueConfig
from spark_queue.errors import (
    InvalidArgumentError,
    InvalidConfigError,
    LeaseLostError,
    QueueNotFoundError,
    SparkNeededError,
)
from spark_queue.local_queue import LocalQueue
from spark_queue.log.step_events import StepFacts
from spark_queue.queue_views import store_of
from spark_queue.results import EnqueueResult
from spark_queue.state import catch_up
from spark_queue.testing import memory_queue
from tests.unit.testing.conftest import Make, put

#: A column of every type that is kept without Spark.
_EVERY_TYPE = (
    "a string, b binary, c boolean, d date, e timestamp, f tinyint, g smallint, h int, i bigint, "
    "j float, k double, l decimal(12,3)"
)


def test_what_it_gives_is_what_the_queue_on_a_disk_gives(make: Make) -> None:
    """Its handle, its results and its rows are of the same types."""
    queue = make(dedup_key="path")
    done = queue.enqueue([{"path": "a"}, {"path": "a"}])
    claim = queue.claim(2)

    assert type(queue) is LocalQueue
    assert type(done) is EnqueueResult
    assert (done.inserted, done.duplicates) == (1, 1)
    assert type(claim) is LocalClaim
    assert claim.rows == [{"path": "a", "_seq": 1, "_lease": claim.lease, "_attempts": 0}]
    assert claim.ack().acked == 1
    assert queue.counts()["acked"] == 1


def test_its_tables_have_the_columns_of_those_on_a_disk(queue_path: str) -> None:
    """Of every type that is kept without Spark a column is to Arrow what it is on a disk."""
    kept = memory_queue(_EVERY_TYPE)
    on_disk = LocalQueue.create(queue_path, _EVERY_TYPE, durability="process")

    assert kept.status().schema == on_disk.status().schema
    logs = [store_of(queue).native("status") for queue in (kept, on_disk)]
    tables = [log.rows_of(log.files(), log.columns()) for log in logs if log is not None]
    assert tables[0].schema == tables[1].schema


def test_a_type_that_only_spark_keeps_is_refused() -> None:
    """What cannot be made on a disk without Spark cannot be made in memory."""
    with pytest.raises(SparkNeededError):
        memory_queue("tags array<string>")


def test_a_key_that_is_no_expression_is_refused() -> None:
    """A configuration is checked as for any queue."""
    with pytest.raises(InvalidConfigError):
        memory_queue("path string", QueueConfig(dedup_key="nope"))


def _live(make: Make) -> int:
    """Make a queue, use it, drop it; return how many are there that were done."""
    queue = make(dedup_key="path", fair_key="path")
    put(queue, "a", "b", "c")
    with queue.claim(2) as claim:
        assert len(claim.rows) == 2
    queue.process(lambda _: None)
    assert queue.maintain().checkpoint > 0
    assert queue.purge({"path": "a"}) == 1
    acked = queue.counts()["acked"]
    create_drop.drop(store_of(queue))
    return acked


def test_nothing_is_written_to_a_disk(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the making to the end no file is opened, made, or removed."""
    # Modules are files, too, and are read when they are first used.
    _live(make)

    def refused(*args: object, **options: object) -> None:
        raise AssertionError((args, options))

    for room, name in (
        *((builtins, "open"), (io, "open"), (os, "open"), (os, "mkdir"), (os, "link")),
        *((os, "unlink"), (os, "rename"), (os, "listdir"), (Path, "open")),
    ):
        monkeypatch.setattr(room, name, refused)
    acked = _live(make)
    monkeypatch.undo()
    assert acked == 2


def test_two_queues_know_nothing_of_each_other(make: Make) -> None:
    """Each call makes a queue of its own, also with the same settings."""
    first, second = make(), make()
    put(first, "a")

    assert first.name != second.name
    assert second.claim().count == 0
    assert first.claim().count == 1


def test_what_it_knows_is_gone_with_its_last_handle(make: Make) -> None:
    """A session of many tests keeps nothing of the queues of those that are over."""
    queue = make()
    put(queue, "a")
    known = store_of(queue).handle.place.identity()
    assert known in catch_up._caches

    del queue
    gc.collect()

    assert known not in catch_up._caches


def test_who_has_closed_it_finds_it_as_it_was(make: Make) -> None:
    """What a handle remembers is read again from the rows in memory."""
    queue = make(dedup_key="path")
    put(queue, "a", "b")
    queue.claim().ack()
    queue.close()

    assert queue.counts()["ready"] == 1
    assert queue.enqueue({"path": "b"}).duplicates == 1
    assert [row["path"] for row in queue.claim(5).rows] == ["b"]


def test_a_queue_that_was_dropped_is_not_there(make: Make) -> None:
    """Whoever goes on with a handle of it is told so."""
    queue = make()
    create_drop.drop(store_of(queue))

    with pytest.raises(QueueNotFoundError):
        put(queue, "a")
    with pytest.raises(QueueNotFoundError):
        queue.counts()


def test_a_lease_ends_by_the_clock_of_the_test(make: Make, clock: ManualClock) -> None:
    """Time passes when it is told to: a lease that has run out is another's to take."""
    queue = make(lease=timedelta(seconds=30))
    put(queue, "a")
    late = queue.claim()

    clock.advance(timedelta(seconds=29))
    assert queue.claim().count == 0
    clock.advance(timedelta(seconds=2))
    assert queue.claim().count == 1
    with pytest.raises(LeaseLostError):
        late.ack()


def test_readers_each_see_all_of_it(make: Make) -> None:
    """A second reader gets every item, too, and has a position of its own."""
    queue = make()
    put(queue, "a")
    index, audit = queue.reader("index"), queue.reader("audit", start="beginning")

    assert index.claim(5).ack().acked == 1
    assert index.counts()["ready"] == 0
    assert audit.counts()["ready"] == 1
    assert queue.readers() == ("index", "audit")


def test_many_threads_share_it(make: Make) -> None:
    """Each item is given to one of those who claim at the same time."""
    queue = make()
    put(queue, *(f"{number:02}" for number in range(40)))

    def work(_: int) -> list[str]:
        taken = []
        while (claim := queue.claim(3)).count:
            taken += [row["path"] for row in claim.rows]
            claim.ack()
        return taken

    with ThreadPoolExecutor(4) as pool:
        taken = [path for paths in pool.map(work, range(4)) for path in paths]
    assert sorted(taken) == [f"{number:02}" for number in range(40)]


def test_who_waits_is_woken_by_what_is_put(make: Make) -> None:
    """A claim that waits has an item as soon as another thread has put it."""
    queue = make()
    threading.Timer(0.1, put, (queue, "a")).start()
    started = time.monotonic()

    assert queue.claim(wait=timedelta(seconds=60)).count == 1
    assert time.monotonic() - started < 30


def test_children_work_for_it(make: Make) -> None:
    """``process`` has items worked on by children of the process, which settles them."""
    queue = make(max_losses=1)
    put(queue, "a", "b")

    def handler(item: dict[str, Any]) -> None:
        if item["path"] == "a":
            os._exit(1)

    done = queue.process(handler, using="processes")

    assert (done.acked, done.dead) == (1, 1)


def test_upkeep_drops_what_is_long_over(make: Make, clock: ManualClock) -> None:
    """A checkpoint sums the log up, generations that are over go, and the rest stays as it was."""
    queue = make(dedup_key="path", fair_key="path")
    for number in range(30):
        put(queue, f"{number:02}")
    queue.process(lambda _: None, limit=10)
    put(queue, "x", "y")
    clock.advance(timedelta(days=30))
    put(queue, "z")
    done = queue.maintain(retention=timedelta(days=1))
    queue.close()

    assert done.checkpoint > 0
    assert queue.enqueue({"path": "x"}).duplicates == 1
    assert queue.counts()["ready"] == 3
    assert [row["path"] for row in queue.claim(5).rows] == ["x", "y", "z"]


def test_items_are_removed_by_what_they_are(make: Make) -> None:
    """A purge takes finished items out of both logs, and leaves all others."""
    queue = make()
    put(queue, "a", "b")
    put(queue, "c")
    queue.claim(2).ack()

    assert queue.purge({"path": ["a", "c"]}) == 1
    assert queue.status()["path"].to_pylist() == ["b", "c"]
    assert queue.history(1).num_rows == 0
    queue.close()
    assert queue.status()["path"].to_pylist() == ["b", "c"]


def test_to_make_and_use_one_costs_milliseconds(make: Make) -> None:
    """To make a queue, enqueue, claim and ack takes less of a processor than 50 ms."""

    def cycle() -> None:
        queue = make(dedup_key="path")
        put(queue, "a")
        queue.claim().ack()

    cycle()
    started = time.thread_time()
    for _ in range(5):
        cycle()
    assert (time.thread_time() - started) / 5 < 0.05


def test_a_listener_is_told_of_its_steps(clock: ManualClock) -> None:
    """Steps are told as those of any queue are."""
    told: list[str] = []

    def listener(facts: StepFacts) -> None:
        told.append(facts.action)

    queue = memory_queue("path string", clock=clock, listener=listener)
    queue.enqueue(pa.table({"path": ["a"]}))
    queue.claim().ack()

    assert told == ["enqueue", "claim", "settle"]


def test_a_name_is_what_messages_call_it(clock: ManualClock) -> None:
    """Two of one name are two queues, and what no name can be is refused."""
    first, second = (memory_queue("path string", name="files", clock=clock) for _ in range(2))
    put(first, "a")

    assert first.name == "memory:/files"
    assert second.counts()["ready"] == 0
    for name in ("", "a/b", "a:b", "a b", 7):
        with pytest.raises(InvalidArgumentError, match="name is"):
            memory_queue("path string", name=name)  # type: ignore[arg-type]
