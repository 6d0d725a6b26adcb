"""Which threads of a process write to a log, and whether a table is on this machine's disk."""

from __future__ import annotations

import threading
from pathlib import Path

_registry = threading.Lock()
_log_locks: dict[str, threading.RLock] = {}


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
