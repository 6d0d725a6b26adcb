"""Handler on an executor, over one partition's items in order.

A handler runs once for a lease. Should Spark run a task again, the items of the second attempt
get no outcome: whether the first one worked on them is not known, so their lease runs out and they
come back under a new one.

Where a worker died of an item before, handlers run apart, in a child of the worker: then it is
known which item it was, and the others are done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_queue.processing.apart import can_fork
from spark_queue.processing.calling import (
    Apart,
    HandlerCalls,
    called_with_table,
    items_of,
    parts_of,
    table_apart,
)
from spark_queue.processing.handlers import BatchHandler, ItemHandler

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
) -> Runner:
    """Return the function that calls a handler for each item.

    With ``on_failure="block"`` a group stops at its first failure: the items behind it are
    released, uncharged. A rejected item is dead and holds nobody up.
    """
    schema = _arrow_schema(returns)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if _is_second_attempt():
            return
        turns = HandlerCalls(handler, schema, blocks=on_failure == "block")
        for batch in batches:
            items = items_of(batch)
            if apart is not None and can_fork():
                yield from turns.each_apart(items)
                continue
            yield turns.batch_of(items)

    return run


def run_batches(
    handler: BatchHandler[pa.Table], returns: StructType | None, *, apart: Apart | None = None
) -> Runner:
    """Return the function that calls a handler for each Arrow batch.

    Where it raises, every item of the batch failed.
    """
    schema = _arrow_schema(returns)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if _is_second_attempt():
            return
        for batch in batches:
            table = pa.Table.from_batches([batch])
            if apart is None or not can_fork():
                yield called_with_table(handler, table, schema)
                continue
            for part in parts_of(table, apart):
                yield table_apart(handler, part, schema)

    return run


def outcomes(returns: StructType | None) -> StructType:
    """Return the columns of what the functions yield.

    Parameters
    ----------
    returns : StructType, optional
        The columns of ``result``. Without them there is ``unasked`` instead: whether the handler
        gave rows all the same.
    """
    from pyspark.sql.types import (  # noqa: PLC0415 - on the driver, once
        BooleanType,
        LongType,
        StringType,
        StructField,
        StructType,
    )

    last = ("unasked", BooleanType()) if returns is None else ("result", returns)
    columns = [
        ("_seq", LongType()),
        ("outcome", StringType()),
        ("error", StringType()),
        # How many items were in the call that a worker died of, where they were several.
        ("together", LongType()),
        last,
    ]
    return StructType([StructField(name, kind) for name, kind in columns])


def _arrow_schema(returns: StructType | None) -> pa.Schema:
    from spark_queue.delta.tables.spark_types import arrow_schema_of  # noqa: PLC0415 - as above

    return arrow_schema_of(outcomes(returns))


def _is_second_attempt() -> bool:
    from pyspark import TaskContext  # noqa: PLC0415 - there is one on an executor only

    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0
