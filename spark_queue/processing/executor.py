"""Handler on an executor, over one partition's items in order.

A handler runs once for a lease. Should Spark run a task again, the items of the second attempt
get no outcome: whether the first one worked on them is not known, so their lease runs out and they
come back under a new one.

Where a worker died of an item before, handlers run apart, in a child of the worker: then it is
known which item it was, and the others are done.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.errors import InvalidConfigError
from spark_queue.processing.apart import can_fork
from spark_queue.processing.calling import (
    HandlerCalls,
    called_with_table,
    items_of,
    parts_of,
    table_apart,
    to_bytes,
)
from spark_queue.processing.handler_types import Apart, BatchHandler, ItemHandler
from spark_queue.processing.outcome_rows import OUTCOMES, batch_of, release

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from spark_queue.config import OnFailure

Runner = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def run_items(
    handler: ItemHandler,
    returns: StructType | None,
    *,
    on_failure: OnFailure = "block",
    apart: Apart | None = None,
    until: float = math.inf,
    most: float = math.inf,
    limit: float = math.inf,
) -> Runner:
    """Return the function that calls a handler for each item.

    With ``on_failure="block"`` a group stops at its first failure: the items behind it are
    released, uncharged. A rejected item is dead and does not stop its group. Items whose turn has
    not come ``until`` an instant, in seconds since the epoch, or within ``most`` seconds of the
    task, are released, too. An item that takes longer than ``limit`` seconds is killed, and has
    failed.
    """
    schema = _arrow_schema(returns)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if _is_second_attempt():
            return
        turns = HandlerCalls(
            handler,
            schema,
            blocks=on_failure == "block",
            is_over=_end(until, most),
            limit=limit,
        )
        for batch in batches:
            items = items_of(batch)
            if (apart is not None or limit < math.inf) and can_fork():
                yield from turns.each_apart(items)
                continue
            yield batch_of([turns.run(item) for item in items], schema)

    return _with_times(run)


def run_batches(
    handler: BatchHandler[pa.Table],
    returns: StructType | None,
    *,
    apart: Apart | None = None,
    until: float = math.inf,
    most: float = math.inf,
) -> Runner:
    """Return the function that calls a handler for each Arrow batch.

    Where it raises, every item of the batch failed. Batches are released as items are.
    """
    schema = _arrow_schema(returns)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if _is_second_attempt():
            return
        is_over = _end(until, most)
        for batch in batches:
            table = pa.Table.from_batches([batch])
            if is_over():
                yield release(table["_seq"].to_pylist(), schema)
                continue
            if apart is None or not can_fork():
                yield called_with_table(handler, table, schema)
                continue
            for part in parts_of(table, apart):
                yield table_apart(handler, part, schema)

    return _with_times(run)


def _end(until: float, most: float) -> Callable[[], bool]:
    """Return what tells whether no further item is to begin, in a task that begins now."""
    last = time.monotonic() + most
    return lambda: time.time() >= until or time.monotonic() >= last


def _with_times(run: Runner) -> Runner:
    """Return a runner that says how long each batch of outcomes took, without the wait for it."""

    def run_timed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = 0.0

        def coming() -> Iterator[pa.RecordBatch]:
            nonlocal began
            for batch in batches:
                began = time.monotonic()
                yield batch

        for outcomes in run(coming()):
            took = pa.scalar((time.monotonic() - began) / max(1, outcomes.num_rows))
            at = outcomes.schema.get_field_index("seconds")
            yield outcomes.set_column(at, "seconds", pa.repeat(took, outcomes.num_rows))
            began = time.monotonic()

    return run_timed


def outcomes(returns: StructType | None) -> StructType:
    """Return the columns of what the functions yield.

    Parameters
    ----------
    returns : StructType, optional
        The columns of ``result``. Without them there is ``unasked`` instead: whether the handler
        gave rows all the same.
    """
    # On the driver, once.
    from pyspark.sql.types import BooleanType, StructField, StructType  # noqa: PLC0415

    from spark_queue.log.spark.spark_types import struct_of  # noqa: PLC0415

    last = ("unasked", BooleanType()) if returns is None else ("result", returns)
    return StructType([*struct_of(OUTCOMES).fields, StructField(*last)])


def _arrow_schema(returns: StructType | None) -> pa.Schema:
    from spark_queue.log.spark.spark_types import arrow_schema_of  # noqa: PLC0415 - as above

    return arrow_schema_of(outcomes(returns))


def _is_second_attempt() -> bool:
    from pyspark import TaskContext  # noqa: PLC0415 - there is one on an executor only

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0


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
    packs = [
        pa.array([to_bytes(part.combine_chunks())], pa.binary()) for part in _parts_of(items, parts)
    ]
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


# rule again: work of a group
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


def require_for_handlers() -> None:
    """Raise where this interpreter lacks a package by which Spark sends items to a handler.

    Spark itself asks when the handler is about to run: by then items are claimed.

    Raises
    ------
    InvalidConfigError
        When pandas or PyArrow is missing, or too old for the installed PySpark.
    """
    from pyspark.sql.pandas import utils  # noqa: PLC0415 - the library loads without Spark

    try:
        utils.require_minimum_pandas_version()
        utils.require_minimum_pyarrow_version()
    except ImportError as exc:
        raise InvalidConfigError(
            f"{sys.executable} cannot run handlers: {exc} pip install 'spark-queue[spark]', "
            "or let PYSPARK_DRIVER_PYTHON name an interpreter that has it"
        ) from exc
