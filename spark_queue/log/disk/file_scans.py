"""Parts of a log's files, and what their statistics say: a large file is read in parts."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_queue.log import instants, kernels as pc
from spark_queue.log.delta.commits import PARTITION, RANGED, LogFile, opened, read_file
from spark_queue.log.delta.integrity import naming
from spark_queue.log.delta.log_files import RowFilter, read_parts
from spark_queue.log.heads import columns_of, table_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq

#: Rows, and bytes, from which on it is worth looking where in a file rows may be.
_LARGE, _HEAVY = 100_000, 32 * 2**20

#: By how much rows may be larger than their file, so that its footer need not be asked.
_PACKED = 20


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a file that lie together: one of its row groups, or all."""

    path: Path
    file: LogFile
    """What is known of them, as if they were a file."""
    whole: LogFile
    """The file that they are in."""
    group: int | None = None

    def read(self, names: Sequence[str], columns: pa.Schema) -> pa.Table:
        """Return some columns of the rows, each as ``columns`` has it.

        Raises
        ------
        OSError
            When the file is gone: somebody has tidied the table up, and put its rows elsewhere; or
            when it is not whole.
        """
        found = columns_of(self.read_own(names, columns))
        schema = pa.schema([columns.field(name) for name in names])
        return table_of(schema, len(found[PARTITION]), found)

    def read_own(self, names: Sequence[str], columns: pa.Schema) -> pa.Table:
        """Return those of some columns that the file has, and the partition.

        Errors are those of :meth:`read`.
        """
        size, steps = self.whole.size, self.whole.ranges.get("_step")
        if self.file.is_mixed:
            rows = read_file(self.path, [*names, PARTITION], size, steps)
            rows = rows.filter(pc.equal(rows[PARTITION], self.file.gen)).drop_columns(PARTITION)
        elif self.group is None:
            rows = read_file(self.path, names, size, steps)
        else:
            with naming(self.path):
                file = opened(self.path, size, steps)
                rows = file.read_row_group(self.group, columns=list(names))
        found = columns_of(rows)
        found[PARTITION] = _repeat(self.file.gen, rows.num_rows)
        return table_of(pa.schema(map(columns.field, found)), rows.num_rows, found)


def parts_of(directory: Path, files: Iterable[LogFile]) -> Iterator[Part]:
    """Return the parts of files of a table; the errors are those of :meth:`Part.read`."""
    for file in files:
        path = directory / file.name
        if file.is_mixed or (file.rows < _LARGE and file.size < _HEAVY):
            yield Part(path, file, file)
            continue
        known = opened(path, file.size, file.ranges.get("_step")).metadata
        for group in range(known.num_row_groups):
            yield Part(path, _of_group(file, known.row_group(group)), file, group)


def _repeat(number: int, count: int) -> pa.Array:
    """Return a column of one number; ``pa.repeat`` would load pandas where that is installed."""
    return pa.Array.from_buffers(
        pa.int32(), count, [None, pa.py_buffer(array("i", [number]) * count)]
    )


def rows_of(
    directory: Path, files: Iterable[LogFile], columns: Sequence[str], schema: pa.Schema
) -> pa.Table:
    """Return some columns of files, each as a schema has it; errors as :meth:`Part.read`."""
    none = table_of(pa.schema([schema.field(name) for name in columns]), 0, {})
    # With many small files, columns that none has are made once.
    parts = [Part(directory / file.name, file, file).read_own(columns, schema) for file in files]
    found = pa.concat_tables([none, *parts], promote_options="default").select(none.column_names)
    return instants.clamp(found)


def tables_of(
    parts: Iterable[Part],
    columns: Sequence[str],
    schema: pa.Schema,
    may_matter: Callable[[LogFile], bool] | None,
    wanted: RowFilter | None,
) -> Iterator[pa.Table]:
    """Return the same part by part, relevant parts and wanted rows only."""
    matter = (part for part in parts if may_matter is None or may_matter(part.file))
    reads = (partial(part.read, columns=schema) for part in matter)
    return map(instants.clamp, read_parts(reads, columns, wanted))


def bytes_of(
    directory: Path, files: Iterable[LogFile], seqs: Sequence[int], enough: float
) -> float:
    """Return about how many bytes items take in memory, by what the files of their rows say.

    Parameters
    ----------
    directory : Path
        Where the table is.
    files : iterable of LogFile
        Those that have its items.
    seqs : sequence of int
        The items, in order.
    enough : float
        Below this the answer need not be near.
    """
    counts = [(file, _count_in(file, seqs)) for file in files]
    found = sum(count for _, count in counts)
    # Where ranges of files overlap some are counted twice.
    share = len(seqs) / found if found else 0.0
    packed = share * sum(count * file.size / file.rows for file, count in counts)
    if packed * _PACKED <= enough:
        return packed
    return share * sum(
        count * _size_of(directory / file.name, file.size) / file.rows
        for file, count in counts
        if count
    )


def _count_in(file: LogFile, seqs: Sequence[int]) -> int:
    if "_seq" not in file.ranges:
        return len(seqs)
    first, last = file.ranges["_seq"]
    return bisect_right(seqs, last) - bisect_left(seqs, first)


@lru_cache(maxsize=4_096)
def _size_of(path: Path, size: int) -> int:
    """Return the bytes of a file before they are compressed; its size, where it is elsewhere."""
    if not path.exists():
        return size
    known = opened(path, size).metadata
    return sum(known.row_group(group).total_byte_size for group in range(known.num_row_groups))


def _of_group(file: LogFile, group: pq.RowGroupMetaData) -> LogFile:
    """Return the statistics of one row group."""
    ranges = dict(file.ranges)
    for at in range(group.num_columns):
        column = group.column(at)
        known = column.statistics
        if column.path_in_schema in RANGED and known is not None and known.has_min_max:
            ranges[column.path_in_schema] = (known.min, known.max)
    return LogFile(
        path=file.path,
        gen=file.gen,
        size=group.total_byte_size,
        rows=group.num_rows,
        ranges=ranges,
    )
