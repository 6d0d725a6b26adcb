"""Requests to an object store, repeated until their outcome is known."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

from spark_queue.errors import FileAccessError, SetupError
from spark_queue.waiting.processes import Owner

_T = TypeVar("_T")

#: Seconds for which an unclear request is repeated, and the longest pause between two tries.
_PATIENCE, _MAX_PAUSE = 60.0, 1.0

#: Errors of obstore by which a request has failed for good; any other one is unclear.
_REFUSED = frozenset(
    {
        "InvalidPathError",
        "NotSupportedError",
        "PermissionDeniedError",
        "UnauthenticatedError",
        "UnknownConfigurationKeyError",
    }
)

#: What it raises where an object is there that must not be: by 409, 412, or 304.
_TAKEN = frozenset({"AlreadyExistsError", "PreconditionError", "NotModifiedError"})

#: Requests that are under way at once, where there are many.
_AT_ONCE = 16


class ObjectTakenError(Exception):
    """Raised when an object that is to be made is there."""


class Bucket:
    """The objects below one prefix of a store.

    Parameters
    ----------
    store : ObjectStore
        A store of ``obstore``, or what answers as one does.
    url : str
        What messages call the prefix.
    prefix : str
        Where it is in the store.
    """

    def __init__(self, store: Any, url: str, prefix: str) -> None:
        self._store = store
        self.url = url
        self._prefix = f"{prefix}/" if prefix else ""
        self.took = 0.0
        """Seconds of the last request that was answered."""
        self._owner = Owner("the library obstore, which asks the store of a queue,")

    def get(self, name: str) -> bytes | None:
        """Return an object; ``None`` where it is not there."""
        try:
            return self._repeat(name, lambda key: bytes(self._store.get(key).bytes()))
        except FileNotFoundError:
            return None

    def put(self, name: str, content: bytes) -> None:
        """Write an object under a name that nobody else writes."""
        self._repeat(name, lambda key: self._store.put(key, content))

    # rule again: lost step
    def create(self, name: str, content: bytes) -> bytes:
        """Write an object that is not there yet, and return it; or the other one that is.

        An unclear answer is no answer: the same bytes are sent again. If the object is there then,
        its bytes say whose it is, as no two commits are alike.
        """
        while True:
            try:
                self.create_once(name, content)
            except ObjectTakenError:
                found = self.get(name)
                if found is None:
                    # A store may refuse one of two that come at once before either is there.
                    continue
                return found
            return content

    def create_once(self, name: str, content: bytes) -> None:
        """Write an object that is not there yet.

        Raises
        ------
        ObjectTakenError
            When one is there, perhaps by an earlier try of this call.
        """
        self._repeat(name, lambda key: self._store.put(key, content, mode="create"))

    def require_refusal(self, name: str, content: bytes) -> None:
        """Check that the store does not make an object, which is there, a second time.

        Raises
        ------
        SetupError
            When it does; then the object is removed.
        """
        try:
            self.create_once(name, content)
        except ObjectTakenError:
            return
        self.delete([name])
        raise SetupError(
            f"the store of {self.url!r} wrote an object over another in spite of "
            "If-None-Match, so that steps would be lost: use a store that refuses it"
        )

    def names(self) -> dict[str, datetime]:
        """Return the names of all objects, and when each was written."""

        def look(key: str) -> list[Any]:
            return [one for some in self._store.list(key or None) for one in some]

        found = self._repeat("", look)
        return {str(one["path"]).removeprefix(self._prefix): one["last_modified"] for one in found}

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects, there or not."""

        def remove(key: str) -> None:
            try:
                self._store.delete(key)
            except FileNotFoundError:
                return

        self.at_once(lambda name: self._repeat(name, remove), names)

    def at_once(self, ask: Callable[[str], _T], names: Iterable[str]) -> list[_T]:
        """Ask for several objects at the same time, and return the answers in order."""
        wanted = list(names)
        if len(wanted) < 2:  # noqa: PLR2004 - one needs no thread
            return [ask(name) for name in wanted]
        with ThreadPoolExecutor(min(len(wanted), _AT_ONCE)) as threads:
            return list(threads.map(ask, wanted))

    def _repeat(self, name: str, ask: Callable[[str], _T]) -> _T:
        """Return an answer to a request, which may be made more than once.

        Raises
        ------
        FileNotFoundError, ObjectTakenError
            As the store answers.
        FileAccessError
            When it refuses the request, or gives no clear answer for a minute.
        SetupError
            In a child of a fork.
        """
        self._owner.require()
        key, until, pause = f"{self._prefix}{name}", time.monotonic() + _PATIENCE, 0.01
        while True:
            began = time.monotonic()
            try:
                answer = ask(key)
            except FileNotFoundError:
                raise
            except Exception as exc:
                kind = type(exc).__name__
                if kind in _TAKEN:
                    raise ObjectTakenError(name) from exc
                if kind in _REFUSED:
                    raise self._refusal(name, errno.EACCES, exc) from exc
                if time.monotonic() > until:
                    raise self._refusal(name, errno.ETIMEDOUT, exc) from exc
            else:
                self.took = time.monotonic() - began
                return answer
            time.sleep(random.uniform(0, pause))  # noqa: S311
            pause = min(2 * pause, _MAX_PAUSE)

    def _refusal(self, name: str, number: int, exc: Exception) -> FileAccessError:
        said = " ".join(str(exc).split())[:200]
        return FileAccessError(f"{self.url}/{name}", number, f"the store says: {said}")
