"""Commands that Spark answers: of any queue, wherever it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, cast

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StringType, StructField, StructType

from spark_queue.cli import input_files
from spark_queue.cli.choice import AnyQueue, CommandScope, Format, RowSource, absolute, misfits
from spark_queue.cli.words import VALUE_CHARS, clip
from spark_queue.clock import SystemClock
from spark_queue.config import QueueConfig
from spark_queue.delta_queue import DeltaQueue
from spark_queue.doctor import examine as examination
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, SparkQueueError
from spark_queue.log.addresses import QueueAddress
from spark_queue.log.schema import OPTIONAL_COLUMNS
from spark_queue.log.spark.spark_types import struct_of
from spark_queue.results import Affected, EnqueueResult
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

    from spark_queue.report.finding import Checkup, Thresholds

_RECORD = "_record"

#: What Spark calls the lines that are no JSON, where it looks for columns.
_NO_RECORD = "_corrupt_record"


def read_files(spark: SparkSession, path: str, kind: Format, schema: StructType) -> DataFrame:
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
    if kind is Format.PARQUET:
        _columns(spark, path, kind)
        return _load(spark.read, path, kind)
    # Without this, a value that does not parse is read as null, and enqueued.
    reader = spark.read.option("mode", "FAILFAST")
    return _load(reader.schema(_as_queued(spark, path, kind, schema)), path, kind)


@contextmanager
def explain_misfits(
    spark: SparkSession, path: str, kind: Format, schema: StructType
) -> Iterator[None]:
    """Name the value that does not fit, where reading files fails in the block.

    Raises
    ------
    SchemaMismatchError
        In the place of what Spark raised, where a record of the files is the cause.
    """
    try:
        yield
    except SparkQueueError:
        raise
    except Exception as exc:
        if kind is Format.PARQUET:
            raise
        _raise_misfit(spark, path, kind, _as_queued(spark, path, kind, schema), exc)
        raise


def _raise_misfit(
    spark: SparkSession, path: str, kind: Format, schema: StructType, cause: Exception
) -> None:
    marked = StructType([*schema.fields, StructField(_RECORD, StringType())])
    reader = spark.read.option("columnNameOfCorruptRecord", _RECORD).schema(marked)
    row = _load(reader, path, kind).where(F.col(_RECORD).isNotNull()).first()
    if row is None:
        return
    record = clip(row[_RECORD].strip(), VALUE_CHARS)
    wrong = misfits(kind, schema.names, row[_RECORD], row.asDict())
    if not wrong:
        raise InvalidArgumentError(
            f"files {path!r}: {record!r} is no record of {', '.join(schema.names)}"
        ) from cause
    column, value = next(iter(wrong.items()))
    kind_of_it = schema[column].dataType.simpleString()
    raise SchemaMismatchError(
        column, f"is {kind_of_it} in the queue, and {clip(value)!r} in the record {record!r}"
    ) from cause


def _as_queued(spark: SparkSession, path: str, kind: Format, schema: StructType) -> StructType:
    """Return the columns of text files, with the types that the queue has for them."""
    names = _columns(spark, path, kind)
    known = {field.name: field for field in (*struct_of(OPTIONAL_COLUMNS), *schema.fields)}
    for name in schema.names:
        if name not in names:
            raise SchemaMismatchError(
                name, f"is missing; the files have {', '.join(names) or 'none'}"
            )
    for name in names:
        if name not in known:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")
    return StructType([known[name] for name in names])


def _load(reader: DataFrameReader, path: str, kind: Format) -> DataFrame:
    if kind is Format.PARQUET:
        return reader.parquet(path)
    if kind is Format.JSON:
        return reader.json(path, multiLine=input_files.are_arrays(path))
    return reader.option("header", True).option("enforceSchema", False).csv(path)


def _columns(spark: SparkSession, path: str, kind: Format) -> list[str]:
    try:
        found = _load(spark.read, path, kind).columns
    except AnalysisException as exc:
        why = str(exc).splitlines()[0]
        raise InvalidArgumentError(f"files {path!r} cannot be read as {kind.value}: {why}") from exc
    return [name for name in found if name != _NO_RECORD]


def create(
    scope: CommandScope, name: str, schema: str, config: QueueConfig, *, exist_ok: bool
) -> AnyQueue:
    """Create a queue in the catalog or at a path."""
    place = locate(scope, name)
    return DeltaQueue.create(scope.spark, place, schema, config, exist_ok=exist_ok)


def open_queue(scope: CommandScope, name: str, reader: str | None) -> AnyQueue:
    """Open a queue by Spark, or one of its readers."""
    return scope.reading(name, reader)


def locate(scope: CommandScope, name: str) -> str:
    """Return the name or path of a queue as the library has it."""
    return scope.locate(name)


def drop(scope: CommandScope, place: str, *, dry_run: bool = False) -> Affected | None:
    """Remove a queue, or return what would be removed."""
    return DeltaQueue.drop(scope.spark, place, dry_run=dry_run)


def clone(scope: CommandScope, name: str, to: str) -> AnyQueue:
    """Clone a queue by Spark, and return the clone."""
    return scope.queue(name).clone(scope.locate(to))


def examine(scope: CommandScope, name: str, thresholds: Thresholds) -> Checkup:
    """Find a queue's faults, even where it does not open."""
    address = QueueAddress(locate(scope, name))
    return examination.examine(Store.of(scope.spark, address, SystemClock()), thresholds)


def enqueue(scope: CommandScope, queue: AnyQueue, source: RowSource) -> EnqueueResult[Any]:
    """Add the rows of files or of a table."""
    into = cast("DeltaQueue", queue)
    explained: AbstractContextManager[None] = nullcontext()
    if source.files is None or source.kind is None:
        frame = scope.spark.read.table(str(source.table))
    else:
        found = (scope.spark, absolute(source.files), source.kind, into.schema)
        frame, explained = read_files(*found), explain_misfits(*found)
    with explained:
        return into.enqueue(frame, **source.options)
