"""What is taken away for good while others go on: only what still nobody needs."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_queue.clock import ManualClock
from spark_queue.commands import create_drop
from spark_queue.errors import QueueExistsError, QueueNotFoundError
from spark_queue.local_queue import LocalQueue
from spark_queue.log.disk import write_lock
from spark_queue.log_errors import FileAccessError
from spark_queue.sql.operating import ItemPlanner
from spark_queue.state import existence
from spark_queue.state.store import Store
from spark_queue.upkeep import purge_items
from tests.unit.local.conftest import Make, Worker

Start = Callable[..., Worker]

_DAY = timedelta(days=1)

_REDRIVE = "queue.reader('first').redrive({'_seq': 1})"


@pytest.fixture
def dead(make: Make) -> LocalQueue:
    """Make a queue of one reader with two dead letters and an item that waits."""
    queue = make()
    queue.reader("first")
    queue.enqueue([{"id": name} for name in "abc"])
    queue.claim(2).settle_each({1: ("dead", "bad"), 2: ("dead", "bad")})
    return queue


def _after(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, then: Callable[[], object]
) -> list[object]:
    """Have something done once, right after a look at the tables; return what came of it."""
    look, got = getattr(owner, name), list[object]()

    def and_then(*args: Any, **options: Any) -> Any:
        found = look(*args, **options)
        if not got:
            got.append(then())
        return found

    monkeypatch.setattr(owner, name, and_then)
    return got


def test_a_purge_leaves_what_is_redriven_meanwhile(
    dead: LocalQueue, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that another process makes ready, after it was found, stays and is given out."""
    worker = start()
    told = _after(monkeypatch, purge_items, "purgeable", lambda: worker.says(_REDRIVE))

    assert dead.purge({"id": ["a", "b"]}) == 1

    assert told == ["1"]
    assert [row["id"] for row in dead.claim(5).rows] == ["a", "c"]
    assert dead.purge({"id": ["a", "b"]}) == 0


def test_a_purge_leaves_what_a_reader_needs_that_came_meanwhile(
    dead: LocalQueue, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that registers after the items were found, and begins with them, gets them all."""
    worker = start()
    late = "queue.reader('late', start='beginning').counts()['ready']"
    told = _after(monkeypatch, purge_items, "purgeable", lambda: worker.says(late))

    assert dead.purge({"id": ["a", "b"]}) == 0

    assert told == ["3"]
    assert [row["id"] for row in dead.open_reader("late").claim(5).rows] == ["a", "b", "c"]


def test_a_purge_leaves_what_tells_that_an_item_was_redriven(make: Make) -> None:
    """A successor goes with all that it comes from, or later: nothing is redriven once more."""
    queue = make()
    queue.enqueue({"id": "a"})
    for seq in (1, 2):
        queue.claim(1).dead("bad")
        assert queue.redrive({"_seq": seq}) == 1
    queue.claim(1).ack()

    for where in ("_state = 'acked'", "_seq = 2", "_seq IN (2, 3)"):
        assert queue.purge(where, dry_run=True) == 0
        assert queue.purge(where) == 0
    assert queue.redrive("true") == 0
    assert queue.purge("_state = 'dead'", dry_run=True) == 2
    assert queue.purge("_state = 'dead'") == 2
    assert queue.purge("_state = 'acked'") == 1


def test_a_purge_leaves_what_tells_that_a_cancel_was_undone(make: Make) -> None:
    """After it, too, there is nothing more to take back."""
    queue = make()
    queue.enqueue({"id": "a"})
    step = queue.cancel("true").step
    queue.undo(step)
    queue.claim(1).ack()

    assert queue.purge("_state = 'acked'") == 0

    assert (queue.undo(step).restored, queue.counts()["ready"]) == (0, 0)
    assert queue.purge("true") == 2


def test_a_purge_leaves_the_successor_of_what_a_reader_needs(make: Make) -> None:
    """An item that stays because of another reader has its successor stay."""
    queue = make()
    queue.enqueue({"id": "a"})
    queue.claim(1).dead("bad")
    queue.redrive("true")
    queue.claim(1).ack()
    queue.reader("first")
    late = queue.reader("late", start="beginning")
    late.claim(2).settle_each({1: "release", 2: "ack"})

    assert queue.purge("true", dry_run=True) == 0

    late.claim(1).ack()
    assert queue.purge("true") == 2


def test_a_purge_waits_for_a_redrive_under_way(
    dead: LocalQueue, start: Start, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item that a redrive has found is not taken away before its step is made."""
    worker = start()
    worker.says("queue.counts()")
    log = Path(queue_path, "queue")
    looked = worker.process.stdin
    assert looked is not None

    def purged_meanwhile() -> None:
        looked.write("queue.purge({'id': ['a', 'b']})\n")
        looked.flush()
        until = time.monotonic() + 30
        while write_lock.holder(log) != worker.process.pid and time.monotonic() < until:
            time.sleep(0.01)

    _after(monkeypatch, ItemPlanner, "matching", purged_meanwhile)

    assert dead.reader("first").redrive({"_seq": 1}) == 1

    assert worker.process.stdout is not None
    assert worker.process.stdout.readline().strip() == "1"
    assert write_lock.holder(log) != os.getpid()
    assert [row["id"] for row in dead.claim(5).rows] == ["a", "c"]


def test_a_generation_with_what_is_redriven_meanwhile_stays(
    dead: LocalQueue, clock: ManualClock, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It, and all later ones, stay until that item is over, too."""
    dead.claim(1).ack()
    for name in ("d", None):
        # It is closed, and nothing is dropped.
        clock.advance(3 * _DAY)
        assert dead.maintain(retention=12 * _DAY).dropped_generations == 0
        if name is not None:
            dead.enqueue({"id": name})
            dead.claim(1).ack()
    worker = start()
    told = _after(monkeypatch, purge_items, "last_ends", lambda: worker.says(_REDRIVE))

    done = dead.maintain(retention=_DAY)

    assert told == ["1"]
    assert (done.dropped_generations, done.dropped_items) == (0, 0)
    with dead.claim(5) as claim:
        assert [row["id"] for row in claim.rows] == ["a"]
    monkeypatch.undo()
    assert dead.maintain(retention=_DAY).dropped_items == 0
    clock.advance(_DAY)
    assert dead.maintain(retention=_DAY).dropped_items == 4


def test_a_generation_that_ended_late_keeps_those_after_it(make: Make, clock: ManualClock) -> None:
    """They go in their order: what a new reader does not get is all that came before a step."""
    queue = make()
    queue.enqueue([{"id": "a"}])
    held = queue.claim(1, lease=100 * _DAY)
    clock.advance(_DAY)
    queue.maintain(retention=_DAY)
    queue.enqueue({"id": "b"})
    queue.claim(1).ack()
    clock.advance(_DAY)
    queue.maintain(retention=2 * _DAY)
    held.ack()
    clock.advance(_DAY)

    assert queue.maintain(retention=2 * _DAY).dropped_generations == 0
    clock.advance(_DAY)
    assert queue.maintain(retention=2 * _DAY).dropped_items == 2


def test_a_queue_that_nobody_reads_has_nothing_to_purge(dead: LocalQueue) -> None:
    """What is over is over for a reader; without one, nothing is."""
    dead.drop_reader("first")
    assert dead.purge({"id": ["a", "b"]}) == 0


def test_a_drop_that_was_cut_is_finished_by_the_next(make: Make, queue_path: str) -> None:
    """What is left without an item log is no queue; a drop removes it, and the place is free."""
    queue = make()
    queue.reader("first")
    queue.reader("second")
    queue.close()
    shutil.rmtree(f"{queue_path}/queue")
    with pytest.raises(QueueNotFoundError):
        LocalQueue.open(queue_path)
    with pytest.raises(QueueExistsError, match="drop it first"):
        LocalQueue.create(queue_path, "id string")

    LocalQueue.drop(queue_path)

    assert LocalQueue.create(queue_path, "id string").counts()["ready"] == 0
    assert not Path(queue_path, "reader_1").exists()


def test_a_drop_that_comes_late_leaves_the_next_queue(
    make: Make, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it waits its turn, another drop finishes the cut one, and a new queue is made."""
    make().close()
    shutil.rmtree(f"{queue_path}/queue")
    right_to_make = create_drop.making

    @contextmanager
    def wait_for_others(store: Store) -> Iterator[None]:
        monkeypatch.setattr(create_drop, "making", right_to_make)
        LocalQueue.drop(queue_path)
        LocalQueue.create(queue_path, "id string").enqueue({"id": "new"})
        with right_to_make(store):
            yield

    monkeypatch.setattr(create_drop, "making", wait_for_others)
    LocalQueue.drop(queue_path)

    assert LocalQueue.open(queue_path).claim().rows[0]["id"] == "new"


def test_two_drops_of_one_queue_remove_it_once(make: Make, queue_path: str) -> None:
    """Each removes what it finds, or is told that there is no queue any more."""
    make().close()

    def drop() -> str:
        try:
            LocalQueue.drop(queue_path)
        except QueueNotFoundError:
            return "not found"
        return "dropped"

    with ThreadPoolExecutor(4) as pool:
        told = [future.result() for future in [pool.submit(drop) for _ in range(4)]]

    assert "dropped" in told
    assert not any(Path(queue_path, log).exists() for log in ("queue", "status"))


def test_a_drop_that_was_cut_is_told_what_the_disk_refuses(
    make: Make, queue_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of a queue is not said to be missing, as long as it is there."""
    make().close()
    shutil.rmtree(Path(queue_path, "queue"))
    log = Path(queue_path, "status", "_delta_log")

    def refused(_: object) -> None:
        raise FileAccessError(log, errno.EIO, "see to the disk")

    monkeypatch.setattr(existence, "status_columns", refused)
    with pytest.raises(FileAccessError, match="see to the disk"):
        LocalQueue.drop(queue_path)

    monkeypatch.undo()
    assert LocalQueue.drop(queue_path) is None
    assert not log.exists()


def test_a_drop_leaves_what_is_no_log_of_a_queue(tmp_path: Path) -> None:
    """A table of somebody's own that is called as a log is stays, and nothing was to be dropped."""
    for name in ("status", "reader_1"):
        write_deltalake(tmp_path / name, pa.table({"n": [1]}))

    with pytest.raises(QueueNotFoundError):
        LocalQueue.drop(tmp_path)

    assert {one.name for one in tmp_path.iterdir()} == {"status", "reader_1"}
