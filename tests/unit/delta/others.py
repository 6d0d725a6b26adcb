"""Other processes, and threads, that use the same directory as a test."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_queue.log.disk.liveness import looking_at
from spark_queue.log.disk.write_lock import holding

#: What their programs begin with: ``d`` is the directory.
_HEAD = """
import os, random, signal, sys, threading, time
from pathlib import Path
from spark_queue.log.disk import liveness
from spark_queue.log.disk.write_lock import holder, holding, is_held
from spark_queue.errors import SetupError, WriterLockedError

d = Path(sys.argv[1])
# The background jobs of a shell are started with deaf ears.
signal.signal(signal.SIGINT, signal.default_int_handler)

def tell(*words):
    print(*words, flush=True)

def hear():
    sys.stdin.readline()

"""

#: Before that, where the system has no locks.
WITHOUT_LOCKS = "import sys\nsys.modules['fcntl'] = None\n"


class Other:
    """Another process."""

    def __init__(self, directory: Path, program: str, *words: str, first: str = "") -> None:
        source = first + _HEAD + textwrap.dedent(program)
        self.process = subprocess.Popen(  # noqa: S603 - this very interpreter
            [sys.executable, "-c", source, str(directory), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.pid

    def hear(self) -> str:
        """Wait for a line of it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> list[str]:
        """Wait for its end, and return what it has still said."""
        said, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 0
        return said.splitlines()

    def kill(self) -> None:
        """Kill it, and wait until it is gone; a child of its own lives on."""
        self.process.kill()
        self.process.wait()


@contextmanager
def other(directory: Path, program: str, *words: str, first: str = "") -> Iterator[Other]:
    """Run another process, which is killed in the end."""
    started = Other(directory, program, *words, first=first)
    with started.process:
        try:
            yield started
        finally:
            started.process.kill()


def said_by(directory: Path, program: str, *, first: str = "") -> list[str]:
    """Run another process to its end, and return the lines that it says."""
    with other(directory, program, first=first) as started:
        return started.end()


def enter(directory: Path | None, timeout: float = 0.0, name: str = "q") -> None:
    """Hold a table for a moment."""
    with holding(name, directory, timeout=timeout):
        pass


def refused(directory: Path) -> int | None:
    """Have another process try to hold a table, and return whom it is told about, if it is."""
    program = """
        try:
            with holding("q", d, timeout=0.05):
                tell("in")
        except WriterLockedError as error:
            tell(error.pid)
    """
    (said,) = said_by(directory, program)
    return None if said == "in" else int(said)


def in_a_thread(work: Callable[[], None]) -> BaseException | None:
    """Run something in a thread, and return what it raises."""
    raised: list[BaseException] = []

    def caught() -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - it is handed on
            raised.append(error)

    thread = threading.Thread(target=caught)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return raised[0] if raised else None


def until(is_so: Callable[[], bool | None]) -> float:
    """Wait for what another process does, and return how many seconds that took."""
    began = time.monotonic()
    while not is_so():
        assert time.monotonic() < began + 20
        time.sleep(0.001)
    return time.monotonic() - began


def is_locked(file: Path) -> bool:
    """Tell whether any process has locked a file."""
    try:
        with looking_at(str(file)) as is_free:
            return not is_free
    except FileNotFoundError:
        return False
