"""A frame to enqueue, evaluated once: its rows in order, and what is known of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    MapType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_queue.delta.tables import instants
from spark_queue.delta.tables.schema import BOUNDED
from spark_queue.errors import InvalidArgumentError

#: ``monotonically_increasing_id`` keeps the partition above this bit.
_PARTITION_BIT = 33

#: Rows of one step at most, so that a seq never overflows.
_MAX_ROWS = 1 << 40

#: The setting that Spark names where a driver would get more than it may.
_LIMIT_OF_RESULTS = "spark.driver.maxResultSize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A frame that was evaluated once, and what is known of it."""

    rows: DataFrame
    count: int
    has_keys: bool


def evaluate(inputs: DataFrame) -> DataFrame:
    """Evaluate a frame once, as :func:`columns.add_keys` returns it; ``_mid`` is its order."""
    marked = inputs.withColumn("_mid", F.monotonically_increasing_id())
    # By the first job that reads it, which saves one of its own.
    return marked.localCheckpoint(eager=False)


def collect(marked: DataFrame, most: int) -> pa.Table | None:
    """Return the rows of an evaluated frame in their order; ``None`` where they are too much.

    Few rows may be large, too: then the session says so, by its own limit of what a driver gets.

    Raises
    ------
    SchemaMismatchError
        When a value is out of the bounds of its column, as a cost of 0.
    """
    try:
        rows = marked.limit(most + 1).toArrow()
    except Exception as exc:
        if _LIMIT_OF_RESULTS not in str(exc):
            raise
        return None
    if rows.num_rows > most:
        return None
    for column, given in BOUNDED.items():
        given.require(rows[column].to_pylist())
    instants.require_named(rows)
    return rows.sort_by("_mid").drop_columns("_mid")


def stage_rows(marked: DataFrame) -> Stage:
    """Give the rows of an evaluated frame their numbers."""
    unnamed = _unnamed_signs(marked.schema)
    partition = F.shiftright("_mid", _PARTITION_BIT).cast("int").alias("partition")
    facts = (
        marked.groupBy(partition)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count("_dedup_hash").alias("keys"),
            *(F.min(column).alias(f"_least{column}") for column in BOUNDED),
            *(F.max(column).alias(f"_most{column}") for column in BOUNDED),
            *(F.max(sign).alias(f"_unnamed_{name}") for name, sign in unnamed.items()),
        )
        .orderBy("partition")
        .collect()
    )
    for column, given in BOUNDED.items():
        # To Spark NaN is above all numbers.
        given.require(row[f"{end}{column}"] for row in facts for end in ("_least", "_most"))
    for name in unnamed:
        if any(row[f"_unnamed_{name}"] for row in facts):
            raise instants.outside(name)
    rows = marked.withColumn("_pos", _position({r.partition: r.rows for r in facts})).drop("_mid")
    count = sum(row.rows for row in facts)
    if count > _MAX_ROWS:
        raise InvalidArgumentError(f"the frame has {count} rows; one step takes {_MAX_ROWS}")
    has_keys = any(row.keys for row in facts)
    return Stage(rows=rows, count=count, has_keys=has_keys)


def _position(rows_of: dict[int, int]) -> Column:
    """Return each row's place in the frame, from 1 and without gaps."""
    within: Column = F.col("_mid").bitwiseAND((1 << _PARTITION_BIT) - 1) + 1
    offsets = [0] * (max(rows_of) + 1 if rows_of else 1)
    before = 0
    for number, rows in sorted(rows_of.items()):
        offsets[number] = before
        before += rows
    if len(offsets) == 1:
        return within
    partition = F.shiftright("_mid", _PARTITION_BIT).cast("int")
    return within + F.element_at(F.array(*[F.lit(o) for o in offsets]), partition + 1)


def _unnamed_signs(schema: StructType) -> dict[str, Column]:
    """Return by column of times whether a row holds one that Python cannot name."""
    signs = {field.name: _is_unnamed(F.col(f"`{field.name}`"), field.dataType) for field in schema}
    return {name: sign for name, sign in signs.items() if sign is not None}


def _is_unnamed(value: Column, kind: DataType) -> Column | None:
    if isinstance(kind, TimestampType):
        return ~F.unix_micros(value).between(*instants.MICROSECONDS)
    if isinstance(kind, TimestampNTZType | DateType):
        return ~F.year(value).between(1, 9999)
    if isinstance(kind, StructType):
        return _any_of(_is_unnamed(value.getField(one.name), one.dataType) for one in kind)
    if isinstance(kind, ArrayType):
        return _has_unnamed(value, kind.elementType)
    if isinstance(kind, MapType):
        keys = _has_unnamed(F.map_keys(value), kind.keyType)
        return _any_of([keys, _has_unnamed(F.map_values(value), kind.valueType)])
    return None


def _has_unnamed(values: Column, kind: DataType) -> Column | None:
    if _is_unnamed(F.lit(None), kind) is None:
        return None
    return F.exists(values, lambda one: _certain(_is_unnamed(one, kind)))


def _any_of(signs: Iterable[Column | None]) -> Column | None:
    known = [_certain(sign) for sign in signs if sign is not None]
    return reduce(or_, known) if known else None


def _certain(sign: Column | None) -> Column:
    return F.lit(False) if sign is None else F.coalesce(sign, F.lit(False))
