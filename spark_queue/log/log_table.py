"""Table of a log: made, dropped, described and summed up, on any storage."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from spark_queue.errors import InvalidArgumentError, QueueExistsError, SparkNeededError
from spark_queue.log import addresses
from spark_queue.log.delta import table_creation
from spark_queue.log.delta.integrity import first_id
from spark_queue.log.delta.log import Log
from spark_queue.log.delta.table_properties import made_with
from spark_queue.log.disk import removal
from spark_queue.log.disk.leftover_files import Ages, names_old
from spark_queue.log.disk.open_table import OpenTable
from spark_queue.log.disk.removal import remove_directory, remove_unfinished
from spark_queue.log.disk.staged_rows import FarStaging, Staging
from spark_queue.log.disk.table_place import TablePlace
from spark_queue.log.heads import Head
from spark_queue.log.log_columns import fields_of
from spark_queue.log.object.table_copy import TableCopy
from spark_queue.log.object.table_objects import commit_name, create_table
from spark_queue.log.schema import SKIPPING_COLUMNS
from spark_queue.log.session_options import promises_disk
from spark_queue.log.storage import Storage
from spark_queue.overriding import override

_Head = TypeVar("_Head", bound=Head)


class LogTable(Log[_Head]):
    """The table of a :class:`DeltaLog`, in a directory of this disk or on a storage."""

    _storage: Storage | None
    _copy: TableCopy | None
    _guard: threading.RLock
    _opened: OpenTable | None
    is_synced = True
    """Whether the last step of this process was to survive a power cut."""

    @property
    @abstractmethod
    def place(self) -> TablePlace:
        """The files of the table, which this process can read."""

    @classmethod
    @abstractmethod
    def at(cls, directory: Path) -> LogTable[Any]:
        """Return the log in a directory, with heads as plain data."""

    @abstractmethod
    def _table(self, known: int | None = None) -> OpenTable:
        """Return the current table, or at the known version; under the guard."""

    @override
    def exists(self) -> bool:
        if self._storage is not None:
            return self._storage.read(commit_name(0)) is not None
        directory = self.find_directory()
        return directory is not None and addresses.has_log(directory)

    def is_unfinished(self) -> bool:
        """See :meth:`Log.is_unfinished`: one request makes a table elsewhere whole."""
        directory = None if self.is_remote else self._directory()
        return directory is not None and removal.is_unfinished(directory)

    @override
    def location(self) -> str:
        return self.detail()[0] if self._storage is None else self._storage.url

    @override
    def detail(self) -> tuple[str, str]:
        if self._copy is not None:
            self._copy.has_version(0)
            return self.location(), first_id(self._copy.directory) or ""
        directory = self._directory()
        table = None if directory is None else first_id(directory)
        return ("", "") if directory is None else (addresses.location_of(directory), table or "")

    def _directory(self) -> Path | None:
        return addresses.directory_of(self.session, self.address)

    @override
    def staging(self) -> Staging:
        return Staging(self.place.directory) if self._storage is None else FarStaging(self._storage)

    def create(
        self, schema: str, *, replaces: bool = True, skipping: str = SKIPPING_COLUMNS
    ) -> None:
        """See :meth:`Log.create`: with the properties that a log of many small commits needs."""
        wanted = made_with(schema, skipping)
        if self._storage is not None:
            self._create_in(self._storage, schema, wanted, replaces=replaces)
        elif not self._create_here(schema, wanted, replaces=replaces):
            self._create(schema, wanted, replaces=replaces)
        self.forget()

    def _create_here(self, schema: str, wanted: Mapping[str, str], *, replaces: bool) -> bool:
        """Make the table on this disk; False if this process cannot, or a table is there."""
        directory = self._directory()
        if directory is None:
            return False
        remove_unfinished(directory, replaces=replaces)
        return table_creation.create(self.session, directory, schema, wanted, ["_gen"])

    def _create_in(
        self, storage: Storage, schema: str, wanted: Mapping[str, str], *, replaces: bool
    ) -> None:
        if not table_creation.is_plain(schema):
            self._needs_spark("to make its tables", table_creation.why_spark(fields_of(schema)))
        if not self.exists():
            create_table(storage, schema, wanted)
        elif replaces and fields_of(self.schema()) != fields_of(schema):
            why = "a creation with other columns was cut, or is under way: remove its objects"
            raise QueueExistsError(self.address.target, why)

    def _create(self, schema: str, wanted: Mapping[str, str], *, replaces: bool) -> None:
        del wanted
        if not self.exists():
            self._needs_spark("to make its tables", table_creation.why_spark(fields_of(schema)))
        if replaces:
            self._needs_spark("to make its tables", "a table, or what is left of one, is there")

    @override
    def drop(self) -> None:
        if self._copy is not None:
            self._copy.drop()
        elif (directory := addresses.local_directory(self.location())) is None:
            why = "is not on this machine: delete its files with the tools of its store"
            raise InvalidArgumentError(f"{self.address.target!r} {why}")
        else:
            remove_directory(directory)
        self.forget()

    @override
    def force(self) -> None:
        if promises_disk(self.session) and self.find_directory() is not None:
            self.place.force()

    @override
    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        if not self._may_add(fields):
            super().add_columns(fields)
        with self._guard:
            table = self._table()
            # The commits that it stands on come first.
            table.place.force()
            table.add_columns(fields)

    def _may_add(self, fields: Sequence[Mapping[str, Any]]) -> bool:
        return table_creation.are_plain(fields) and self.is_readable()

    @override
    def is_followed(self) -> bool:
        return self.is_remote or self.is_near()

    @override
    def properties(self) -> Mapping[str, str]:
        with self._guard:
            return self._table().properties

    @override
    def why_spark(self) -> str:
        with self._guard, suppress(SparkNeededError):
            return self._table().why_spark(self.address.sql()) or super().why_spark()
        return super().why_spark()

    def again(self) -> Any:
        """Return the log for a thread that tidies it up; a copy has this one only."""
        if self.is_remote:
            return self
        found = self.at(self.place.directory)
        # What steps do not force, upkeep does not either: others would wait for it.
        found.is_synced = self.is_synced
        return found

    @property
    def interval(self) -> int:
        """The number of commits from one checkpoint to the next."""
        with self._guard:
            return self._table().interval

    def sweep(self, ages: Ages | None = None) -> int:
        """Remove leftover files, and return how many; the caller holds the maintenance lock."""
        return self.place.sweep(ages)

    def sum_up(self, *, forgets: bool = False) -> bool:
        """Write a checkpoint; False if there is a recent one.

        With ``forgets`` it is also done where the log names files that were replaced long ago.
        """
        self.place.make_room()
        with self._guard:
            return self._table().sum_up(at_once=forgets and names_old(self.place.directory))

    @override
    def discard(self, adds: Iterable[Mapping[str, Any]]) -> None:
        self.place.discard([unquote(add["path"]) for add in adds])

    @override
    def is_near(self) -> bool:
        return self.find_directory() is not None

    def require_appends(self) -> None:
        """Raise where the table asks more of its writers than this one knows."""
        with self._guard:
            if not self._table().may_append:
                raise InvalidArgumentError(f"native is True, and {self.why_spark()}")

    @override
    def forget(self) -> None:
        with self._guard:
            self._opened = None
            if self._copy is not None:
                self._copy.begin()
