"""Checks before a query starts."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    TimestampType,
)

from spark_queue.errors import (
    InvalidArgumentError,
    SchemaMismatchError,
    SetupError,
    UnsafeSessionError,
)
from spark_queue.operators.key_columns import require_frame
from spark_queue.session import STREAMING_CONF
from spark_queue.streaming.processor import plain_of, require_no_keys
from spark_queue.streaming.stored import stored_state

_WHOLE = (ByteType, ShortType, IntegerType, LongType)


def require_state_store(spark: SparkSession) -> None:
    """Raise where the session keeps state in a way that the operators cannot use.

    Raises
    ------
    UnsafeSessionError
        It names the setting and the value that it needs.
    """
    for setting, wanted in STREAMING_CONF.items():
        # Spark takes a default that we name for a value, and refuses one that is none.
        found = spark.conf.get(setting, None)
        if found != wanted:
            raise UnsafeSessionError(
                setting,
                f"it is {found!r}, the operators on streams need {wanted!r}; set both settings of "
                "spark_queue.streaming.STREAMING_CONF, in a newSession() where other queries need "
                "other values",
            )


def require_operators(arrivals: DataFrame) -> None:
    """Raise where this Spark has no stateful operators in Python that the library can use.

    Raises
    ------
    SetupError
        It names the version of Spark, and the one that is needed.
    """
    if not hasattr(arrivals.groupBy(), "transformWithState"):
        raise SetupError(
            f"the operators on streams need Spark 4.1 or newer, this is "
            f"{arrivals.sparkSession.version}, which has no transformWithState in Python: install "
            "pyspark 4.1 or newer, or use spark_queue.operators in foreachBatch"
        )


def require_streaming(what: str, df: object) -> None:
    """Raise where something is no stream.

    Raises
    ------
    InvalidArgumentError
        It names the argument, and the operators for frames that are none; or a column that is there
        twice, or named as those of operators are.
    """
    require_frame(what, df)
    if isinstance(df, DataFrame) and not df.isStreaming:
        raise InvalidArgumentError(
            f"{what} is no stream: read it with spark.readStream, or use spark_queue.operators"
        )


def require_same_type(what: str, here: DataType, there: DataType) -> None:
    """Raise where keys of two frames would not compare.

    Raises
    ------
    SchemaMismatchError
        It names the key and both types.
    """
    if here != there:
        raise SchemaMismatchError(
            what,
            f"is {here.simpleString()} in one frame and {there.simpleString()} in the other: cast",
        )


def require_sequence(what: str, kind: DataType) -> None:
    """Raise where a column cannot be a sequence.

    Raises
    ------
    SchemaMismatchError
        It names the column and its type.
    """
    if not isinstance(kind, (*_WHOLE, TimestampType)):
        raise SchemaMismatchError(
            what, f"is {kind.simpleString()}: a sequence is a whole number or a timestamp"
        )


def require_time(what: str, kind: DataType) -> None:
    """Raise where a column is no time.

    Raises
    ------
    SchemaMismatchError
        It names the column and its type.
    """
    if not isinstance(kind, TimestampType):
        raise SchemaMismatchError(what, f"is {kind.simpleString()}: a time is a timestamp")


def buckets_of(spark: SparkSession, checkpoint: str | None, buckets: int, oldest: int) -> int:
    """Return the number of buckets: the state's, else the wanted one.

    Raises
    ------
    InvalidArgumentError
        When keys would not be found in the state by their texts; it names the format.
    """
    state = None if checkpoint is None else stored_state(spark, checkpoint)
    if state is None:
        return buckets
    if oldest > 1:
        older = state.where(f"value.format < {oldest}").select("value.format", "value.body")
        for written, body in older.collect():
            require_no_keys(written, plain_of(written, body))
    row = state.select("value.buckets").head()
    return buckets if row is None else int(row[0])
