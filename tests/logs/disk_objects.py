"""Storage in a directory, asked by its calls alone, between any two of which processes die."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timezone
from pathlib import Path

from spark_queue.log.delta.integrity import naming
from spark_queue.log.disk import redo_file, removal, write_lock
from spark_queue.log.disk.disk_storage import DiskStorage, link_file
from spark_queue.log.disk.fsync import put_file
from spark_queue.log.storage import Storage, names_after
from spark_queue.overriding import override

#: Files that are no objects: they hold locks, or steps once more.
_LOCKS = frozenset({removal.LOCK_FILE, write_lock.LOCK_FILE, redo_file.REDO_FILE})


class DiskObjects(Storage):
    """Files of a directory as objects, with the locks of a table that is used in place.

    Parameters
    ----------
    directory : Path
        Where they are.
    """

    url: str = ""
    took: float = 0.0

    def __init__(self, directory: Path) -> None:
        self.directory, self.url = directory, str(directory)

    @override
    def list(self, after: str = "") -> dict[str, datetime]:
        found = {}
        for path in self.directory.rglob("*"):
            # A file may go while this looks.
            with suppress(FileNotFoundError):
                if path.is_file() and path.name not in _LOCKS:
                    name = path.relative_to(self.directory).as_posix()
                    found[name] = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
        return names_after(after, found)

    @override
    def read(self, name: str) -> bytes | None:
        try:
            with naming(self.directory / name):
                return (self.directory / name).read_bytes()
        except FileNotFoundError:
            return None

    @override
    def put(self, name: str, content: bytes) -> None:
        (self.directory / name).parent.mkdir(parents=True, exist_ok=True)
        put_file(self.directory / name, content)

    @override
    def put_if_absent(self, name: str, content: bytes) -> bytes:
        file = self.directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        while not link_file(file, content, is_synced=True):
            found = self.read(name)
            if found is not None:
                return found
        return content

    @override
    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            (self.directory / name).unlink(missing_ok=True)

    @override
    def lock(self, name: str, timeout: float) -> AbstractContextManager[bool]:
        return DiskStorage(self.directory).lock(name, timeout)

    @override
    def now(self) -> datetime:
        return datetime.now(timezone.utc)
