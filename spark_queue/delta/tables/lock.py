"""Who may write: one thread per log in a process, and one process per queue on a local disk."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path
from typing import IO

from spark_queue.errors import WriterLockedError

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no flock
    fcntl = None  # type: ignore[assignment]

_FILE = "_writer.lock"

_registry = threading.Lock()
_log_locks: dict[str, threading.RLock] = {}
_held: dict[str, IO[str]] = {}
_pins: Counter[str] = Counter()


def log_lock(log: str) -> threading.RLock:
    """Return this process's lock for a log, which keeps its own threads from racing for steps.

    Steps are safe without it, since Delta refuses a number that is taken; with it the losers do
    not have to try again.
    """
    with _registry:
        return _log_locks.setdefault(log, threading.RLock())


def local_directory(location: str) -> Path | None:
    """Return the directory of a table on this machine's disk, or ``None`` for a shared store.

    The location is a path behind its scheme, in which no character has another meaning.
    """
    scheme, _, path = location.partition(":")
    if scheme != "file":
        return None
    directory = Path("/", path.lstrip("/"))
    return directory if directory.is_dir() else None


def lock_for_writing(name: str, directory: Path | None) -> None:
    """Make this process the one that writes to a queue on a local disk, until it ends.

    The operating system drops the lock when the process dies, however it dies. Nothing is locked
    on a shared store, whose commits are safe between processes.

    Raises
    ------
    WriterLockedError
        When another process holds the lock; the error names its pid.
    """
    if directory is None or fcntl is None:
        return
    key = str(directory.resolve())
    with _registry:
        if not _is_current(key):
            _held[key] = _locked_file(name, directory / _FILE)


def is_held(directory: Path | None) -> bool:
    """Tell whether this process holds the writer lock, so that nobody else can write."""
    if directory is None:
        return False
    with _registry:
        return _is_current(str(directory.resolve()))


def pin(directory: Path | None) -> None:
    """Keep the writer lock, whoever asks to give it up, until it is unpinned."""
    if directory is not None:
        with _registry:
            _pins[str(directory.resolve())] += 1


def unpin(directory: Path | None) -> None:
    """Let the writer lock be given up again, by whoever asks next."""
    if directory is not None:
        with _registry:
            _pins[str(directory.resolve())] -= 1


def unlock(directory: Path | None) -> bool:
    """Let another process write to the queue; False where somebody here has pinned the lock."""
    if directory is None:
        return True
    key = str(directory.resolve())
    with _registry:
        if _pins[key] > 0:
            return False
        held = _held.pop(key, None)
    if held is not None:
        held.close()
    return True


def holder(directory: Path | None) -> int | None:
    """Return the pid that wrote itself into the lock file last, whether or not it still runs."""
    if directory is None:
        return None
    try:
        return int((directory / _FILE).read_text())
    except (OSError, ValueError):
        return None


def _is_current(key: str) -> bool:
    """Tell whether a lock is held, on the file that is there: its directory may be another now."""
    held = _held.get(key)
    if held is None:
        return False
    try:
        if os.path.samestat(os.fstat(held.fileno()), Path(key, _FILE).stat()):
            return True
    except OSError:
        pass
    # What others find there is no longer what this process has locked.
    _held.pop(key).close()
    return False


def _locked_file(name: str, path: Path) -> IO[str]:
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        file.close()
        raise WriterLockedError(name, holder(path.parent)) from exc
    try:
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
    except OSError:
        # A full disk: the lock must not outlive the attempt.
        file.close()
        raise
    return file
