"""Times of a frame of Spark that Python cannot name."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, functions as F
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


def signs_of(schema: StructType) -> dict[str, Column]:
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
