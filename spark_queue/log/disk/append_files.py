"""An append to a table on this machine's disk, made by hand: its files, then the commit.

The library of Rust takes 24 ms of work for a small append, and the more the longer the log is since
its checkpoint; and nobody forces the files to the disk, so that a power cut may leave a commit
without content, or without its files. Here a commit is one file of Delta's protocol (version 2 of
writers), and can be seen only when everything that it names is on the disk. So is a file that takes
the place of others. Reading, and checkpoints, are left to those who know all of the protocol.
"""

from __future__ import annotations

import json
import math
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import groupby
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from spark_queue.log import kernels as pc
from spark_queue.log.delta.commits import OURS, Commit, LogFile, files_in, gens_in
from spark_queue.log.delta.feature_actions import complete
from spark_queue.log.disk.fsync import sync_directory
from spark_queue.log.disk.row_files import FEW, without_nothing, write_file
from spark_queue.log.disk.table_place import TablePlace

#: The longest text that statistics repeat.
_LONGEST = 32


def statistics_of(rows: pa.Table, ranged: Sequence[str]) -> dict[str, Any]:
    """Return the statistics of a file: of each column both ends, where known, and the nulls.

    A column that the rows do not have is null in all of them.
    """
    stats: dict[str, Any] = {"numRecords": rows.num_rows}
    if not ranged:
        return stats
    there = set(rows.column_names)
    known = {name: rows[name] for name in ranged if name in there}
    ends = {name: _ends(column) for name, column in known.items()}
    least = {name: pair[0] for name, pair in ends.items() if pair is not None}
    highest = {name: pair[1] for name, pair in ends.items() if pair is not None}
    nulls = {name: known[name].null_count if name in known else rows.num_rows for name in ranged}
    return {**stats, "minValues": least, "maxValues": highest, "nullCount": nulls}


def _ends(values: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the least and the highest value as statistics have them, where they can."""
    if len(values) <= FEW:
        known = [value for value in values.to_pylist() if value is not None]
        ends = (min(known), max(known)) if known else (None, None)
    else:
        ends = pc.min_max(values).as_py().values()
    least, highest = map(_plain, ends)
    return None if least is None or highest is None else (least, highest)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        # Readers know that what is finer than a millisecond is cut off.
        cut = value.astimezone(timezone.utc).isoformat(timespec="milliseconds")
        return cut.replace("+00:00", "Z")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else None
    return value if isinstance(value, int) else None


def written_statistics(count: int, *columns: Mapping[str, Any] | None) -> str:
    """Return statistics of a file as a commit has them: the least, the highest, and the nulls."""
    least, highest, nulls = (column or {} for column in columns)
    ends = {"minValues": least, "maxValues": highest}
    told = {
        name: {key: _plain(value) for key, value in values.items() if _plain(value) is not None}
        for name, values in ends.items()
    }
    counted = {key: value for key, value in nulls.items() if value is not None}
    stats = {"numRecords": count, **told, "nullCount": counted}
    return json.dumps(stats, separators=(",", ":"))


#: Partitions, and rows, that are put into one file at most, where a table is not partitioned.
_MIXED, _MIXED_ROWS = 8, 20_000

_ENGINE = "spark-queue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Appending:
    """How rows are appended to one table.

    Parameters
    ----------
    place : TablePlace
        The files of the table.
    partition : str, optional
        The one column that it is partitioned by, of whole numbers.
    ranged : sequence of str
        The columns whose least and highest values are written down for each file.
    """

    place: TablePlace
    partition: str | None
    ranged: Sequence[str]
    mark: str = ""
    """What the names of files have in them."""
    mixes: str | None = None
    """The column by which rows are parted that lie together in one file, where they are few."""
    features: frozenset[str] = frozenset()
    """Features of the table that ask something of each commit."""
    _named: set[str] = field(default_factory=set)
    """Folders of partitions whose names are on the disk."""

    def commit(
        self,
        version: int,
        rows: Sequence[pa.Table],
        *,
        transaction: tuple[str, int],
        metadata: str | None = None,
        is_synced: bool = True,
    ) -> Commit | None:
        """Append rows as a version of the table, and return what it did; ``None`` if it is taken.

        Parameters
        ----------
        version : int
            The version to make: the one after the newest.
        rows : sequence of pyarrow.Table
            The rows, with all columns of the table; perhaps none, for the transaction alone. Each
            partition gets one file, from however many of them.
        transaction : tuple of str and int
            The application and its number, as the protocol has them.
        metadata : str, optional
            The commit's ``userMetadata``.
        is_synced : bool
            Whether everything is forced to the disk before the commit can be seen, and the commit
            before this returns.
        """
        adds = [self._laid(gen, part, is_synced=is_synced) for gen, part in self.parts(rows)]
        is_ours = self.adopt(
            version,
            adds,
            transaction=transaction,
            metadata=metadata,
            files=[add["path"] for add in adds],
            is_synced=is_synced,
        )
        if not is_ours:
            return None
        files = [file for add in adds for file in files_in(add)]
        return Commit(step=transaction[1], token=metadata, files=files)

    def adopt(
        self,
        version: int,
        adds: Sequence[Mapping[str, Any]],
        *,
        transaction: tuple[str, int],
        metadata: str | None,
        files: Sequence[str] = (),
        is_synced: bool = True,
    ) -> bool:
        """Make files part of the table that lie in its directories already; False as there.

        Parameters
        ----------
        adds : sequence of mapping
            Their entries of the commit.
        files : sequence of str
            Those that are not on the disk yet.
        """
        number = {"appId": transaction[0], "version": transaction[1], "lastUpdated": _millis()}
        actions: list[dict[str, Any]] = [
            {"commitInfo": self._info(metadata)},
            {"txn": number},
            *({"add": dict(add)} for add in adds),
        ]
        return self.put(version, actions, files=files, is_synced=is_synced)

    def replace(
        self,
        version: int,
        gone: Sequence[LogFile],
        adds: Sequence[Mapping[str, Any]],
        *,
        takes_away: bool,
        is_synced: bool = True,
    ) -> bool:
        """Put files in the place of others, as a version of the table; False if it is taken.

        Parameters
        ----------
        gone : sequence of LogFile
            The files that are no longer read; they stay on the disk for those who look back.
        adds : sequence of mapping
            What :meth:`written` has said of the others, which are on the disk.
        takes_away : bool
            Whether rows are gone; else the same rows lie elsewhere.
        is_synced : bool
            Whether the commit is forced to the disk.
        """
        removes: list[dict[str, Any]] = [
            {
                "path": quote(file.name, safe="/=") if file.is_mixed else file.path,
                "deletionTimestamp": _millis(),
                "dataChange": takes_away,
                "extendedFileMetadata": True,
                "partitionValues": self._values(file.gen),
                "size": file.size,
            }
            for file in {file.name: file for file in gone}.values()
        ]
        info = {
            "timestamp": _millis(),
            "operation": "DELETE" if takes_away else "OPTIMIZE",
            "operationParameters": {"predicate": "[]"},
            "isBlindAppend": False,
            "engineInfo": _ENGINE,
        }
        actions: list[dict[str, Any]] = [
            {"commitInfo": info},
            *({"remove": remove} for remove in removes),
            *({"add": {**add, "dataChange": takes_away}} for add in adds),
        ]
        return self.put(version, actions, is_synced=is_synced)

    def put(
        self,
        version: int,
        actions: Sequence[dict[str, Any]],
        *,
        files: Sequence[str] = (),
        is_synced: bool = True,
    ) -> bool:
        """Commit actions with all that the table asks of a commit; False if the version is taken.

        Parameters
        ----------
        files : sequence of str
            Those that are not on the disk yet.
        """
        if self.features:
            directory = self.place.directory
            actions = complete(actions, directory, version, self.features)
        return self.place.commit(version, actions, files=files, is_synced=is_synced)

    def parts(self, tables: Sequence[pa.Table]) -> Iterator[tuple[int, pa.Table]]:
        """Return the rows of each partition, without the column that it is named by."""
        found: dict[int, list[pa.Table]] = {}
        for table in tables:
            for gen, rows in self._split(table):
                found.setdefault(gen, []).append(rows)
        parts = {gen: _together(found[gen]) for gen in sorted(found)}
        if self._are_mixed(parts):
            yield max(parts), _together([*parts.values()])
        else:
            yield from parts.items()

    def _are_mixed(self, parts: Mapping[int, pa.Table]) -> bool:
        """Tell whether rows are so few, of so few partitions, that they are put into one file."""
        count = sum(part.num_rows for part in parts.values())
        return self.mixes is not None and 1 < len(parts) <= _MIXED and count <= _MIXED_ROWS

    def _split(self, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        column = self.partition or self.mixes
        if column is None:
            if rows.num_rows:
                yield 0, rows
            return
        gens = rows[column]
        rest = rows if self.partition is None else rows.drop_columns([self.partition])
        if rows.num_rows <= FEW:
            at = 0
            for gen, run in groupby(gens.to_pylist()):
                count = len([*run])
                yield gen, rest.slice(at, count)
                at += count
            return
        several = pc.unique(gens).to_pylist()
        for gen in several:
            # Most steps have rows of one partition, which are not looked at one by one.
            yield gen, rest if len(several) == 1 else rest.filter(pc.equal(gens, gen))

    def written(self, gen: int, rows: pa.Table, *, is_synced: bool = True) -> dict[str, Any]:
        """Write one file, and return its entry of a commit; if synced, it is as safe as a step."""
        rows = rows if self.partition is None else rows.drop_columns([self.partition])
        add = self._laid(gen, rows, is_synced=is_synced)
        if is_synced:
            self.place.publish(add["path"])
        return add

    def _laid(self, gen: int, rows: pa.Table, *, is_synced: bool) -> dict[str, Any]:
        """Write one file in a folder whose own name is on the disk, and force it later."""
        folder = self._folder(gen, is_synced=is_synced)
        name = f"{folder}{OURS}{self.mark}{uuid.uuid4()}{self._gens(rows)}.snappy.parquet"
        rows = without_nothing(rows)
        return {
            "path": name,
            "partitionValues": self._values(gen),
            "size": write_file(f"{self.place.directory}/{name}", rows),
            "modificationTime": _millis(),
            "dataChange": True,
            "stats": json.dumps(statistics_of(rows, self.ranged), separators=(",", ":")),
        }

    def _gens(self, rows: pa.Table) -> str:
        """Return what the name of a file says of the partitions in it."""
        if self.mixes is None:
            return ""
        counted = pc.value_counts(rows[self.mixes]).to_pylist()
        return gens_in({one["values"]: one["counts"] for one in counted})

    def _folder(self, gen: int, *, is_synced: bool) -> str:
        """Return where the files of a partition are, as their names begin."""
        if self.partition is None:
            return ""
        folder = f"{self.partition}={gen}"
        with suppress(FileExistsError):
            os.mkdir(f"{self.place.directory}/{folder}")  # noqa: PTH102 - for each file of a step
        if is_synced and folder not in self._named:
            # Its maker may not have.
            sync_directory(self.place.directory)
            self._named.add(folder)
        return f"{folder}/"

    def _values(self, gen: int) -> dict[str, str]:
        return {} if self.partition is None else {self.partition: str(gen)}

    def _info(self, metadata: str | None) -> dict[str, Any]:
        columns = [] if self.partition is None else [self.partition]
        by = json.dumps(columns, separators=(",", ":"))
        info = {
            "timestamp": _millis(),
            "operation": "WRITE",
            "operationParameters": {"mode": "Append", "partitionBy": by},
            "isBlindAppend": True,
            "engineInfo": _ENGINE,
        }
        return info if metadata is None else {**info, "userMetadata": metadata}


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables, each of which has the columns in which it has values."""
    first, *others = tables
    return pa.concat_tables(tables, promote_options="default") if others else first


def _millis() -> int:
    return int(time.time() * 1000)
