"""Which threads of a process write to a log, and whether a table is on this machine's disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_log_locks: dict[str, threading.RLock] = {}


def log_lock(log: str) -> threading.RLock:
    """Return this process's lock for a log, which keeps its own threads from racing for steps.

    Steps are safe without it, since Delta refuses a number that is taken; with it the losers do
    not have to try again.
    """
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


if hasattr(os, "register_at_fork"):
    # The threads of the parent are not there, and what they held is held for ever.
    os.register_at_fork(after_in_child=_log_locks.clear)
