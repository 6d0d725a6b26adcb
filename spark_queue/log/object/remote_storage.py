"""Storage by requests, each repeated until its outcome is known."""

from __future__ import annotations

import errno
import random
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from datetime import datetime, timezone
from typing import ClassVar, TypeVar

from spark_queue.errors import FileAccessError, WriterLockedError
from spark_queue.log.disk.write_lock import holding
from spark_queue.log.storage import Storage, ask_all
from spark_queue.memory.waiting.processes import Owner
from spark_queue.overriding import override

_T = TypeVar("_T")

#: Seconds for which an unclear request is repeated, and the longest pause between two tries.
_PATIENCE, _FIRST_PAUSE, _MAX_PAUSE = 60.0, 0.01, 1.0


class RemoteStorage(Storage):
    """See :class:`Storage`: objects below one prefix of a store. Locks keep out threads.

    Processes need no lock: the store takes one of two commits. See ADR 25 and ADR 47.

    Parameters
    ----------
    url : str
        What messages call the prefix.
    prefix : str
        Where it is in the store.
    """

    url: str = ""
    took: float = 0.0

    #: Names of errors by which a request has failed for good; any other one is unclear.
    refused: ClassVar[frozenset[str]]
    client: ClassVar[str]
    """The library that asks the store."""

    def __init__(self, url: str, prefix: str) -> None:
        self.url = url
        self._prefix = f"{prefix}/" if prefix else ""
        self._owner = Owner(f"the library {self.client}, which asks the store of a queue,")

    @abstractmethod
    def get_once(self, key: str) -> bytes:
        """Return an object; raises `FileNotFoundError` for no such object."""

    @abstractmethod
    def put_once(self, key: str, content: bytes) -> None:
        """Write an object, over an older one."""

    @abstractmethod
    def create_once(self, key: str, content: bytes) -> bool:
        """Write an object; False if one is there, perhaps by an earlier try."""

    @abstractmethod
    def delete_once(self, key: str) -> None:
        """Remove an object; may raise `FileNotFoundError` for no such object."""

    @abstractmethod
    def tables_beside(self) -> set[str]:
        """Return the names of all tables in the place of this one."""

    @override
    def read(self, name: str) -> bytes | None:
        def get(key: str) -> bytes | None:
            try:
                return self.get_once(key)
            except FileNotFoundError:
                return None

        return self.repeat(name, get)

    @override
    def put(self, name: str, content: bytes) -> None:
        self.repeat(name, lambda key: self.put_once(key, content))

    # rule again: lost step
    def put_if_absent(self, name: str, content: bytes) -> bytes:
        """See :meth:`Storage.put_if_absent`.

        An unclear answer is no answer: the same bytes are sent again. If the object is there then,
        its bytes say whose it is, as no two commits are alike.
        """
        until, pause = time.monotonic() + _PATIENCE, _FIRST_PAUSE
        while not self.repeat(name, lambda key: self.create_once(key, content)):
            found = self.read(name)
            if found is not None:
                return found
            # A store may refuse one of two that come at once before either is there.
            if time.monotonic() > until:
                raise self._refusal(name, errno.ETIMEDOUT, "another request is under way")
            pause = _rest(pause)
        return content

    @override
    def delete(self, names: Iterable[str]) -> None:
        def remove(key: str) -> None:
            try:
                self.delete_once(key)
            except FileNotFoundError:
                return

        ask_all(lambda name: self.repeat(name, remove), names)

    @override
    def lock(self, name: str, timeout: float) -> AbstractContextManager[bool]:
        return thread_lock(f"{self.url}/{name}", timeout)

    def now(self) -> datetime:
        """See :meth:`Storage.now`: this machine's clock, to which a store's is close."""
        return datetime.now(timezone.utc)

    def repeat(self, name: str, ask: Callable[[str], _T]) -> _T:
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
                if type(exc).__name__ in self.refused:
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


def _rest(pause: float) -> float:
    """Wait for a drawn part of a pause, and return the next one."""
    time.sleep(random.uniform(0, pause))  # noqa: S311
    return min(2 * pause, _MAX_PAUSE)


@contextmanager
def thread_lock(name: str, timeout: float) -> Iterator[bool]:
    """Hold a lock of that name among threads; yields False if one keeps it beyond the timeout."""
    with ExitStack() as held:
        try:
            held.enter_context(holding(name, None, timeout=timeout))
        except WriterLockedError:
            yield False
            return
        yield True
