"""Steps written to a table on this machine's disk without Spark.

What a Spark job, its plan and its commit take most of a second for takes milliseconds here:
``deltalake`` (the Delta library of Rust) reads the table, and a step is appended by
:mod:`~spark_queue.delta.tables.appending`. On a local disk Spark commits by a rename, which
overwrites, so nothing else may commit to the table meanwhile: a process that makes a step, or
rewrites files, holds the right to write (:meth:`Store.writing`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from spark_queue.delta.tables import instants, scanning, traces, widening
from spark_queue.delta.tables.address import TableAddress
from spark_queue.delta.tables.appending import (
    Appending,
    is_forced,
    note_forced,
    sync_commits,
)
from spark_queue.delta.tables.checkpointing import write_checkpoint
from spark_queue.delta.tables.commits import Commit, commit_at, newest_version, summed_up
from spark_queue.delta.tables.damage import using
from spark_queue.delta.tables.file_log import FileLog
from spark_queue.delta.tables.files import LogFile, files_of, read_file
from spark_queue.delta.tables.forks import is_stuck
from spark_queue.delta.tables.log import APP_ID, Head
from spark_queue.delta.tables.rust import opened, telling
from spark_queue.delta.tables.schema import LATER, SKIPPING_COLUMNS
from spark_queue.delta.tables.step_rows import step_tables, table_of
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The last version of Delta's protocol for writers without a list of features.
_PLAIN_WRITER = 2

#: The column whose values are in the names of directories, and not in the files.
_PARTITION = "_gen"

#: Properties of a table: for which columns to keep the least and the highest value of a file, after
#: how many commits to write a checkpoint of its log, and whether old commits are removed then.
_RANGED = "delta.dataSkippingStatsColumns"
_INTERVAL = "delta.checkpointInterval"
_CLEANS_UP = "delta.enableExpiredLogCleanup"
_OFTEN = 10

#: Commits that are read one by one at most, to learn what they have done.
_FAR = 500


class LocalLog(FileLog[Any]):
    """See :class:`Log`: opened, read and written by this process.

    Parameters
    ----------
    directory : Path
        Where the table is.
    parse : callable, optional
        Reads a head from the text of its row.

    Raises
    ------
    SparkQueueError
        When it cannot be opened, as :func:`rust.opened` says.
    """

    def __init__(self, directory: Path, parse: Callable[[str], Any] = json.loads) -> None:
        super().__init__(PlainSession(), TableAddress(str(directory), is_path=True), parse)
        self._directory = directory
        # Writers have the lock of the log; readers have this one.
        self._guard = threading.RLock()
        self._table = opened(directory)
        self._files: dict[str, LogFile] | None = None
        self._is_synced = True
        """Whether the last step of this process was to survive a power cut."""
        self._newest = (-1, 0)
        """The newest version, and its step, as far as that is known."""
        self._summed = 0
        """The version up to which it was, or is to be, summed up."""
        self._learn()

    # rule again: order of forcing
    def commit(
        self,
        head: Head,
        rows: DataFrame | pa.Table | None,
        *,
        small: bool = True,
        known: int | None = None,
        is_synced: bool = True,
    ) -> bool:
        """See :meth:`Log.commit`."""
        del small, known
        with self._guard, using(self._directory):
            self._is_synced = is_synced
            version, last = self._find_newest()
            if last != head.step - 1:
                return False
            step = step_tables(self._schema, head, rows)
            if is_synced and not is_forced(self._directory, version):
                # Of what a step stands on nothing may be lost either.
                sync_commits(self._directory)
            try:
                ours = self._append.commit(
                    version + 1,
                    step,
                    transaction=(APP_ID, head.step),
                    metadata=head.token,
                    is_synced=is_synced,
                )
            except Exception:
                # What comes after the commit may have failed; nobody else can have made the step.
                if self._find_newest()[1] != head.step:
                    raise
                if is_synced:
                    sync_commits(self._directory)
                return True
            if ours:
                self._pass(commit_at(self._directory, version + 1, APP_ID), version + 1)
                if is_synced:
                    note_forced(self._directory, version + 1)
                traces.note(self._directory, version + 1)
        return ours

    @property
    def directory(self) -> Path:
        """Where the table is."""
        return self._directory

    def find_directory(self) -> Path | None:
        """See :meth:`Log.find_directory`."""
        return self._directory

    def version_at(self, head: Head) -> int | None:
        """See :meth:`Log.version_at`."""
        version, step = self._newest
        return version if step == head.step else None

    @property
    def interval(self) -> int:
        """After how many commits somebody should sum them up."""
        return self._each

    def is_stuck(self) -> bool:
        """Tell whether another thread has it now: in a child of a fork that one is gone."""
        return is_stuck(self._guard)

    def files(self) -> list[LogFile]:
        """See :meth:`Log.files`."""
        with self._guard:
            self._find_newest()
            if self._files is None:
                self._refresh()
                with telling(self._directory):
                    adds = pa.table(self._table.get_add_actions(flatten=True))
                    self._files = {file.path: file for file in files_of(adds)}
            return list(self._files.values())

    def rows_of(self, files: Iterable[LogFile], columns: Sequence[str]) -> pa.Table:
        """See :meth:`Log.rows_of`."""
        wanted = pa.schema([self._readable.field(name) for name in columns])
        parts = []
        for file in files:
            path = self._directory / unquote(file.path)
            rows = read_file(path, columns, file.size, file.ranges.get("_step"))
            found = dict(zip(rows.column_names, rows.columns, strict=True))
            found[_PARTITION] = pa.repeat(pa.scalar(file.gen), rows.num_rows)
            parts.append(table_of(wanted, rows.num_rows, found))
        return instants.clamp(pa.concat_tables(parts)) if parts else wanted.empty_table()

    def parts_of(
        self,
        files: Iterable[LogFile],
        columns: Sequence[str],
        may_matter: Callable[[LogFile], bool] | None,
    ) -> Iterator[pa.Table]:
        """See :meth:`Log.parts_of`."""
        for part in scanning.parts_of(self._directory, files):
            if may_matter is None or may_matter(part.file):
                yield instants.clamp(part.read(columns, self._readable))

    def schema(self) -> str:
        """See :meth:`Log.schema`."""
        with self._guard:
            self._find_newest()
            return self._columns

    def columns(self) -> list[str]:
        """See :meth:`Log.columns`."""
        with self._guard:
            self._find_newest()
            return list(self._schema.names)

    def is_plain(self) -> bool:
        """Tell whether the table asks nothing of its writers that only Spark may know."""
        with self._guard:
            self._find_newest()
            return self._may_append and not self._is_nested

    def require_appends(self) -> None:
        """Check that rows can be appended to the table as it is now.

        Raises
        ------
        InvalidArgumentError
            When it asks more of its writers than this one knows.
        """
        with self._guard:
            self._find_newest()
            if not self._may_append:
                raise InvalidArgumentError(
                    f"native is True, and the table at {str(self._directory)!r} has features, "
                    "constraints or columns that only Spark may write: let Spark commit"
                )

    def written(self, gen: int, rows: pa.Table) -> dict[str, Any]:
        """See :meth:`Log.written`."""
        with using(self._directory):
            return self._append.written(gen, rows.drop_columns([_PARTITION]), is_synced=True)

    def replace(
        self, gone: Sequence[LogFile], adds: Sequence[Mapping[str, Any]], *, takes_away: bool
    ) -> bool:
        """See :meth:`Log.replace`.

        What is put there is on the disk. So is the commit of
        it, with those that it follows, unless this process promises less for its own steps.
        """
        with self._guard:
            version, _ = self._find_newest()
            self.files()
            if self._files is None or any(file.path not in self._files for file in gone):
                return False
            if self._is_synced and not is_forced(self._directory, version):
                # Others may have promised what this process has not forced.
                sync_commits(self._directory)
            safe = is_forced(self._directory, version)
            with using(self._directory):
                ours = self.is_plain() and self._append.replace(
                    version + 1, gone, adds, takes_away=takes_away, is_synced=safe
                )
            if ours:
                self._pass(commit_at(self._directory, version + 1, APP_ID), version + 1)
                if safe:
                    note_forced(self._directory, version + 1)
                traces.note(self._directory, version + 1)
        return ours

    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """See :meth:`Log.add_columns`."""
        with self._guard:
            self._refresh()
            # The commits that it stands on come first.
            sync_commits(self._directory)
            widening.add_columns(self._directory, self._table, fields)
            self._find_newest()

    def discard(self, adds: Iterable[Mapping[str, Any]]) -> None:
        """See :meth:`Log.discard`."""
        for add in adds:
            with suppress(OSError):
                (self._directory / unquote(add["path"])).unlink()

    def is_due(self) -> bool:
        """Tell, once in a while, whether so much was committed that it has to be summed up."""
        if self._newest[0] - self._summed < self._each:
            return False
        self._summed = self._newest[0]
        return True

    def sum_up(self) -> bool:
        """Write down what all commits come to; False where somebody has done so not long ago."""
        with self._guard:
            self._find_newest()
            if self._newest[0] - (summed_up(self._directory) or 0) < self._each:
                return False
            write_checkpoint(self._directory)
            if self._cleans_up:
                self._refresh()
                with telling(self._directory):
                    self._table.cleanup_metadata()
        return True

    def _find_newest(self) -> tuple[int, int]:
        """Return the newest version and its step, from the commits since the last look."""
        known = self._newest[0]
        version = newest_version(self._directory, known)
        if version == known:
            return self._newest
        if (
            version is None
            or not 0 < version - known <= _FAR
            or not self._follow_commits(known, version)
        ):
            self._refresh()
            with telling(self._directory):
                step = self._table.transaction_version(APP_ID) or 0
                self._newest, self._files = (self._table.version(), step), None
                self._learn()
        return self._newest

    def _refresh(self) -> None:
        """See the table as it is now, also where it has fewer versions than before."""
        # From the newest checkpoint that is fewer commits than from an old look.
        if (newest_version(self._directory, self._newest[0]) or 0) - self._newest_seen() <= _FAR:
            # If this fails, a new look shows what is there.
            with suppress(Exception), telling(self._directory):
                self._table.update_incremental()
                return
        self._table = opened(self._directory)

    def _newest_seen(self) -> int:
        return int(self._table.version())

    def _follow_commits(self, known: int, version: int) -> bool:
        """Follow commits of which none makes the table another; False where one may."""
        for at in range(known + 1, version + 1):
            try:
                commit = commit_at(self._directory, at, APP_ID)
            except (OSError, LookupError, ValueError):
                return False
            if commit.redefines:
                return False
            self._pass(commit, at)
        return True

    def _pass(self, commit: Commit, version: int) -> None:
        """Note what a commit has done."""
        self._newest = (version, self._newest[1] if commit.step is None else commit.step)
        if self._files is not None:
            for path in commit.gone:
                self._files.pop(path, None)
            self._files.update({file.path: file for file in (*commit.files, *commit.merged)})

    def _learn(self) -> None:
        """Look at what the table is now: what others have committed may have changed it."""
        fields, settings = self._table.schema().fields, self._table.metadata().configuration
        self._schema = pa.schema(self._table.schema().to_arrow())
        # What a log of an older format has not is null in it.
        missing = [one for one in LATER.arrow if one.name not in self._schema.names]
        self._readable = pa.schema([*self._schema, *missing])
        self._columns = self._table.schema().to_json()
        self._is_nested = any(pa.types.is_nested(field.type) for field in self._schema)
        self._may_append = (
            self._table.protocol().min_writer_version <= _PLAIN_WRITER
            and all(field.nullable for field in fields)
            and not any("delta.invariants" in (field.metadata or {}) for field in fields)
        )
        ranged = settings.get(_RANGED, SKIPPING_COLUMNS).split(",")
        self._append = Appending(directory=self._directory, partition=_PARTITION, ranged=ranged)
        self._each = int(settings.get(_INTERVAL, _OFTEN))
        self._cleans_up = settings.get(_CLEANS_UP, "true").lower() != "false"
        self._summed = summed_up(self._directory) or 0
