"""Storage on an object store, asked by obstore."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

from spark_queue.log.object.remote_storage import RemoteStorage
from spark_queue.log.step_events import logger
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
