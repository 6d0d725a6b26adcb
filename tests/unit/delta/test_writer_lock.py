"""One process writes to a queue on a local disk, until it ends or gives the lock up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_queue.delta.tables import lock
from spark_queue.errors import WriterLockedError

#: Another process: it tries to lock a directory, and says how that went.
_OTHER = """
import sys
from pathlib import Path
from spark_queue.delta.tables import lock
from spark_queue.errors import WriterLockedError
try:
    lock.lock_for_writing("q", Path(sys.argv[1]))
except WriterLockedError as error:
    print(error)
else:
    print("locked")
"""


def elsewhere(directory: Path) -> str:
    """Try to lock a directory in another process."""
    words = [sys.executable, "-c", _OTHER, str(directory)]
    done = subprocess.run(  # noqa: S603 - this very interpreter
        words, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """Lock a directory for the test."""
    lock.lock_for_writing("q", tmp_path)
    yield tmp_path
    lock.unlock(tmp_path)


def test_another_process_is_refused_until_the_lock_is_given_up(held: Path) -> None:
    """It is told at once who writes; as soon as nobody does, it may."""
    assert str(os.getpid()) in elsewhere(held)
    assert lock.unlock(held)
    assert elsewhere(held) == "locked"


def test_a_process_may_lock_what_it_holds(held: Path) -> None:
    """All handles of a process share one lock; the file names that process alone."""
    lock.lock_for_writing("q", held)

    assert lock.is_held(held)
    assert lock.holder(held) == os.getpid()


def test_the_holder_is_whoever_locked_last(tmp_path: Path) -> None:
    """What an earlier process wrote into the file is gone."""
    (tmp_path / "_writer.lock").write_text("123456789123")
    lock.lock_for_writing("q", tmp_path)

    assert lock.holder(tmp_path) == os.getpid()
    lock.unlock(tmp_path)


def test_a_lock_is_held_by_who_locked_it(tmp_path: Path) -> None:
    """A directory that nobody locked here is not held here, nor is a shared store."""
    assert not lock.is_held(tmp_path)
    assert not lock.is_held(None)
    assert lock.unlock(None)


def test_a_pinned_lock_is_kept_until_every_pin_is_gone(held: Path) -> None:
    """Each front pins the lock for itself: the last that unpins it lets it go."""
    lock.pin(held)
    lock.pin(held)
    assert not lock.unlock(held)
    lock.unpin(held)
    assert not lock.unlock(held)
    assert lock.is_held(held)
    lock.unpin(held)
    assert lock.unlock(held)
    assert not lock.is_held(held)


def test_a_held_lock_is_not_taken_again(held: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second handle opens no second file, whose end would end the lock."""

    def refuse(name: str, _: Path) -> None:
        raise WriterLockedError(name, None)

    monkeypatch.setattr(lock, "_locked_file", refuse)
    lock.lock_for_writing("q", held)


def test_the_threads_of_a_process_share_the_lock_of_a_log() -> None:
    """One log has one lock, another log another."""
    assert lock.log_lock("here") is lock.log_lock("here")
    assert lock.log_lock("here") is not lock.log_lock("there")
