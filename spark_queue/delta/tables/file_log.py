"""A log by its files on this machine's disk, which each look finds again."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from spark_queue.delta.tables import glance, made, paths, unfinished
from spark_queue.delta.tables.address import TableAddress
from spark_queue.delta.tables.appending import sync_commits
from spark_queue.delta.tables.commits import Commit, commit_at, newest_version
from spark_queue.delta.tables.forcing import sync_directory
from spark_queue.delta.tables.local_place import local_directory
from spark_queue.delta.tables.log import APP_ID, Head, Log
from spark_queue.delta.tables.resting import resting
from spark_queue.delta.tables.schema import SKIPPING_COLUMNS, fields_of
from spark_queue.delta.tables.wishes import Session, promises_disk
from spark_queue.errors import InvalidArgumentError, QueueNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

#: A commit that writes a checkpoint of Delta's own log takes seconds; the default is every tenth.
_CHECKPOINT_INTERVAL = 100

#: Stands for the directory of a table that is on no disk of this machine.
_NOT_LOCAL = Path()

_Head = TypeVar("_Head", bound=Head)
_Seen = TypeVar("_Seen")


class FileLog(Log[_Head]):
    """See :class:`Log`: found by its files, without a session of Spark."""

    def __init__(
        self, session: Session, address: TableAddress, parse: Callable[[str], _Head]
    ) -> None:
        super().__init__(session, address, parse)
        self._found_directory: Path | None = None

    def exists(self) -> bool:
        """Tell whether there is a Delta table at the address."""
        directory = self.find_directory()
        return directory is not None and paths.has_log(directory)

    def is_unfinished(self) -> bool:
        """See :meth:`Log.is_unfinished`."""
        directory = paths.directory_of(self.session, self.address)
        return directory is not None and unfinished.is_unfinished(directory)

    def detail(self) -> tuple[str, str]:
        """Return where the table's files are, and the id that it got when it was made."""
        directory = paths.directory_of(self.session, self.address)
        table = None if directory is None else paths.first_id(directory)
        return ("", "") if directory is None else (paths.location_of(directory), table or "")

    def find_directory(self) -> Path | None:
        """Return the table's directory, if it is on this machine's disk."""
        if self._found_directory is None:
            location = self.location()
            self._found_directory = local_directory(location)
            # The caller may be about to make a table that is not there yet.
            if self._found_directory is None and location and not location.startswith("file:"):
                self._found_directory = _NOT_LOCAL
        return None if self._found_directory is _NOT_LOCAL else self._found_directory

    def is_near(self) -> bool:
        """Tell whether a look for new commits costs next to nothing."""
        return self.find_directory() is not None

    def newest(self, known: int | None) -> int | None:
        """See :meth:`Log.newest`."""
        directory = self.find_directory()
        return None if directory is None else newest_version(directory, known)

    def follow(self, since: int, until: int) -> list[Commit]:
        """See :meth:`Log.follow`."""
        return [self._commit_at(version) for version in range(since + 1, until + 1)]

    def _commit_at(self, version: int) -> Commit:
        directory = self.find_directory()
        if directory is None:
            self._needs_spark("to follow its tables", "they are on no disk of this machine")
        return commit_at(directory, version, APP_ID)

    def create(
        self, schema: str, *, replaces: bool = True, skipping: str = SKIPPING_COLUMNS
    ) -> None:
        """Make the empty table, with the properties that a log of many small commits needs.

        What a process left that was killed while it made the table is removed, so that only one may
        make it at a time.

        Parameters
        ----------
        schema : str
            The columns, as Spark writes a schema in JSON.
        replaces : bool
            Whether a table that stands there already is replaced, or left as it is.
        skipping : str
            The columns whose minimum and maximum are kept per file.
        """
        properties = {
            "delta.checkpointInterval": str(_CHECKPOINT_INTERVAL),
            "delta.dataSkippingStatsColumns": skipping,
        }
        directory = paths.directory_of(self.session, self.address)

        def is_left(place: Path) -> bool:
            # Of a whole one somebody may be about to make the first step.
            return unfinished.is_unfinished(place) and (replaces or not unfinished.is_whole(place))

        if directory is not None and is_left(directory):
            _remove_directory(directory, is_left)
        if directory is None or not made.create(self.session, directory, schema, properties):
            self._create(schema, properties, replaces=replaces)

    def _create(self, schema: str, properties: Mapping[str, str], *, replaces: bool) -> None:
        del properties
        if not self.exists():
            self._needs_spark("to make its tables", made.why_spark(fields_of(schema)))
        if replaces:
            self._needs_spark("to make its tables", "a table, or what is left of one, is there")

    def drop(self) -> None:
        """See :meth:`Log.drop`."""
        directory = local_directory(self.location())
        if directory is None:
            raise InvalidArgumentError(
                f"{self.address.target!r} is not on this machine: delete its files with the "
                "tools of its store"
            )
        _remove_directory(directory)

    def head(self, since: int = 0) -> _Head | None:
        """Return the newest head whose step is at least ``since``."""
        newest = self.parsed(self._look(glance.Glance.head))
        return newest if newest is not None and newest.step >= since else None

    def text(self, kind: str, step: int) -> str | None:
        """Return the text of the row of a kind and a step, in the lane of heads."""
        return self._look(lambda seen: seen.text(kind, step))

    def texts(self, kind: str) -> list[str]:
        """Return the texts of all rows of a kind, in the lane of heads."""
        return self._look(lambda seen: seen.texts(kind))

    def last_seq(self, step: int) -> int | None:
        """Return the highest seq of the items that steps up to one have named."""
        del step
        return self._look(glance.Glance.last_seq)

    def force(self) -> None:
        """See :meth:`Log.force`."""
        directory = self.find_directory() if promises_disk(self.session) else None
        if directory is not None:
            sync_commits(directory)

    def commit(
        self,
        head: _Head,
        rows: DataFrame | pa.Table | None,
        *,
        small: bool = True,
        known: int | None = None,
        is_synced: bool = True,
    ) -> bool:
        """See :meth:`Log.commit`."""
        del head, rows, small, known, is_synced
        self._needs_spark("to write its tables", "they ask for more than plain appends")

    def _look(self, look: Callable[[glance.Glance], _Seen]) -> _Seen:
        try:
            return look(self._glance())
        except glance.QueryNeededError:
            why = "it has more files than a process looks at, or files without statistics"
            self._needs_spark("to read its tables", why)

    def _glance(self) -> glance.Glance:
        seen = glance.at(self.find_directory())
        if seen is None and not self.exists():
            raise QueueNotFoundError(self.address.target)
        if seen is None:
            self._needs_spark("to read its tables", "they ask for more than plain reads")
        return seen


def _remove_directory(directory: Path, may_go: Callable[[Path], bool] = lambda _: True) -> None:
    # A waiting writer makes files in it; in a place that nobody knows nobody does.
    gone = directory.with_name(f".{directory.name}-{uuid.uuid4().hex}")
    with resting(directory):
        directory.rename(gone)
    # After a power cut files are missing only where nobody looks for them.
    sync_directory(gone.parent)
    if may_go(gone):
        shutil.rmtree(gone)
    else:
        # Somebody has made the table while this looked.
        gone.rename(directory)


def newest_token(directory: Path) -> str | None:
    """Return the ``userMetadata`` of the newest commit of a table on this machine's disk.

    One small file is read, of the format that Delta's protocol fixes: a line of JSON an action.
    """
    try:
        log = directory / "_delta_log"
        names = os.listdir(log)  # noqa: PTH208 - thousands of names, of which one is wanted
        name = max(name for name in names if name.endswith(".json"))
        lines = (log / name).read_text(encoding="utf-8").split("\n")
        infos = [json.loads(line) for line in lines if line.startswith('{"commitInfo"')]
    except (OSError, ValueError):
        return None
    return infos[0]["commitInfo"].get("userMetadata") if infos else None
