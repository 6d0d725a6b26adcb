"""One writes at a time to a table on a local disk, and everybody's turn comes."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from spark_queue.errors import WriterLockedError
from spark_queue.log.disk import write_lock
from spark_queue.log.disk.write_lock import LockFile, holder, holding, is_held
from tests.unit.delta.others import Other, enter, in_a_thread, other, refused
from tests.unit.threads import together

#: Counts in a file under the lock, for so many seconds each time, until all have counted enough.
_COUNTER = """
    seconds, total, mine = float(sys.argv[2]), int(sys.argv[3]), 0
    count = os.open(d / "count", os.O_RDWR)
    tell("ready")
    hear()
    while True:
        with holding("q", d):
            before = int(os.pread(count, 20, 0))
            if before >= total:
                break
            time.sleep(seconds)
            os.pwrite(count, b"%d" % (before + 1), 0)
            mine += 1
    tell(mine)
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Other]:
    """Have another process hold the table, until it is told to end."""
    program = """
        with holding("q", d):
            tell("held")
            hear()
    """
    with other(tmp_path, program) as process:
        assert process.hear() == "held"
        yield process


def test_all_processes_make_progress_and_count_exactly(tmp_path: Path) -> None:
    """Of eight that write all the time, one for long, nobody loses a count or is passed by."""
    total = 500
    (tmp_path / "count").write_text("0")
    seconds = ["0.02", *["0.001"] * 7]
    counters = [Other(tmp_path, _COUNTER, each, str(total)) for each in seconds]
    assert {counter.hear() for counter in counters} == {"ready"}
    for counter in counters:
        counter.tell()
    long, *equal = [int(counter.end()[0]) for counter in counters]

    assert int((tmp_path / "count").read_text()) == long + sum(equal) == total
    assert min(equal) >= sum(equal) / len(equal) / 3
    assert long >= total / len(counters) / 3


def test_whoever_waits_is_told_after_a_while_who_writes(tmp_path: Path, held: Other) -> None:
    """The wait ends when it should; the error says how long it was, and names the process."""
    began = time.monotonic()
    with pytest.raises(WriterLockedError, match=rf"'q'.*process {held.pid} .*0\.2 s") as caught:
        enter(tmp_path, timeout=0.2)

    assert 0.2 <= time.monotonic() - began < 5
    assert (caught.value.pid, caught.value.waited) == (held.pid, 0.2)
    held.tell()
    enter(tmp_path, timeout=10)


def test_whoever_cannot_wait_is_told_at_once(tmp_path: Path, held: Other) -> None:
    """Without any time to wait, there is one look."""
    with pytest.raises(WriterLockedError, match=f"process {held.pid} "):
        enter(tmp_path, timeout=0)


def test_whoever_comes_is_behind_the_one_that_waits(tmp_path: Path) -> None:
    """Who has the gate comes first, though the table itself is free."""
    gate = LockFile()
    assert gate.take(str(tmp_path / "_writer.next"))
    with pytest.raises(WriterLockedError):
        enter(tmp_path, timeout=0.05)
    gate.give_up()
    enter(tmp_path)


def test_whose_time_runs_out_looks_more_often(tmp_path: Path) -> None:
    """At the gate all look equally often at first: nobody waits to the end by bad luck alone."""
    early = write_lock._Wait("q", tmp_path, 60.0)
    late = write_lock._Wait("q", tmp_path, 60.0)
    late._until -= 59

    assert early._among_many() > 5 * late._among_many() > 0


def test_a_killed_holder_frees_the_table_at_once(tmp_path: Path, held: Other) -> None:
    """The operating system unlocks what a process had."""
    held.kill()
    began = time.monotonic()
    enter(tmp_path, timeout=10)

    assert time.monotonic() - began < 0.5


def test_a_thread_that_holds_a_table_may_ask_again(tmp_path: Path) -> None:
    """Only the end of the outermost step gives the table up."""
    with holding("q", tmp_path):
        with holding("q", tmp_path, timeout=0):
            assert is_held(tmp_path)
        assert is_held(tmp_path)
        assert refused(tmp_path) == os.getpid()
    assert not is_held(tmp_path)
    assert refused(tmp_path) is None


def test_a_step_that_fails_gives_the_table_up(tmp_path: Path) -> None:
    """The error comes out as it is."""
    with pytest.raises(ZeroDivisionError), holding("q", tmp_path):
        _ = 1 / 0

    assert not is_held(tmp_path)
    assert in_a_thread(lambda: enter(tmp_path)) is None


@pytest.mark.parametrize("is_local", [False, True])
def test_threads_keep_each_other_out(tmp_path: Path, *, is_local: bool) -> None:
    """Of one process, too, one thread writes at a time; the other is told after a while."""
    directory = tmp_path if is_local else None
    with holding("q", directory):
        error = in_a_thread(lambda: enter(directory, timeout=0.05))
        assert is_held(directory) is is_local
        assert in_a_thread(lambda: enter(None, name="another")) is None

    assert isinstance(error, WriterLockedError)
    assert error.pid == os.getpid()
    assert "another thread of this process" in str(error)
    assert in_a_thread(lambda: enter(directory)) is None


def test_a_table_is_the_same_however_it_is_spelled(tmp_path: Path) -> None:
    """Threads keep each other out by what the directory is, not by its path."""
    directory, alias = tmp_path / "status", tmp_path / "alias"
    directory.mkdir()
    alias.symlink_to(directory)
    with holding("q", directory):
        enter(alias)
        assert is_held(alias)
        assert isinstance(in_a_thread(lambda: enter(alias)), WriterLockedError)


@pytest.mark.parametrize("is_local", [False, True])
def test_threads_that_write_all_the_time_take_turns(tmp_path: Path, *, is_local: bool) -> None:
    """Whoever gives the table up and wants it again comes after those who wait."""
    turns: list[int] = []

    def write(number: int) -> None:
        while len(turns) < 200:
            with holding("q", tmp_path if is_local else None):
                time.sleep(0.001)
                turns.append(number)

    together(partial(write, 0), partial(write, 1))

    assert sum(one == following for one, following in pairwise(turns)) < 40


def test_the_holder_is_named_by_the_file(tmp_path: Path) -> None:
    """It is whoever had the table last; nobody, where nobody had it or the file is spoiled."""
    assert holder(tmp_path) is None
    assert holder(None) is None
    (tmp_path / "_writer.lock").write_text("123456789123")
    enter(tmp_path)
    assert holder(tmp_path) == os.getpid()
    (tmp_path / "_writer.lock").write_text("?")
    assert holder(tmp_path) is None


def test_a_table_is_held_only_by_who_holds_it(tmp_path: Path, held: Other) -> None:
    """What another process holds, what is gone, and a shared store are not held here."""
    assert refused(tmp_path) == held.pid
    assert not is_held(tmp_path)
    assert not is_held(tmp_path / "gone")
    with holding("q", None):
        assert not is_held(None)
