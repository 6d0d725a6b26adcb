"""Storage in the memory of this process: the least that is one."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import datetime, timezone

from spark_queue.log.object.remote_storage import thread_lock
from spark_queue.log.storage import Storage, names_after
from spark_queue.overriding import override


class MemoryStorage(Storage):
    """Storage that ends with its last user; its locks keep out threads.

    Parameters
    ----------
    url : str
        The prefix, for messages.
    """

    url: str = ""
    took: float = 0.0

    def __init__(self, url: str) -> None:
        self.url = url
        self._objects: dict[str, tuple[bytes, datetime]] = {}
        self._changing = threading.Lock()

    @override
    def list(self, after: str = "") -> dict[str, datetime]:
        return names_after(after, {name: at for name, (_, at) in list(self._objects.items())})

    @override
    def read(self, name: str) -> bytes | None:
        return self._objects.get(name, (None, None))[0]

    @override
    def put(self, name: str, content: bytes) -> None:
        self._objects[name] = content, self.now()

    @override
    def put_if_absent(self, name: str, content: bytes) -> bytes:
        with self._changing:
            return self._objects.setdefault(name, (content, self.now()))[0]

    @override
    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            self._objects.pop(name, None)

    @override
    def lock(self, name: str, timeout: float) -> AbstractContextManager[bool]:
        return thread_lock(f"{self.url}/{name}", timeout)

    @override
    def now(self) -> datetime:
        return datetime.now(timezone.utc)
