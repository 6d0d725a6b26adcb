"""Storage of one table: named objects, and an exclusive create that decides its commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeVar

from spark_queue.errors import SetupError

_N = TypeVar("_N")
_T = TypeVar("_T")

#: Calls under way at once, at most.
_AT_ONCE = 16

#: The locks of a table: of its writers, and of who tidies it up.
WRITER, UPKEEP = "writer", "upkeep"

#: Content of no commit.
_PROBE = b"{}\n"


class Storage(Protocol):
    """The objects below one prefix; see ADR 61.

    A new storage passes the exercise of ``tests/logs``. Names have ``/`` between their parts.
    """

    @property
    def url(self) -> str:
        """The prefix, for messages."""

    @property
    def took(self) -> float:
        """Seconds of the last call that was answered."""

    def list(self, after: str = "") -> Mapping[str, datetime]:
        """Return the names of all objects, and when each was written.

        With ``after``, those of its folder whose names come after it.
        """

    def read(self, name: str) -> bytes | None:
        """Return an object; ``None`` for no such object."""

    def put(self, name: str, content: bytes) -> None:
        """Write an object whole, over an older one."""

    def put_if_absent(self, name: str, content: bytes) -> bytes:
        """Write an object unless one has the name; return the content under the name then.

        Of any number of callers at once one writes, and all get its bytes. An error leaves open
        which bytes are there; the next call with the same name tells.
        """

    def delete(self, names: Iterable[str]) -> None:
        """Remove objects, if they are there."""

    def lock(self, name: str, timeout: float) -> AbstractContextManager[bool]:
        """Hold a lock for a block; yields False if another holder keeps it beyond the timeout.

        It is advisory: it saves lost tries, and no step depends on it. Its class says who is kept
        out by it.
        """

    def now(self) -> datetime:
        """Return the time by the clock that dates the objects."""


class LogMoved(Exception):  # noqa: N818 - what is to be done; it is not shown to users
    """Others have committed to the log that a step depends on: it is to be decided again."""


def ask_all(ask: Callable[[_N], _T], names: Iterable[_N]) -> list[_T]:
    """Make one call for each name, several at a time; return the answers in order."""
    wanted = list(names)
    if len(wanted) < 2:  # noqa: PLR2004 - one needs no thread
        return [ask(name) for name in wanted]
    with ThreadPoolExecutor(min(len(wanted), _AT_ONCE)) as threads:
        return list(threads.map(ask, wanted))


def names_after(after: str, objects: Mapping[str, datetime]) -> dict[str, datetime]:
    """Return the objects of a name's folder that come after it; all for no name."""
    folder = after[: after.rfind("/") + 1]
    return {name: at for name, at in objects.items() if name.startswith(folder) and name > after}


def require_exclusive_create(storage: Storage, name: str) -> None:
    """Check that a storage refuses a second object of a name that it has.

    Raises
    ------
    SetupError
        It wrote the second one; the object is removed then.
    """
    if storage.put_if_absent(name, _PROBE) != _PROBE:
        return
    storage.delete([name])
    raise SetupError(
        f"the store of {storage.url!r} wrote an object over another in spite of "
        "If-None-Match, so that steps would be lost: use a store that refuses it"
    )
