"""Storage on an object store, asked by a file system of fsspec."""

from __future__ import annotations

import errno
from datetime import datetime
from typing import Any, ClassVar

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.object.remote_storage import RemoteStorage
from spark_queue.log.storage import names_after
from spark_queue.overriding import override

#: The file systems whose ``pipe_file(path, content, mode="create")`` is one exclusive request, by
#: their packages, with the options of a read that is one request. That of ``fsspec`` itself looks
#: first and writes then, so that of two who create a name both do.
EXCLUSIVE: dict[str, dict[str, Any]] = {
    "s3fs": {"max_concurrency": 1},  # If-None-Match: *; otherwise a read asks for the size, too
    "gcsfs": {},  # ifGenerationMatch=0
    "adlfs": {},  # If-None-Match: *
}

#: Where the file systems say when an object was written.
_INSTANTS = ("LastModified", "last_modified", "mtime", "updated")


def is_file_system(storage: object) -> bool:
    """Return whether that is a file system of fsspec."""
    return all(hasattr(storage, name) for name in ("pipe_file", "cat_file", "find", "protocol"))


class FileSystemStorage(RemoteStorage):
    """See :class:`RemoteStorage`; commits are ``pipe_file(mode="create")``.

    Parameters
    ----------
    files : AbstractFileSystem
        One of :data:`EXCLUSIVE`.
    url : str
        The prefix, as the file system takes it, and for messages.

    Raises
    ------
    InvalidArgumentError
        When the file system has no exclusive create.
    """

    client: ClassVar[str] = "fsspec"
    refused: ClassVar[frozenset[str]] = frozenset(
        {"PermissionError", "NoCredentialsError", "ParamValidationError", "NotImplementedError"}
    )

    def __init__(self, files: Any, url: str) -> None:
        self._reading = EXCLUSIVE[_package(files)]
        super().__init__(url, files._strip_protocol(url).strip("/"))  # noqa: SLF001 - has no other
        self._files = files

    @override
    def get_once(self, key: str) -> bytes:
        return bytes(self._files.cat_file(key, **self._reading))

    @override
    def put_once(self, key: str, content: bytes) -> None:
        self._files.pipe_file(key, content)

    def create_once(self, key: str, content: bytes) -> bool:
        """See :meth:`RemoteStorage.create_once`.

        For some stores s3fs calls a request for a name that is taken an invalid one.
        """
        try:
            self._files.pipe_file(key, content, mode="create")
        except FileExistsError:
            return False
        except OSError as exc:
            # Else the request is invalid, and the store says why.
            if exc.errno == errno.EINVAL and self._is_there(key):
                return False
            raise
        return True

    def _is_there(self, key: str) -> bool:
        try:
            self.get_once(key)
        except FileNotFoundError:
            return False
        return True

    @override
    def delete_once(self, key: str) -> None:
        self._files.rm_file(key)

    @override
    def list(self, after: str = "") -> dict[str, datetime]:
        place = self._prefix + after.rpartition("/")[0]
        found: dict[str, Any] = self.repeat("", lambda _: self._look(place))
        objects = {
            name.strip("/").removeprefix(self._prefix): _instant_of(one)
            for name, one in found.items()
        }
        return names_after(after, objects)

    @override
    def tables_beside(self) -> set[str]:
        place = self._prefix.rstrip("/").rpartition("/")[0] + "/"
        found = self.repeat("", lambda _: self._look(place))
        return {name.strip("/").removeprefix(place).partition("/")[0] for name in found}

    def _look(self, place: str) -> dict[str, Any]:
        # A listing in the cache lacks what others have written since.
        self._files.invalidate_cache()
        found: dict[str, Any] = self._files.find(place.rstrip("/"), detail=True)
        return found


def _instant_of(entry: dict[str, Any]) -> datetime:
    found = next(entry[name] for name in _INSTANTS if name in entry)
    return found if isinstance(found, datetime) else datetime.fromisoformat(str(found))


def _package(files: Any) -> str:
    """Return the package of a file system; raise if its create is not exclusive."""
    packages = (kind.__module__.partition(".")[0] for kind in type(files).__mro__)
    found = next((package for package in packages if package in EXCLUSIVE), None)
    if found is None:
        raise InvalidArgumentError(
            f"storage is a {type(files).__module__}.{type(files).__name__}, which has no exclusive "
            "create, so that two steps could have one number: use a file system of "
            f"{', '.join(EXCLUSIVE)}, or a store of obstore"
        )
    return found
