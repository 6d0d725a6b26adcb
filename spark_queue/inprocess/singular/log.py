"""A write-ahead log: a file that is only appended to, and read again after a crash."""

from __future__ import annotations

import json
import logging
import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO, Generic, Literal, TypeVar, cast

from spark_queue.errors import InvalidArgumentError, QueueShutDownError
from spark_queue.waiting.timer import SHARED_TIMER, Alarm, Timer, seconds

T = TypeVar("T")

SyncPolicy = Literal["always", "never"] | timedelta

#: Before each record: the length of its body, and the checksum of that length and the body.
_HEADER = struct.Struct("<II")

_log = logging.getLogger(__name__)


class WriteAheadLog(Generic[T]):
    """Records in the order in which they were appended.

    Opening a log reads it through. At the first record that is cut short or does not fit its
    checksum, the file is cut: a crash tears the last record at most. One process may write.

    Parameters
    ----------
    path : str or path
        The file; it is created where it is missing.
    sync : "always", "never" or timedelta
        When appended records are forced to the disk: before the append returns (default), whenever
        the system likes, or at most so long after the append. Less often is faster, and a crash
        of the machine loses what was not forced; a crash of the process loses nothing.
    encode, decode : callable
        How a record becomes bytes, and again a record. Default: JSON.
    timer : Timer
        What the delay of the forcing is counted by. Default: one shared by the process.

    Raises
    ------
    InvalidArgumentError
        When the policy is none of those.
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
        if not isinstance(sync, timedelta) and sync not in ("always", "never"):
            raise InvalidArgumentError(f"sync is {sync!r}: it must be 'always', 'never' or a time")
        self.path = Path(path)
        self._sync = sync
        self._delay = seconds("sync", sync) if isinstance(sync, timedelta) else None
        self._encode = _to_json if encode is None else encode
        self._decode = _from_json if decode is None else decode
        self._timer = timer
        self._lock = threading.Lock()
        self._alarm: Alarm | None = None
        self._file: BinaryIO | None = _open_to_append(self.path)
        self._end = sum(_HEADER.size + len(body) for body in _bodies(self._file))
        self.cut_bytes = self._cut_tail(self._file)
        """How many bytes of a torn tail were cut when the log was opened."""

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
        OSError
            When it cannot be written; the log is then as it was.
        """
        body = self._encode(item)
        with self._lock:
            file = self._require_open()
            try:
                file.write(_frame(body))
                if self._sync == "always":
                    os.fsync(file.fileno())
            except OSError:
                self._cut_tail(file)
                raise
            self._end += _HEADER.size + len(body)
            if self._delay is not None and self._alarm is None:
                self._alarm = self._timer.call_at(self._timer.now() + self._delay, self._force)

    def replay(self) -> Iterator[T]:
        """Return the records that are there now, from the first on."""
        with self._lock:
            self._require_open()
            end = self._end
        with self.path.open("rb") as file:
            for body in _bodies(file, end):
                yield self._decode(body)

    def close(self) -> None:
        """Force what was appended to the disk and close the file; again without effect."""
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
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    file = cast("BinaryIO", os.fdopen(descriptor, "r+b", buffering=0))
    if is_new:
        # The name of a new file lives in its folder, which is forced on its own.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    return file


def _frame(body: bytes) -> bytes:
    length = struct.pack("<I", len(body))
    return _HEADER.pack(len(body), zlib.crc32(body, zlib.crc32(length))) + body


def _bodies(file: BinaryIO, end: int | None = None) -> Iterator[bytes]:
    """Read records up to the first that is torn, or up to a position."""
    position = 0
    file.seek(0)
    while end is None or position < end:
        header = _read(file, _HEADER.size)
        if len(header) < _HEADER.size:
            return
        length, checksum = _HEADER.unpack(header)
        body = _read(file, length)
        if len(body) < length or zlib.crc32(body, zlib.crc32(header[:4])) != checksum:
            return
        position += _HEADER.size + length
        yield body


def _read(file: BinaryIO, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count and (part := file.read(count - len(parts))):
        parts += part
    return bytes(parts)


def _to_json(item: Any) -> bytes:
    return json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode()


def _from_json(body: bytes) -> Any:
    return json.loads(body)
