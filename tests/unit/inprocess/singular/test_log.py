from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, LogFileError, QueueShutDownError, SetupError
from spark_queue.memory.singular import SingularUpdateQueue, WriteAheadLog
from spark_queue.memory.waiting.timer import ManualTimer
from tests.programs import run_python

#: Appends a record for half of which there is room, and then one that fits.
_LIMITED = """
import resource, sys
from spark_queue.inprocess import WriteAheadLog
with WriteAheadLog(sys.argv[1]) as log:
    log.append("one")
    room = log.path.stat().st_size + 500
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    try:
        log.append("x" * 1000)
    except OSError as exc:
        print(exc.strerror)
    log.append("two")
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name a file that is not there yet."""
    return tmp_path / "log"


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count what is forced to the disk."""
    calls: list[int] = []
    real = os.fsync

    def counted(descriptor: int) -> None:
        calls.append(descriptor)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    return calls


def written(path: Path, *items: Any) -> int:
    """Write a log and return its size."""
    with WriteAheadLog[Any](path) as log:
        for item in items:
            log.append(item)
    return path.stat().st_size


def read(path: Path) -> list[Any]:
    """Open a log and return its records."""
    with WriteAheadLog[Any](path) as log:
        return list(log.replay())


def test_what_was_appended_is_there_after_a_restart(path: Path) -> None:
    """SU-06: records come back in their order, nulls and empty ones included."""
    written(path, "WAL", None, "", {"amount": 100})
    assert read(path) == ["WAL", None, "", {"amount": 100}]
    written(path, "later")
    assert read(path)[-1] == "later"


def test_a_tail_cut_at_any_byte_costs_only_its_record(path: Path) -> None:
    """SU-06: wherever a crash tears the last record, the earlier ones stay and writing goes on."""
    first = written(path, "one")
    whole = written(path, "two")
    content = path.read_bytes()
    for size in range(first, whole):
        path.write_bytes(content[:size])
        with WriteAheadLog[str](path) as log:
            assert log.cut_bytes == size - first
            assert list(log.replay()) == ["one"]
            log.append("three")
        assert read(path) == ["one", "three"]


def test_a_changed_byte_in_the_last_record_costs_that_one(path: Path) -> None:
    """SU-06: whatever byte of the last record changes, it is cut, not misread."""
    first = written(path, "one")
    second = written(path, "two")
    content = path.read_bytes()
    for position in range(first, second):
        path.write_bytes(_flipped(content, position))
        assert read(path) == ["one"]


def test_damage_before_whole_records_is_named_and_nothing_is_cut(path: Path) -> None:
    """Whatever bit of a record flips, those behind it stay, and the error says where it is."""
    bounds = [written(path), *(written(path, f"record {n}") for n in range(5))]
    content = path.read_bytes()
    for start, end in pairwise(bounds[:-1]):
        for position in range(start, end):
            path.write_bytes(_flipped(content, position))
            with pytest.raises(LogFileError, match=f"{path}.* byte {start}:.*truncate") as told:
                WriteAheadLog(path)
            assert (told.value.path, told.value.offset) == (path, start)
            assert path.read_bytes() == _flipped(content, position)


def test_damage_that_comes_later_is_told_by_the_replay(path: Path) -> None:
    """A replay raises at a record that was damaged after the log was opened."""
    first = written(path, "one")
    written(path, "two")
    with WriteAheadLog[str](path) as log:
        path.write_bytes(_flipped(path.read_bytes(), first + 13))
        records = log.replay()
        assert next(records) == "one"
        with pytest.raises(LogFileError, match=f"byte {first}"):
            next(records)


def test_a_record_inside_of_a_torn_one_is_none(path: Path, tmp_path: Path) -> None:
    """What is torn may hold the bytes of another log: it is cut all the same."""
    inner = tmp_path / "inner"
    written(inner, "a", "b")
    with WriteAheadLog[bytes](path, encode=bytes, decode=bytes) as log:
        log.append(b"whole")
        size = path.stat().st_size
        log.append(inner.read_bytes() + b"to be torn off")
    path.write_bytes(path.read_bytes()[:-5])
    with WriteAheadLog[bytes](path, encode=bytes, decode=bytes) as log:
        assert list(log.replay()) == [b"whole"]
    assert path.stat().st_size == size


@pytest.mark.parametrize(
    "content", [b"x", bytes(10_000), b'{"a": 1}\n' * 1_000, b"PAR1" + bytes(64), b"\x89PNG\r\n"]
)
def test_a_file_that_is_no_log_is_refused_untouched(path: Path, content: bytes) -> None:
    """A path that was mistaken costs nothing: neither a log nor a queue with one begins there."""
    path.write_bytes(content)
    with pytest.raises(LogFileError, match=f"{path.name}.* no write-ahead log"):
        SingularUpdateQueue(str, log=WriteAheadLog(path))
    assert path.read_bytes() == content


def test_a_log_of_a_later_format_is_refused_untouched(path: Path) -> None:
    """A log that a later release wrote is not cut to what this one knows."""
    written(path, "one")
    content = _flipped(path.read_bytes(), 8)
    path.write_bytes(content)
    with pytest.raises(LogFileError, match="later release"):
        WriteAheadLog(path)
    assert path.read_bytes() == content


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A log is begun in a directory that is there; another is no error of the system's."""
    with pytest.raises(LogFileError, match=r"there is no directory .*none: make it"):
        WriteAheadLog(tmp_path / "none" / "log")


def test_what_is_no_file_is_refused(path: Path) -> None:
    """A pipe, which would be waited for, is refused at once."""
    os.mkfifo(path)
    with pytest.raises(LogFileError, match="no regular file"):
        WriteAheadLog(path)


def test_a_log_whose_start_was_torn_begins_again(path: Path) -> None:
    """A crash while a log is made leaves an empty file, or a part of its start: nothing is lost."""
    empty = written(path)
    content = path.read_bytes()
    for size in range(empty):
        path.write_bytes(content[:size])
        written(path, "one")
        assert read(path) == ["one"]


@pytest.mark.parametrize("whole", [0, 5])
def test_a_log_whose_start_a_power_cut_left_as_zeros_begins_again(path: Path, whole: int) -> None:
    """Nothing was told by then; a longer file that begins so is somebody else's."""
    WriteAheadLog[str](path).close()
    start = path.read_bytes()
    path.write_bytes(start[:whole].ljust(len(start), b"\0"))
    with WriteAheadLog[str](path) as log:
        log.append("a")
        assert list(log.replay()) == ["a"]

    path.write_bytes(bytes(len(start) + 1))
    with pytest.raises(LogFileError):
        WriteAheadLog[str](path)
    assert path.read_bytes() == bytes(len(start) + 1)


def test_a_full_disk_takes_no_half_record(path: Path) -> None:
    """A record for which a file system has half the room is refused, and the log is as it was."""
    ended = run_python("-c", _LIMITED, path, check=True)
    assert ended.stdout.split() == ["File", "too", "large"]
    assert read(path) == ["one", "two"]


def test_a_child_of_a_fork_leaves_the_log_to_its_parent(path: Path) -> None:
    """In the child every call says why, and the parent goes on."""
    with WriteAheadLog[str](path) as log:
        log.append("one")
        child = os.fork()
        if child == 0:
            os._exit(sum(map(_is_refused, (lambda: log.append("two"), lambda: [*log.replay()]))))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
        log.append("three")
    assert read(path) == ["one", "three"]


def test_a_child_of_a_fork_forces_nothing_for_its_parent(path: Path, forced: list[int]) -> None:
    """An alarm that comes in the child leaves the file to the process that opened it."""
    timer = ManualTimer()
    with WriteAheadLog[str](path, sync=timedelta(seconds=2), timer=timer) as log:
        log.append("one")
        forced.clear()
        child = os.fork()
        if child == 0:
            timer.advance(2)
            os._exit(len(forced))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        timer.advance(2)
        assert len(forced) == 1


def _is_refused(call: Callable[[], object]) -> bool:
    try:
        call()
    except SetupError as exc:
        return "before this process was forked" in str(exc)
    return False


def _flipped(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 0x41]) + content[position + 1 :]


def test_zeros_after_a_crash_are_no_records(path: Path) -> None:
    """SU-06: a tail of zeros, as some file systems leave it, is cut."""
    written(path, "one")
    with path.open("ab") as file:
        file.write(bytes(64))
    assert read(path) == ["one"]


@pytest.mark.parametrize(("policy", "count"), [("always", 3), ("never", 0)])
def test_the_policy_says_when_records_are_forced(
    path: Path, forced: list[int], policy: Any, count: int
) -> None:
    """SU-06: always forces each record, never leaves it to the system."""
    with WriteAheadLog[str](path, sync=policy) as log:
        forced.clear()
        for item in "abc":
            log.append(item)
        assert len(forced) == count
    assert read(path) == ["a", "b", "c"]


def test_a_delay_forces_once_for_all_that_came_meanwhile(path: Path, forced: list[int]) -> None:
    """SU-06: with a delay, records are forced so long after the first, and no alarm is left."""
    timer = ManualTimer()
    with WriteAheadLog[str](path, sync=timedelta(seconds=2), timer=timer) as log:
        forced.clear()
        log.append("a")
        timer.advance(1)
        log.append("b")
        assert (len(forced), len(timer)) == (0, 1)
        timer.advance(1)
        assert (len(forced), len(timer)) == (1, 0)
        log.append("c")
        assert len(timer) == 1
    assert (len(forced), len(timer)) == (2, 0)


def test_a_failed_write_leaves_the_log_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SU-12: when the disk fails, the future fails, half a record is cut, and the next one fits."""
    with WriteAheadLog[str](path) as log, SingularUpdateQueue(log.append) as queue:
        queue.submit("one").result(timeout=10)
        real = os.fsync

        def full(descriptor: int) -> None:
            monkeypatch.setattr(os, "fsync", real)
            raise OSError(28, "No space left on device", descriptor)

        monkeypatch.setattr(os, "fsync", full)
        assert isinstance(queue.submit("two").exception(timeout=10), OSError)
        queue.submit("three").result(timeout=10)
    assert read(path) == ["one", "three"]


def test_an_item_that_cannot_be_encoded_changes_nothing(path: Path) -> None:
    """SU-12: an error of the encoder is the caller's, and the log is as it was."""
    with WriteAheadLog[Any](path) as log:
        with pytest.raises(InvalidArgumentError):
            log.append(object())
        log.append("fine")
    assert read(path) == ["fine"]


def test_own_codecs_are_used(path: Path) -> None:
    """Records are whatever the two functions make of bytes."""
    log: WriteAheadLog[str] = WriteAheadLog(path, encode=str.encode, decode=bytes.decode)
    with log:
        log.append("plain")
        assert list(log.replay()) == ["plain"]
    assert b"plain" in path.read_bytes()
    assert b'"' not in path.read_bytes()


def test_a_closed_log_says_so(path: Path) -> None:
    """After the close nothing is written or read; closing again does no harm."""
    log: WriteAheadLog[str] = WriteAheadLog(path)
    log.close()
    log.close()
    with pytest.raises(QueueShutDownError):
        log.append("late")
    with pytest.raises(QueueShutDownError):
        next(log.replay())


@pytest.mark.parametrize("bad", ["sometimes", timedelta(seconds=-1), 3])
def test_an_unknown_policy_is_refused(path: Path, bad: Any) -> None:
    """A policy that is none is refused, and no file is made."""
    with pytest.raises(InvalidArgumentError, match="sync"):
        WriteAheadLog(path, sync=bad)
    assert not path.exists()


def test_a_queue_rebuilds_its_state_from_its_log(path: Path) -> None:
    """SU-14: a queue with a log handles what it holds before anything new, replies aside."""

    def account(log: WriteAheadLog[int]) -> tuple[list[int], SingularUpdateQueue[int, int]]:
        balance = [0]

        def move(amount: int) -> int:
            if balance[0] + amount < 0:
                raise ValueError("Not enough balance")
            balance[0] += amount
            return balance[0]

        return balance, SingularUpdateQueue(move, log=log)

    with WriteAheadLog[int](path) as log:
        _, queue = account(log)
        with queue:
            replies = [queue.submit(amount) for amount in (100, -30, -80)]
        assert isinstance(replies[2].exception(), ValueError)
    with WriteAheadLog[int](path) as log:
        balance, queue = account(log)
        assert balance == [0]
        with queue:
            assert balance == [70]
            assert queue.submit(5).result(timeout=10) == 75
    assert read(path) == [100, -30, -80, 5]


def test_a_replay_that_cannot_go_on_ends_the_queue(path: Path) -> None:
    """SU-13: a fatal error during the replay reaches who starts; what was queued resolves."""
    written(path, 1)

    def fatal(_: Any) -> None:
        raise SystemExit

    with WriteAheadLog[int](path) as log:
        queue = SingularUpdateQueue(fatal, log=log)
        reply = queue.submit(2)
        with pytest.raises(SystemExit):
            queue.start()
        assert isinstance(reply.exception(timeout=0), QueueShutDownError)
        queue.shutdown()
