"""Checks before a query starts."""

from __future__ import annotations

import json
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    TimestampType,
)

from spark_queue.checks import require_methods, require_text
from spark_queue.errors import (
    InvalidArgumentError,
    SchemaMismatchError,
    SetupError,
    UnsafeSessionError,
)
from spark_queue.operators.key_columns import require_frame
from spark_queue.session import STREAMING_CONF
from spark_queue.streaming.processor import STATE, require_no_keys
from spark_queue.streaming.stream_rules import BucketRules

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


def require_same_keys(
    spark: SparkSession,
    checkpoint: str | None,
    buckets: int,
    make: Callable[[], BucketRules],
    oldest: int,
) -> None:
    """Raise where keys would not be found in a state: by number of buckets, or by their texts.

    Raises
    ------
    InvalidArgumentError
        It names both numbers, or the format of the state.
    """
    state = None if checkpoint is None else stored_state(spark, checkpoint)
    if state is None:
        return
    row = state.select("value.buckets").head()
    if row is not None and row[0] != buckets:
        raise InvalidArgumentError(
            f"the state at {checkpoint!r} has {row[0]} buckets, the operator {buckets}: "
            "their number cannot change; start with a new checkpoint"
        )
    older = state.where(f"value.format < {oldest}").select("value.format", "value.body")
    for written, body in [] if oldest == 1 else older.collect():
        rules = make()
        rules.load({**json.loads(body)["rules"], "counts": {}})
        require_no_keys(written, rules)


def stored_counts(spark: SparkSession, checkpoint: str) -> dict[str, int]:
    """Return what an operator has counted since its query first started.

    Parameters
    ----------
    spark : SparkSession
        The caller's session.
    checkpoint : str
        Where the query keeps its state.

    Returns
    -------
    dict
        By name: rows that passed, were refused or tagged or started, completions that were taken,
        unknown or stale; each operator says which it has. Empty where nothing is stored yet.
    """
    state = stored_state(spark, checkpoint)
    total: dict[str, int] = {}
    for row in () if state is None else state.select("value.counts").collect():
        for name, count in json.loads(row[0]).items():
            total[name] = total.get(name, 0) + count
    return total


def stored_state(spark: SparkSession, checkpoint: str) -> DataFrame | None:
    """Return the state of an operator, a row for each bucket; None where nothing is stored yet."""
    require_methods("spark", spark, "sql")
    require_text("checkpoint", checkpoint)
    # A session knows its state stores only when its streams have been asked for once.
    _ = spark.streams.active
    try:
        frame = spark.read.format("statestore").option("stateVarName", STATE).load(checkpoint)
        _ = frame.schema
    except Exception as exc:
        if _is_empty(exc):
            return None
        raise
    return frame


def _is_empty(exc: Exception) -> bool:
    signs = (
        "STDS_COMMITTED_BATCH_UNAVAILABLE",
        "STDS_FAILED_TO_READ_OPERATOR_METADATA",
        "STDS_NO_PARTITION_DISCOVERED_IN_STATE_STORE",
        "STDS_OFFSET_LOG_UNAVAILABLE",
        "does not exist",
    )
    return any(sign in str(exc) for sign in signs)
