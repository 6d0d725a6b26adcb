"""Facts about a queue's table, local or not, for checks."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.errors import SparkNeededError
from spark_queue.log import maintenance
from spark_queue.log.delta.commits import LogFile, commit_at, commit_path, newest_version, summed_up
from spark_queue.log.delta.log import APP_ID, Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.schema import HEAD, ITEM, META_LANE, REFUSED_LANE
from spark_queue.log.step_events import LogName
from spark_queue.overriding import override
from spark_queue.state.store import Store

#: Commits that are looked at, from the newest back.
RECENT = 500

#: Steps that a predicate names at most.
_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A commit of a table."""

    version: int
    at: datetime
    """When its file was written, or when Delta says that it was."""
    token: str | None
    """What tells a step of the library from any other commit."""
    is_foreign: bool
    """Whether it has put rows there, and is no step and no upkeep of the library."""
    is_in_force: bool
    """Whether files of it are known to be read still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A step's own record."""

    step: int
    at: datetime
    """By the clock of its maker."""
    token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """The files of a table."""

    count: int
    could_be: int
    """How many there would be after small ones were merged."""
    since: datetime | None
    """When the oldest of those was written."""
    gone: Sequence[str] = ()
    """The faults of missing and damaged files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strangers:
    """Rows that no step of the library wrote."""

    count: int
    where: str
    """By what SQL tells them from others; empty where nothing does."""


@dataclass(frozen=True)
class CheckedTable(ABC):
    """One of the two tables of a queue: its kind says how it is read."""

    store: Store
    which: LogName
    reader: str
    """Whose status log it is; empty for the default reader, and for the items."""

    @property
    def steps(self) -> Log[Any]:
        """The log that the table is."""
        return self.store.log(self.which)

    @property
    def place(self) -> str:
        """The table as SQL names it."""
        return self.steps.address.sql()

    def heads_since(self, since: int) -> Sequence[Logged]:
        """Return the heads of the steps from one on, in their order."""
        heads = [self.steps.parse(row["_body"]) for row in self._meta(HEAD, since)]
        return [
            Logged(step=head.step, at=datetime.fromisoformat(head.at), token=head.token)
            for head in heads
        ]

    @abstractmethod
    def newest_commits(self) -> Sequence[Written]:
        """Return the newest commits that are still there, oldest first."""

    @abstractmethod
    def files(self) -> Files:
        """Return the files of the table, by kind."""

    @abstractmethod
    def sizes(self) -> Mapping[str, int]:
        """Return how many bytes it takes, by what they are: see :class:`Storage`."""

    @abstractmethod
    def strangers(self) -> Strangers:
        """Return the rows that are of no step."""

    @abstractmethod
    def count_unsummed(self) -> tuple[int, int]:
        """Return the number of commits since the last checkpoint, and its interval."""

    @abstractmethod
    def _meta(self, kind: str, since: int, *columns: str) -> Sequence[Any]:
        """Return the rows of a kind in the lane of heads, from a step on, in order."""


def where_of(steps: Sequence[int], *, has_none: bool) -> str:
    """Return the SQL condition of rows of unknown steps, or of none; empty for no rows."""
    named = ", ".join(map(str, sorted(steps)[:_NAMED]))
    parts = ["_step IS NULL"] * has_none + [f"_step IN ({named})"] * bool(named)
    return " OR ".join(parts)


def _what_is(path: Path, read: Mapping[Path, int | None]) -> str:
    """Return the kind of a table's file, by the files in force."""
    if path in read:
        return "refused" if read[path] == REFUSED_LANE else "rows"
    return "replaced" if path.suffix == ".parquet" and "_delta_log" not in path.parts else "commits"


@dataclass(frozen=True)
class TableHere(CheckedTable):
    """Table that is checked in its directory on this machine's disk."""

    log: Log[Any]

    @cached_property
    def _directory(self) -> Path:
        found = self.store.handle.place.directory_of(self.steps)
        if found is None:
            raise SparkNeededError(f"to look at {self.store.name!r}", "it is on no disk")
        return found

    @override
    def newest_commits(self) -> Sequence[Written]:
        directory = self._directory
        newest = newest_version(directory, None)
        if newest is None:
            return ()
        first = max(0, newest - RECENT + 1)
        at_hand = [at for at in range(first, newest + 1) if commit_path(directory, at).exists()]
        live = {file.path for file in self._files}
        return [_read_commit(directory, version, live) for version in at_hand]

    def _meta(self, kind: str, since: int, *columns: str) -> list[dict[str, Any]]:
        """Return the rows of a kind in the lane of heads, from a step on, in order."""
        files = [file for file in self._files if file.gen == META_LANE]
        files = [file for file in files if file.may_have("_step", since)]
        rows = self.log.rows_of(files, ["_kind", "_step", "_body", *columns])
        wanted = pc.and_(pc.equal(rows["_kind"], kind), pc.greater_equal(rows["_step"], since))
        found: list[dict[str, Any]] = rows.filter(wanted).sort_by("_step").to_pylist()
        return found

    @override
    def files(self) -> Files:
        groups = list(maintenance.groups(self._files))
        small = [file for group in groups for file in group]
        return Files(
            count=len(self._files),
            could_be=len(self._files) - len(small) + len(groups),
            since=min((at for file in small if (at := self._written_at(file))), default=None),
            gone=list(self._missing_files()),
        )

    @override
    def sizes(self) -> Mapping[str, int]:
        found: Counter[str] = Counter()
        read = {self._path(file): None if file.is_mixed else file.gen for file in self._files}
        for at, _, names in os.walk(self._directory):
            for path in (Path(at, name) for name in names):
                # Files come and go during the scan.
                with suppress(FileNotFoundError):
                    found[_what_is(path, read)] += path.stat().st_size
        return found

    def _written_at(self, file: LogFile) -> datetime | None:
        try:
            return changed_at(self._path(file))
        except FileNotFoundError:
            return None

    def _missing_files(self) -> Iterator[str]:
        for file in self._files:
            path = self._path(file)
            if not path.exists():
                yield f"{file.path} is gone"
            elif (found := path.stat().st_size) != file.size:
                yield f"{file.path} has {found} of {file.size} bytes"

    def _path(self, file: LogFile) -> Path:
        return self._directory / file.name

    @override
    def strangers(self) -> Strangers:
        rows = self.log.rows_of(self._files, ["_kind", "_step", "_seq"])
        steps = rows.filter(pc.equal(rows["_kind"], HEAD))["_step"].combine_chunks()
        is_of_a_step = pc.is_in(rows["_step"], value_set=steps)
        others = rows.filter(pc.invert(is_of_a_step))["_step"]
        twice = _count_repeated(rows) if self.which == "queue" else 0
        unknown = [step for step in pc.unique(others).to_pylist() if step is not None]
        return Strangers(
            count=len(others) + twice,
            where=where_of(unknown, has_none=others.null_count > 0),
        )

    @override
    def count_unsummed(self) -> tuple[int, int]:
        newest = newest_version(self._directory, None) or 0
        interval = self.log.interval if isinstance(self.log, DeltaLog) else 1
        return newest - (summed_up(self._directory) or 0), interval

    @cached_property
    def _files(self) -> list[LogFile]:
        return self.log.files()


def _read_commit(directory: Path, version: int, live: Collection[str]) -> Written:
    commit = commit_at(directory, version, APP_ID)
    return Written(
        version=version,
        at=changed_at(commit_path(directory, version)),
        token=commit.token if commit.step is not None else None,
        is_foreign=commit.step is None and bool(commit.files) and not commit.takes_away,
        is_in_force=any(file.path in live for file in commit.files),
    )


def changed_at(path: Path) -> datetime:
    """Return when a file, or a directory's list of files, was changed last."""
    return datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)


def _count_repeated(rows: pa.Table) -> int:
    """Return how many rows of items have the number of another."""
    seqs = rows.filter(pc.equal(rows["_kind"], ITEM))["_seq"]
    return len(seqs) - int(pc.count_distinct(seqs, mode="all").as_py())
