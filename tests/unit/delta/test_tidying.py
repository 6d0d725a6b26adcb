"""A log kept short by the thread of a process: beside steps, forks and ends; and what is swept."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from spark_queue import LocalQueue, QueueConfig
from spark_queue.clock import ManualClock
from spark_queue.commands import readers
from spark_queue.commands.rows import Enqueued
from spark_queue.errors import InvalidArgumentError, OutcomesGoneError, StepLostError
from spark_queue.log import maintenance
from spark_queue.log.delta.commits import newest_version, summed_up
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import append_files, delta_rs, disk_storage, leftover_files, write_lock
from spark_queue.log.disk.leftover_files import Ages, sweep
from spark_queue.log.disk.removal import resting
from spark_queue.views.views import ARROW_VIEWS
from tests.programs import run_python

#: Whatever nobody has committed is left behind.
_AT_ONCE = Ages(ours=0.0, others=0.0)


@pytest.fixture
def queue(tmp_path: Path) -> LocalQueue:
    """Return a queue of ten steps."""
    queue = LocalQueue.create(tmp_path / "q", "n int", durability="process")
    for n in range(10):
        queue.enqueue({"n": n})
    return queue


@pytest.fixture
def items(queue: LocalQueue) -> DeltaLog[Any]:
    """Return its log of items."""
    return DeltaLog.at(Path(queue.name, "queue"))


def _numbers(queue: LocalQueue) -> list[int]:
    found: list[int] = queue.status()["n"].to_pylist()
    return found


def test_merged_files_have_the_same_rows_for_all(queue: LocalQueue, items: DeltaLog[Any]) -> None:
    """Whoever follows the table, opens it, or reads it by another library, sees no difference."""
    before = queue.status()
    assert sum(maintenance.merging(items)) == 20

    assert len(items.files()) == 2
    assert queue.status().equals(before)
    assert len(DeltaTable(str(items.directory)).to_pyarrow_table()) == 20
    queue.enqueue({"n": 10})
    assert _numbers(LocalQueue.open(queue.name)) == list(range(11))


def test_what_another_has_summed_up_meanwhile_is_left_as_it_is(items: DeltaLog[Any]) -> None:
    """Between a look at the log and the checkpoint, another process has written one of all."""
    delta_rs.write_checkpoint(items.directory)
    pointer = items.directory / "_delta_log" / "_last_checkpoint"
    before = pointer.read_bytes()

    delta_rs.write_checkpoint(items.directory)

    assert pointer.read_bytes() == before
    assert summed_up(items.directory) == 10


def test_a_merge_gives_way_to_another(queue: LocalQueue, items: DeltaLog[Any]) -> None:
    """What somebody else has merged meanwhile stays, and nothing of ours is left."""
    ours = maintenance.merging(DeltaLog.at(items.directory))
    for _ in range(10):
        next(ours)
    sum(maintenance.merging(items))

    assert sum(ours) == 0
    assert _numbers(queue) == list(range(10))
    assert sweep(items.directory, _AT_ONCE) == 0


def test_a_merge_that_is_stopped_leaves_nothing(queue: LocalQueue, items: DeltaLog[Any]) -> None:
    """Wherever it was: files that no commit names are removed by itself."""
    for strides in range(12):
        ours = maintenance.merging(DeltaLog.at(items.directory))
        for _ in range(strides):
            next(ours)
        ours.close()  # type: ignore[attr-defined]

    assert sweep(items.directory, _AT_ONCE) == 0
    assert _numbers(queue) == list(range(10))


def test_a_merge_that_fails_behind_its_commit_keeps_its_file(
    queue: LocalQueue, items: DeltaLog[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a commit may name stays, whatever fails after it: nobody's rows are lost."""
    real = DeltaLog.replace

    def failing(log: DeltaLog[Any], *asked: Any, **named: Any) -> bool:
        assert real(log, *asked, **named)
        raise OSError("too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLog, "replace", failing)
        with pytest.raises(OSError, match="too many open files"):
            sum(maintenance.merging(items))

    assert len(DeltaLog.at(items.directory).files()) < 20
    assert _numbers(LocalQueue.open(queue.name)) == list(range(10))
    assert sweep(items.directory, _AT_ONCE) == 0


def test_checksums_of_commits_that_are_gone_go_too(items: DeltaLog[Any]) -> None:
    """Of those that Spark's file system keeps beside its files, not what is in the making."""
    DeltaTable(str(items.directory)).create_checkpoint()
    log = items.directory / "_delta_log"
    names = sorted(path.name for path in log.glob("*.json"))
    (log / names[0]).unlink()
    for name in (names[0], names[1], f"{10**6:020}.json"):
        (log / f".{name}.crc").write_bytes(b"crc")

    assert sweep(items.directory, _AT_ONCE) == 1

    assert sorted(path.name for path in log.glob(".*.crc")) == [
        f".{names[1]}.crc",
        f".{10**6:020}.json.crc",
    ]


def test_a_removal_that_was_lost_says_so(queue: LocalQueue, items: DeltaLog[Any]) -> None:
    """Rows stay where somebody has rewritten the log unasked, and none is said to be gone."""

    def gone(rows: pa.Table) -> pa.ChunkedArray:
        DeltaTable(str(items.directory)).optimize.compact()
        return pc.equal(rows["n"], 3)

    with pytest.raises(StepLostError):
        maintenance.remove(items, lambda file: file.gen >= 0, gone)

    assert _numbers(queue) == list(range(10))
    assert sweep(items.directory, _AT_ONCE) == 0


def test_a_step_does_not_fail_for_want_of_a_thread(
    queue: LocalQueue, items: DeltaLog[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is due beside a step that stands is left, and asked for again later."""

    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refused)
        for n in range(101):
            queue.enqueue({"n": n})
        assert maintenance.wait(0)
    assert summed_up(items.directory) is None
    for n in range(101):
        queue.enqueue({"n": n})
    assert maintenance.wait(30)
    assert summed_up(items.directory) is not None


def test_a_fork_frees_no_stride_of_another() -> None:
    """Who forks and did not get the lock in time leaves it to whoever holds it."""
    ours = maintenance._Chores()
    with ours._stride:
        ours.before_fork()
        ours.after_fork()
        assert ours._stride.locked()
    ours.before_fork()
    assert ours._stride.locked()
    ours.after_fork()
    assert not ours._stride.locked()


def test_steps_go_on_while_files_are_merged(queue: LocalQueue, items: DeltaLog[Any]) -> None:
    """The right to write is free at each pause of it."""
    for _ in maintenance.merging(items):
        assert not write_lock.is_held(items.directory)
        queue.enqueue({"n": 99})

    assert _numbers(queue).count(99) > 10


def test_a_hundred_steps_are_summed_up_by_the_thread(tmp_path: Path) -> None:
    """The step that finds it due does not wait for it."""
    queue = LocalQueue.create(tmp_path / "q", "n int", durability="process")
    with resting(tmp_path / "q" / "queue"):
        for n in range(101):
            queue.enqueue({"n": n})
        assert maintenance.wait(30)
    assert summed_up(tmp_path / "q" / "queue") is None
    for n in range(101):
        queue.enqueue({"n": n})
    assert maintenance.wait(30)

    assert (summed_up(tmp_path / "q" / "queue") or 0) >= 200


def test_upkeep_forces_no_step_that_was_not_to_be_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the right to write for its commit, and all others would wait for the disk."""
    queue, forced = LocalQueue.create(tmp_path / "q", "n int", durability="process"), list[Path]()

    def force(directory: Path, _: object = None) -> None:
        forced.append(directory)

    monkeypatch.setattr(disk_storage, "sync_commits", force)
    monkeypatch.setattr(maintenance, "MANY", 50)
    for n in range(101):
        queue.enqueue({"n": n})
        queue.claim(1)
    assert maintenance.wait(60)

    files = [len(DeltaLog.at(tmp_path / "q" / name).files()) for name in ("queue", "status")]
    assert max(files) < 50
    assert forced == []


def test_a_process_that_ends_does_what_it_has_found_due(tmp_path: Path) -> None:
    """Where all live briefly the log is summed up all the same, and nothing is said of it."""
    place = tmp_path / "q"
    program = (
        "import spark_queue, time\n"
        "from spark_queue.log.disk import delta_rs\n"
        "opened = delta_rs.opened\n"
        "def slowly(place):\n"
        "    time.sleep(1 if 'spark-queue-' in str(place) else 0)\n"
        "    return opened(place)\n"
        "delta_rs.opened = slowly\n"
        f"queue = spark_queue.open({str(place)!r}, durability='process')\n"
        "for n in range(45):\n"
        "    queue.enqueue({'n': n})\n"
    )
    LocalQueue.create(place, "n int", durability="process")
    told = [run_python("-c", program, check=True).stderr for _ in range(3)]

    assert told == [""] * 3
    assert summed_up(place / "queue") is not None


def test_a_chore_that_does_not_end_keeps_nobody_from_ending() -> None:
    """A process waits for it for two seconds, and then for its stride."""
    program = (
        "import time\n"
        "from spark_queue.log import maintenance\n"
        "maintenance.ask('for ever', lambda: iter(int, 1))\n"
    )
    began = time.monotonic()
    run_python("-c", program, check=True, timeout=30)

    assert time.monotonic() - began < 10


def test_what_is_left_is_not_gone_on_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is done with a queue waits a while, and nothing happens there after that."""
    monkeypatch.setattr(maintenance, "_LAST", 0.05)
    strides = []

    def endless() -> Iterator[None]:
        while True:
            strides.append(1)
            yield

    maintenance.ask("left", endless)
    maintenance.leave("left")

    done = len(strides)
    assert done > 0
    assert maintenance.wait(10)
    assert len(strides) == done


def test_a_child_of_a_fork_has_nothing_to_do() -> None:
    """The thread stays with the parent, which forks between two strides, and goes on."""
    at_stride, may_go = threading.Event(), threading.Event()

    def chore() -> Iterator[None]:
        at_stride.set()
        may_go.wait(0.2)
        yield

    maintenance.ask("slow", chore)
    assert at_stride.wait(10)
    child = os.fork()
    if child == 0:
        os._exit(0 if maintenance.wait(0) and not maintenance._chores._stride.locked() else 1)
    may_go.set()

    assert os.waitpid(child, 0)[1] == 0
    assert maintenance.wait(10)


def test_what_fails_is_logged_and_the_next_is_done(caplog: pytest.LogCaptureFixture) -> None:
    """A disk that is full now may not be later."""
    done = threading.Event()

    def failing() -> Iterator[None]:
        raise OSError(28, "No space left on device")

    def going() -> Iterator[None]:
        done.set()
        yield

    maintenance.ask("failing", failing)
    maintenance.ask("going", going)

    assert maintenance.wait(10)
    assert done.is_set()
    assert "failing: not tidied up" in caplog.text


def _orphan(directory: Path, name: str) -> Path:
    file = directory / "_gen=0" / name
    file.write_bytes(b"PAR1")
    return file


@pytest.mark.parametrize(
    ("name", "age", "goes"),
    [
        ("step-1.snappy.parquet", 60, False),
        ("step-1.snappy.parquet", 700, True),
        ("part-1.snappy.parquet", 700, False),
        ("part-1.snappy.parquet", 90_000, True),
        ("part-1.snappy.parquet", 8 * 86_400, False),
        ("else.txt", 90_000, False),
    ],
)
def test_what_was_left_behind_goes_when_it_is_old(
    items: DeltaLog[Any], name: str, age: float, goes: object
) -> None:
    """Ours soon; of others after a day; and what may have been read once stays."""
    file = _orphan(items.directory, name)
    os.utime(file, (time.time() - age, time.time() - age))

    assert sweep(items.directory) == int(bool(goes))
    assert file.exists() != goes


@pytest.mark.parametrize(
    ("name", "goes"),
    [
        (f".{'a' * 32}.tmp", True),
        ("_commit_1.json.tmp", True),
        (f"{7:020}.json.tmp", False),
        (f"{7:020}.checkpoint.parquet#1", True),
        ("mine", False),
    ],
)
def test_commits_that_were_never_finished_go(items: DeltaLog[Any], name: str, goes: object) -> None:
    """By their names; whatever else lies there stays."""
    file = items.directory / "_delta_log" / name
    file.touch()

    assert sweep(items.directory, _AT_ONCE) == int(bool(goes))
    assert file.exists() != goes


def test_files_that_were_replaced_stay_for_those_who_look_back(
    queue: LocalQueue, items: DeltaLog[Any]
) -> None:
    """As long as the log names them: before a checkpoint and after it."""
    sum(maintenance.merging(items))
    everything = Ages(ours=0.0, others=0.0, most=float("inf"))
    assert sweep(items.directory, everything) == 0
    items._table().interval = 1
    assert items.sum_up()
    assert sweep(items.directory, everything) == 0

    assert len(DeltaTable(str(items.directory), version=5).to_pyarrow_table()) == 10
    assert _numbers(queue) == list(range(10))


def test_who_writes_keeps_its_files(items: DeltaLog[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is in no commit yet is in one when its writer gives up the right to write."""
    real, swept = leftover_files.named_files, []

    def late(directory: Path) -> set[str] | None:
        assert write_lock.is_held(directory)
        swept.append(newest_version(directory, None))
        return real(directory)

    monkeypatch.setattr(leftover_files, "named_files", late)
    found = threading.Thread(target=sweep, args=(items.directory, _AT_ONCE))
    with write_lock.holding("test", items.directory):
        add = items.written(0, items.rows_of(items.files()[:1], items.columns()))
        found.start()
        found.join(0.2)
        assert not swept
        assert items.replace([], [add], takes_away=False)
    found.join(10)

    assert (items.directory / add["path"]).exists()
    assert swept


def test_a_log_that_another_library_sums_up_otherwise_is_not_swept(
    items: DeltaLog[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be read says nothing of what is named."""
    items.files()
    items._table().interval = 1
    assert items.sum_up()
    file = _orphan(items.directory, "step-1.snappy.parquet")
    with monkeypatch.context() as patch:
        patch.setattr(leftover_files, "_has", lambda _, kind: kind == "sidecar")
        assert sweep(items.directory, _AT_ONCE) == 0
    assert file.exists()
    assert sweep(items.directory, _AT_ONCE) == 1


def test_files_that_were_replaced_a_week_ago_go_at_the_next_upkeep(
    queue: LocalQueue, items: DeltaLog[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However few the commits since: the log forgets them, and they are off the disk."""
    ago = time.time() - 8 * 86_400
    with monkeypatch.context() as then:
        then.setattr(append_files, "_millis", lambda: int(ago * 1000))
        assert queue.maintain().merged_files > 0
    before = _numbers(queue)
    files = {*items.directory.rglob("*.parquet")} - {*items.directory.rglob("*.checkpoint.parquet")}
    for file in files:
        os.utime(file, (ago, ago))

    assert queue.maintain().removed_files > 0
    assert len({*items.directory.rglob("*.parquet")} & files) == len(items.files())
    assert queue.maintain().removed_files == 0
    queue.enqueue({"n": 10})
    assert _numbers(LocalQueue.open(queue.name)) == [*before, 10]
    assert len(DeltaTable(str(items.directory)).to_pyarrow_table()) == 22


def test_what_was_purged_a_week_ago_is_in_no_file(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows of a person are off the disk at the next upkeep."""
    place = Path(queue.name)
    queue.claim(4).ack()
    ago = time.time() - 8 * 86_400
    with monkeypatch.context() as then:
        then.setattr(append_files, "_millis", lambda: int(ago * 1000))
        assert queue.purge("n = 2") == 1
    assert _holding(place, 2)
    for file in place.rglob("*.parquet"):
        os.utime(file, (ago, ago))

    queue.maintain()

    assert not _holding(place, 2)
    assert _holding(place, 3)


def test_what_is_purged_now_is_in_no_file(queue: LocalQueue) -> None:
    """Nor are other versions of its row, as that which was merged; rows of others stay."""
    place = Path(queue.name)
    queue.claim(4).ack()
    queue.maintain()
    assert len(_holding(place, 2)) == 2

    assert queue.purge("n = 2", now=True) == 1

    assert not _holding(place, 2)
    assert len(_holding(place, 3)) == 1
    again = LocalQueue.open(queue.name)
    assert (_numbers(again), again.purge("n = 2", now=True)) == ([0, 1, *range(3, 10)], 0)
    assert len(DeltaTable(str(place / "queue")).to_pyarrow_table()) == 19


def test_what_others_may_read_is_not_purged_now(queue: LocalQueue, tmp_path: Path) -> None:
    """A stream and a clone are named; nothing is purged then."""
    queue.claim(4).ack()
    clone = queue.clone(str(tmp_path / "clone"))
    with pytest.raises(InvalidArgumentError, match="now is True, and a clone has the file"):
        queue.purge("n = 2", now=True)
    type(queue).drop(clone.name)
    readers.register(queue._main, "search", None, "tail", streams=True)
    with pytest.raises(InvalidArgumentError, match="reader 'search' is a stream"):
        queue.purge("n = 2", now=True)
    assert _numbers(queue) == list(range(10))
    queue.drop_reader("search")
    assert queue.purge("n = 2", now=True) == 1


def _holding(place: Path, number: int) -> list[Path]:
    """Return the files of items that have one of that number."""
    # A file has no column that is null in all its rows.
    files = [*place.glob("queue/_gen=*/*.parquet")]
    named = [file for file in files if "n" in pq.read_schema(file).names]
    return [file for file in named if number in pq.read_table(file, columns=["n"])["n"].to_pylist()]


def test_files_that_were_replaced_this_week_make_no_checkpoint(
    queue: LocalQueue, items: DeltaLog[Any]
) -> None:
    """Upkeep of each hour does not sum up a log that is short."""
    queue.maintain()
    assert queue.maintain().removed_files == 0
    assert summed_up(items.directory) is None


def test_refused_rows_go_with_the_retention(tmp_path: Path) -> None:
    """They are off the tables when their step is older, and are told of by name; counts agree."""
    clock, day = ManualClock(), timedelta(days=1)
    config = QueueConfig(dedup_key="n")
    queue = LocalQueue.create(tmp_path / "r", "n int", config, durability="process", clock=clock)
    done = [queue.enqueue([{"n": n % 2} for n in range(50)]) for _ in range(3)]
    clock.advance(20 * day)
    later = queue.enqueue([{"n": 1}, {"n": 2}])
    queue.claim(1).ack()
    assert queue.counts()["refused"] == queue.stats().refused == 149

    queue.maintain(retention=10 * day)

    assert queue.counts()["refused"] == queue.stats().refused == 1
    assert later.outcomes["outcome"].to_pylist() == ["duplicate", "inserted"]
    forgetful = LocalQueue.open(queue.name, clock=clock)
    step = Enqueued(step=done[1].step, inserted=0, duplicates=50)
    with pytest.raises(OutcomesGoneError, match=f"what step {done[1].step} of queue .* refused"):
        ARROW_VIEWS.read_outcomes(forgetful._main, step)
    assert forgetful.explain(60).reason == "unknown"
    assert forgetful.stats().ready == 2
    assert forgetful.enqueue([{"n": 1}]).duplicates == 1
