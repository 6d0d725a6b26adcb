"""Frames of Spark: of pandas and Arrow, of the user's columns, and as tables of this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from spark_queue import tracing
from spark_queue.columns.arrow.arrow_types import cast, from_pandas, kind_of
from spark_queue.columns.kinds import Field
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError
from spark_queue.extras import is_of
from spark_queue.log.schema import ITEM, OPTIONAL_COLUMNS, QUEUE_COLUMNS, TRACE
from spark_queue.log.spark.spark_log import SENT
from spark_queue.log.spark.spark_types import arrow_schema_of, struct_of
from spark_queue.sql.database import most_rows
from spark_queue.sql.log_rows import TooManyRowsError
from spark_queue.state import spark_frames
from spark_queue.state.store import Store


def user_columns(queue: DataFrame) -> list[str]:
    """Return the names of the user's columns."""
    return [name for name in queue.columns if name not in QUEUE_COLUMNS.names]


def stream(store: Store) -> DataFrame:
    """Return the items that a reader sees as a stream: the user's columns, ``_seq``, ``_step``."""
    rows = store.queue.stream()
    users = [name for name in rows.columns if name not in QUEUE_COLUMNS.names]
    items = rows.where(F.col("_kind") == ITEM)
    return items.where(F.col("_step") > store.registered().since_step).select(
        *users, "_seq", "_step"
    )


#: The setting that Spark names where a driver would get more than it may.
_LIMIT_OF_RESULTS = "spark.driver.maxResultSize"


def frame_of(
    spark: SparkSession, rows: DataFrame | pa.Table, schema: StructType | str | None = None
) -> DataFrame:
    """Return rows as a frame; a table of Arrow with its own columns, or a schema's.

    Over Connect Spark takes a table without rows for one without columns.
    """
    if not isinstance(rows, pa.Table):
        return rows
    given = rows if rows.num_rows else []
    return spark.createDataFrame(given, schema or from_arrow_schema(rows.schema))


def plain(rows: DataFrame) -> DataFrame:
    """Return rows with other names, and times as numbers."""
    return rows.select(*(_plain(field).alias(field.name[1:]) for field in rows.schema))


def _plain(field: StructField) -> Column:
    is_time = isinstance(field.dataType, TimestampType)
    return F.unix_micros(field.name) if is_time else F.col(field.name)


#: Values that are named in a query, so that files are skipped.
_NAMED = 1_000


def having(rows: DataFrame, wanted: DataFrame | pa.Table, name: str) -> DataFrame:
    """Return the rows that have one of some values, which are computed, in a column.

    Where these are not too many the rows stay where they are: they may be all of a log.
    """
    given = wanted.select([name])
    # Values that are here take no job of Spark's to count.
    few = given if isinstance(given, pa.Table) else given.limit(_NAMED + 1).toArrow()
    if few.num_rows <= _NAMED:
        return rows.where(F.col(name).isin(few[name].to_pylist()))
    values = frame_of(rows.sparkSession, given).select(F.col(name).alias("__value"))
    count = given.num_rows if isinstance(given, pa.Table) else values.count()
    is_one = F.col(name) == F.col("__value")
    if count > SENT:
        return rows.join(values, is_one, "left_semi")
    if values.schema["__value"].dataType == LongType():
        return rows.join(F.broadcast(values), is_one, "left_semi")
    # By a number of eight bytes each; two values of one number are told apart among the rest.
    numbers = F.broadcast(values.select(F.xxhash64("__value").alias("__number")))
    near = rows.join(numbers, F.xxhash64(name) == F.col("__number"), "left_semi")
    return near.join(values, is_one, "left_semi")


def seldom_having(rows: DataFrame, wanted: DataFrame | pa.Table, name: str) -> DataFrame:
    """Return the same where hardly any row has one: all others are read in that column alone."""
    if isinstance(wanted, DataFrame):
        found = having(rows.select(name), wanted, name).distinct()
        return having(rows, found.localCheckpoint(), name)
    if wanted.num_rows > _NAMED:
        wanted = having(rows.select(name), wanted, name).distinct().toArrow()
    return having(rows, wanted, name)


def bring(rows: DataFrame, most: int | None) -> pa.Table:
    """Return rows in this process; they are counted first where they may be too many.

    Raises
    ------
    TooManyRowsError
        When there are more than this process takes, or than the session lets a driver get.
    """
    # The driver holds them as well.
    limit = most_rows() // 2
    if (most is None or most > limit) and rows.count() > limit:
        raise TooManyRowsError
    try:
        return rows.toArrow()
    except Exception as exc:
        if _LIMIT_OF_RESULTS in str(exc):
            raise TooManyRowsError from exc
        raise


def of(store: Store, given: object, extra: Sequence[str] = ()) -> DataFrame:
    """Return a frame of Spark with the rows of one of Spark, pandas or Arrow.

    Parameters
    ----------
    store : Store
        The queue; asked for its columns only where the frame is cast to them.
    given : object
        What the caller handed in.
    extra : sequence of str
        Columns of the log that it has as well.

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
    logged = [field for field in struct_of(QUEUE_COLUMNS) if field.name in (*extra, TRACE)]
    wanted = {field.name: field for field in (*logged, *_columns_of(store))}
    fields = _fields_of(given, wanted)
    table = given if isinstance(given, pa.Table) else from_pandas(given, fields)
    for name in table.column_names:
        if name not in wanted:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")
    kinds = StructType([wanted[name] for name in table.column_names])
    columns = [cast(table[i], fields[name]) for i, name in enumerate(table.column_names)]
    rows = pa.Table.from_arrays(columns, table.column_names).cast(arrow_schema_of(kinds))
    return frame_of(store.spark, rows, kinds)


def _columns_of(store: Store) -> list[StructField]:
    """Return the queue's columns, and the optional ones of rows."""
    return [*struct_of(OPTIONAL_COLUMNS), *spark_frames.user_schema(store)]


def _fields_of(given: Any, wanted: Mapping[str, StructField]) -> dict[str, Field]:
    """Return rows' columns with Arrow's types, in which a text has no collation."""
    names = set(given.column_names if isinstance(given, pa.Table) else given.columns)
    struct = StructType([field for name, field in wanted.items() if name in names])
    return {field.name: Field(field.name, kind_of(field.type)) for field in arrow_schema_of(struct)}


def trace(store: Store, given: object, traces: Sequence[str | None], order_by: object) -> pa.Table:
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
    fields = _fields_of(given, {field.name: field for field in _columns_of(store)})
    table = given if isinstance(given, pa.Table) else from_pandas(given, fields)
    tracing.require_one_each(traces, table.num_rows, is_ordered=order_by is not None)
    return table.append_column(TRACE, pa.array(traces, pa.string()))


def require_frame(given: object) -> None:
    """Raise where something is no frame of rows."""
    if isinstance(given, DataFrame) and given.isStreaming:
        raise InvalidArgumentError("rows is a stream: start a query with enqueue_stream")
    if isinstance(given, DataFrame | pa.Table):
        return
    if is_of(given, "pandas") and hasattr(given, "columns"):
        return
    raise InvalidArgumentError(
        f"rows is of type {type(given).__name__}: it must be a frame of Spark, of pandas, or one "
        "that has Arrow's stream; make one with spark.createDataFrame(rows, queue.schema)"
    )
