"""From rows to the events of a bucket, and from its answers back to rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    MapType,
    StructField,
    StructType,
    TimestampType,
)

from spark_queue.errors import InvalidArgumentError
from spark_queue.operators.columns import Columns, known, listed, one, require_at_least_one
from spark_queue.streaming import checks
from spark_queue.streaming.packing import BUCKET, PACKED, packed, unpacked
from spark_queue.streaming.processor import NUMBER, BucketProcessor
from spark_queue.streaming.rows import ROW
from spark_queue.streaming.rules.events import ARRIVAL, BucketRules

#: Into how many buckets keys are divided. More than cores, so that they spread; few enough that
#: reading and writing each of them costs little beside the rows.
BUCKETS = 64


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
    at_is_a_time: bool = False
    """Whether ``at`` must be a timestamp, and not any sequence."""
    null_is_a_key: bool = False
    """Whether a key that is null in a part is a key like any other."""
    number: Column | None = None
    outcome: Column | None = None

    def events(self, buckets: int, kept: StructType) -> DataFrame:
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
            row = F.struct(*[F.col(f"`{name}`") for name in self.df.columns])
        columns = {
            "at": self._whole("at", self.at),
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
        keys = listed(self.df, f"the key of {self.what}", self.key)
        texts = [_text(key, kind) for key, kind in zip(keys, _key_types(self), strict=True)]
        if len(texts) == 1:
            return texts[0]
        parts = F.struct(*[text.alias(f"part_{n}") for n, text in enumerate(texts)])
        whole = F.to_json(parts, {"ignoreNullFields": "false"})
        if self.null_is_a_key:
            return whole
        return F.when(known(keys), whole)

    def _whole(self, what: str, given: str | Column | None) -> Column:
        """Return a sequence as a whole number, of microseconds where it is a time."""
        if given is None:
            return F.lit(0).cast("long")
        column = one(self.df, f"{what} of {self.what}", given)
        kind = self.df.select(column.alias("whole")).schema["whole"].dataType
        if what == "at" and self.at_is_a_time:
            checks.require_time(f"{what} of {self.what}", kind)
        checks.require_sequence(f"{what} of {self.what}", kind)
        whole = F.unix_micros(column) if isinstance(kind, TimestampType) else column.cast("long")
        missing = F.raise_error(F.lit(f"{what} of {self.what} is null: a sequence has no gaps"))
        return F.coalesce(whole, missing.cast("long"))


def answered(
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
        Into how many buckets the keys are divided.
    checkpoint : str, optional
        Where the query keeps its state, to be looked at before it starts.
    """
    require_at_least_one("buckets", buckets)
    arrivals = streams[0].df
    spark = arrivals.sparkSession
    for stream in streams:
        checks.require_streaming(stream.what, stream.df)
    checks.require_state_store(spark)
    _require_comparable(streams)
    checks.require_same_buckets(spark, checkpoint, buckets)
    events = reduce(
        DataFrame.unionByName, [stream.events(buckets, arrivals.schema) for stream in streams]
    )
    by_bucket = events.mapInArrow(packed, f"{BUCKET} int, {PACKED} binary").groupBy(BUCKET)
    answers = by_bucket.transformWithState(
        statefulProcessor=BucketProcessor(make, buckets),
        outputStructType=f"{PACKED} binary",
        outputMode="append",
        timeMode="None",
    )
    out = StructType([*arrivals.schema.fields, StructField(NUMBER, DoubleType())])
    rows = answers.mapInArrow(unpacked, out)
    added = [] if add is None else [add(F.col(NUMBER))]
    return rows.select(*[F.col(f"`{name}`") for name in arrivals.columns], *added)


def _require_comparable(streams: Sequence[Stream]) -> None:
    keyed = [stream for stream in streams if stream.key is not None]
    first, *others = keyed
    for other in others:
        here, there = _key_types(first), _key_types(other)
        if len(here) != len(there):
            raise InvalidArgumentError(
                f"the key of {first.what} has {len(here)} parts, that of {other.what} {len(there)}"
            )
        for a, b in zip(here, there, strict=True):
            checks.require_same_type(f"the key of {other.what}", a, b)


def _key_types(stream: Stream) -> list[DataType]:
    assert stream.key is not None  # noqa: S101 - for the type checker: they have one
    keys = listed(stream.df, f"the key of {stream.what}", stream.key)
    return [field.dataType for field in stream.df.select(*keys).schema]


def _text(key: Column, kind: DataType) -> Column:
    """Return a key as text, such that different keys have different texts, in any session."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(key).cast("string")
    if isinstance(kind, BinaryType):
        return F.hex(key)
    if isinstance(kind, ArrayType | MapType | StructType):
        return F.to_json(key, {"ignoreNullFields": "false"})
    return key.cast("string")
