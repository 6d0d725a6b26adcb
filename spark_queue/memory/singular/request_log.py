"""Write-ahead log: a file of records, read again after a crash."""

from __future__ import annotations

import json
import logging
import mmap
import os
import stat
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Generic, Literal, TypeVar, cast

from spark_queue.checks import require_choice, require_path
from spark_queue.errors import InvalidArgumentError, LogFileError, QueueShutDownError
from spark_queue.memory.waiting.processes import Owner
from spark_queue.memory.waiting.timer import SHARED_TIMER, Alarm, Timer, seconds
from spark_queue.wording import shorten

T = TypeVar("T")

SyncPolicy = Literal["always", "never"] | timedelta

#: How a file begins: that it is such a log, and the version of its format.
_MAGIC, _VERSION = b"\x89SQWAL\r\n", 1
_START = _MAGIC + struct.pack("<I", _VERSION)

#: How a record begins; by it the next one is found behind damage.
_MARK = b"\xd1rec"

#: Before each record: the mark, the length of its body, and a checksum of its place, length, body.
_HEADER = struct.Struct("<4sII")
_PLACE = struct.Struct("<QI")

_log = logging.getLogger(__name__)


class WriteAheadLog(Generic[T]):
    """Records in the order in which they were appended.

    Opening a log reads it through. A torn last record, as a crash leaves it, is cut off. A record
    that is damaged while whole ones follow it is an error, and so is a file that is no such log:
    nothing is changed then. One process may write.

    Parameters
    ----------
    path : str or path
        The file; it is created where it is missing.
    sync : "always", "never" or timedelta
        When appended records are forced to the disk: before the append returns (default), whenever
        the system likes, or at most so long after the append. Less often is faster, and a crash
        of the machine loses unforced records; a crash of the process loses nothing.
    encode, decode : callable
        How a record becomes bytes, and again a record. Default: JSON.
    timer : Timer
        What the delay of the forcing is counted by. Default: one shared by the process.

    Raises
    ------
    InvalidArgumentError
        When the policy is none of those.
    LogFileError
        When the file is no write-ahead log, is one of a later format, or is damaged before its end.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: SyncPolicy = "always",
        encode: Callable[[T], bytes] | None = None,
        decode: Callable[[bytes], T] | None = None,
        timer: Timer = SHARED_TIMER,
    ) -> None:
        if not isinstance(sync, timedelta):
            require_choice("sync", sync, ("always", "never"))
        self.path = Path(require_path("path", path))
        self._sync = sync
        self._delay = seconds("sync", sync) if isinstance(sync, timedelta) else None
        self._encode = _to_json if encode is None else encode
        self._decode = _from_json if decode is None else decode
        self._timer = timer
        self._lock = threading.Lock()
        self._alarm: Alarm | None = None
        self._owner = Owner(f"the log {self.path}")
        file = _open_to_append(self.path)
        try:
            self._end = _end_of(file, self.path)
            self.cut_bytes = self._cut_tail(file)
            """How many bytes of a torn tail were cut when the log was opened."""
        except BaseException:
            file.close()
            raise
        self._file: BinaryIO | None = file

    def __enter__(self) -> WriteAheadLog[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, item: T) -> None:
        """Write a record at the end; it is there, as the policy says, when this returns.

        Raises
        ------
        QueueShutDownError
            When the log is closed.
        SetupError
            When the process was forked since: the log is the parent's.
        OSError
            When it cannot be written; the log is then as it was.
        """
        body = self._encode(item)
        self._owner.require()
        with self._lock:
            file = self._require_open()
            try:
                _write(file, _frame(body, self._end))
                if self._sync == "always":
                    os.fsync(file.fileno())
            except OSError:
                self._cut_tail(file)
                raise
            self._end += _HEADER.size + len(body)
            if self._delay is not None and self._alarm is None:
                self._alarm = self._timer.call_at(self._timer.now() + self._delay, self._force)

    def replay(self) -> Iterator[T]:
        """Return the records that are there now, from the first on.

        Raises
        ------
        LogFileError
            When one of them was damaged since the log was opened.
        """
        self._owner.require()
        with self._lock:
            self._require_open()
            end = self._end
        at = len(_START)
        with self.path.open("rb") as file:
            while at < end:
                body = _body_at(file, at)
                if body is None:
                    raise _damage(self.path, at)
                at += _HEADER.size + len(body)
                yield self._decode(body)

    def close(self) -> None:
        """Force appended requests to the disk and close the file; again without effect."""
        if not self._owner.is_here():
            return  # It is the parent's, whose thread may hold the lock for ever.
        with self._lock:
            if self._file is None:
                return
            if self._alarm is not None:
                self._alarm.cancel()
            if self._sync != "never":
                os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def _force(self) -> None:
        if not self._owner.is_here():
            return
        with self._lock:
            self._alarm = None
            if self._file is not None:
                os.fsync(self._file.fileno())

    def _require_open(self) -> BinaryIO:
        if self._file is None:
            raise QueueShutDownError(f"the log {self.path} is closed")
        return self._file

    def _cut_tail(self, file: BinaryIO) -> int:
        cut = file.seek(0, os.SEEK_END) - self._end
        if cut:
            _log.warning("cutting %d bytes of a torn record off %s", cut, self.path)
            file.truncate(self._end)
            file.seek(self._end)
            os.fsync(file.fileno())
        return cut


def _open_to_append(path: Path) -> BinaryIO:
    """Open a log, or begin one where there is no file, or an empty one."""
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        raise LogFileError(path, 0, "it is no regular file")
    if not path.parent.is_dir():
        raise LogFileError(path, 0, f"there is no directory {path.parent}: make it")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    file = cast("BinaryIO", os.fdopen(descriptor, "r+b", buffering=0))
    try:
        _begin(file, path)
    except BaseException:
        file.close()
        raise
    # The name of the file lives in its folder; who made it may have been killed before that.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return file


def _begin(file: BinaryIO, path: Path) -> None:
    """Require the start of a log; write it where a crash came before it, or before all of it."""
    start = _read(file, len(_START))
    if start == _START:
        return
    # A power cut may leave zeros of unforced records.
    is_torn = file.seek(0, os.SEEK_END) <= len(_START)
    if not _START.startswith(start.rstrip(b"\0") if is_torn else start):
        is_other = not start.startswith(_MAGIC)
        why = "it is no write-ahead log" if is_other else "a later release of spark-queue wrote it"
        raise LogFileError(path, 0, why)
    file.seek(0)
    _write(file, _START)
    os.fsync(file.fileno())


def _end_of(file: BinaryIO, path: Path) -> int:
    """Return where the last whole record ends; raise where one is damaged and others follow."""
    end = len(_START)
    while (body := _body_at(file, end)) is not None:
        end += _HEADER.size + len(body)
    if _is_followed(file, end):
        raise _damage(path, end)
    return end


def _is_followed(file: BinaryIO, end: int) -> bool:
    """Whether there is a whole record anywhere behind a position."""
    if file.seek(0, os.SEEK_END) <= end:
        return False
    with closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as content:
        at = content.find(_MARK, end + 1)
        while at >= 0:
            if _body_at(file, at) is not None:
                return True
            at = content.find(_MARK, at + 1)
    return False


def _damage(path: Path, at: int) -> LogFileError:
    return LogFileError(
        path,
        at,
        "a record is damaged, and whole ones follow it; restore the file from a copy. To give up "
        f"that record and all behind it, keep a copy and run: truncate -s {at} {path}",
    )


def _frame(body: bytes, at: int) -> bytes:
    return _HEADER.pack(_MARK, len(body), _checksum(body, at)) + body


def _checksum(body: bytes, at: int) -> int:
    # With its place in it, a copy of a record inside of another one is none.
    return zlib.crc32(body, zlib.crc32(_PLACE.pack(at, len(body))))


def _body_at(file: BinaryIO, at: int) -> bytes | None:
    """Read the record at a position; ``None`` where there is no whole one."""
    file.seek(at)
    header = _read(file, _HEADER.size)
    if len(header) < _HEADER.size:
        return None
    mark, length, checksum = _HEADER.unpack(header)
    body = _read(file, length) if mark == _MARK else b""
    is_whole = mark == _MARK and len(body) == length and _checksum(body, at) == checksum
    return body if is_whole else None


def _write(file: BinaryIO, content: bytes) -> None:
    """Write all of it: on a disk that fills up, a call writes a part, and the next one fails."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _read(file: BinaryIO, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count and (part := file.read(count - len(parts))):
        parts += part
    return bytes(parts)


def _to_json(item: Any) -> bytes:
    try:
        return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as exc:
        raise InvalidArgumentError(
            f"item is {shorten(item)}: it has text that is no UTF-8"
        ) from exc
    except (RecursionError, TypeError, ValueError) as exc:
        raise InvalidArgumentError(
            f"item is {shorten(item)}, which JSON has no text for ({exc}): give the log an encode"
        ) from exc


def _from_json(body: bytes) -> Any:
    return json.loads(body)
