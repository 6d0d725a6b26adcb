"""Redo file of a table on this machine's disk: its newest small steps once more, in one file.

A step lies in three files of three directories, each of which takes a write that is forced. Here
it takes one: the same bytes at the end of this file. What a power cut takes of the rest is made
again by who opens the table next, before that is read. See ADR 76.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import Struct, error as StructError

from spark_queue.errors import FileAccessError
from spark_queue.log.delta.commits import commit_path, summed_up
from spark_queue.log.delta.integrity import require_whole
from spark_queue.log.disk.fsync import make_directory, put_file, sync_directory, sync_file
from spark_queue.log.disk.write_lock import holding
from spark_queue.log_errors import using

REDO_FILE = "_redo"

#: What it begins with: a mark, what tells its records from older ones, the boot, a checksum.
_BEGIN, _MARK = Struct("<8s8s36sI"), b"redo 1\n\0"

#: What a record begins with: its bytes behind that, their checksum, the version of its commit.
_RECORD = Struct("<IIQ")

#: Bytes of a step, and of all steps, at most; and by how many the file grows.
_LARGEST, _MOST, _GROWTH = 128 * 2**10, 8 * 2**20, 256 * 2**10

#: Bytes from which on upkeep empties it.
ENOUGH = 4 * 2**20

_WAY_OUT = (
    "it has steps that a power cut took from the table: open the queue once as a user who may write"
)


@dataclass(frozen=True, slots=True)
class _RedoRecord:
    version: int
    commit: bytes
    files: dict[str, bytes]

    @classmethod
    def read(cls, version: int, body: bytes) -> _RedoRecord:
        """Return a step from the bytes of its record."""
        line, _, rest = body.partition(b"\n")
        sizes, parts, at = json.loads(line), [], 0
        for size in sizes.values():
            parts.append(rest[at : at + size])
            at += size
        return cls(version, rest[at:], dict(zip(sizes, parts, strict=True)))

    def body(self) -> bytes:
        """Return the same bytes."""
        sizes = {name: len(content) for name, content in self.files.items()}
        return b"".join((json.dumps(sizes).encode(), b"\n", *self.files.values(), self.commit))


class RedoFile:
    """Newest small steps of a table.

    Parameters
    ----------
    directory : Path
        Where the table is.
    """

    def __init__(self, directory: Path) -> None:
        self._directory, self._path = directory, directory / REDO_FILE
        # It is opened for each step.
        self._name = str(self._path)
        self._salt, self._last, self._end = b"", 0, 0
        self._commits: dict[int, int] = {}

    # rule again: order of forcing
    def append(self, version: int, commit: bytes, names: Sequence[str]) -> bool:
        """Force a step to the disk, by who may write; False if it has no room here.

        Parameters
        ----------
        version : int
            The version that its commit will make.
        commit : bytes
            The content of the commit.
        names : sequence of str
            The files that it names, which are written.
        """
        files = {name: _read(f"{self._directory}/{name}") for name in names}
        body = _RedoRecord(version, commit, files).body()
        if len(body) > _LARGEST:
            return False
        try:
            with _open_file(self._name, os.O_RDWR | os.O_CREAT) as file:
                return self._append(file, version, commit, body)
        except OSError:
            # Without room here, or without the right, a step is forced where it belongs.
            return False

    def _append(self, file: int, version: int, commit: bytes, body: bytes) -> bool:
        self._follow(file)
        at, begin = self._end, b""
        if not self._salt:
            # Others, too, rely on its name as soon as it has a beginning.
            sync_directory(self._directory)
            self._salt, at = secrets.token_bytes(8), 0
            known = (_MARK, self._salt, boot().encode())
            begin = _BEGIN.pack(*known, zlib.crc32(_BEGIN.pack(*known, 0)))
        record = _RECORD.pack(len(body), _sum(self._salt, version, body), version)
        data, size = begin + record + body, os.fstat(file).st_size
        end = at + len(data)
        if end > _MOST:
            return False
        if end + _RECORD.size > size:
            # What lies within a file is forced sooner than what makes it longer.
            data += bytes(_GROWTH - end % _GROWTH)
        try:
            self._write(file, data, at)
            _force(file)
        except BaseException:
            self._take_back(file, at + len(begin))
            raise
        self._last, self._end = at + len(begin), end
        self._commits[version] = zlib.crc32(commit)
        return True

    def _write(self, file: int, data: bytes, at: int) -> None:
        if os.pwrite(file, data, at) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def take_back(self) -> None:
        """Forget the newest step, which did not become one: no power cut makes it again."""
        with suppress(OSError), _open_file(self._name, os.O_RDWR) as file:
            self._take_back(file, self._last)

    def _take_back(self, file: int, at: int) -> None:
        # What is known of it is read again.
        self._salt = b""
        with suppress(OSError):
            os.pwrite(file, bytes(_RECORD.size), at)
            _force(file)

    def commits(self) -> dict[int, int]:
        """Return the checksum of the commit of each version that is here."""
        with (
            suppress(FileNotFoundError, PermissionError),
            _open_file(self._name, os.O_RDONLY) as file,
        ):
            self._follow(file)
            return self._commits
        return {}

    def _follow(self, file: int) -> None:
        """Find the end: other processes write here, too, and empty it."""
        salt = _salt_of(os.pread(file, _BEGIN.size, 0))
        if not salt or salt != self._salt:
            self._salt, self._end, self._commits = salt, _BEGIN.size, {}
        if not salt:
            return
        for step, end in _steps(file, salt, self._end):
            self._commits[step.version], self._end = zlib.crc32(step.commit), end

    def restore(self) -> None:
        """Make what a power cut has taken of the steps again, where there may have been one.

        Raises
        ------
        FileAccessError
            When something is to be made again, and this process may only read.
        """
        try:
            with using(self._path):
                if self._may_be_cut():
                    self._restore()
        except FileNotFoundError:
            # Its table may have been dropped meanwhile.
            if self._path.exists():
                raise

    def _may_be_cut(self) -> bool:
        try:
            with self._path.open("rb") as file:
                begin = file.read(_BEGIN.size)
        except (FileNotFoundError, NotADirectoryError):
            return False
        # Where the system names no boot the files are looked at each time.
        is_other = bool(begin) and (not boot() or boot().encode() not in begin)
        # What is left of a table that was removed has no log.
        return is_other and commit_path(self._directory, 0).parent.is_dir()

    def _restore(self) -> None:
        if not all(os.access(path, os.W_OK) for path in (self._directory, self._path)):
            if any(self._losses()):
                raise FileAccessError(self._path, errno.EACCES, _WAY_OUT)
            return
        with holding(str(self._directory), self._directory):
            if self._may_be_cut():
                for path, content in self._losses():
                    make_directory(path.parent)
                    put_file(path, content)
                self.empty()

    def _losses(self) -> Iterator[tuple[Path, bytes]]:
        """Return files that are not what steps wrote, with that: of each step the commit last."""
        log = commit_path(self._directory, 0).parent
        oldest, summed = min(log.glob("*.json"), default=log).name, summed_up(self._directory) or 0
        # One that was taken by another writer may be here twice.
        steps = {step.version: step for step in self._steps()}
        for version, step in sorted(steps.items()):
            commit = commit_path(self._directory, version)
            found = _content(commit)
            if found != step.commit and _is_whole(found):
                # The version is another step: this one was lost.
                continue
            if found is None and version <= summed and commit.name < oldest:
                # The log was cleaned up since.
                continue
            files = {self._directory / name: content for name, content in step.files.items()}
            for path, content in (*files.items(), (commit, step.commit)):
                if _content(path) != content:
                    yield path, content

    def empty(self, least: int = 1) -> None:
        """Force what it has to the disk where that belongs, and forget it.

        Parameters
        ----------
        least : int
            How many bytes it has to have for that.
        """
        with suppress(FileNotFoundError), using(self._path):
            if self._path.stat().st_size < least:
                return
            # Most of it is done before others have to wait.
            done = self._force_but(set())
            with holding(str(self._directory), self._directory):
                self._force_but(done)
                with self._path.open("rb+") as file:
                    file.truncate()
                    os.fsync(file.fileno())

    def _force_but(self, done: set[tuple[int, int]]) -> set[tuple[int, int]]:
        """Force all steps but those that are done, and return which of them need it no more.

        They are told by their commits: where they lie is another step as soon as others write.
        """
        folders, forced = set[Path](), set[tuple[int, int]]()
        for step in self._steps():
            mark = step.version, zlib.crc32(step.commit)
            if mark in done:
                continue
            commit = commit_path(self._directory, step.version)
            for path in (*map(self._directory.joinpath, step.files), commit):
                # It may have been merged, and swept, since; a commit may be under way.
                with suppress(FileNotFoundError):
                    sync_file(path)
                    folders |= {path.parent, self._directory}
                    forced |= {mark} if path == commit else set()
        for folder in folders:
            sync_directory(folder)
        return forced

    def _steps(self) -> list[_RedoRecord]:
        with self._path.open("rb") as file:
            salt = _salt_of(os.pread(file.fileno(), _BEGIN.size, 0))
            return [step for step, _ in _steps(file.fileno(), salt, _BEGIN.size)]


def restore_below(directory: Path) -> None:
    """Restore all tables in a directory; see :meth:`RedoFile.restore`."""
    # What begins with a dot is being removed.
    with using(directory):
        files = [*directory.glob(f"[!.]*/{REDO_FILE}")]
    for file in files:
        RedoFile(file.parent).restore()


def _steps(file: int, salt: bytes, at: int) -> Iterator[tuple[_RedoRecord, int]]:
    """Return steps from a place on, each with the place where it ends; none without a salt."""
    while salt and len(begin := os.pread(file, _RECORD.size, at)) == _RECORD.size:
        size, found, version = _RECORD.unpack(begin)
        body = os.pread(file, size, at + _RECORD.size) if 0 < size <= _LARGEST else b""
        if not body or len(body) < size or _sum(salt, version, body) != found:
            return
        at += _RECORD.size + size
        yield _RedoRecord.read(version, body), at


def _salt_of(begin: bytes) -> bytes:
    """Return what tells records from older ones; empty where there are none."""
    try:
        mark, salt, booted, found = _BEGIN.unpack(begin)
    except StructError:
        return b""
    is_whole = mark == _MARK and zlib.crc32(_BEGIN.pack(mark, salt, booted, 0)) == found
    return bytes(salt) if is_whole else b""


def _sum(salt: bytes, version: int, body: bytes) -> int:
    return zlib.crc32(body, zlib.crc32(salt, version & 0xFFFFFFFF))


@contextmanager
def _open_file(path: str, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_CLOEXEC, 0o666)
    try:
        yield file
    finally:
        os.close(file)


def _read(path: str) -> bytes:
    with _open_file(path, os.O_RDONLY) as file:
        return os.read(file, _LARGEST + 1)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_whole(commit: bytes | None) -> bool:
    try:
        require_whole((commit or b"").decode())
    except ValueError:
        return False
    return True


def _force(file: int) -> None:
    # The times of the file need not be forced.
    (os.fdatasync if hasattr(os, "fdatasync") else os.fsync)(file)


@cache
def boot() -> str:
    """Return what tells this run of the system from others; empty where it does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
