"""Rows of files, with the types that a queue has for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql.types import StructType

from spark_queue.delta.schema import OPTIONAL_COLUMNS
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_files(spark: SparkSession, path: str, kind: str, schema: StructType) -> DataFrame:
    """Read files as rows of a queue.

    CSV and JSON have no types of their own, so values are read as what the queue has; one that
    does not fit fails the read.

    Raises
    ------
    InvalidArgumentError
        When there are no such files.
    SchemaMismatchError
        When a column is missing, or the queue has no such column.
    """
    names = _columns(spark, path, kind)
    if kind == "parquet":
        return spark.read.parquet(path)
    known = {field.name: field for field in (*schema.fields, *OPTIONAL_COLUMNS.fields)}
    for name in schema.names:
        if name not in names:
            raise SchemaMismatchError(name, f"is missing; the files have {', '.join(names)}")
    for name in names:
        if name not in known:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")
    # Without this, a value that does not parse is read as null, and enqueued.
    reader = spark.read.option("mode", "FAILFAST").schema(StructType([known[n] for n in names]))
    if kind == "json":
        return reader.json(path)
    return reader.option("header", True).option("enforceSchema", False).csv(path)


def _columns(spark: SparkSession, path: str, kind: str) -> list[str]:
    try:
        return spark.read.format(kind).option("header", True).load(path).columns
    except AnalysisException as exc:
        why = str(exc).splitlines()[0]
        raise InvalidArgumentError(f"files {path!r} cannot be read as {kind}: {why}") from exc
