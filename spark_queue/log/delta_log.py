"""Log that this process reads and writes without Spark, wherever its files are.

``deltalake`` (the Delta library of Rust) reads the table, and a step is appended by
:mod:`~spark_queue.log.disk.append_files`. On a local disk Spark commits by a rename, which
overwrites, so nothing else may commit to the table at the same time: a process that makes a step,
or rewrites files, holds the right to write (:meth:`Store.writing`).
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pyarrow as pa

from spark_queue.errors import FileGoneError, SparkNeededError
from spark_queue.log import addresses
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta import table_creation as made
from spark_queue.log.delta.commits import Commit, LogFile, commit_at, newest_version
from spark_queue.log.delta.log import APP_ID, Log
from spark_queue.log.delta.log_files import RowFilter
from spark_queue.log.disk import file_scans
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.disk.file_scans import Part
from spark_queue.log.disk.forks import is_stuck, part_in_children
from spark_queue.log.disk.open_table import OpenTable
from spark_queue.log.disk.table_place import TablePlace
from spark_queue.log.heads import Head, step_tables
from spark_queue.log.log_kinds import log_of
from spark_queue.log.log_table import LogTable
from spark_queue.log.object.pending_rows import PendingRows
from spark_queue.log.object.table_copy import TableCopy
from spark_queue.log.object.table_objects import commit_name
from spark_queue.log.session_options import PlainSession, Session, is_fresh
from spark_queue.log.storage import LogMoved, Storage
from spark_queue.log_errors import using
from spark_queue.overriding import override

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_Head = TypeVar("_Head", bound=Head)

#: Keeps a log on this disk still, which it is anyhow.
_NOTHING = nullcontext()


class DeltaLog(LogTable[_Head]):
    """See :class:`Log`: opened when its rows are first read.

    Parameters
    ----------
    session : SparkSession or PlainSession
        What the queue was opened with.
    address : TableAddress
        Where the table is.
    parse : callable
        Reads a head from the text of its row.
    storage : Storage, optional
        The objects of the table; by default they are where the address and the session say.
    """

    def __init__(
        self,
        session: Session,
        address: TableAddress,
        parse: Callable[[str], _Head],
        storage: Storage | None = None,
    ) -> None:
        super().__init__(session, address, parse)
        self._storage = storage
        self._copy = None if storage is None else TableCopy(storage)
        self._disk: DiskStorage | None = None
        self._is_elsewhere = False
        self.is_remote = self._copy is not None
        # Writers have the lock of the log; readers have this one.
        self._guard = threading.RLock() if self._copy is None else self._copy.guard
        self._opened: OpenTable | None = None
        part_in_children(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process opens the table for itself.
        return log_of, (self.session, self.address, self.parse)

    @classmethod
    def at(cls, directory: Path) -> DeltaLog[Any]:
        """Return the log in a directory, with heads as plain data."""
        log = DeltaLog(PlainSession(), TableAddress(str(directory), is_path=True), json.loads)
        log._disk = DiskStorage(directory, redoes=True)
        return log

    @override
    def find_directory(self) -> Path | None:
        if self._disk is None and self._copy is None and not self._is_elsewhere:
            location = self.location()
            directory = addresses.local_directory(location)
            if directory is not None:
                self._disk = DiskStorage(directory, redoes=True)
            # The caller may be about to make a table that is not there yet.
            elif location and not location.startswith("file:"):
                self._is_elsewhere = True
        return None if self._disk is None else self._disk.directory

    @property
    def place(self) -> TablePlace:
        """The files of the table, which this process can read."""
        if self._copy is not None:
            return self._copy
        if self._disk is None and self.find_directory() is None:
            self._needs_spark("to read its files", "they are on no disk of this machine")
        return cast("DiskStorage", self._disk)

    @property
    def pending(self) -> PendingRows | None:
        """The rows that wait in its storage for a step; ``None`` for a log on this disk."""
        return None if self._copy is None else self._copy.pending

    @property
    def directory(self) -> Path:
        """Where the files are that this process reads."""
        return self.place.directory

    @override
    def is_readable(self, known: int | None = None) -> bool:
        if not is_fresh(self.session):
            return False
        seen, copy = self._opened, self._copy
        # Another thread may hold the guard for the time of its requests.
        if copy is not None and copy.is_still() and seen and seen.directory == copy.directory:
            return seen.is_plain
        with self._guard:
            table = self._find_table(known)
            return table is not None and table.is_plain

    @override
    def may_look(self) -> bool:
        with self._guard:
            return self._find_table() is not None

    @override
    def still(self, older_than: float | None) -> AbstractContextManager[None]:
        return _NOTHING if self._copy is None else self._copy.still(older_than)

    @override
    def still_beside(self, other: Log[Any], older_than: float) -> AbstractContextManager[None]:
        # What a session of Spark decides may be large, and is not to be written twice.
        if self._copy is None or not isinstance(self.session, PlainSession):
            return super().still_beside(other, older_than)
        its = cast("TableCopy", cast("DeltaLog[Any]", other).place)
        return self._copy.still_beside(its, older_than)

    @override
    def look(self) -> bool:
        return self._copy is not None and self._copy.look()

    @override
    def has_news(self) -> bool:
        return self._copy is not None and self._copy.has_news()

    @override
    def pause(self) -> float:
        return super().pause() if self._copy is None else self._copy.pause()

    @override
    def newest(self, known: int | None) -> int | None:
        if self._copy is not None:
            return self._copy.newest(known)
        return None if (at := self.find_directory()) is None else newest_version(at, known)

    def follow(self, since: int, until: int) -> list[Commit]:
        """See :meth:`Log.follow`: the caller reads new rows next, so all of them are brought."""
        made = [self._commit_at(version) for version in range(since + 1, until + 1)]
        if self._copy is not None:
            with suppress(FileGoneError):
                self._bring(file for commit in made for file in commit.files)
            return made
        with self._guard:
            if self._opened is not None:
                self._opened.follow(since, made)
        return made

    def _commit_at(self, version: int) -> Commit:
        self.place.bring_commit(version)
        return commit_at(self.directory, version, APP_ID)

    @override
    def commit(
        self,
        head: _Head,
        rows: DataFrame | pa.Table | None,
        *,
        small: bool = True,
        known: int | None = None,
        is_synced: bool = True,
    ) -> bool:
        del small
        with self.still(math.inf), self._guard:
            table = self._table(known)
            if not table.is_plain:
                self._needs_spark("to write its tables", self.why_spark())
            return self._append(table, head, rows, is_synced=is_synced)

    @override
    def append(
        self, head: Head, rows: DataFrame | pa.Table | None, *, is_synced: bool = True
    ) -> bool:
        with self.still(math.inf), self._guard:
            self.require_appends()
            return self._append(self._table(), head, rows, is_synced=is_synced)

    # rule again: order of forcing
    def _append(
        self, table: OpenTable, head: Head, rows: DataFrame | pa.Table | None, *, is_synced: bool
    ) -> bool:
        with using(self.directory):
            self.is_synced = is_synced
            # Upkeep commits, too, and takes no step.
            while self.step_of(table) == head.step - 1:
                version = table.version + 1
                step, number = step_tables(table.schema, head, rows), (APP_ID, head.step)
                # Of what a step stands on nothing may be lost either.
                table.place.secure(table.birth, version - 1, is_wanted=is_synced)
                try:
                    ours = table.append.commit(
                        version, step, transaction=number, metadata=head.token, is_synced=is_synced
                    )
                except Exception as exc:
                    # What comes after the commit may have failed.
                    if isinstance(exc, LogMoved) or not self._has_made(head):
                        raise
                    if is_synced:
                        table.place.force()
                    return True
                if ours is not None:
                    self._note(table, version, ours, is_forced=is_synced)
                    return True
                table = self._table()
        return False

    def _has_made(self, head: Head) -> bool:
        """Whether the newest step has the token of a head; others may have made one."""
        if self.step_of(self._table()) != head.step:
            return False
        newest = self.head() if self.is_remote else head
        return newest is not None and newest.token == head.token

    def step_of(self, table: OpenTable) -> int:
        """Return the newest step, from its head if transactions are forgotten."""
        if table.step is None:
            newest = self.head()
            table.step = 0 if newest is None else newest.step
        return table.step

    @override
    def version_at(self, head: Head) -> int | None:
        table = self._opened
        return table.version if table is not None and table.step == head.step else None

    def is_due(self) -> bool:
        """Tell, once in a while, whether so much was committed that it has to be summed up."""
        return self._opened is not None and self._opened.is_due()

    @override
    def files(self) -> list[LogFile]:
        self.place.refresh()
        with self._guard:
            return [*self._table().files().values()]

    @override
    def rows_of(self, files: Iterable[LogFile], columns: Sequence[str]) -> pa.Table:
        return file_scans.rows_of(self.directory, self._bring(files), columns, self._schema())

    @override
    def parts_of(
        self,
        files: Iterable[LogFile],
        columns: Sequence[str],
        may_matter: Callable[[LogFile], bool] | None,
        wanted: RowFilter | None = None,
    ) -> Iterator[pa.Table]:
        if self.is_remote and may_matter is not None:
            files = filter(may_matter, files)
        return file_scans.tables_of(self.parts(files), columns, self._schema(), may_matter, wanted)

    def parts(self, files: Iterable[LogFile]) -> Iterator[Part]:
        """Return the parts of files, which are read later."""
        return file_scans.parts_of(self.directory, self._bring(files))

    def _bring(self, files: Iterable[LogFile]) -> Sequence[LogFile]:
        """Return files, which this process can read then."""
        wanted = list(files)
        if self._copy is not None:
            self._copy.bring(file.name for file in wanted)
        return wanted

    def _schema(self) -> pa.Schema:
        """Return what may be read as of the last look: the files were found by it."""
        with self._guard:
            return (self._opened or self._table()).readable

    def schema(self) -> str:
        """See :meth:`Log.schema`: as of the last look."""
        seen = self._opened
        if seen is not None:
            return seen.columns
        with self._guard:
            return self._table().columns

    @override
    def written(self, gen: int, rows: pa.Table) -> dict[str, Any]:
        with using(self.directory):
            return (self._opened or self._table()).append.written(gen, rows)

    def replace(
        self, gone: Sequence[LogFile], adds: Sequence[Mapping[str, Any]], *, takes_away: bool
    ) -> bool:
        """See :meth:`Log.replace`; lost to another commit, it is tried again.

        New files are on the disk. So is the commit of them, with those before it, unless this
        process promises less for its own steps.
        """
        with self._guard:
            table, rest = self._table(), self._beside(gone)
            more = [
                self.written(gen, self.rows_of(files, self.columns()))
                for gen, files in rest.items()
            ]
            whole = [*gone, *(file for files in rest.values() for file in files)]
            if takes_away:
                # No copy of its rows stays behind.
                table.place.force()
            while table.is_plain and all(file.path in table.files() for file in whole):
                version = table.version + 1
                # Others may have promised what this process has not forced.
                safe = table.place.secure(table.birth, version - 1, is_wanted=self.is_synced)
                with using(self.directory):
                    ours = table.append.replace(
                        version, whole, [*adds, *more], takes_away=takes_away, is_synced=safe
                    )
                if ours:
                    self._note(table, version, is_forced=safe)
                    return True
                table = self._table()
        self.discard(more)
        return False

    def _beside(self, gone: Sequence[LogFile]) -> dict[int, list[LogFile]]:
        """Return the other files of the same objects, by their partitions."""
        names = {file.name for file in gone if file.is_mixed}
        parts, found = {file.path for file in gone}, dict[int, list[LogFile]]()
        for file in self._table().files().values() if names else ():
            if file.name in names and file.path not in parts:
                found.setdefault(file.gen, []).append(file)
        return found

    def _find_table(self, known: int | None = None) -> OpenTable | None:
        """Return the current table if its files are its rows; under the guard."""
        directory = self.find_directory()
        is_here = directory is not None and made.is_installed() and "%" not in str(directory)
        if not is_here and not self.is_remote:
            return None
        if self._opened is None and not self.place.has_version(known or 0):
            return None
        with suppress(SparkNeededError):
            table = self._table(known)
            return table if table.is_read else None
        return None

    def _table(self, known: int | None = None) -> OpenTable:
        """Return the current table, or at the known version; under the guard."""
        place = self.place
        if place.is_remote and not place.has_version(known or 0):
            raise FileGoneError(f"{self.location()}/{commit_name(0)}")
        # A version that others make after the look of the caller stays theirs.
        if self._opened is None or self._opened.directory != place.directory:
            self._opened = OpenTable(place)
        elif place.is_remote or self._opened.version != known:
            self._opened.look()
        return self._opened

    def _note(
        self, table: OpenTable, version: int, ours: Commit | None = None, *, is_forced: bool
    ) -> None:
        """Note a commit of our own, by what it did where the caller knows that."""
        table.note(ours or commit_at(self.directory, version, APP_ID), version)
        table.place.note(table.birth, version, is_forced=is_forced)

    def leave_parent(self) -> None:
        """Replace the locks that a fork of this process may have copied held."""
        if is_stuck(self._guard):
            self._guard, self._opened = threading.RLock(), None
            if self._copy is not None:
                self._copy.guard = self._guard
