"""Rows that wait in the store until the step of another process takes them in; see ADR 87."""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from spark_queue.log.storage import Storage, ask_all
from spark_queue.log_errors import FileAccessError

#: Where the objects are. Their names are in the order of the versions as of which they were put.
FOLDER = "_pending"

#: What a commit says of the pending rows in it.
TAKEN = "sparkQueueTaken"

#: Versions after its own in which an object may be taken in. Who commits knows all of them.
_WINDOW = 64

#: Commits in a row, each so many seconds after the last one at most, after which their writer looks
#: whether others wait; and seconds for which it looks at each commit once some did.
_RUN, _SOON, _WATCHED = 8, 1.0, 10.0

#: Commits of others that an object waits for, and requests for which it waits for the next one.
_PASSED, _REQUESTS = 5, 4

#: Seconds after which rows are left to their writer: it has given up, or will soon.
_FRESH = 60.0

_NAME = re.compile(r"\d{20}-[0-9a-f]{16}-[0-9a-f]{32}")


class Taken(NamedTuple):
    """Where the rows of an object are: in a version, so many after the first of its rows."""

    version: int
    first: int
    rows: int


class PendingRows:
    """The pending rows of a log, as far as a process knows them.

    An object has the rows of one process, and may become part of one commit of those that follow
    its version, up to a fixed number. That commit names it. So its writer learns from the log alone
    whether the rows are in it, and once these versions are over they are in none.

    Attributes
    ----------
    is_behind : bool
        Whether the last step for this process was made by another one.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.is_behind, self._run, self._ended = False, 0, 0.0
        self._watched, self._gap = 0.0, 0.0
        self._own: list[str] = []
        """Objects of this process that are there."""
        self._step = threading.local()
        self.begin()

    def begin(self) -> None:
        """Forget the log that was seen."""
        # In this order: a thread that waits asks without a lock whether its rows are in none.
        self.last = -1
        self._taken: dict[str, Taken] = {}
        self._table, self._since, self._noted = "", 0, 0.0
        self._listed: list[str] = []
        self._found: dict[str, bytes] = {}
        self._looked = 0.0

    def skip(self, version: int) -> None:
        """Begin behind a version: what earlier commits have taken in is not known."""
        self._since, self.last = version + 1, version

    def note(self, version: int, text: bytes) -> None:
        """Note a commit: what it has taken in."""
        if version == 0:
            self._table = hashlib.sha256(text).hexdigest()[:16]
        if version <= self.last:
            return
        if version != self.last + 1:
            self._since = version
        info = text.partition(b"\n")[0]
        if TAKEN.encode() in info:
            taken = json.loads(info).get("commitInfo", {}).get(TAKEN, {})
            self._taken |= {name: Taken(version, *place) for name, place in taken.items()}
        if len(self._taken) > 16 * _WINDOW:
            # What is forgotten is not known any more: its writer may not have looked yet.
            self._since = max(self._since, version - _WINDOW)
            found = self._taken.items()
            self._taken = {name: at for name, at in found if at.version >= self._since}
        # Last: a thread that waits asks without a lock whether its rows are in none.
        now = time.monotonic()
        self.last, self._gap, self._noted = version, now - self._noted, now

    def is_recent(self) -> bool:
        """Return whether others have committed a moment ago."""
        return time.monotonic() - self._noted < 2 * self._usual()

    def name(self) -> str | None:
        """Return a name for rows, which a commit will have of them.

        ``None`` while no commit is known, as another thread begins with the log.
        """
        last, table = self.last, self._table
        return f"{last:020}-{table}-{uuid.uuid4().hex}" if last >= 0 and table else None

    def put(self, name: str, content: bytes) -> None:
        """Put rows into the store, under a name as of now; those that are over go beside it."""
        # So many write that there are others like this one.
        self._watched = time.monotonic() + _WATCHED
        gone = [own for own in self._own if self.find(own) is not None or self.is_over(own)]
        self._own = [*(own for own in self._own if own not in gone), name]
        put = partial(self._storage.put, f"{FOLDER}/{name}", content)
        ask_all(lambda ask: ask(), [put, *([partial(self._remove, gone)] if gone else [])])

    def find(self, name: str) -> Taken | None:
        """Return where rows are; ``None`` as long as no known commit has them."""
        return self._taken.get(name)

    def is_known(self, name: str) -> bool:
        """Return whether all commits are known that may have taken an object in."""
        return _version_of(name) + 1 >= self._since

    def is_over(self, name: str) -> bool:
        """Return whether no later commit takes an object in."""
        return self.last >= _version_of(name) + _WINDOW

    def is_in_none(self, name: str) -> bool:
        """Return whether no commit has taken an object in, or ever will."""
        taken = self._taken
        is_told = self.is_over(name) and name not in taken and self.is_known(name)
        # Another thread may have begun to read the log anew, and know less of it by now.
        return is_told and taken is self._taken

    def wait(self, name: str, look: Callable[[], object]) -> bool:
        """Wait until rows are in the log, or never will be; False if it is time for an own step."""
        first, end = self.last, self._patience()
        while True:
            look()
            if self.find(name) is not None or self.is_over(name) or not self.is_known(name):
                return True
            if self.last - first >= _PASSED:
                return False
            if first != self.last:
                end = max(end, self._patience(since=self._noted))
            if time.monotonic() >= end:
                return False
            time.sleep(max(self._storage.took / 8, 0.002))

    def _patience(self, since: float | None = None) -> float:
        """Return until when the next commit is waited for: of several one is the first to act."""
        begins = time.monotonic() if since is None else since
        return begins + random.uniform(1, 2) * self._usual()  # noqa: S311

    def _usual(self) -> float:
        """Return the seconds in which the next commit of a busy log comes."""
        return max(_REQUESTS * self._storage.took, 2 * min(self._gap, 1.0))

    def others(self, but: str | None) -> Mapping[str, bytes]:
        """Return the objects that the next commit may take in, the oldest first."""
        is_old = time.monotonic() - self._looked > _WATCHED
        found = [] if is_old else sorted(self._found.items())
        return {name: it for name, it in found if name != but and self._may_take(name)}

    def _may_take(self, name: str) -> bool:
        # Others may have put anything there.
        if _NAME.fullmatch(name) is None or f"-{self._table}-" not in name:
            return False
        return not self.is_over(name) and name not in self._taken and self.is_known(name)

    def choose(self, taken: Mapping[str, tuple[int, int]] | None) -> None:
        """Say which rows the next step of this thread takes in; ``None`` for no such step."""
        self._step.taken = taken

    def choice(self, version: int) -> Mapping[str, tuple[int, int]] | None:
        """Return what the step of this thread takes in; ``None`` if that version cannot have it."""
        taken: Mapping[str, tuple[int, int]] = getattr(self._step, "taken", None) or {}
        if taken and not (self.last == version - 1 and all(map(self._may_take, taken))):
            return None
        return taken

    def looks(self) -> list[Callable[[], None]]:
        """Return the requests to make beside the files of a step."""
        is_due = self._run >= _RUN or time.monotonic() < self._watched
        return [self._list] if is_due and getattr(self._step, "taken", None) is not None else []

    def reads(self) -> list[Callable[[], None]]:
        """Return the requests to make beside the commit of a step."""
        listed, self._listed = self._listed, []
        return [partial(self._read, name) for name in listed]

    def note_own(self, *, is_won: bool) -> None:
        """Note how a commit of this process has ended."""
        now = time.monotonic()
        is_next = is_won and now - self._ended < _SOON
        self._run, self._ended = self._run + 1 if is_next else 0, now
        self.is_behind = self.is_behind and not is_won

    def _remove(self, names: Sequence[str]) -> None:
        # What stays is removed with other files that no commit names.
        with suppress(FileAccessError):
            self._storage.delete([f"{FOLDER}/{name}" for name in names])

    def _list(self) -> None:
        self._run = 0
        after = f"{FOLDER}/{max(self.last - _WINDOW, 0):020}"
        # To some processes a store lists nothing.
        with suppress(FileAccessError):
            there, now = self._storage.list(after), self._storage.now()
            fresh = [name for name, at in there.items() if (now - at).total_seconds() < _FRESH]
            names = {name for path in fresh if self._may_take(name := path.rpartition("/")[2])}
            self._found = {name: it for name, it in self._found.items() if name in names}
            self._listed, self._looked = sorted(names - self._found.keys()), time.monotonic()
            if self._listed:
                self._watched = time.monotonic() + _WATCHED

    def _read(self, name: str) -> None:
        with suppress(FileAccessError):
            content = self._storage.read(f"{FOLDER}/{name}")
            if content is not None:
                self._found[name] = content


def _version_of(name: str) -> int:
    return int(name.partition("-")[0])
