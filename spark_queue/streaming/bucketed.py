"""From rows to the events of a bucket, and back to rows; checks before a query starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, functions as F, types, types as T

from spark_queue.errors import (
    InvalidArgumentError,
    SchemaMismatchError,
    SetupError,
    UnsafeSessionError,
)
from spark_queue.operators.key_columns import (
    Columns,
    all_columns,
    fields_of,
    is_complete,
    keys_of,
    one,
    require_frame,
)
from spark_queue.session import STREAMING_CONF
from spark_queue.streaming.processor import (
    BUCKET,
    NUMBER,
    PACKED,
    ROW,
    BucketProcessor,
    pack,
    plain_of,
    require_no_keys,
    unpack,
)
from spark_queue.streaming.stored import stored_state
from spark_queue.streaming.stream_rules import ARRIVAL, BucketRules

#: Into how many buckets keys are divided. More than cores, so that they spread; few enough that
#: reading and writing the state of each costs little compared with the rows.
BUCKETS = 64

#: Dates and times. Spark 4.0 has no class of them all.
_DATETIME = getattr(types, "DatetimeType", (T.DateType, T.TimestampType, T.TimestampNTZType))

_WHOLE = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


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


def require_same_type(what: str, here: T.DataType, there: T.DataType) -> None:
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


def require_sequence(what: str, kind: T.DataType) -> None:
    """Raise where a column cannot be a sequence.

    Raises
    ------
    SchemaMismatchError
        It names the column and its type.
    """
    if not isinstance(kind, (*_WHOLE, T.TimestampType)):
        raise SchemaMismatchError(
            what, f"is {kind.simpleString()}: a sequence is a whole number or a timestamp"
        )


def require_time(what: str, kind: T.DataType) -> None:
    """Raise where a column is no time.

    Raises
    ------
    SchemaMismatchError
        It names the column and its type.
    """
    if not isinstance(kind, T.TimestampType):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One of the streams that an operator takes in."""

    what: str
    """How the operator calls it."""
    df: DataFrame
    kind: int
    key: Columns | None = None
    """None for rows that go to every bucket."""
    seq: str | Column | None = None
    at: str | Column | None = None
    at_name: str = "at"
    """How the operator calls ``at``."""
    at_is_a_time: bool = False
    """Whether ``at`` must be a timestamp, and not any sequence."""
    null_is_a_key: bool = False
    """Whether a key that is null in a part is a key like any other."""
    number: Column | None = None
    outcome: Column | None = None

    def events(self, buckets: int, kept: T.StructType) -> DataFrame:
        """Return the stream's rows as events, each with its bucket.

        Arrivals are kept as they are, in a column of the type ``kept``, which is null for others.
        """
        key = self._key()
        bucket: Column = (
            F.explode(F.sequence(F.lit(0), F.lit(buckets - 1)))
            if self.key is None
            else F.pmod(F.xxhash64(key), F.lit(buckets)).cast("int")
        )
        row = F.lit(None).cast(kept)
        if self.kind == ARRIVAL:
            row = F.struct(*all_columns(self.df))
        columns = {
            "at": self._whole(self.at_name, self.at),
            "kind": F.lit(self.kind),
            "seq": self._whole("order_by", self.seq),
            "key": key,
            "number": F.lit(0.0) if self.number is None else self.number.cast("double"),
            "outcome": F.lit(None).cast("string") if self.outcome is None else self.outcome,
            ROW: row,
        }
        return self.df.select(
            bucket.alias(BUCKET), *[column.alias(name) for name, column in columns.items()]
        )

    def _key(self) -> Column:
        if self.key is None:
            return F.lit(None).cast("string")
        keys, fields = keys_of(self.df, f"the key of {self.what}", self.key)
        texts = [_text(key, f.dataType) for key, f in zip(keys, fields, strict=True)]
        if len(texts) == 1:
            return texts[0]
        parts = F.struct(*[text.alias(f"part_{n}") for n, text in enumerate(texts)])
        whole = F.to_json(parts, {"ignoreNullFields": "false"})
        if self.null_is_a_key:
            return whole
        return F.when(is_complete(keys), whole)

    def _whole(self, what: str, given: str | Column | None) -> Column:
        """Return a sequence as a whole number, of microseconds where it is a time."""
        if given is None:
            return F.lit(0).cast("long")
        column = one(self.df, f"{what} of {self.what}", given)
        name = f"{what} of {self.what}"
        kind = fields_of(self.df, name, [column])[0].dataType
        if what == "at" and self.at_is_a_time:
            require_time(name, kind)
        require_sequence(name, kind)
        whole = F.unix_micros(column) if isinstance(kind, T.TimestampType) else column.cast("long")
        missing = F.raise_error(
            F.lit(
                f"{name} is null in a row: leave such rows out, by where() on the stream, and "
                "start the query again from its checkpoint"
            )
        )
        return F.coalesce(whole, missing.cast("long"))


def answer(
    streams: Sequence[Stream],
    make: Callable[[], BucketRules],
    *,
    add: Callable[[Column], Column] | None,
    buckets: int,
    checkpoint: str | None,
) -> DataFrame:
    """Return the rows that go out: those of the arrivals, with what the operator says of them.

    Parameters
    ----------
    streams : sequence of Stream
        The arrivals first.
    make : callable
        Makes the rules of a bucket.
    add : callable, optional
        Makes the column to add of what the rules say of a row.
    buckets : int
        Into how many buckets the keys are divided, where no state says it.
    checkpoint : str, optional
        Where the query keeps its state, to be looked at before it starts.
    """
    arrivals = streams[0].df
    spark = arrivals.sparkSession
    require_operators(arrivals)
    require_state_store(spark)
    kinds = _require_comparable(streams)
    oldest = 2 if any(_has_new_text(kind) for kind in kinds) else 1
    buckets = buckets_of(spark, checkpoint, buckets, oldest)
    events = reduce(
        DataFrame.unionByName, [stream.events(buckets, arrivals.schema) for stream in streams]
    )
    by_bucket = events.mapInArrow(pack, f"{BUCKET} int, {PACKED} binary").groupBy(BUCKET)
    answers = by_bucket.transformWithState(
        statefulProcessor=BucketProcessor(make, buckets, oldest),
        outputStructType=f"{PACKED} binary",
        outputMode="append",
        timeMode="None",
    )
    out = T.StructType([*arrivals.schema.fields, T.StructField(NUMBER, T.DoubleType())])
    rows = answers.mapInArrow(unpack, out)
    added = [] if add is None else [add(F.col(NUMBER))]
    return rows.select(*all_columns(arrivals), *added)


def _require_comparable(streams: Sequence[Stream]) -> list[T.DataType]:
    """Raise where the keys of two streams do not compare, and return their types."""
    keyed = [stream for stream in streams if stream.key is not None]
    first, *others = keyed
    here = _key_types(first)
    for other in others:
        there = _key_types(other)
        if len(here) != len(there):
            raise InvalidArgumentError(
                f"the key of {first.what} has {len(here)} parts, that of {other.what} {len(there)}"
            )
        for a, b in zip(here, there, strict=True):
            require_same_type(f"the key of {other.what}", a, b)
    return here


def _key_types(stream: Stream) -> list[T.DataType]:
    assert stream.key is not None  # noqa: S101 - for the type checker: they have one
    _, fields = keys_of(stream.df, f"the key of {stream.what}", stream.key)
    return [field.dataType for field in fields]


def _text(key: Column, kind: T.DataType) -> Column:
    """Return a key as text, such that different keys have different texts, in any session."""
    if isinstance(kind, T.BinaryType):
        return F.hex(key)
    exact = _exact(key, kind)
    if isinstance(kind, T.ArrayType | T.StructType):
        return F.to_json(exact, {"ignoreNullFields": "false"})
    return exact.cast("string")


def _exact(value: Column, kind: T.DataType) -> Column:
    """Return a value that JSON keeps whole: of times it cuts digits, by the zone of the session."""
    if isinstance(kind, T.TimestampType):
        return F.unix_micros(value)
    if isinstance(kind, _DATETIME):
        return value.cast("string")
    if isinstance(kind, T.FractionalType) and not isinstance(kind, T.DecimalType):
        # There are two zeros, which are equal.
        return F.when(value == 0, F.lit(0.0).cast(kind)).otherwise(value)
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda one: _exact(one, kind.elementType))
    if isinstance(kind, T.StructType):
        fields = [_exact(value[f.name], f.dataType).alias(f.name) for f in kind.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    return value


def _has_new_text(kind: T.DataType) -> bool:
    """Whether a key had another text in format 1: times within others were cut by JSON."""
    if isinstance(kind, T.ArrayType):
        return _has_time(kind.elementType)
    return isinstance(kind, T.StructType) and any(_has_time(f.dataType) for f in kind.fields)


def _has_time(kind: T.DataType) -> bool:
    is_time = isinstance(kind, _DATETIME) and not isinstance(kind, T.DateType)
    return is_time or _has_new_text(kind)
