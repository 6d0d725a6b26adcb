"""The rows of a bucket by their numbers: those in state, and those of the micro-batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.errors import SchemaMismatchError

BUCKET = "bucket"

#: The column of packed rows.
PACKED = "packed"


def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack the rows of each batch by their ``bucket``, one value for each bucket that it has."""
    for batch in batches:
        ordered = batch.take(pc.sort_indices(batch.column(BUCKET)))
        buckets, values, start = [], [], 0
        for entry in ordered.column(BUCKET).value_counts():
            bucket, rows = entry["values"].as_py(), entry["counts"].as_py()
            buckets.append(bucket)
            values.append(to_bytes(ordered.slice(start, rows).drop_columns([BUCKET])))
            start += rows
        columns = [pa.array(buckets, pa.int32()), pa.array(values, pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, names=[BUCKET, PACKED])


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of packed values."""
    for batch in batches:
        for value in batch.column(PACKED):
            yield from from_bytes(value.as_buffer()).to_batches()


def to_bytes(rows: pa.RecordBatch) -> bytes:
    """Pack rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return bytes(sink.getvalue())


def from_bytes(value: bytes | pa.Buffer) -> pa.Table:
    """Return packed rows."""
    return pa.ipc.open_stream(value).read_all()


#: The column that has the rows themselves, as a struct.
ROW = "row"


class BucketRows:
    """Rows that are added in order and taken by number.

    Parameters
    ----------
    stored : pyarrow.Array, optional
        The rows that were kept.
    numbers : list of int
        Their numbers.
    following : int
        The number of the next row.
    """

    def __init__(
        self, stored: pa.Array | None = None, numbers: Iterable[int] = (), following: int = 0
    ) -> None:
        self._rows = stored
        self._places = {number: place for place, number in enumerate(numbers)}
        self._first_new = self._next = following

    @classmethod
    def restore(cls, plain: Any, packed: bytes | None) -> BucketRows:
        """Go on where :meth:`plain` and :meth:`pack` were written."""
        rows = None if packed is None else from_bytes(packed)[ROW].combine_chunks()
        return cls(rows, *plain)

    def add(self, rows: pa.ChunkedArray) -> int:
        """Add the rows of a micro-batch, and return the number of the first."""
        new = pa.concat_arrays(rows.chunks)
        known = None if self._rows is None else _cast(self._rows, new.type)
        self._rows = new if known is None else pa.concat_arrays([known, new])
        self._first_new, self._next = self._next, self._next + len(new)
        return self._first_new

    def take(self, numbers: Iterable[int]) -> pa.Array:
        """Return rows, in the order in which they are asked for."""
        assert self._rows is not None  # noqa: S101 - for the type checker: numbers are of rows
        return self._rows.take(pa.array([self._place(number) for number in numbers], pa.int64()))

    def select(self, numbers: Iterable[int]) -> BucketRows:
        """Return some of the rows, under the same numbers."""
        later = list(numbers)
        return BucketRows(self.take(later) if later else None, later, self._next)

    def plain(self) -> tuple[list[int], int]:
        """Return the numbers for JSON: of the rows, and of the next one."""
        return list(self._places), self._next

    def pack(self) -> bytes | None:
        """Return the rows as one value."""
        if self._rows is None:
            return None
        return to_bytes(pa.RecordBatch.from_arrays([self._rows], names=[ROW]))

    def _place(self, number: int) -> int:
        if number < self._first_new:
            return self._places[number]
        return len(self._places) + number - self._first_new


def _cast(rows: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Return stored rows in the type of those that come now: a zone, or a null, may differ.

    Raises
    ------
    SchemaMismatchError
        When the columns of the arrivals have changed.
    """
    try:
        return rows if rows.type == wanted else rows.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as exc:
        raise SchemaMismatchError(
            ROW, f"rows that wait were stored as {rows.type}, and now come as {wanted}: {exc}"
        ) from exc
