"""A log on this machine's disk, which this process reads and writes without Spark.

A step takes milliseconds, where a job of Spark takes most of a second: ``deltalake`` reads the
table, and :mod:`~spark_queue.log.disk.append_files` appends the step. Spark's commit to a local
disk is a rename, which overwrites: who writes holds the right to (:meth:`Store.writing`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.log import addresses
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta import integrity, table_creation
from spark_queue.log.delta.commits import Commit, LogFile, commit_at, newest_version
from spark_queue.log.delta.integrity import first_id, using
from spark_queue.log.delta.log import APP_ID, Log
from spark_queue.log.delta.table_properties import made_with
from spark_queue.log.disk import file_scans, removal
from spark_queue.log.disk.file_scans import Part
from spark_queue.log.disk.forks import is_stuck, part_in_children
from spark_queue.log.disk.fsync import is_forced, note_forced, sync_commits
from spark_queue.log.disk.leftover_files import Ages, names_old, sweep
from spark_queue.log.disk.open_table import PARTITION, OpenTable
from spark_queue.log.disk.removal import remove_directory, remove_unfinished
from spark_queue.log.disk.staged_rows import Staging
from spark_queue.log.heads import Head, step_tables
from spark_queue.log.schema import SKIPPING_COLUMNS, fields_of
from spark_queue.log.session_options import PlainSession, Session, is_fresh, promises_disk
from spark_queue.overriding import override

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Stands for the directory of a table that is on no disk of this machine.
_NOT_LOCAL = Path()

_Head = TypeVar("_Head", bound=Head)


class LocalLog(Log[_Head]):
    """Log in a Delta table, opened when its rows are first read."""

    def __init__(
        self, session: Session, address: TableAddress, parse: Callable[[str], _Head]
    ) -> None:
        super().__init__(session, address, parse)
        self._found_directory: Path | None = None
        # Writers have the lock of the log; readers have this one.
        self._guard = threading.RLock()
        self._opened: OpenTable | None = None
        self._is_synced = True
        """Whether the last step of this process was to survive a power cut."""
        part_in_children(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy in another process opens the table for itself.
        return type(self), (self.session, self.address, self.parse)

    @classmethod
    def at(cls, directory: Path) -> LocalLog[Any]:
        """Return the log in a directory, with heads as plain data."""
        log = LocalLog(PlainSession(), TableAddress(str(directory), is_path=True), json.loads)
        log._found_directory = directory
        return log

    @override
    def exists(self) -> bool:
        directory = self.find_directory()
        return directory is not None and addresses.has_log(directory)

    @override
    def is_unfinished(self) -> bool:
        directory = addresses.directory_of(self.session, self.address)
        return directory is not None and removal.is_unfinished(directory)

    @override
    def detail(self) -> tuple[str, str]:
        directory = addresses.directory_of(self.session, self.address)
        table = None if directory is None else first_id(directory)
        return ("", "") if directory is None else (addresses.location_of(directory), table or "")

    @override
    def find_directory(self) -> Path | None:
        if self._found_directory is None:
            location = self.location()
            self._found_directory = addresses.local_directory(location)
            # The caller may be about to make a table that is not there yet.
            if self._found_directory is None and location and not location.startswith("file:"):
                self._found_directory = _NOT_LOCAL
        return None if self._found_directory is _NOT_LOCAL else self._found_directory

    @property
    def directory(self) -> Path:
        """Where the table is, which is on this machine's disk."""
        directory = self.find_directory()
        if directory is None:
            self._needs_spark("to read its files", "they are on no disk of this machine")
        return directory

    @override
    def staging(self) -> Staging:
        return Staging(self.directory)

    @override
    def is_near(self) -> bool:
        return self.find_directory() is not None

    @override
    def newest(self, known: int | None) -> int | None:
        return None if (at := self.find_directory()) is None else newest_version(at, known)

    @override
    def follow(self, since: int, until: int) -> list[Commit]:
        return [self._commit_at(version) for version in range(since + 1, until + 1)]

    def _commit_at(self, version: int) -> Commit:
        return commit_at(self.directory, version, APP_ID)

    @override
    def is_readable(self, known: int | None = None) -> bool:
        if not is_fresh(self.session):
            return False
        with self._guard:
            table = self._find_table(known)
            return table is not None and table.is_plain

    @override
    def may_look(self) -> bool:
        with self._guard:
            return self._find_table() is not None

    @override
    def properties(self) -> Mapping[str, str]:
        with self._guard:
            return self._table().properties

    @override
    def why_spark(self) -> str:
        with self._guard, suppress(SparkNeededError):
            return self._table().why_spark(self.address.sql()) or super().why_spark()
        return super().why_spark()

    @override
    def forget(self) -> None:
        with self._guard:
            self._opened = None

    @override
    def create(
        self, schema: str, *, replaces: bool = True, skipping: str = SKIPPING_COLUMNS
    ) -> None:
        wanted = made_with(schema, skipping)
        directory = addresses.directory_of(self.session, self.address)
        if directory is not None:
            remove_unfinished(directory, replaces=replaces)
        if directory is None or not table_creation.create(self.session, directory, schema, wanted):
            self._create(schema, wanted, replaces=replaces)
        self.forget()

    def _create(self, schema: str, wanted: Mapping[str, str], *, replaces: bool) -> None:
        del wanted
        if not self.exists():
            self._needs_spark("to make its tables", table_creation.why_spark(fields_of(schema)))
        if replaces:
            self._needs_spark("to make its tables", "a table, or what is left of one, is there")

    @override
    def drop(self) -> None:
        directory = addresses.local_directory(self.location())
        if directory is None:
            why = "is not on this machine: delete its files with the tools of its store"
            raise InvalidArgumentError(f"{self.address.target!r} {why}")
        remove_directory(directory)
        self.forget()

    @override
    def force(self) -> None:
        if promises_disk(self.session) and (directory := self.find_directory()) is not None:
            sync_commits(directory)

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
        with self._guard:
            table = self._table(known)
            if not table.is_plain:
                self._needs_spark("to write its tables", self.why_spark())
            return self._append(table, head, rows, is_synced=is_synced)

    @override
    def append(
        self, head: Head, rows: DataFrame | pa.Table | None, *, is_synced: bool = True
    ) -> bool:
        with self._guard:
            self.require_appends()
            return self._append(self._table(), head, rows, is_synced=is_synced)

    # rule again: order of forcing
    def _append(
        self, table: OpenTable, head: Head, rows: DataFrame | pa.Table | None, *, is_synced: bool
    ) -> bool:
        with using(self.directory):
            self._is_synced = is_synced
            if self.step_of(table) != head.step - 1:
                return False
            version = table.version + 1
            step, number = step_tables(table.schema, head, rows), (APP_ID, head.step)
            if is_synced and not is_forced(table.birth, version - 1):
                # Of what a step stands on nothing may be lost either.
                sync_commits(self.directory)
            try:
                ours = table.append.commit(
                    version, step, transaction=number, metadata=head.token, is_synced=is_synced
                )
            except Exception:
                # What comes after the commit may have failed; nobody else can have made the step.
                if self.step_of(self._table()) != head.step:
                    raise
                if is_synced:
                    sync_commits(self.directory)
                return True
            if ours:
                self._note(table, version, is_forced=is_synced)
        return ours

    def step_of(self, table: OpenTable) -> int:
        """Return the newest step; that of its head, where the table has forgotten transactions."""
        if table.step is None:
            newest = self.head()
            table.step = 0 if newest is None else newest.step
        return table.step

    def require_appends(self) -> None:
        """Raise where the table asks more of its writers than this one knows."""
        with self._guard:
            if not self._table().may_append:
                raise InvalidArgumentError(f"native is True, and {self.why_spark()}")

    @override
    def version_at(self, head: Head) -> int | None:
        table = self._opened
        return table.version if table is not None and table.step == head.step else None

    @property
    def interval(self) -> int:
        """After how many commits somebody should sum them up."""
        with self._guard:
            return self._table().interval

    def again(self) -> LocalLog[Any]:
        """Return the log for a thread that tidies it up."""
        return self.at(self.directory)

    def sweep(self, ages: Ages | None = None) -> int:
        """Remove what was left behind, by who may tidy up; return how many files."""
        return sweep(self.directory, ages)

    def is_due(self) -> bool:
        """Tell, once in a while, whether so much was committed that it has to be summed up."""
        return self._opened is not None and self._opened.is_due()

    def sum_up(self, *, forgets: bool = False) -> bool:
        """Write down what all commits come to; False where somebody has done so not long ago.

        With ``forgets`` it is also done where the log names files that were replaced long ago.
        """
        with self._guard:
            return self._table().sum_up(at_once=forgets and names_old(self.directory))

    @override
    def files(self) -> list[LogFile]:
        with self._guard:
            return [*self._table().files().values()]

    @override
    def rows_of(self, files: Iterable[LogFile], columns: Sequence[str]) -> pa.Table:
        return file_scans.rows_of(self.directory, files, columns, self._schema())

    @override
    def parts_of(
        self,
        files: Iterable[LogFile],
        columns: Sequence[str],
        may_matter: Callable[[LogFile], bool] | None,
    ) -> Iterator[pa.Table]:
        return file_scans.tables_of(self.parts(files), columns, self._schema(), may_matter)

    def parts(self, files: Iterable[LogFile]) -> Iterator[Part]:
        """Return the parts of files, which are read later."""
        return file_scans.parts_of(self.directory, files)

    def _schema(self) -> pa.Schema:
        """Return what may be read as of the last look: the files were found by it."""
        with self._guard:
            return (self._opened or self._table()).readable

    @override
    def schema(self) -> str:
        with self._guard:
            return (self._opened or self._table()).columns

    @override
    def written(self, gen: int, rows: pa.Table) -> dict[str, Any]:
        with using(self.directory):
            append = (self._opened or self._table()).append
            return append.written(gen, rows.drop_columns([PARTITION]), is_synced=True)

    @override
    def replace(
        self, gone: Sequence[LogFile], adds: Sequence[Mapping[str, Any]], *, takes_away: bool
    ) -> bool:
        # New files are on the disk before the commit. The commit and those before it are, too,
        # unless this process promises less for its own steps.
        with self._guard:
            table = self._table()
            files, version = table.files(), table.version + 1
            if not table.is_plain or any(file.path not in files for file in gone):
                return False
            if self._is_synced and not is_forced(table.birth, version - 1):
                # Others may have promised what this process has not forced.
                sync_commits(self.directory)
            safe = is_forced(table.birth, version - 1)
            with using(self.directory):
                ours = table.append.replace(
                    version, gone, adds, takes_away=takes_away, is_synced=safe
                )
            if ours:
                self._note(table, version, is_forced=safe)
        return ours

    @override
    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        if not self._may_add(fields):
            super().add_columns(fields)
        with self._guard:
            table = self._table()
            # The commits that it stands on come first.
            sync_commits(self.directory)
            table.add_columns(fields)

    def _may_add(self, fields: Sequence[Mapping[str, Any]]) -> bool:
        return table_creation.are_plain(fields) and self.is_readable()

    @override
    def discard(self, adds: Iterable[Mapping[str, Any]]) -> None:
        for add in adds:
            with suppress(OSError):
                (self.directory / unquote(add["path"])).unlink()

    def _find_table(self, known: int | None = None) -> OpenTable | None:
        """Return the table as it is now, where its files are its rows; under the guard."""
        directory = self.find_directory()
        if directory is None or not table_creation.is_installed() or "%" in str(directory):
            return None
        if self._opened is None and not addresses.has_log(directory):
            return None
        with suppress(SparkNeededError):
            table = self._table(known)
            return table if table.is_read else None
        return None

    def _table(self, known: int | None = None) -> OpenTable:
        """Return the table as it is now, or at a version known to be new; under the guard."""
        # A version that others make after the look of the caller stays theirs.
        if self._opened is None:
            self._opened = OpenTable(self.directory)
        elif self._opened.version != known:
            self._opened.look()
        return self._opened

    def _note(self, table: OpenTable, version: int, *, is_forced: bool) -> None:
        """Note a commit of our own."""
        table.note(commit_at(self.directory, version, APP_ID), version)
        if is_forced:
            note_forced(table.birth, version)
        integrity.note(self.directory, version)

    def leave_parent(self) -> None:
        """Replace a lock that a thread of the parent holds."""
        if is_stuck(self._guard):
            self._guard, self._opened = threading.RLock(), None
