"""Files of a log, and what their statistics say of the rows in them."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from spark_queue.delta.tables.damage import naming
from spark_queue.errors import FileDamagedError

#: The partition of rows that name none: no step wrote them, and nobody reads them.
NOBODYS = -99

#: Between the path of a file and one of several partitions.
_MIXED = "#"

#: Where the name of a file says of which partitions it has how many rows.
_GENS = re.compile(r"\.(-?\d+x\d+(?:_-?\d+x\d+)*)\.snappy\.parquet$")

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


def gen_of(partition: str | int | None) -> int:
    """Return the number of a partition, written by any process."""
    return NOBODYS if partition is None or partition == "" else int(partition)


def gens_in(counts: Mapping[int, int]) -> str:
    """Return how the name of a file says how many rows of which partitions it has."""
    return "." + "_".join(f"{gen}x{count}" for gen, count in counts.items())


def files_in(add: Mapping[str, Any]) -> list[LogFile]:
    """Return a file from what a commit says of it: one for each partition of which it has rows."""
    stats = json.loads(add.get("stats") or "{}")
    least, most = stats.get("minValues", {}), stats.get("maxValues", {})
    ranges = {name: (least[name], most[name]) for name in RANGED if name in least and name in most}
    count = stats.get("numRecords", math.inf)
    return [
        LogFile(
            path=path,
            gen=gen,
            size=add["size"],
            rows=count if rows is None else rows,
            ranges=ranges,
        )
        for path, gen, rows in _split(add["path"], add["partitionValues"].get("_gen"))
    ]


def _split(path: str, partition: str | int | None) -> list[tuple[str, int, int | None]]:
    """Return the path, number and rows, where its name has them, of each partition in a file."""
    found = _GENS.search(path) if partition is None else None
    if found is None:
        return [(path, gen_of(partition), None)]
    counts = [one.split("x") for one in found[1].split("_")]
    is_mixed = len(counts) > 1
    return [
        (f"{path}{_MIXED}{gen}" if is_mixed else path, int(gen), int(rows)) for gen, rows in counts
    ]


def files_of(adds: pa.Table) -> Iterator[LogFile]:
    """Return files from what ``deltalake`` says of them, one column for each fact."""
    for fact in adds.to_pylist():
        ends = {name: (fact.get(f"min.{name}"), fact.get(f"max.{name}")) for name in RANGED}
        known = fact.get("num_records")
        ranges = {name: pair for name, pair in ends.items() if None not in pair}
        count = math.inf if known is None else known
        for path, gen, rows in _split(fact["path"], fact.get("partition._gen")):
            size = fact["size_bytes"]
            yield LogFile(
                path=path, gen=gen, size=size, rows=count if rows is None else rows, ranges=ranges
            )


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
        there = path.stat().st_size
        if there != size:
            raise FileDamagedError(path, f"has {there} bytes, and {size} by its commit")
        # What Spark writes of times holds more years than nanoseconds do.
        file = pq.ParquetFile(
            path, coerce_int96_timestamp_unit="us", page_checksum_verification=True
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
        return opened(path, size, steps).read(columns=list(columns))


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
