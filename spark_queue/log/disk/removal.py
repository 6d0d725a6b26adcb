"""Removal of tables on this machine's disk, the right to tidy them up, and unfinished ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_queue.log.delta.commits import newest_version, summed_up
from spark_queue.log.delta.integrity import first_actions
from spark_queue.log.disk.fsync import sync_directory
from spark_queue.log.disk.write_lock import LockFile, require_locks

#: What may be there before the first step: the first commit, and files that no commit names. Delta
#: makes a directory for commits of catalogs, and Hadoop a checksum beside each file.
_LOG = re.compile(
    r"0{20}\.(json(#\d+)?|crc)|\.{1,2}0{20}\.[^/]*|\.[0-9a-f]{32}\.tmp|_commit_[^/]*\.tmp"
    r"|_staged_commits"
)
_ROWS = re.compile(r"_gen=-1/step-[^/]*")
_LOCKS = re.compile(r"_(writer\.next|(writer|waiter|upkeep)\.lock|redo)|_lives/[^/]*")

#: What the commit that makes an empty table consists of.
_MAKING = frozenset(("commitInfo", "protocol", "metaData"))


def is_unfinished(directory: Path) -> bool:
    """Tell whether a log was begun in a directory that is there, and can hold no step.

    Its first step writes one file of rows before its commit. More files, other ones, or the name of
    a later commit may be what a power cut has left of steps.
    """
    if not directory.is_dir() or not _has_first_only(directory):
        return False
    files = [name for name in _files(directory) if not _LOCKS.fullmatch(name)]
    if len(files) > 1 or not all(map(_ROWS.fullmatch, files)):
        return False
    actions = first_actions(directory)
    return actions is None or (
        all(action.keys() <= _MAKING for action in actions) and '"_gen"' in json.dumps(actions)
    )


def is_whole(directory: Path) -> bool:
    """Tell whether the first commit of a table is there, and whole."""
    return first_actions(directory) is not None


def is_made(directory: Path) -> bool:
    """Tell whether a table is there, and was not cut while it was made."""
    # To list a long log takes a while.
    if is_whole(directory) or summed_up(directory) is not None:
        return True
    return newest_version(directory, None) is not None and not is_cut(directory)


def is_cut(directory: Path) -> bool:
    """Tell whether a table was begun in a directory, and has no rows and no whole commit."""
    if not _has_first_only(directory) or first_actions(directory) is not None:
        return False
    names = _files(directory)
    return all(_LOCKS.fullmatch(name) or _has_no_rows(directory / name) for name in names)


def _has_no_rows(file: Path) -> bool:
    """Tell whether a file is one of those that Spark writes of an empty frame."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - takes a while

    if file.suffix == ".crc":
        return True
    try:
        return not file.stat().st_size or pq.read_metadata(file).num_rows == 0
    except (OSError, ValueError):
        return False


def remove_cut(directory: Path) -> None:
    """Remove the first commit of a table, if it was cut."""
    first = directory / "_delta_log" / f"{0:020}.json"
    if first.exists() and is_cut(directory):
        first.unlink(missing_ok=True)


def _has_first_only(directory: Path) -> bool:
    """Tell whether no file of the log is of a later commit; of a long log few names are read."""
    try:
        with os.scandir(directory / "_delta_log") as names:
            return all(_LOG.fullmatch(name.name) for name in names)
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _files(directory: Path) -> Iterator[str]:
    """Return the paths of the files outside the log."""
    for path in directory.rglob("*"):
        name = path.relative_to(directory).as_posix()
        if not name.startswith("_delta_log") and not path.is_dir():
            yield name


LOCK_FILE = "_upkeep.lock"

#: Seconds that somebody waits for another who tidies up, and between two looks.
_PATIENCE, _LOOK = 30.0, 0.02


@contextmanager
def resting(directory: Path, *, timeout: float = _PATIENCE) -> Iterator[bool]:
    """Hold the maintenance lock; yields False if another process has it.

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
    file, path = LockFile(), str(directory / LOCK_FILE)
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
        return is_unfinished(place) and (replaces or not is_whole(place))

    if is_left(directory):
        remove_directory(directory, is_left)


def remove_directory(directory: Path, may_go: Callable[[Path], bool] = lambda _: True) -> None:
    """Remove a table, if it may go after it was renamed.

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
