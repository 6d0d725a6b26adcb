"""Rows of one bucket as one value, and back: row by row, Python takes and gives them slowly.

A packed value is a stream of the Arrow format, whose bytes any release reads. Types stay as they
are. These run on executors, before and after the stateful operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

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
