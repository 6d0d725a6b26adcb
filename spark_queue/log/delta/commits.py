"""Commits of a table's log, followed one by one, and the files that they name."""

from __future__ import annotations

import json
import math
import os
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_queue.errors import FileDamagedError
from spark_queue.log.delta.integrity import COMMIT, naming, read_actions, require_seal

#: The column whose values are in the names of directories, and not in the files.
PARTITION = "_gen"

#: The partition of rows that name none: no step wrote them, and nobody reads them.
NOBODYS = -99

#: Between the path of a file and one of several partitions.
_MIXED = "#"

#: Where the name of a file says of which partitions it has how many rows.
_GENS = re.compile(r"\.(-?\d+x\d+(?:_-?\d+x\d+)*)\.snappy\.parquet$")

#: The beginning of the names of files that this library writes, under the right to write.
OURS = "step-"

#: Bytes of a file up to which one thread reads it.
_SMALL = 2**20

#: Bytes that Arrow reads of the end of a file anyway; for the rest it asks a pool of threads.
_FOOTER = 2**16

#: Columns of which the least and the highest value in a file are looked at.
RANGED = ("_step", "_seq", "_priority", "_round")


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file of a log."""

    path: str
    """What tells it from others: its path, and the partition where its file has rows of several."""
    gen: int
    """The partition that its rows are in."""
    size: int
    """Bytes."""
    rows: float
    """How many there are; infinite where nobody has counted them."""
    ranges: Mapping[str, tuple[Any, Any]]
    """The least and the highest value of some columns, where both are known."""

    @property
    def name(self) -> str:
        """The path of the file in the directory of its table."""
        return unquote(self.path.partition(_MIXED)[0])

    @property
    def is_mixed(self) -> bool:
        """Whether the file has rows of other partitions, too."""
        return _MIXED in self.path

    def may_have(self, column: str, least: float = -math.inf, most: float = math.inf) -> bool:
        """Tell whether a row may have a value in a range, both ends included."""
        if column not in self.ranges:
            return True
        lowest, highest = self.ranges[column]
        return bool(lowest <= most and highest >= least)

    def may_have_one(self, column: str, values: Sequence[int]) -> bool:
        """Tell whether a row may have one of some values, which are in order."""
        if not values:
            return False
        first, _ = self.ranges.get(column, (values[0], None))
        at = bisect_left(values, first)
        return at < len(values) and self.may_have(column, values[at], values[at])


def gens_in(counts: Mapping[int, int]) -> str:
    """Return how the name of a file says how many rows of which partitions it has."""
    return "." + "_".join(f"{gen}x{count}" for gen, count in counts.items())


def files_in(add: Mapping[str, Any]) -> list[LogFile]:
    """Return a file from what a commit says of it: one for each partition of which it has rows."""
    stats = json.loads(add.get("stats") or "{}")
    least, most = stats.get("minValues", {}), stats.get("maxValues", {})
    ranges = {name: (least[name], most[name]) for name in RANGED if name in least and name in most}
    partition, count = add["partitionValues"].get(PARTITION), stats.get("numRecords")
    return list(_split(add["path"], partition, add["size"], count, ranges))


def files_of(adds: pa.Table) -> Iterator[LogFile]:
    """Return files from what ``deltalake`` says of them, one column for each fact."""
    for fact in adds.to_pylist():
        ends = {name: (fact.get(f"min.{name}"), fact.get(f"max.{name}")) for name in RANGED}
        ranges = {name: pair for name, pair in ends.items() if None not in pair}
        partition, count = fact.get("partition._gen"), fact.get("num_records")
        yield from _split(fact["path"], partition, fact["size_bytes"], count, ranges)


def _split(
    path: str,
    partition: str | int | None,
    size: int,
    count: int | None,
    ranges: Mapping[str, tuple[Any, Any]],
) -> Iterator[LogFile]:
    """Return a file for each partition in one, which its name says with their rows."""
    found = _GENS.search(path) if partition is None else None
    if found is None:
        gen = NOBODYS if partition is None or partition == "" else int(partition)
        rows = math.inf if count is None else count
        yield LogFile(path=path, gen=gen, size=size, rows=rows, ranges=ranges)
        return
    parts = [one.split("x") for one in found[1].split("_")]
    for number, its in parts:
        part = f"{path}{_MIXED}{number}" if len(parts) > 1 else path
        yield LogFile(path=part, gen=int(number), size=size, rows=int(its), ranges=ranges)


def opened(path: Path, size: int, steps: tuple[int, int] | None = None) -> pq.ParquetFile:
    """Open a file that is the one its commit names.

    Parameters
    ----------
    path : Path
        The file.
    size : int
        Bytes that it has by its commit.
    steps : tuple of int, optional
        The least and the highest step of its rows by its commit: files of small steps are often of
        one size.

    Raises
    ------
    FileDamagedError
        When it is gone, not whole, or another one.
    FileAccessError
        When the system refuses it.
    """
    with naming(path):
        content = path.read_bytes() if size <= _FOOTER else None
        there = path.stat().st_size if content is None else len(content)
        if there != size:
            raise FileDamagedError(path, f"has {there} bytes, and {size} by its commit")
        source = path if content is None else pa.BufferReader(content)
        # What Spark writes of times holds more years than nanoseconds do.
        file = pq.ParquetFile(
            source, coerce_int96_timestamp_unit="us", page_checksum_verification=True
        )
        found = None if steps is None else _steps_of(file.metadata)
        if found not in (None, steps):
            why = f"has rows of steps {found}, and of {steps} by its commit"
            raise FileDamagedError(path, why)
    return file


def read_file(
    path: Path, columns: Sequence[str], size: int, steps: tuple[int, int] | None = None
) -> pa.Table:
    """Return those of some columns that a file has; parameters and errors as for :func:`opened`."""
    with naming(path):
        # Threads of a pool cost a small file more than its columns do.
        is_large = size > _SMALL
        return opened(path, size, steps).read(columns=list(columns), use_threads=is_large)


def _steps_of(metadata: pq.FileMetaData) -> tuple[int, int] | None:
    """Return the least and the highest step of the rows of a file, where it says them."""
    ends: list[int] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        columns = (group.column(at) for at in range(group.num_columns))
        step = next((column for column in columns if column.path_in_schema == "_step"), None)
        known = None if step is None else step.statistics
        if known is None or not known.has_min_max:
            return None
        ends += (known.min, known.max)
    return (min(ends), max(ends)) if ends else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """What one version of a table did."""

    step: int | None = None
    """The number of the step that it is; ``None`` where it is none."""
    token: str | None = None
    """What its writer has said of it: the token of the step's head."""
    files: Sequence[LogFile] = ()
    """The files whose rows it added."""
    merged: Sequence[LogFile] = ()
    """Files that have rows of others, which were merged."""
    gone: frozenset[str] = frozenset()
    """The paths of files that are no longer read."""
    takes_away: bool = False
    """Whether rows that were there are gone."""
    redefines: bool = False
    """Whether the table asks something else of those who read or write it."""

    def is_quiet(self) -> bool:
        """Tell whether the rows are what they were: files were merged, or properties set."""
        return not self.files and not self.takes_away

    def is_step(self) -> bool:
        """Tell whether it added the rows of a step, and did nothing else."""
        return self.step is not None and not self.takes_away


def newest_version(directory: Path, known: int | None) -> int | None:
    """Return the newest version of a table; ``None`` where there is none.

    Parameters
    ----------
    directory : Path
        Where the table is.
    known : int, optional
        A version that was the newest once: then its successors are looked for, by name. One whose
        commit was cleaned up says nothing of them.
    """
    log = _log(directory)
    if known is None or not _is_there(log, known):
        return _last(log)
    while _is_there(log, known + 1):
        known += 1
    return known


@lru_cache(maxsize=1_024)
def _log(directory: Path) -> str:
    return str(directory / "_delta_log")


def _is_there(log: str, version: int) -> bool:
    """Return whether a commit exists; dozens of calls a step."""
    try:
        os.stat(f"{log}/{name_of(version)}")  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def commit_at(directory: Path, version: int, app_id: str) -> Commit:
    """Read a commit.

    Raises
    ------
    FileDamagedError
        When it is not there, or not whole.
    FileAccessError
        When the system refuses it.
    """
    path = commit_path(directory, version)
    with naming(path):
        return commit_of(path.read_text(encoding="utf-8"), app_id)


def commit_of(text: str, app_id: str) -> Commit:
    """Read a commit from its text.

    Raises
    ------
    ValueError
        When it is not whole.
    """
    actions = read_whole(text)
    steps = [act["txn"]["version"] for act in actions if act.get("txn", {}).get("appId") == app_id]
    adds = [act["add"] for act in actions if "add" in act]
    infos = [act["commitInfo"] for act in actions if "commitInfo" in act]
    return Commit(
        step=steps[0] if steps else None,
        token=infos[0].get("userMetadata") if infos else None,
        files=[file for add in adds if add.get("dataChange") for file in files_in(add)],
        merged=[file for add in adds if not add.get("dataChange") for file in files_in(add)],
        gone=frozenset(act["remove"]["path"] for act in actions if "remove" in act),
        takes_away=any(act.get("remove", {}).get("dataChange") for act in actions),
        redefines=any("metaData" in act or "protocol" in act for act in actions),
    )


def read_whole(text: str) -> list[dict[str, Any]]:
    """Return the actions of a commit from its text; errors as for :func:`commit_of`."""
    require_seal(text)
    actions = read_actions(text)
    if not actions or not all(isinstance(action, dict) for action in actions):
        raise ValueError(f"a commit is no list of actions: {text[:100]!r}")
    return actions


def name_of(version: int) -> str:
    """Return the name of the file of a commit."""
    return f"{version:020}.json"


def summed_up(directory: Path) -> int | None:
    """Return the version of which a checkpoint of the log was written last, if one was."""
    try:
        text = (directory / "_delta_log" / "_last_checkpoint").read_text(encoding="utf-8")
        return int(json.loads(text)["version"])
    except (OSError, ValueError, LookupError):
        return None


def commit_path(directory: Path, version: int) -> Path:
    """Return the file that a version of a table is, or will be."""
    return directory / "_delta_log" / name_of(version)


def _last(log: str) -> int | None:
    try:
        with naming(log):
            names = os.listdir(log)  # noqa: PTH208 - thousands of names, of which one is wanted
    except FileDamagedError:
        return None
    newest = max(filter(COMMIT.fullmatch, names), default=None)
    return None if newest is None else int(newest[:20])
