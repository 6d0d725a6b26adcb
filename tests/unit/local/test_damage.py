"""Damage on the disk of a queue without Spark: an error that names it, and never fewer items."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from spark_queue.clock import ManualClock
from spark_queue.errors import LeaseLostError, LogDamagedError, SparkNeededError
from spark_queue.local_queue import LocalQueue
from spark_queue.state import catch_up
from tests.unit.local.conftest import Make

Again = Callable[[], LocalQueue]

#: Makes something wrong in the directory of a log, and returns what an error is to name.
Damage = Callable[[Path], str]


def commits(log: Path) -> list[Path]:
    """Return the commits of a log, oldest first."""
    return sorted((log / "_delta_log").glob("*.json"))


def following(log: Path, ahead: int = 1) -> Path:
    """Return the file of a commit that is to come."""
    return commits(log)[-1].with_name(f"{len(commits(log)) - 1 + ahead:020}.json")


def newest(log: Path, gen: int) -> Path:
    """Return the newest file of a lane."""
    return max(log.glob(f"_gen={gen}/*.parquet"), key=lambda path: path.stat().st_mtime_ns)


def written(file: Path, content: bytes) -> str:
    """Write something to a file, and return its name."""
    file.write_bytes(content)
    return file.name


def cut(file: Path) -> str:
    """Take away the end of a file."""
    return written(file, file.read_bytes()[:-30])


def gone(file: Path) -> str:
    """Take away a file."""
    file.unlink()
    return file.name


#: What nobody goes on with, whether or not it was seen before the damage.
COMMITS: dict[str, Damage] = {
    "newest empty": lambda log: written(commits(log)[-1], b""),
    "newest cut": lambda log: cut(commits(log)[-1]),
    "newest gone": lambda log: gone(commits(log)[-1]),
    "next empty": lambda log: written(following(log), b""),
    "next foreign": lambda log: written(following(log), b"hello\n"),
    "next no action": lambda log: written(following(log), b"[]\n"),
}

#: What is noticed by whoever reads the tables anew.
FILES: dict[str, Damage] = {
    "older empty": lambda log: written(commits(log)[1], b""),
    "older gone": lambda log: gone(commits(log)[1]),
    "rows cut": lambda log: cut(newest(log, 0)),
    "rows empty": lambda log: written(newest(log, 0), b""),
    "rows gone": lambda log: gone(newest(log, 0)),
    "head cut": lambda log: cut(newest(log, -1)),
    "head gone": lambda log: gone(newest(log, -1)),
}


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Return a queue in which one item is done, and two wait."""
    made = make(dedup_key="id")
    for name in "abc":
        made.enqueue({"id": name})
    made.claim().ack()
    return made


def log_of(queue: LocalQueue, which: str) -> Path:
    """Return the directory of a log."""
    return Path(queue.name, which)


def anew(again: Again) -> LocalQueue:
    """Open the queue as a process does that has never seen it."""
    caches: dict[str, object] = vars(catch_up)["_caches"]
    caches.clear()
    return again()


@pytest.mark.parametrize("which", ["queue", "status"])
@pytest.mark.parametrize("damage", COMMITS)
def test_a_damaged_newest_commit_is_named(
    queue: LocalQueue, again: Again, which: str, damage: str
) -> None:
    """Whoever knew the queue before, and whoever opens it then, is told, and nothing is written."""
    named = COMMITS[damage](log_of(queue, which))
    before = sorted(Path(queue.name).rglob("*.json"))

    with pytest.raises(LogDamagedError, match=named):
        queue.claim()
    with pytest.raises(LogDamagedError, match=named):
        anew(again).claim()
    assert sorted(Path(queue.name).rglob("*.json")) == before


@pytest.mark.parametrize("which", ["queue", "status"])
@pytest.mark.parametrize("damage", FILES)
def test_a_damaged_file_is_named_by_who_reads_it(
    queue: LocalQueue, again: Again, which: str, damage: str
) -> None:
    """An older commit, rows or a head that are gone or cut make no shorter queue."""
    named = FILES[damage](log_of(queue, which))

    with pytest.raises((LogDamagedError, OSError), match=named):
        anew(again).claim(9)


def test_a_commit_of_the_future_leaves_a_gap(queue: LocalQueue, again: Again) -> None:
    """What is missing before it is named."""
    missing = following(log_of(queue, "queue")).name
    following(log_of(queue, "queue"), 3).write_bytes(b'{"commitInfo":{}}\n')

    with pytest.raises(LogDamagedError, match=f"{missing} is gone, which another file names"):
        anew(again)


@pytest.mark.parametrize("left", [b"", b"PAR1"])
def test_items_whose_file_is_cut_are_not_called_purged(queue: LocalQueue, left: bytes) -> None:
    """Who has claimed them learns which file it is; so where it is gone."""
    claim, file = queue.claim(9), newest(log_of(queue, "queue"), 0)
    file.write_bytes(left)
    with pytest.raises(OSError, match=file.name):
        _ = claim.rows
    file.unlink()
    with pytest.raises(OSError, match=file.name):
        _ = claim.rows


def test_a_file_that_no_commit_names_is_nothing(queue: LocalQueue, again: Again) -> None:
    """What somebody has left there is not read."""
    (log_of(queue, "queue") / "_gen=0" / "foreign.parquet").write_bytes(b"?")

    assert [row["id"] for row in anew(again).claim(9).rows] == ["b", "c"]


def test_rows_that_somebody_appends_are_nobodys(queue: LocalQueue, again: Again) -> None:
    """Rows in the table of items that name no step are not read, and not merged with others."""
    rows = pa.table({"id": ["x"]})
    write_deltalake(log_of(queue, "queue"), rows, mode="append", schema_mode="merge")

    assert [row["id"] for row in queue.claim(1).rows] == ["b"]
    assert [row["id"] for row in anew(again).claim(9).rows] == ["c"]
    assert queue.enqueue({"id": "d"}).inserted == 1
    assert queue.maintain().merged_files > 0
    assert queue.status().num_rows == 4


def test_a_table_of_the_future_is_left_alone(queue: LocalQueue, again: Again) -> None:
    """A protocol that nobody here knows is told, and nothing is written."""
    future = b'{"protocol":{"minReaderVersion":9,"minWriterVersion":99}}\n'
    following(log_of(queue, "queue")).write_bytes(future)

    with pytest.raises(SparkNeededError):
        queue.claim()
    with pytest.raises(SparkNeededError):
        anew(again).claim()


class Failing:
    """A disk that fails once, at the n-th time that something is written, forced or named."""

    def __init__(self, patch: pytest.MonkeyPatch, place: str, nth: int, number: int) -> None:
        self.left, self._number, self._place = nth, number, place
        for owner, name in ((io, "open"), (os, "open"), (os, "mkdir"), (os, "link"), (os, "fsync")):
            patch.setattr(owner, name, self._around(getattr(owner, name)))

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            is_ours = isinstance(given[0], int) or str(given[0]).startswith(self._place)
            if is_ours and not self._reads(real, *given, **named):
                self.left -= 1
                if self.left == 0:
                    raise OSError(self._number, os.strerror(self._number), str(given[0]))
            return real(*given, **named)

        return call

    @staticmethod
    def _reads(real: Callable[..., Any], *given: Any, **named: Any) -> bool:
        mode = named.get("mode", given[1] if len(given) > 1 else "r")
        return real is builtins.open and not set(str(mode)) & set("wxa")


VERBS: dict[str, Callable[[LocalQueue], object]] = {
    "enqueue": lambda queue: queue.enqueue({"id": "d"}),
    "claim": lambda queue: queue.claim(1),
    "settle": lambda queue: queue.claim(1, claim_id="mine").ack(),
    "pause": lambda queue: queue.pause(),
}


def _number_of(work: Callable[[], object]) -> int | None:
    """Return which error of the system something ends with; ``None`` where it does not."""
    try:
        work()
    except OSError as error:
        return error.errno
    return None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("verb", VERBS)
def test_a_disk_that_fails_at_any_moment_leaves_no_half_step(
    queue: LocalQueue,
    again: Again,
    monkeypatch: pytest.MonkeyPatch,
    clock: ManualClock,
    verb: str,
    number: int,
) -> None:
    """It is told by its own error; what was there is there, and the same works afterwards."""
    durable = LocalQueue.open(queue.name, durability="disk", clock=clock)
    if verb == "settle":
        durable.claim(1, claim_id="mine")
    nth, is_over = 0, False
    while not is_over:
        nth += 1
        with monkeypatch.context() as patch:
            disk = Failing(patch, durable.name, nth, number)
            failed = _number_of(lambda: VERBS[verb](durable))
            is_over = disk.left > 0
        assert failed in (None, number)
    assert nth > 4
    rows = anew(again).status().to_pylist()
    assert sorted(row["id"] for row in rows) == [*"abc", *(["d"] if verb == "enqueue" else [])]
    assert sum(row["_state"] == "acked" for row in rows) == (2 if verb == "settle" else 1)
    again().resume()
    assert sum(queue.counts()[state] for state in ("ready", "claimed", "acked")) == len(rows)


@pytest.mark.parametrize("step", [-24, 24])
def test_a_clock_that_jumps_loses_nothing(
    queue: LocalQueue, again: Again, clock: ManualClock, step: int
) -> None:
    """Back, and a lease ends later; ahead, and it is over: each item is held by one, and served."""
    held = queue.claim(1, worker_id="crew")
    clock.advance(timedelta(hours=step))
    other = again().claim(9)

    if step < 0:
        assert [row["id"] for row in other.rows] == ["c"]
        held.ack()
    else:
        assert sorted(row["id"] for row in other.rows) == ["b", "c"]
        with pytest.raises(LeaseLostError):
            held.ack()
    other.ack()
    assert queue.enqueue({"id": "b"}).inserted + queue.enqueue({"id": "z"}).inserted == 2
    assert queue.counts()["acked"] == 3
    assert len(anew(again).claim(9).rows) == 2
