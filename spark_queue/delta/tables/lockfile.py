"""Files that a process locks by having them open, for as long as it lives and no longer."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from spark_queue.delta.tables.damage import using
from spark_queue.errors import SetupError

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
        """Lock the file that is at a path, and made if there is none, unless somebody else has.

        Parameters
        ----------
        path : str
            Where it is. Who asks again, asks for what is there by then.
        flags : int
            More flags to open it by.
        """
        self.give_up()
        with _opening:
            with using(path):
                self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o666)
            _opened.add(self)
        self._is_locked = _is_granted(self._descriptor, fcntl.LOCK_EX)
        # Between the two, another file may have taken its place.
        if self.is_held(path):
            return True
        self.give_up()
        return False

    def is_held(self, path: str) -> bool:
        """Tell whether the file is locked here, and is the one that others find at its path."""
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
        """Return what is at a place of the file, as far as it goes; nothing if it is not open."""
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


@contextmanager
def looking_at(path: str) -> Iterator[bool]:
    """Tell whether nobody has locked a file, and let nobody do so meanwhile.

    All who look at the same time are told the same.

    Raises
    ------
    FileNotFoundError
        When it is not there.
    """
    with using(path):
        descriptor = os.open(path, os.O_RDONLY)
    try:
        yield _is_granted(descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _is_granted(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
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
