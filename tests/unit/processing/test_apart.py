from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_queue.processing.apart import answers


def _told(work: Callable[[], Iterator[bytes]]) -> list[str]:
    return [a.decode() if isinstance(a, bytes) else str(a) for a in answers(work)]


def test_what_the_work_yields_comes_back() -> None:
    """Answers of any length arrive in order, from another process."""
    mine = str(os.getpid()).encode()

    def work() -> Iterator[bytes]:
        yield str(os.getppid()).encode()
        yield b"x" * 300_000

    assert list(answers(work)) == [mine, b"x" * 300_000]


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (lambda: os._exit(0), "exit code 0"),
        (lambda: os._exit(3), "exit code 3"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL"),
        (lambda: os.kill(os.getpid(), signal.SIGTERM), "SIGTERM"),
    ],
)
def test_what_was_finished_is_kept(end: Callable[[], None], told: str) -> None:
    """A child that dies has given what it had, and how it died comes last."""

    def work() -> Iterator[bytes]:
        yield b"one"
        end()
        yield b"two"

    assert _told(work) == ["one", told]


def test_an_orphan_that_holds_the_pipe_does_not_keep_us_waiting() -> None:
    """A child is over when it has ended, even if a process that it started goes on."""

    def work() -> Iterator[bytes]:
        yield b"one"
        if os.fork() == 0:
            time.sleep(30)
            os._exit(0)
        os._exit(1)

    began = time.monotonic()
    assert _told(work) == ["one", "exit code 1"]
    assert time.monotonic() - began < 20


def test_nobody_left_to_listen_ends_the_child() -> None:
    """Who stops reading ends the work, and leaves no process behind."""

    def work() -> Iterator[bytes]:
        yield str(os.getpid()).encode()
        time.sleep(60)

    told = answers(work)
    child = int(next(told))  # type: ignore[arg-type]
    told.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_child_does_not_outlive_its_parent(tmp_path: Path) -> None:
    """Where the worker is killed, what it had worked on elsewhere stops, too."""
    program = """
        import os, pathlib, sys, time
        from spark_queue.processing.apart import answers

        def work():
            pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
            time.sleep(60)
            yield b""

        list(answers(work))
    """
    note = tmp_path / "child"
    command = [sys.executable, "-c", textwrap.dedent(program), str(note)]
    with subprocess.Popen(command) as parent:  # noqa: S603 - the program above
        _until(lambda: note.exists() and bool(note.read_text()))
        parent.kill()
    child = int(note.read_text())
    _until(lambda: not _runs(child))


def test_a_child_that_is_cut_is_killed_at_once() -> None:
    """When all is to end, nobody waits for what a child is at; what it had given is kept."""
    cut, pids = threading.Event(), []

    def work() -> Iterator[bytes]:
        yield str(os.getpid()).encode()
        time.sleep(600)
        yield b"late"

    begun = time.monotonic()
    for answer in answers(work, cut):
        assert isinstance(answer, bytes)
        pids.append(int(answer))
        cut.set()

    assert time.monotonic() - begun < 20
    assert len(pids) == 1
    assert not _runs(pids[0])


def test_a_child_does_not_hear_the_keyboard() -> None:
    """Ctrl-C goes to all processes of a terminal: the parent says what becomes of its children."""

    def work() -> Iterator[bytes]:
        os.kill(os.getpid(), signal.SIGINT)
        yield b"went on"

    assert _told(work) == ["went on"]


def test_children_of_several_threads_end_with_their_parent(tmp_path: Path) -> None:
    """Each has copies of the others' pipes, and none outlives the process that began them."""
    program = f"""
import os, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from spark_queue.processing.apart import answers

def work():
    Path({str(tmp_path)!r}, str(os.getpid())).touch()
    time.sleep(600)
    yield b""

with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda _: list(answers(work)), range(4)))
"""
    with subprocess.Popen([sys.executable, "-c", program]) as parent:  # noqa: S603
        _until(lambda: len(list(tmp_path.iterdir())) == 4)
        parent.kill()
    children = [int(file.name) for file in tmp_path.iterdir()]
    _until(lambda: not any(map(_runs, children)))


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _runs(pid: int) -> bool:
    """Tell whether a process is there, and is not one that has ended and was not waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_child_whose_end_nobody_keeps_has_ended() -> None:
    """Where the system throws away how children end, what they have said is there all the same."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert _told(lambda: iter([b"one", b"two"])) == ["one", "two"]
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_child_that_cannot_be_begun_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system is told, and whoever tries again has as many files open as before."""

    def refused() -> int:
        raise BlockingIOError("too many processes")

    monkeypatch.setattr(os, "fork", refused)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        with pytest.raises(BlockingIOError, match="too many processes"):
            _told(lambda: iter([b"one"]))
    assert len(list(Path("/proc/self/fd").iterdir())) == before
