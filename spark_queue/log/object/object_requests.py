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
from spark_queue.log.step_events import logger
from spark_queue.memory.waiting.processes import Owner

_T = TypeVar("_T")

#: Seconds for which an unclear request is repeated, and the longest pause between two tries.
_PATIENCE, _FIRST_PAUSE, _MAX_PAUSE = 60.0, 0.01, 1.0

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

#: What it raises, to who asks for an object that is not there yet, where it is: by 409, 412, or
#: 304. Of any other request such an answer is unclear.
_TAKEN = frozenset({"AlreadyExistsError", "PreconditionError", "NotModifiedError"})

#: What it raises where the name of an object is no path to it.
_UNREADABLE = "InvalidPathError"

#: Requests that are under way at once, where there are many.
_AT_ONCE = 16


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

        def read(key: str) -> bytes | None:
            try:
                return bytes(self._store.get(key).bytes())
            except FileNotFoundError:
                return None

        return self._repeat(name, read)

    def put(self, name: str, content: bytes) -> None:
        """Write an object under a name that nobody else writes."""
        self._repeat(name, lambda key: self._store.put(key, content))

    # rule again: lost step
    def create(self, name: str, content: bytes) -> bytes:
        """Write an object that is not there yet, and return it; or the other one that is.

        An unclear answer is no answer: the same bytes are sent again. If the object is there then,
        its bytes say whose it is, as no two commits are alike.
        """
        until, pause = time.monotonic() + _PATIENCE, _FIRST_PAUSE
        while not self.create_once(name, content):
            found = self.get(name)
            if found is not None:
                return found
            # A store may refuse one of two that come at once before either is there.
            if time.monotonic() > until:
                why = "another request is under way"
                raise self._refusal(name, errno.ETIMEDOUT, why)
            pause = _rest(pause)
        return content

    def create_once(self, name: str, content: bytes) -> bool:
        """Write an object unless one is there, perhaps by an earlier try; tell whether it did."""

        def make(key: str) -> bool:
            try:
                self._store.put(key, content, mode="create")
            except Exception as exc:
                if type(exc).__name__ in _TAKEN:
                    return False
                raise
            return True

        return self._repeat(name, make)

    def require_refusal(self, name: str, content: bytes) -> None:
        """Check that the store does not make an object, which is there, a second time.

        Raises
        ------
        SetupError
            When it does; then the object is removed.
        """
        if not self.create_once(name, content):
            return
        self.delete([name])
        raise SetupError(
            f"the store of {self.url!r} wrote an object over another in spite of "
            "If-None-Match, so that steps would be lost: use a store that refuses it"
        )

    def names(self) -> dict[str, datetime]:
        """Return the names of all objects, and when each was written.

        Some names no client reads: such an object is passed over, and named in the log.
        """
        found = self._list(self._prefix)
        return {str(one["path"]).removeprefix(self._prefix): one["last_modified"] for one in found}

    def tables_beside(self) -> set[str]:
        """Return the names of all tables in the place that this one is in."""
        place = self._prefix.rstrip("/").rpartition("/")[0] + "/"
        found = (str(one["path"]).removeprefix(place) for one in self._list(place))
        return {name.partition("/")[0] for name in found}

    def _list(self, place: str) -> list[Any]:
        """Return what is said of all objects in a place, as far as the client reads their names."""
        # A name without letters at its beginning may be one that stops the client.
        for after in (None, f"{place}0"):
            found = self._try_list(place, after)
            if isinstance(found, list):
                return found
            logger.warning(
                "%s: an object is passed over whose name no client reads, remove it by the tools "
                "of the store: %s",
                self.url,
                str(found).partition("\n")[0],
            )
        return []

    def _try_list(self, place: str, after: str | None) -> list[Any] | Exception:
        """Return what is said of objects behind a name, or why their names cannot be read."""

        def look(_: str) -> list[Any] | Exception:
            try:
                parts = self._store.list(place.rstrip("/") or None, **_behind(after))
                return [one for some in parts for one in some]
            except Exception as exc:
                if type(exc).__name__ == _UNREADABLE:
                    return exc
                raise

        return self._repeat("", look)

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
        FileAccessError
            When the store refuses the request, or gives no clear answer for a minute.
        SetupError
            In a child of a fork.
        """
        self._owner.require()
        key, until, pause = f"{self._prefix}{name}", time.monotonic() + _PATIENCE, _FIRST_PAUSE
        while True:
            began = time.monotonic()
            try:
                answer = ask(key)
            except FileNotFoundError as exc:
                # Who reads or removes an object takes that for an answer: here the bucket is gone.
                raise self._refusal(name, errno.ENOENT, exc) from exc
            except Exception as exc:
                if type(exc).__name__ in _REFUSED:
                    raise self._refusal(name, errno.EACCES, exc) from exc
                if time.monotonic() > until:
                    raise self._refusal(name, errno.ETIMEDOUT, exc) from exc
            else:
                self.took = time.monotonic() - began
                return answer
            pause = _rest(pause)

    def _refusal(self, name: str, number: int, why: Exception | str) -> FileAccessError:
        said = " ".join(str(why).split())[:200]
        return FileAccessError(f"{self.url}/{name}", number, f"the store says: {said}")


def _behind(name: str | None) -> dict[str, str]:
    return {} if name is None else {"offset": name}


def _rest(pause: float) -> float:
    """Wait for a drawn part of a pause, and return the next one."""
    time.sleep(random.uniform(0, pause))  # noqa: S311
    return min(2 * pause, _MAX_PAUSE)
