"""Lives: whether a process that wrote to a queue on this machine's disk still runs.

A life is one run of a process. It has a name, ``host/pid/`` and eight hex digits, and a file beside
the table that the process keeps locked: the operating system unlocks it when the process ends,
however it dies. So a pid that is used again deceives nobody, and no clock is asked.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from spark_queue.log.disk.write_lock import LockFile, is_granted, require_locks
from spark_queue.log_errors import using

if TYPE_CHECKING:
    from spark_queue.results import Liveness

_DIRECTORY = "_lives"

_NAME = re.compile(r"[^/]+/([0-9]+)/([0-9a-f]{8})")

_FILE = re.compile(r"[0-9]+-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Life:
    """A life of this process, as one directory knows it."""

    name: str
    file: LockFile

    def runs(self, directory: Path) -> bool:
        """Tell whether others see it run."""
        return self.file.is_held(_path(directory, self.name))


class _Lives:
    """The lives of this process: one for all directories, as long as none of them has lost it."""

    def __init__(self) -> None:
        self._name = _new_name()
        self._known: dict[str, _Life] = {}
        self._changing = threading.RLock()

    def known(self, directory: Path) -> _Life | None:
        """Return the life that a directory should know, even if its file is gone."""
        return self._known.get(os.path.realpath(directory))

    def begin(self, directory: Path) -> _Life:
        """Return a life that runs in a directory; a new one where there is none."""
        with self._changing:
            life = self.known(directory)
            if life is not None and life.runs(directory):
                return life
            self.end(directory)
            while (life := _begin(directory, self._name)) is None:
                self._name = _new_name()
            self._known[os.path.realpath(directory)] = life
            return life

    def end(self, directory: Path) -> None:
        """Give up the life in a directory, if there is one, and its name for all others to come."""
        with self._changing:
            life = self._known.pop(os.path.realpath(directory), None)
            if life is not None:
                life.file.give_up()
                self._name = _new_name()


def mine(directory: Path) -> str:
    """Return the name of this process's life, which others see run until the process ends.

    It is the same in all directories, and the same again and again, unless the file of a name is
    gone, or another is in its place. Then others have taken that life for ended, so that it is
    never used again: there the process goes on under a new name.

    Parameters
    ----------
    directory : Path
        The directory of a queue on this machine's disk.

    Raises
    ------
    FileNotFoundError
        When the directory is not there.
    SetupError
        When this system cannot lock a file.
    """
    require_locks(directory)
    life = _lives.known(directory)
    if life is None or not life.runs(directory):
        life = _lives.begin(directory)
    return life.name


# rule: end of a worker
def has_ended(directory: Path, name: str) -> bool | None:
    """Return whether a process has ended; ``None`` if the name is no process's.

    A life whose file is missing has ended. That is safe: its file was there, and locked, before
    anybody was given its name to write into a step, and it is removed by who found it ended.

    Parameters
    ----------
    directory : Path
        The directory of the queue that it wrote to.
    name : str
        As :func:`mine` gave it; or what an older release, or a user, calls a worker.
    """
    parts = _NAME.fullmatch(name)
    if parts is None:
        return None
    require_locks(directory)
    if parts[1] == str(os.getpid()) and _is_mine(directory, name):
        return False
    try:
        with looking_at(_path(directory, name)) as is_ended:
            return is_ended
    except FileNotFoundError:
        return True


def running(directory: Path) -> list[int]:
    """Return the processes whose lives run in a directory, of all that have claimed there."""
    require_locks(directory)
    return sorted(int(file.name.partition("-")[0]) for file in _files(directory) if _runs(file))


def sweep(directory: Path) -> int:
    """Remove the files of lives that have ended, and return how many.

    One that is just beginning may lose its file, too: it notices, and takes another name before it
    gives any away. So no name of a file that was removed is ever used again.
    """
    require_locks(directory)
    return sum(_remove(file) for file in _files(directory))


def leave(directory: Path) -> None:
    """End this process's life in a directory, as if the process had ended; it may begin another.

    For who is done with a queue, so that a process that opens many does not keep a file of each.
    """
    _lives.end(directory)


@contextmanager
def looking_at(path: str) -> Iterator[bool]:
    """Hold a file's shared lock; yields False if a process has locked it.

    All who look at the same time are told the same.

    Raises
    ------
    FileNotFoundError
        When it is not there.
    """
    with using(path):
        descriptor = os.open(path, os.O_RDONLY)
    try:
        yield is_granted(descriptor, is_shared=True)
    finally:
        os.close(descriptor)


def _is_mine(directory: Path, name: str) -> bool:
    life = _lives.known(directory)
    return life is not None and life.name == name


def _files(directory: Path) -> list[Path]:
    """Return the files of all processes, running and ended."""
    lives = directory / _DIRECTORY
    try:
        with using(lives):
            names = os.listdir(lives)  # noqa: PTH208 - only names are wanted
    except FileNotFoundError:
        return []
    return [lives / name for name in names if _FILE.fullmatch(name)]


def _runs(file: Path) -> bool:
    try:
        with looking_at(str(file)) as is_ended:
            return not is_ended
    except (FileNotFoundError, PermissionError):
        return False


def _remove(file: Path) -> bool:
    """Remove the file of an ended process."""
    try:
        with looking_at(str(file)) as is_ended:
            if is_ended:
                file.unlink()
            return is_ended
    except FileNotFoundError:
        return False


def _begin(directory: Path, name: str) -> _Life | None:
    """Make and lock the file of a life; ``None`` where another was faster, or has removed it."""
    life = _Life(name=name, file=LockFile())
    with suppress(FileExistsError), using(directory / _DIRECTORY):
        (directory / _DIRECTORY).mkdir()
    try:
        return life if life.file.take(_path(directory, name), os.O_EXCL) else None
    except FileExistsError:
        return None


def _new_name() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def _path(directory: Path, name: str) -> str:
    _, pid, token = name.split("/")
    return f"{directory}/{_DIRECTORY}/{pid}-{token}"


_lives = _Lives()


def _part_from_parent() -> None:
    """Begin lives of our own: those of the parent are closed here, and run as long as it does."""
    global _lives  # noqa: PLW0603 - one for each process
    _lives = _Lives()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_part_from_parent)


def judge(
    directory: Path | None, worker_id: str | None, until: datetime | None, now: datetime
) -> Liveness | None:
    """Decide whether a worker lives.

    A process that works on this machine's disk is known by its life lock, as a claim knows it. All
    others are known by their lease.

    Parameters
    ----------
    directory : Path, optional
        The directory of a queue on this machine's disk.
    worker_id : str, optional
        As the claim names the worker.
    until : datetime, optional
        When its lease ends; ``None`` where it holds nothing.
    now : datetime
        The instant of the question.

    Returns
    -------
    Liveness or None
        ``None`` where it holds nothing, and nobody can ask for its process.
    """
    from spark_queue.results import Liveness  # noqa: PLC0415 - takes a while

    ended = _is_over(directory, worker_id)
    if ended:
        return Liveness.ENDED if until is None else Liveness.GONE
    if until is None:
        return None if ended is None else Liveness.ALIVE
    return Liveness.ALIVE if until > now else Liveness.LATE


def _is_over(directory: Path | None, worker_id: str | None) -> bool | None:
    if directory is None or not worker_id:
        return None
    try:
        return has_ended(directory, worker_id)
    except PermissionError:
        # The file of another user's process: only its lease is left to go by.
        return None
