from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue.errors import InvalidArgumentError, QueueShutDownError
from spark_queue.inprocess.singular import SingularUpdateQueue, WriteAheadLog
from spark_queue.waiting.timer import ManualTimer


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


def test_a_changed_byte_is_found(path: Path) -> None:
    """SU-06: whatever byte of a record changes, it and what follows are cut, not misread."""
    first = written(path, "one")
    second = written(path, "two")
    written(path, "three")
    content = path.read_bytes()
    for position in range(first, second):
        broken = bytearray(content)
        broken[position] ^= 0x41
        path.write_bytes(broken)
        assert read(path) == ["one"]


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
        with pytest.raises(TypeError):
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
