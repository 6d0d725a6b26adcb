"""Storage on an object store, asked by obstore or by a file system of fsspec."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from spark_queue.errors import InvalidArgumentError
from spark_queue.log.object.remote_storage import RemoteStorage
from spark_queue.log.step_events import logger
from spark_queue.log.storage import names_after
from spark_queue.overriding import override

#: What obstore raises where the name of an object is no path to it.
_UNREADABLE = "InvalidPathError"

#: What it raises, to who asks for an object that is not there yet, where it is: by 409, 412, or
#: 304. Of any other request such an answer is unclear.
_TAKEN = frozenset({"AlreadyExistsError", "PreconditionError", "NotModifiedError"})


class ObjectStorage(RemoteStorage):
    """See :class:`RemoteStorage`.

    Parameters
    ----------
    store : ObjectStore
        A store of ``obstore``, or what answers as one does.
    url, prefix : str
        See :class:`RemoteStorage`.
    """

    client: ClassVar[str] = "obstore"
    refused: ClassVar[frozenset[str]] = frozenset(
        {
            _UNREADABLE,
            "NotSupportedError",
            "PermissionDeniedError",
            "UnauthenticatedError",
            "UnknownConfigurationKeyError",
        }
    )

    def __init__(self, store: Any, url: str, prefix: str) -> None:
        super().__init__(url, prefix)
        self._store = store

    @override
    def get_once(self, key: str) -> bytes:
        return bytes(self._store.get(key).bytes())

    @override
    def put_once(self, key: str, content: bytes) -> None:
        self._store.put(key, content)

    @override
    def create_once(self, key: str, content: bytes) -> bool:
        try:
            self._store.put(key, content, mode="create")
        except Exception as exc:
            if type(exc).__name__ in _TAKEN:
                return False
            raise
        return True

    @override
    def delete_once(self, key: str) -> None:
        self._store.delete(key)

    def list(self, after: str = "") -> dict[str, datetime]:
        """See :meth:`Storage.list`.

        Some names no client reads: such an object is passed over, and named in the log.
        """
        look = partial(self.repeat, "", lambda _: self._look(after))
        found = look() if after else self._list(self._prefix)
        return {str(one["path"]).removeprefix(self._prefix): one["last_modified"] for one in found}

    @override
    def tables_beside(self) -> set[str]:
        place = self._prefix.rstrip("/").rpartition("/")[0] + "/"
        found = (str(one["path"]).removeprefix(place) for one in self._list(place))
        return {name.partition("/")[0] for name in found}

    def _look(self, after: str) -> Sequence[Any]:
        """Return the metadata of the objects of a folder behind a name."""
        folder = self._prefix + after.rpartition("/")[0]
        parts = self._store.list(folder, **_behind(f"{self._prefix}{after}"))
        return [one for some in parts for one in some]

    def _list(self, place: str) -> Sequence[Any]:
        """Return the metadata of all objects below a place whose names the client reads."""
        # A name without letters at its beginning may be one that stops the client.
        for after in (None, f"{place}0"):
            found = self._try_list(place, after)
            if not isinstance(found, Exception):
                return found
            logger.warning(
                "%s: an object is passed over whose name no client reads, remove it by the tools "
                "of the store: %s",
                self.url,
                str(found).partition("\n")[0],
            )
        return []

    def _try_list(self, place: str, after: str | None) -> Sequence[Any] | Exception:
        """Return the metadata of objects behind a name, or the error of an unreadable name."""

        def look(_: str) -> Sequence[Any] | Exception:
            try:
                parts = self._store.list(place.rstrip("/") or None, **_behind(after))
                return [one for some in parts for one in some]
            except Exception as exc:
                if type(exc).__name__ == _UNREADABLE:
                    return exc
                raise

        return self.repeat("", look)


def _behind(name: str | None) -> dict[str, str]:
    return {} if name is None else {"offset": name}


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
