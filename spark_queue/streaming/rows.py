"""The rows of a bucket by their numbers: those in state, and those of the micro-batch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from spark_queue.errors import SchemaMismatchError
from spark_queue.streaming.packing import from_bytes, to_bytes

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
