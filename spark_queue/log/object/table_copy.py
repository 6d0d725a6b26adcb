"""Copy of a table on a storage, in a directory of this process."""

from __future__ import annotations

import json
import math
import random
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from spark_queue.errors import FileGoneError
from spark_queue.log.delta.commits import summed_up
from spark_queue.log.disk import scratch
from spark_queue.log.disk.leftover_files import Ages, named_files, replaced_files, sweep
from spark_queue.log.disk.table_place import TablePlace
from spark_queue.log.object import table_objects
from spark_queue.log.object.pending_rows import PendingRows
from spark_queue.log.object.table_objects import FEATURE, LAST, LOG, commit_name, keep, summary_name
from spark_queue.log.storage import LogMoved, Storage, ask_all
from spark_queue.overriding import override

#: Seconds after which a table that nobody looked at may have lost its next commits to a clean-up.
OLD = 3_600.0

#: Commits that are asked for at once, at most.
_WIDEST = 16

#: Requests that a loser is behind, at most.
_WAY = 4

#: Seconds between two looks of a waiter: at first, and after a long time without a commit.
_LEAST_PAUSE, _MOST_PAUSE = 0.05, 2.0

#: When no look was yet.
_NEVER = datetime.fromtimestamp(0, timezone.utc)


class TableCopy(TablePlace):
    """See :class:`TablePlace`: the commits that this process has seen, and the files it has read.

    Other writers must know :data:`FEATURE`: commits are exclusive creates, see ADR 47.

    Attributes
    ----------
    version : int
        The newest version in it; -1 if the storage has no table.
    is_contended : bool
        Whether others had committed at the last look.

    Parameters
    ----------
    storage : Storage
        The objects of the table.
    is_log : bool
        Whether others follow it, so that commits repeat small files; and all objects of the
        storage are its own.
    """

    is_remote: ClassVar[bool] = True
    feature: ClassVar[str | None] = FEATURE

    def __init__(self, storage: Storage, *, is_log: bool = True) -> None:
        self._storage, self._is_log = storage, is_log
        self.guard, self._stays = threading.RLock(), threading.local()
        self.pending = PendingRows(storage)
        self._left: list[str] = []
        """Files of lost commits."""
        self._committed = -math.inf
        self._remove: Callable[[], object] = tuple
        self.begin()

    def begin(self) -> None:
        """Forget all that was seen."""
        self._remove()
        place = scratch.begin()
        self._remove = finalizer = weakref.finalize(self, scratch.end, place)
        # What is to be done at the end of the process needs it.
        finalizer.atexit = False
        self.directory = Path(place)
        (self.directory / LOG).mkdir()
        self.version, self.is_contended = -1, False
        self.pending.begin()
        self._found = 0
        """Commits of others that the last look has found."""
        self._looked, self._changed = _NEVER, time.monotonic()

    @override
    @property
    def url(self) -> str:
        return self._storage.url

    def age(self) -> float:
        """Return the seconds since the last look."""
        return abs((self._storage.now() - self._looked).total_seconds())

    @contextmanager
    def still(self, older_than: float | None) -> Iterator[None]:
        """Keep the copy unchanged for a block, unless it is older than that."""
        age = self.age()
        if older_than is None and self.is_contended:
            self._give_way()
        if age >= OLD or (self.is_contended if older_than is None else age >= older_than):
            self.look()
        before = self.is_still()
        self._stays.value = True
        try:
            yield
        finally:
            self._stays.value = before

    @contextmanager
    def still_beside(self, other: TableCopy, older_than: float) -> Iterator[None]:
        """Keep another copy still; see :meth:`Log.still_beside`."""
        if other.is_contended or other.version < 0 or not older_than <= other.age() < OLD:
            with other.still(older_than):
                yield
            return
        with other.still(math.inf):
            self._stays.beside = partial(other.has_next, other.version)
            try:
                yield
            finally:
                self._stays.beside = None

    def has_next(self, version: int) -> bool:
        """Ask whether there is a version after one; it is read later."""
        began = self._storage.now()
        if self._storage.read(commit_name(version + 1)) is not None:
            self.is_contended = True
            return True
        self._looked = began
        return False

    def has_news(self) -> bool:
        """Look at this copy and the still one beside it; True after commits of others."""
        return any(ask_all(lambda ask: ask(), [self.look, *self._beside()]))

    def _beside(self) -> list[Callable[[], bool]]:
        beside = getattr(self._stays, "beside", None)
        return [] if beside is None else [beside]

    def _give_way(self) -> None:
        """Let the losers to this process be next: they have more to read."""
        room = _WAY * self._storage.took
        if time.monotonic() - self._committed < room:
            time.sleep(random.uniform(0, room))  # noqa: S311

    def is_still(self) -> bool:
        """Return whether this thread keeps the copy as it was last seen."""
        return getattr(self._stays, "value", False)

    def look(self) -> bool:
        """Bring the newest commits; return whether there were any."""
        with self.guard:
            known = self.version
            if self._is_behind():
                self.begin()
            self.pull()
            return self.version != known

    def pause(self) -> float:
        """See :meth:`Log.pause`: the longer, the older the newest commit."""
        idle = time.monotonic() - self._changed
        return min(max(idle / 4, _LEAST_PAUSE), _MOST_PAUSE)

    @override
    def is_made(self) -> bool:
        # Its maker may have cleaned up the first commit, but then not the last checkpoint.
        return self._storage.read(commit_name(0)) is not None or self._summary() > 0

    def make(self, schema: str, properties: Mapping[str, str]) -> None:
        """Make an empty table; see :func:`create_table`."""
        table_objects.create_table(self._storage, schema, properties)

    def is_ours(self) -> bool:
        """Return whether this library has made the table, so that its commits are conditional."""
        first = self.directory / commit_name(0)
        text = first.read_bytes() if first.exists() else self._storage.read(commit_name(0))
        return FEATURE.encode() in (text or b"")

    def newest(self, known: int | None) -> int | None:
        """Return the newest version, with a request unless the copy is kept still."""
        if known is None or self.version < known or not self.is_still():
            self.look()
        return self.version if self.version >= 0 else None

    @override
    def has_version(self, version: int) -> bool:
        if self.version < version:
            self.look()
        return self.version >= 0

    @override
    def refresh(self) -> None:
        if not self.is_still():
            self.look()

    def pull(self) -> None:
        """Bring what others have committed since the last look."""
        self._looked = self._storage.now()
        if self.version < 0:
            self._pull_checkpoint()
        known, width = self.version, self._found + 1
        # About as many are asked for at once as were there the last time.
        while self._pull_commits(min(width, _WIDEST)):
            width *= 2
        self._found = self.version - known
        self.is_contended = self._found > 0

    def _is_behind(self) -> bool:
        """Return whether the next commits may be gone: a checkpoint has summed them up."""
        return self.age() >= OLD and 0 <= self.version < self._summary()

    def _summary(self) -> int:
        """Return the version of the newest checkpoint of the storage; 0 for none."""
        last = self._storage.read(LAST)
        return 0 if last is None else int(json.loads(last)["version"])

    def commit(
        self,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        *,
        files: Sequence[str] = (),
        is_synced: bool,
    ) -> bool:
        """See :meth:`TablePlace.commit`: what a storage has is safe.

        Raises
        ------
        LogMoved
            The log that is kept still beside this one has new commits; nothing was committed.
        """
        del is_synced
        contents = {name: (self.directory / name).read_bytes() for name in files}
        asks: list[Callable[[], object]] = [
            partial(self._storage.put, name, content) for name, content in contents.items()
        ]
        # Where others write, they may have the version by now.
        is_contended = self.is_contended
        asks += [*self._beside(), *([self.pull] if is_contended else []), *self.pending.looks()]
        is_moved = any(ask_all(lambda ask: ask(), asks))
        self.is_contended = is_contended
        taken = self.pending.choice(version)
        if is_moved or taken is None:
            self._left += files
            raise LogMoved
        text = table_objects.text_of(actions, contents if self._is_log else {}, taken)
        # What others ask for next is read beside it.
        asks = [partial(self._create, version, text), *self.pending.reads()]
        is_won = self.version < version and bool(ask_all(lambda ask: ask(), asks)[0])
        self.pending.note_own(is_won=is_won)
        if is_won:
            self._committed = time.monotonic()
            return True
        # The next try for a step has to hurry: its files are removed when there is time.
        if self._is_log:
            self._left += files
        else:
            self._storage.delete(files)
        self.is_contended = True
        return False

    def _create(self, version: int, text: bytes) -> bool:
        """Create a commit; False if another has the version, which is added instead."""
        found = self._storage.put_if_absent(commit_name(version), text)
        self.add_commit(version, found)
        return found == text

    def add_commit(self, version: int, text: bytes) -> None:
        """Add a commit that the store has.

        Raises
        ------
        FileDamagedError
            It is not whole: without it the log would seem to be shorter.
        """
        table_objects.keep_commit(self.directory, self.url, version, text)
        self.pending.note(version, text)
        self.version, self._changed = max(self.version, version), time.monotonic()

    def bring_commit(self, version: int) -> None:
        """See :meth:`TablePlace.bring_commit`: it may be older than the first checkpoint read."""
        name = commit_name(version)
        text = None if (self.directory / name).exists() else self._storage.read(name)
        if text is not None:
            keep(self.directory, name, text)

    def _bring_summary(self, version: int) -> bool:
        """Bring a checkpoint; False if it is gone."""
        summary = self._storage.read(summary_name(version))
        if summary is not None:
            keep(self.directory, summary_name(version), summary)
            keep(self.directory, LAST, json.dumps({"version": version, "size": 1}).encode())
        return summary is not None

    def summed_up(self) -> int:
        """See :meth:`TablePlace.summed_up`: it is brought."""
        known, newest = summed_up(self.directory) or 0, self._summary()
        return newest if newest > known and self._bring_summary(newest) else known

    @override
    def put_summary(self, live: Callable[[], Collection[str]]) -> None:
        version = summed_up(self.directory) or 0
        for name in (summary_name(version), LAST):
            self.publish(name)
        left, self._left = self._left, []
        self._storage.delete(left)
        table_objects.shorten(self.directory, version, live())

    def sweep(self, ages: Ages | None) -> int:
        """See :meth:`TablePlace.sweep`: commits that are summed up, and files that none names."""
        ages, summed = ages or Ages(), self._summary()
        if ages.replaced:
            self.summed_up()
            self._storage.delete(sorted(replaced_files(self.directory) or ()))
            return sweep(self.directory, ages)
        named = named_files(self.directory)
        if named is None or not summed:
            return 0
        gone = table_objects.leftovers(self._storage, named, summed, ages, is_log=self._is_log)
        self._storage.delete(gone)
        return len(gone)

    def drop(self) -> None:
        """Remove the table."""
        # A storage that lists nothing, as some may, has what is known.
        known = named_files(self.directory) or ()
        names = {*self._storage.list()} or table_objects.names_of(
            self.version, self._summary(), known
        )
        # Without its first commit there is no table, and somebody may make one.
        self._storage.delete([commit_name(0)])
        self._storage.delete(names - {commit_name(0)})

    @override
    def bring(self, names: Iterable[str]) -> None:
        lacking = [name for name in dict.fromkeys(names) if not (self.directory / name).exists()]
        found = ask_all(self._storage.read, lacking)
        for name, content in zip(lacking, found, strict=True):
            if content is None:
                # What this process knows is too old to go by.
                self._looked = _NEVER
                raise FileGoneError(f"{self._storage.url}/{name}")
            keep(self.directory, name, content)

    @override
    def publish(self, name: str) -> None:
        self._storage.put(name, (self.directory / name).read_bytes())

    @override
    def discard(self, names: Iterable[str]) -> None:
        gone = list(names)
        for name in gone:
            (self.directory / name).unlink(missing_ok=True)
        self._storage.delete(gone)

    def leave(self, names: Iterable[str]) -> None:
        """Remove files of a lost commit when there is time."""
        self._left += names

    @override
    def lock(self, name: str, timeout: float) -> AbstractContextManager[bool]:
        return self._storage.lock(name, timeout)

    def _pull_checkpoint(self) -> None:
        """Begin with what a checkpoint sums up, if there is one."""
        first = self._storage.read(commit_name(0))
        if first is None:
            return
        self.add_commit(0, first)
        version = self._summary()
        if version and self._bring_summary(version):
            self.version = version
            self.pending.skip(version)
            self.bring_commit(version)

    def _pull_commits(self, count: int) -> bool:
        """Bring so many commits, and tell whether all of them are there."""
        wanted = range(self.version + 1, self.version + 1 + count)
        found = ask_all(self._storage.read, map(commit_name, wanted))
        for version, text in zip(wanted, found, strict=True):
            if text is None:
                return False
            self.add_commit(version, text)
        return True
