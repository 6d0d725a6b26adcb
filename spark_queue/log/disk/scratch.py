"""Directories that a process needs only as long as it runs; the next one removes those of the dead.

Each has a file that its process keeps locked, however that ends. They are there until all that was
to be done at the end of the process is done, where that is asked for after this import.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from spark_queue.errors import SetupError, SparkQueueError
from spark_queue.log.disk.liveness import looking_at
from spark_queue.log.disk.write_lock import LockFile, require_locks

_PREFIX = "spark-queue-"

#: The file that is locked, and its name until it is.
_HELD, _BEGINS = ".held", ".begins"

_held: dict[str, LockFile] = {}

#: The directories, each with the process that made it: a child of a fork ends before its parent.
_made: dict[str, int] = {}


def begin() -> str:
    """Make a directory, which the next process removes if this one is killed."""
    if not _held:
        _sweep()
    place = tempfile.mkdtemp(prefix=_PREFIX)
    _made[place] = os.getpid()
    with suppress(SetupError):  # Where nothing can be locked, nobody knows who is dead.
        require_locks(Path(place))
        _held[place] = file = LockFile()
        file.take(f"{place}/{_BEGINS}")
        os.rename(f"{place}/{_BEGINS}", f"{place}/{_HELD}")  # noqa: PTH104 - texts
    return place


@contextmanager
def directory() -> Iterator[Path]:
    """Make a directory for the time of the block."""
    place = begin()
    try:
        yield Path(place)
    finally:
        end(place)


def end(place: str) -> None:
    """Remove a directory, if it is of this process."""
    if _made.pop(place, None) != os.getpid():
        return
    shutil.rmtree(place, ignore_errors=True)
    file = _held.pop(place, None)
    if file is not None:
        file.give_up()


@atexit.register
def _end_all() -> None:
    for place in list(_made):
        end(place)


def _sweep() -> None:
    """Remove the directories of processes that were killed."""
    for file in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_HELD}"):
        # It may be removed at this moment.
        with suppress(OSError, SparkQueueError):
            # What others put there may be no file: to open it could wait for ever.
            if file.lstat().st_uid == os.getuid():
                _remove_dead(file)


def _remove_dead(file: Path) -> None:
    with looking_at(str(file)) as is_ended:
        if is_ended:
            shutil.rmtree(file.parent, ignore_errors=True)
