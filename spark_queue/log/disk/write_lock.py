"""Right to write to a table on this machine's disk, held for a step, and its locked files.

The first waiter takes the gate, then the turn, and then gives the gate up. So a busy writer queues
behind the waiters. Threads pass two such locks in this process, then one of them passes two such
files among processes. Who finds nobody pays some microseconds. Who was killed while Spark wrote
leaves its JVM behind (:mod:`jvms`): that is waited for, too.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spark_queue.errors import SetupError, WriterLockedError
from spark_queue.log.disk import jvms
from spark_queue.log_errors import using

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock
    fcntl = None  # type: ignore[assignment]

_HAS_LOCKS = fcntl is not None

#: What no open file has.
_CLOSED = -1


def require_locks(directory: Path) -> None:
    """Refuse a directory on this disk where no file can be locked.

    Raises
    ------
    SetupError
        It names the directory, and what would do.
    """
    if not _HAS_LOCKS:
        raise SetupError(
            f"{directory} is on a local disk, where processes are kept apart by flock, which this "
            "system does not have: use Linux or macOS (on Windows: WSL), or a shared store"
        )


class LockFile:
    """A file that this process has locked, or could.

    It is open only while it is locked: the lock ends when it is given up, or when the process ends,
    however it dies. A child of this process has neither the file nor the lock.
    """

    __slots__ = ("_descriptor", "_is_locked")

    def __init__(self) -> None:
        self._descriptor = _CLOSED
        self._is_locked = False

    def take(self, path: str, flags: int = 0) -> bool:
        """Lock a file, creating it if needed; False if another process holds it.

        Parameters
        ----------
        path : str
            Where it is. Who asks again, asks for what is there by then.
        flags : int
            More flags to open it by.
        """
        self.give_up()
        with _opening:
            try:
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
            except OSError as exc:
                with using(path):
                    raise exc from None
            _opened.add(self)
        self._is_locked = is_granted(self._descriptor)
        # Between the two, another file may have taken its place.
        if self.is_held(path):
            return True
        self.give_up()
        return False

    def is_held(self, path: str) -> bool:
        """Return whether this process has locked the file at the path."""
        if not self._is_locked:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(path))  # noqa: PTH116
        except OSError:
            return False

    def write(self, text: bytes, at: int = 0) -> None:
        """Have a text at a place of the file, which costs nothing where it is there."""
        if self.read(len(text), at) != text:
            os.pwrite(self._descriptor, text, at)

    def read(self, length: int, at: int = 0) -> bytes:
        """Return bytes at a place of the file; none if it is closed."""
        return b"" if self._descriptor == _CLOSED else os.pread(self._descriptor, length, at)

    def give_up(self) -> None:
        """Unlock and close the file, if it is open."""
        if self._descriptor == _CLOSED:
            return
        try:
            # To close is not enough while a child that has just been made has it open, too.
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        finally:
            self.part()

    def part(self) -> None:
        """Close the file, which leaves the lock to others that have the same one open."""
        descriptor, self._descriptor = self._descriptor, _CLOSED
        self._is_locked = False
        _opened.discard(self)
        os.close(descriptor)


def is_granted(descriptor: int, *, is_shared: bool = False) -> bool:
    """Lock an open file; False if another process holds it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


#: Nobody forks while a file is opened and not known yet.
_opening = threading.RLock()
_opened: set[LockFile] = set()


def _part_from_parent() -> None:
    for file in list(_opened):
        file.part()
    _opening.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_opening.acquire,
        after_in_parent=_opening.release,
        after_in_child=_part_from_parent,
    )


#: How many seconds somebody waits for the right to write.
DEFAULT = 60.0

_GATE = "_writer.next"
LOCK_FILE = "_writer.lock"

#: Bytes of the pid of who has the turn; behind them is the trace of the JVM that writes for it.
_PID = 20

#: Seconds between two looks at the gate, at first.
_PAUSE = 0.003

#: At the gate, how much more often than at first somebody looks whose time is running out.
_URGENT = 10

#: Between two looks at the turn, the part of the time waited for it, and its bounds in seconds.
_PART = 0.1
_LEAST, _MOST = 0.000_1, 0.005


class _Wait:
    """A bounded wait for the write lock of a table."""

    def __init__(self, name: str, directory: Path | None, timeout: float) -> None:
        self.name = name
        self.directory = directory
        self._timeout = timeout
        self._until = time.monotonic() + timeout

    def left(self) -> float:
        """Return how many seconds are left."""
        return max(self._until - time.monotonic(), 0.0)

    def for_thread(self, lock: threading.RLock) -> None:
        """Wait for a lock of this process."""
        if not lock.acquire(timeout=self.left()):
            raise self._refusal()

    def for_gate(self, file: LockFile, path: str) -> None:
        """Wait among many, who all look equally often unless they have little time left."""
        self._poll(file, path, lambda: self._among_many() * random.uniform(0.5, 1.5))  # noqa: S311

    def for_turn(self, file: LockFile, path: str) -> None:
        """Wait alone, as all others wait at the gate."""
        since = time.monotonic()
        self._poll(file, path, lambda: min(max(_PART * (time.monotonic() - since), _LEAST), _MOST))

    def for_jvm(self, file: LockFile) -> None:
        """Wait for the JVM of a driver that was killed while it wrote."""
        while trace := file.read(jvms.WIDTH, _PID).strip():
            left = jvms.still_running(trace)
            if left is None:
                return
            if self.left() == 0:
                raise WriterLockedError(self.name, left, self._timeout)
            time.sleep(_MOST)

    def _among_many(self) -> float:
        return _PAUSE * max(self.left() / self._timeout, 1 / _URGENT)

    def _poll(self, file: LockFile, path: str, pause: Callable[[], float]) -> None:
        while not file.take(path):
            left = self.left()
            if left == 0:
                raise self._refusal()
            time.sleep(min(pause(), left))

    def _refusal(self) -> WriterLockedError:
        pid = os.getpid() if self.directory is None else holder(self.directory)
        return WriterLockedError(self.name, pid, self._timeout)


class _Turnstile:
    """The way of this process's threads to one table."""

    def __init__(self) -> None:
        self._gate, self._turn = threading.RLock(), threading.RLock()
        self._gate_file, self._turn_file = LockFile(), LockFile()
        self._thread: int | None = None
        self._has_jvm = False

    def is_passed(self) -> bool:
        """Tell whether this thread has the turn."""
        return self._thread == threading.get_ident()

    def is_held(self, directory: Path) -> bool:
        """Tell whether this process has the turn, by the file that is in the directory."""
        return self._turn_file.is_held(f"{directory}/{LOCK_FILE}")

    def enter(self, wait: _Wait) -> None:
        """Wait for the turn among threads, then among processes; always :meth:`leave` after it."""
        wait.for_thread(self._gate)
        wait.for_thread(self._turn)
        _release(self._gate)
        self._thread = threading.get_ident()
        if wait.directory is not None:
            self._enter_files(wait, wait.directory)

    def enter_again(self, wait: _Wait) -> None:
        """Keep the turn, or wait for it at the file that others find by now."""
        if wait.directory is not None and not self.is_held(wait.directory):
            self._enter_files(wait, wait.directory)

    def leave(self) -> None:
        """Give up what this thread has, however far it came; also a second time."""
        if self.is_passed():
            self._gate_file.give_up()
            self._forget_jvm()
            self._turn_file.give_up()
            self._thread = None
        _release(self._turn)
        _release(self._gate)

    def leave_behind(self, jvm: bytes) -> None:
        """Name the JVM that will write, for the next writer after a kill in this turn."""
        self._has_jvm = True
        # On a full disk nobody waits for it, either.
        with suppress(OSError):
            self._turn_file.write(jvm, _PID)

    def _forget_jvm(self) -> None:
        if not self._has_jvm:
            return
        with suppress(OSError):
            self._turn_file.write(jvms.NOBODY, _PID)
        self._has_jvm = False

    def _enter_files(self, wait: _Wait, directory: Path) -> None:
        try:
            wait.for_gate(self._gate_file, f"{directory}/{_GATE}")
            wait.for_turn(self._turn_file, f"{directory}/{LOCK_FILE}")
            wait.for_jvm(self._turn_file)
        finally:
            self._gate_file.give_up()
        # On a full disk nobody is named.
        with suppress(OSError):
            self._turn_file.write(b"%-*d" % (_PID, os.getpid()))


_turnstiles: dict[str | tuple[int, int], _Turnstile] = {}


@contextmanager
def holding(name: str, directory: Path | None, *, timeout: float = DEFAULT) -> Iterator[None]:
    """Hold the right to write to a table, against threads here and processes on this disk.

    A thread that holds it may ask again. Nobody is passed by over and over.

    Parameters
    ----------
    name : str
        What is written to, for errors. Where there is no directory, threads that give the same
        name are kept apart.
    directory : Path or None
        The table's directory on this machine's disk; ``None`` for a shared store, whose commits
        are safe between processes.
    timeout : float
        How many seconds to wait at most.

    Raises
    ------
    WriterLockedError
        When somebody else had it all the time; the error names the pid.
    FileNotFoundError
        When the directory is gone, also if it went while this waited.
    SetupError
        When this system cannot lock a file.
    """
    turnstile, wait = _turnstile(name, directory), _Wait(name, directory, timeout)
    if turnstile.is_passed():
        turnstile.enter_again(wait)
        yield
        return
    try:
        turnstile.enter(wait)
        yield
    finally:
        try:
            turnstile.leave()
        except BaseException:
            # An interrupt even here leaves nothing behind, either.
            turnstile.leave()
            raise


def is_held(directory: Path | None) -> bool:
    """Return whether a thread of this process holds the write lock."""
    if directory is None:
        return False
    try:
        turnstile = _turnstiles.get(_identity(directory))
    except OSError:
        return False
    return turnstile is not None and turnstile.is_held(directory)


def leave_behind(directory: Path | None, jvm: Callable[[], bytes]) -> None:
    """Have others wait for the end of a JVM, if this process is killed before it gives up its turn.

    Parameters
    ----------
    directory : Path or None
        The table's directory, as for :func:`holding`. Where this thread does not hold it, nobody
        will know.
    jvm : callable
        Returns the JVM's trace (:mod:`jvms`).
    """
    if directory is not None and is_held(directory):
        turnstile = _turnstiles[_identity(directory)]
        if turnstile.is_passed():
            turnstile.leave_behind(jvm())


def holder(directory: Path | None) -> int | None:
    """Return the pid that held the right to write last, whether or not it still does."""
    if directory is None:
        return None
    try:
        return int((directory / LOCK_FILE).read_bytes()[:_PID])
    except (OSError, ValueError):
        return None


def _turnstile(name: str, directory: Path | None) -> _Turnstile:
    key = name if directory is None else _identity(directory)
    known = _turnstiles.get(key)
    if known is not None:
        return known
    if directory is not None:
        require_locks(directory)
    # In one step: a second turnstile would let a second thread pass.
    return _turnstiles.setdefault(key, _Turnstile())


def _identity(directory: Path) -> tuple[int, int]:
    """Return what tells a directory from any other that is there, however it is spelled."""
    found = os.stat(directory)  # noqa: PTH116 - asked for each step
    return found.st_dev, found.st_ino


def _release(lock: threading.RLock) -> None:
    """Release a lock if this thread has it: it may have been interrupted before."""
    with suppress(RuntimeError):
        lock.release()


if hasattr(os, "register_at_fork"):
    # The threads of the parent are not there, and what they held is held for ever.
    os.register_at_fork(after_in_child=_turnstiles.clear)
