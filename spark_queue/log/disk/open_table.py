"""A table on this machine's disk as this process knows it, by its commits one by one."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from spark_queue.errors import StepLostError
from spark_queue.log.delta import table_properties
from spark_queue.log.delta.commits import (
    PARTITION,
    Commit,
    LogFile,
    commit_at,
    files_of,
    newest_version,
    summed_up,
)
from spark_queue.log.delta.log import APP_ID
from spark_queue.log.disk.append_files import Appending
from spark_queue.log.disk.delta_rs import added_files, opened, telling, write_checkpoint
from spark_queue.log.disk.fsync import birth_of
from spark_queue.log.disk.table_place import TablePlace
from spark_queue.log.schema import SKIPPING_COLUMNS, later_of

#: After how many commits a checkpoint of a log is written, unless its table says it.
_OFTEN = 10

#: Commits that are read one by one at most, to learn what they have done.
_FAR = 500


class OpenTable:
    """A table that this process has opened; one thread looks at it at a time.

    Attributes
    ----------
    birth : tuple
        What tells it from a table that is made in its place.
    table : deltalake.DeltaTable
        The table as it was at the last look that took more than its newer commits.
    version : int
        The newest version, as of the last look.
    step : int, optional
        The newest step; ``None`` where the table has forgotten the transactions of its steps.
    schema : pyarrow.Schema
        Its columns.
    readable : pyarrow.Schema
        The same, with those of later formats, which are null.
    columns : str
        The same, as Spark writes a schema in JSON.
    is_read : bool
        Whether it asks nothing of its readers that only Spark may know.
    may_append : bool
        Whether it asks nothing of its writers that only Spark may know.
    protocol : Protocol
        What it asks.
    is_plain : bool
        Whether its rows are appended and replaced here, too.
    append : Appending
        How rows are appended to it.
    properties : mapping
        Its properties.
    interval : int
        After how many commits somebody should sum them up.

    Parameters
    ----------
    place : TablePlace
        The files of the table.

    Raises
    ------
    SparkQueueError
        When it cannot be opened, as :func:`rust.opened` says.
    """

    def __init__(self, place: TablePlace) -> None:
        self.place, self.directory = place, place.directory
        self._files: dict[str, LogFile] | None = None
        self.version = self._summed = 0
        self.step: int | None = 0
        self.table = opened(self.directory)
        self._learn()

    def look(self) -> None:
        """Follow the commits since the last look."""
        known = self.version
        version = newest_version(self.directory, known)
        if version == known:
            return
        is_near = version is not None and 0 < version - known <= _FAR
        if not is_near or not self._follow_commits(known, version or 0):
            self.refresh()
            self._learn()

    def refresh(self) -> None:
        """Read the current table, which may have fewer versions than before."""
        # From the newest checkpoint that is fewer commits than from an old look.
        if (newest_version(self.directory, self.version) or 0) - int(self.table.version()) <= _FAR:
            # If this fails, a new look shows what is there.
            with suppress(Exception), telling(self.directory):
                self.table.update_incremental()
                return
        self.table = opened(self.directory)

    def files(self) -> dict[str, LogFile]:
        """Return its files as of the last look, by their paths."""
        if self._files is None:
            self.refresh()
            with telling(self.directory):
                adds = added_files(self.table)
                self._files = {file.path: file for file in files_of(adds)}
        return self._files

    def note(self, commit: Commit, version: int) -> None:
        """Note what the next commit has done."""
        self.version = version
        if commit.step is not None:
            self.step = commit.step
        if self._files is not None:
            for path in commit.gone:
                self._files.pop(path, None)
            if self.append.mixes is not None:
                gone = {unquote(path) for path in commit.gone}
                kept = {path: file for path, file in self._files.items() if file.name not in gone}
                self._files = kept if gone else self._files
            self._files.update({file.path: file for file in (*commit.files, *commit.merged)})

    def add_columns(self, fields: Sequence[Mapping[str, Any]]) -> None:
        """Give it more columns, which are null in all rows that are there.

        The commit is on the disk before it can be seen, and its name when this returns.

        Parameters
        ----------
        fields : sequence of mapping
            The columns, as Spark writes a schema in JSON.

        Raises
        ------
        StepLostError
            When somebody has committed who does not ask for the right to.
        """
        self.refresh()
        known, columns = self.table.metadata(), json.loads(self.table.schema().to_json())
        there = [field["name"] for field in columns["fields"]]
        columns["fields"] += [field for field in fields if field["name"] not in there]
        names = [field["name"] for field in fields]
        defined = {
            "id": str(known.id),
            "name": known.name,
            "description": known.description,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(columns, separators=(",", ":")),
            "partitionColumns": known.partition_columns,
            "createdTime": known.created_time,
            "configuration": table_properties.with_users(known.configuration, names),
        }
        info = {
            "timestamp": int(time.time() * 1000),
            "operation": "ADD COLUMNS",
            "operationParameters": {"columns": json.dumps([*fields], separators=(",", ":"))},
        }
        actions = [{"commitInfo": info}, {"metaData": defined}]
        version = self.table.version() + 1
        if not self.append.put(version, actions):
            raise StepLostError(f"what adds {', '.join(names)}", 1)

    def is_due(self) -> bool:
        """Tell, once in a while, whether so much was committed that it has to be summed up."""
        if self.version - self._summed < self.interval:
            return False
        self._summed = self.version
        return True

    def sum_up(self, *, at_once: bool = False) -> bool:
        """Write a checkpoint; False if there is a recent one."""
        least = 1 if at_once else self.interval
        if self.version - self.place.summed_up() < least:
            return False
        write_checkpoint(self.directory)
        if self._cleans_up:
            self.refresh()
            with telling(self.directory):
                self.table.cleanup_metadata()
        self.place.put_summary(lambda: {file.name for file in self.files().values()})
        return True

    def follow(self, since: int, made: Sequence[Commit]) -> None:
        """Note the commits after the newest known version; one that redefines ends it."""
        for at, commit in enumerate(made, since + 1):
            if self.version != at - 1 or commit.redefines:
                return
            self.note(commit, at)

    def _follow_commits(self, known: int, version: int) -> bool:
        """Follow commits of which none makes the table another; False where one may."""
        try:
            made = [commit_at(self.directory, at, APP_ID) for at in range(known + 1, version + 1)]
        except (OSError, LookupError, ValueError):
            return False
        self.follow(known, made)
        return self.version == version

    def _learn(self) -> None:
        """Look at what the table is now: what others have committed may have changed it."""
        # Another table may be in its place, of which nothing is known to be forced.
        self.birth = birth_of(self.directory)
        self.version, self._files = int(self.table.version()), None
        with telling(self.directory):
            step = self.table.transaction_version(APP_ID)
        self.step = 0 if step is None and not self.version else step
        fields, settings = self.table.schema().fields, self.table.metadata().configuration
        self.properties: Mapping[str, str] = settings
        self.protocol = table_properties.Protocol.of(self.table.protocol())
        self.schema = pa.schema(self.table.schema().to_arrow())
        # What a log of an older format has not is null in it.
        later = later_of(self.schema.names).arrow
        missing = [one for one in later if one.name not in self.schema.names]
        self.readable = pa.schema([*self.schema, *missing])
        self.columns = table_properties.known_columns(self.table.schema().to_json(), settings)
        self.is_read = self.protocol.is_read()
        self.may_append = (
            self._is_known()
            and not table_properties.is_left_to_spark(settings)
            and all(field.nullable for field in fields)
            and not any("delta.invariants" in (field.metadata or {}) for field in fields)
        )
        is_nested = any(pa.types.is_nested(field.type) for field in self.schema)
        self.is_plain = self.may_append and not is_nested
        named = settings.get(table_properties.RANGED, SKIPPING_COLUMNS).split(",")
        ranged = [name for name in named if name in self.schema.names and name != PARTITION]
        is_parted = bool(self.table.metadata().partition_columns)
        self.append = Appending(
            place=self.place,
            partition=PARTITION if is_parted else None,
            mixes=None if is_parted else PARTITION,
            ranged=ranged,
            features=self.protocol.list_asking(settings),
        )
        self.interval = int(settings.get(table_properties.INTERVAL, _OFTEN))
        self._cleans_up = self.protocol.may_clean_up(settings)
        self._summed = summed_up(self.directory) or 0

    def why_spark(self, table: str) -> str:
        """Say what it asks that only Spark knows; empty for nothing. The table as SQL names it."""
        if self.is_plain:
            return ""
        return table_properties.why_spark(table, self.protocol, self.properties)

    def _is_known(self) -> bool:
        """Tell whether it asks of its writers what this one knows: nothing, or the one feature."""
        if self.place.feature is None:
            return self.protocol.is_written(self.properties)
        return self.protocol.features == {self.place.feature}
