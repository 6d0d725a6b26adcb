"""The right to tidy a table up on this machine's disk: one has it at a time, of all processes."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_queue.delta.tables import unfinished
from spark_queue.delta.tables.forcing import sync_directory
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


def remove_unfinished(directory: Path, *, replaces: bool) -> None:
    """Remove what a process left that was killed while it made a table.

    So only one may make it at a time.

    Parameters
    ----------
    directory : Path
        Where it is.
    replaces : bool
        Whether a table that is whole, and has no step, goes, too.
    """

    def is_left(place: Path) -> bool:
        # Of a whole one somebody may be about to make the first step.
        return unfinished.is_unfinished(place) and (replaces or not unfinished.is_whole(place))

    if is_left(directory):
        remove_directory(directory, is_left)


def remove_directory(directory: Path, may_go: Callable[[Path], bool] = lambda _: True) -> None:
    """Remove a table, if it may go once nobody finds it.

    Parameters
    ----------
    directory : Path
        Where it is.
    may_go : callable
        Is asked of the place where it lies then.
    """
    # A waiting writer makes files in it; in a place that nobody knows nobody does.
    gone = directory.with_name(f".{directory.name}-{uuid.uuid4().hex}")
    with resting(directory):
        directory.rename(gone)
    # After a power cut files are missing only where nobody looks for them.
    sync_directory(gone.parent)
    if may_go(gone):
        shutil.rmtree(gone)
    else:
        # Somebody has made the table while this looked.
        gone.rename(directory)
