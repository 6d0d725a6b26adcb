"""A log on an object store, which this process reads and writes without Spark.

A step is the PUT of a Parquet file, and that of its commit if no other is there
(``If-None-Match``). This process reads its copy of the table as :class:`LocalLog` does.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from spark_queue.errors import FileGoneError, QueueExistsError
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta import table_creation, table_properties
from spark_queue.log.delta.commits import Commit, LogFile
from spark_queue.log.delta.integrity import first_id
from spark_queue.log.disk.file_scans import Part
from spark_queue.log.disk.leftover_files import Ages
from spark_queue.log.disk.local_log import LocalLog
from spark_queue.log.disk.open_table import OpenTable
from spark_queue.log.disk.staged_rows import FarStaging, Staging
from spark_queue.log.heads import Head
from spark_queue.log.log_kinds import log_of
from spark_queue.log.object.conditional_commits import FEATURE, first_text
from spark_queue.log.object.object_copy import OLD, TableCopy, commit_name
from spark_queue.log.object.object_requests import Bucket
from spark_queue.log.schema import SKIPPING_COLUMNS, fields_of
from spark_queue.log.session_options import Session
from spark_queue.overriding import override

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Requests that somebody is behind who was lost to another, at most.
_WAY = 4

#: Seconds between two looks of one who waits: at first, and when nothing has come for long.
_LEAST_PAUSE, _MOST_PAUSE = 0.05, 2.0

_Head = TypeVar("_Head", bound=Head)


class ObjectLog(LocalLog[_Head]):
    """Log in the objects below a prefix.

    Parameters
    ----------
    bucket : Bucket
        Where they are.
    """

    is_remote = True

    def __init__(
        self,
        session: Session,
        address: TableAddress,
        parse: Callable[[str], _Head],
        bucket: Bucket,
    ) -> None:
        super().__init__(session, address, parse)
        self._bucket = bucket
        self._is_synced = False
        self._copy = TableCopy(bucket)
        self._stays = threading.local()
        self._committed = -math.inf
        self._left: list[str] = []

    def __reduce__(self) -> tuple[Any, ...]:
        return log_of, (self.session, self.address, self.parse)

    @property
    def directory(self) -> Path:
        """Where the copy is."""
        return self._copy.directory

    @override
    def find_directory(self) -> Path | None:
        return None

    @override
    def staging(self) -> Staging:
        return FarStaging(self._bucket)

    @override
    def location(self) -> str:
        return self._bucket.url

    @override
    def detail(self) -> tuple[str, str]:
        self._require_known()
        return self.location(), first_id(self.directory) or ""

    @override
    def exists(self) -> bool:
        return self._bucket.get(commit_name(0)) is not None

    @override
    def is_unfinished(self) -> bool:
        # One request makes a table whole.
        return False

    @override
    def is_near(self) -> bool:
        # A look is a request.
        return False

    @override
    def is_followed(self) -> bool:
        return True

    @override
    def pause(self) -> float:
        # The longer the log rests, the longer the pause.
        return min(max(self._copy.idle() / 4, _LEAST_PAUSE), _MOST_PAUSE)

    @contextmanager
    @override
    def still(self, older_than: float | None) -> Iterator[None]:
        copy, age = self._copy, self._copy.age()
        if older_than is None and copy.is_contended:
            self._give_way()
        if age >= OLD or (copy.is_contended if older_than is None else age >= older_than):
            self.look()
        before = self._is_still()
        self._stays.value = True
        try:
            yield
        finally:
            self._stays.value = before

    def _give_way(self) -> None:
        """Let those be next who were lost to this process: they have more to read than it has."""
        room = _WAY * self._bucket.took
        if time.monotonic() - self._committed < room:
            time.sleep(random.uniform(0, room))  # noqa: S311

    def _is_still(self) -> bool:
        return getattr(self._stays, "value", False)

    @override
    def look(self) -> bool:
        with self._guard:
            known = self._copy.version
            if self._copy.is_behind():
                self.forget()
            self._copy.pull()
            return self._copy.version != known

    @override
    def newest(self, known: int | None) -> int | None:
        if known is None or self._copy.version < known or not self._is_still():
            self.look()
        return self._copy.version if self._copy.version >= 0 else None

    @override
    def follow(self, since: int, until: int) -> list[Commit]:
        # The files of these commits are read next: bring them all at once.
        made = super().follow(since, until)
        with suppress(FileGoneError):
            self._bring([file for commit in made for file in commit.files])
        return made

    def _commit_at(self, version: int) -> Commit:
        self._copy.bring_commit(version)
        return super()._commit_at(version)

    def _find_table(self, known: int | None = None) -> OpenTable | None:
        with suppress(FileGoneError):
            table = self._table(known)
            return table if table.is_read else None
        return None

    def _table(self, known: int | None = None) -> OpenTable:
        self._require_known(known or 0)
        if self._copy.version < 0:
            raise FileGoneError(f"{self.location()}/{commit_name(0)}")
        if self._opened is None:
            self._opened = OpenTable(self.directory, link=self._put_commit, feature=FEATURE)
        else:
            self._opened.look()
        return self._opened

    def _require_known(self, version: int = 0) -> None:
        if self._copy.version < version:
            self.look()

    @override
    def create(
        self, schema: str, *, replaces: bool = True, skipping: str = SKIPPING_COLUMNS
    ) -> None:
        if not table_creation.is_plain(schema):
            self._needs_spark("to make its tables", table_creation.why_spark(fields_of(schema)))
        if self.exists():
            if replaces and fields_of(self.schema()) != fields_of(schema):
                why = "a creation with other columns was cut, or is under way: remove its objects"
                raise QueueExistsError(self.address.target, why)
            return
        text = first_text(schema, table_properties.made_with(schema, skipping))
        if self._bucket.create(commit_name(0), text) == text:
            self._bucket.require_refusal(commit_name(0), text)
        self.forget()

    @override
    def drop(self) -> None:
        # What cannot be listed is known by its names.
        names = {*self._bucket.names()} or self._copy.known_names()
        # Without its first commit there is no table, and somebody may make one.
        self._bucket.delete([commit_name(0)])
        self._bucket.delete(names - {commit_name(0)})
        self.forget()

    @override
    def tables_beside(self) -> set[str]:
        return self._bucket.tables_beside()

    @override
    def forget(self) -> None:
        with self._guard:
            super().forget()
            self._copy = TableCopy(self._bucket)

    @override
    def force(self) -> None:
        # An answered request is safe.
        pass

    @override
    def append(
        self, head: Head, rows: DataFrame | pa.Table | None, *, is_synced: bool = True
    ) -> bool:
        del is_synced
        with self.still(math.inf):
            return super().append(head, rows, is_synced=False)

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
        del is_synced
        with self.still(math.inf):
            return super().commit(head, rows, small=small, known=known, is_synced=False)

    def _append(
        self, table: OpenTable, head: Head, rows: DataFrame | pa.Table | None, *, is_synced: bool
    ) -> bool:
        while not super()._append(table, head, rows, is_synced=is_synced):
            table = self._table()
            # Upkeep commits, too, and takes no step.
            if self.step_of(table) != head.step - 1:
                return False
        return True

    def _put_commit(
        self,
        log: Path,
        version: int,
        actions: Sequence[Mapping[str, Any]],
        *,
        files: Sequence[Path] = (),
        is_synced: bool,
    ) -> bool:
        """Commit a version to the store, then to the copy."""
        del is_synced
        names = [str(file.relative_to(log.parent)) for file in files]
        if self._copy.commit(version, actions, names):
            self._committed = time.monotonic()
            return True
        # Who was lost has to hurry; they are removed when there is time.
        self._left += names
        self._copy.pull()
        self._copy.is_contended = True
        return False

    @override
    def files(self) -> list[LogFile]:
        if not self._is_still():
            self.look()
        return super().files()

    @override
    def rows_of(self, files: Iterable[LogFile], columns: Sequence[str]) -> pa.Table:
        return super().rows_of(self._bring(files), columns)

    @override
    def parts_of(
        self,
        files: Iterable[LogFile],
        columns: Sequence[str],
        may_matter: Callable[[LogFile], bool] | None,
    ) -> Iterator[pa.Table]:
        wanted = [file for file in files if may_matter is None or may_matter(file)]
        return super().parts_of(wanted, columns, may_matter)

    @override
    def parts(self, files: Iterable[LogFile]) -> Iterator[Part]:
        return super().parts(self._bring(files))

    def _bring(self, files: Iterable[LogFile]) -> list[LogFile]:
        """Return files that the copy has."""
        wanted = list(files)
        self._copy.bring_files(dict.fromkeys(file.name for file in wanted))
        return wanted

    @override
    def written(self, gen: int, rows: pa.Table) -> dict[str, Any]:
        add = (self._opened or self._table()).append.written(gen, rows, is_synced=False)
        self._copy.put(unquote(add["path"]))
        return add

    @override
    def replace(
        self, gone: Sequence[LogFile], adds: Sequence[Mapping[str, Any]], *, takes_away: bool
    ) -> bool:
        # Commits of others in between do not matter.
        with self._guard:
            rest = self._beside(gone)
            more = [
                self.written(gen, self.rows_of(files, self.columns()))
                for gen, files in rest.items()
            ]
            whole = [*gone, *(file for files in rest.values() for file in files)]
            while self._has(whole):
                if super().replace(whole, [*adds, *more], takes_away=takes_away):
                    return True
        self.discard(more)
        return False

    def _has(self, files: Iterable[LogFile]) -> bool:
        there = self._table().files()
        return all(file.path in there for file in files)

    def _beside(self, gone: Sequence[LogFile]) -> dict[int, list[LogFile]]:
        """Return what lies in the same files, by its partition."""
        names, parts = {file.name for file in gone}, {file.path for file in gone}
        found: dict[int, list[LogFile]] = {}
        for file in self._table().files().values():
            if file.name in names and file.path not in parts:
                found.setdefault(file.gen, []).append(file)
        return found

    @override
    def discard(self, adds: Iterable[Mapping[str, Any]]) -> None:
        gone = list(adds)
        super().discard(gone)
        self._bucket.delete([unquote(add["path"]) for add in gone])

    @override
    def again(self) -> LocalLog[Any]:
        return self

    @override
    def sum_up(self, *, forgets: bool = False) -> bool:
        self._copy.catch_up()
        if not super().sum_up(forgets=forgets):
            return False
        version = self._copy.put_summary()
        left, self._left = self._left, []
        self._bucket.delete(left)
        self._copy.shorten(version, {file.name for file in self.files()})
        return True

    @override
    def sweep(self, ages: Ages | None = None) -> int:
        return self._copy.sweep(ages or Ages())
