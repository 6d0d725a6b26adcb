"""Frames that are not Spark's: those of pandas and Arrow become ones of the queue's types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from spark_queue import tracing
from spark_queue.delta.input.plain.arrow import cast
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import OPTIONAL_COLUMNS, TRACE
from spark_queue.delta.tables.spark_types import arrow_schema_of, struct_of
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError


def of(store: Store, given: object) -> DataFrame:
    """Return a frame of Spark with the rows of one of Spark, pandas or Arrow.

    Parameters
    ----------
    store : Store
        The queue; asked for its columns only where the frame is cast to them.
    given : object
        What the caller handed in.

    Raises
    ------
    InvalidArgumentError
        When it is none of these, or a stream.
    SchemaMismatchError
        When a value does not fit the type of its column; it names the column.
    """
    require_frame(given)
    if isinstance(given, DataFrame):
        return given
    table = given if isinstance(given, pa.Table) else _from_pandas(given)
    ours = (*struct_of(OPTIONAL_COLUMNS), StructField(TRACE, StringType()))
    wanted = {field.name: field for field in (*ours, *by_spark.user_schema(store))}
    for name in table.column_names:
        if name not in wanted:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")
    kinds = StructType([wanted[name] for name in table.column_names])
    columns = [_cast(table[i], kinds[i].name, kinds) for i in range(table.num_columns)]
    return store.spark.createDataFrame(pa.Table.from_arrays(columns, table.column_names), kinds)


def traced(given: object, traces: Sequence[str | None], order_by: object) -> pa.Table:
    """Return a table of pandas or Arrow with the trace of each of its rows.

    Raises
    ------
    InvalidArgumentError
        When it is a frame of Spark, which has no order to name its rows by, or there is not one
        trace for each row.
    """
    require_frame(given)
    if isinstance(given, DataFrame):
        raise InvalidArgumentError("trace has one for each row of a frame of Spark: name one trace")
    table = given if isinstance(given, pa.Table) else _from_pandas(given)
    tracing.require_one_each(traces, table.num_rows, is_ordered=order_by is not None)
    return table.append_column(TRACE, pa.array(traces, pa.string()))


def require_frame(given: object) -> None:
    """Raise where something is no frame of rows."""
    if isinstance(given, DataFrame) and given.isStreaming:
        raise InvalidArgumentError("rows is a stream: start a query with enqueue_stream")
    if isinstance(given, DataFrame | pa.Table):
        return
    if type(given).__module__.startswith("pandas.") and hasattr(given, "columns"):
        return
    raise InvalidArgumentError(
        f"rows is of type {type(given).__name__}: it must be a frame of Spark, pandas or Arrow; "
        "make one with spark.createDataFrame(rows, queue.schema)"
    )


def _from_pandas(given: Any) -> pa.Table:
    try:
        return pa.Table.from_pandas(given, preserve_index=False)
    except (pa.ArrowException, ValueError, TypeError) as exc:
        raise InvalidArgumentError(f"the frame of pandas has no Arrow types: {exc}") from exc


def _cast(column: pa.ChunkedArray, name: str, kinds: StructType) -> pa.ChunkedArray:
    kind = arrow_schema_of(StructType([kinds[name]])).field(0).type
    local = pa.types.is_date(column.type) or (
        pa.types.is_timestamp(column.type) and column.type.tz is None
    )
    if pa.types.is_timestamp(kind) and kind.tz and local:
        raise SchemaMismatchError(name, "holds times without an offset; give them a time zone")
    try:
        return cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as exc:
        wanted = kinds[name].dataType.simpleString()
        raise SchemaMismatchError(name, f"does not fit {wanted}: {exc}") from exc
