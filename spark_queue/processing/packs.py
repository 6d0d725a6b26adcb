"""Items of a claim packed for executors: each part of them is one value of a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.processing.executor import Runner

#: The only column of such a frame.
PACK = "pack"


def pack(items: pa.Table, parts: int) -> pa.Table:
    """Return a table with a row for each part of some items, a chunk each.

    Parameters
    ----------
    items : pyarrow.Table
        The items, with ``_seq`` and ``_group_key``. A group is in one part, in its order.
    parts : int
        How many parts there are at most.
    """
    packs = [pa.array([_to_bytes(part)], pa.binary()) for part in _parts_of(items, parts)]
    return pa.table({PACK: pa.chunked_array(packs, pa.binary())})


def in_zone(items: pa.Table, zone: str) -> pa.Table:
    """Return items as Spark gives them to handlers: with instants in the zone of its session."""
    fields = [_in_zone(pa.field(one.name, one.type), zone) for one in items.schema]
    columns = [column.cast(one.type) for column, one in zip(items.columns, fields, strict=True)]
    return pa.table(columns, schema=pa.schema(fields))


def unpacking(run: Runner, batch_rows: int) -> Runner:
    """Return a runner of parts, from one of items.

    Parameters
    ----------
    run : callable
        Runs a handler over batches of items.
    batch_rows : int
        How many items a batch has at most; of a number below 1 it has all of a part.
    """

    def run_packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from run(_items_in(batches, batch_rows))

    return run_packed


def _in_zone(field: pa.Field, zone: str) -> pa.Field:
    is_instant = pa.types.is_timestamp(field.type) and field.type.tz is not None
    return field.with_type(pa.timestamp("us", zone)) if is_instant else field


def _items_in(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for value in batch.column(0):
            with pa.ipc.open_stream(value.as_buffer()) as stream:
                items = stream.read_all()
            yield from items.to_batches(max_chunksize=rows if rows > 0 else None)


def _to_bytes(items: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, items.schema) as stream:
        stream.write_table(items.combine_chunks())
    return bytes(sink.getvalue())


# rule again: later member of a group
def _parts_of(items: pa.Table, parts: int) -> Iterator[pa.Table]:
    """Divide items into parts of about one size, or of about as many groups."""
    groups = items["_group_key"].combine_chunks()
    if groups.null_count == len(groups):
        yield from _slices(items.sort_by("_seq"), parts)
        return
    coded = pc.dictionary_encode(groups)
    own = pa.array(range(len(coded.dictionary), len(coded.dictionary) + len(groups)), pa.int64())
    # An item without a group is one by itself.
    together = pc.coalesce(coded.indices.cast(pa.int64()), own)
    part = pc.subtract(together, pc.multiply(pc.divide(together, parts), parts))
    order = [(name, "ascending") for name in ("_part", "_group_key", "_seq")]
    placed = items.append_column("_part", part).sort_by(order)
    counts = pc.value_counts(placed["_part"])
    first = 0
    for count in counts.field("counts").to_pylist():
        yield placed.slice(first, count).drop_columns("_part")
        first += count


def _slices(items: pa.Table, parts: int) -> Iterator[pa.Table]:
    size = max(1, -(-items.num_rows // parts))
    for first in range(0, items.num_rows, size):
        yield items.slice(first, size)
