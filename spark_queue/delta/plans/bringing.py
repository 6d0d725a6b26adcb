"""Frames of Spark as the texts have them, and as tables of this process."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, TimestampType

from spark_queue.delta.sql.closed import most_rows
from spark_queue.delta.sql.log_rows import TooManyRowsError

#: The setting that Spark names where a driver would get more than it may.
_LIMIT_OF_RESULTS = "spark.driver.maxResultSize"


def frame_of(spark: SparkSession, rows: DataFrame | pa.Table) -> DataFrame:
    """Return rows as a frame."""
    if not isinstance(rows, pa.Table):
        return rows
    # Over Connect a table without rows is taken to have no columns.
    given = rows if rows.num_rows else rows.to_pylist()
    return spark.createDataFrame(given, from_arrow_schema(rows.schema))


def plain(rows: DataFrame) -> DataFrame:
    """Return rows with other names, and times as numbers."""
    return rows.select(*(_plain(field).alias(field.name[1:]) for field in rows.schema))


def _plain(field: StructField) -> Column:
    is_time = isinstance(field.dataType, TimestampType)
    return F.unix_micros(field.name) if is_time else F.col(field.name)


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
