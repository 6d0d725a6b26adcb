"""The right to tidy a table up on this machine's disk: one has it at a time, of all processes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_queue.delta.tables.lockfile import LockFile, require_locks

_FILE = "_upkeep.lock"

#: Seconds that somebody waits for another who tidies up, and between two looks.
_PATIENCE, _LOOK = 30.0, 0.02


@contextmanager
def resting(directory: Path, *, timeout: float = _PATIENCE) -> Iterator[bool]:
    """Let nobody else tidy up in a directory meanwhile; tell whether that is so.

    Parameters
    ----------
    directory : Path
        Where the table is.
    timeout : float
        How many seconds to wait for the writer.

    Raises
    ------
    FileNotFoundError
        When the directory is gone.
    SetupError
        When this system cannot lock a file.
    """
    require_locks(directory)
    file, path = LockFile(), str(directory / _FILE)
    until = time.monotonic() + timeout
    try:
        while not (is_mine := file.take(path)) and time.monotonic() < until:
            time.sleep(_LOOK)
        yield is_mine
    finally:
        file.give_up()
