"""Checks and private names of the columns that a caller names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions as F, types as T

# Spark 3.5 has no such type: its import is told by the version that is there.
from pyspark.sql.types import VariantType

from spark_queue.checks import require_weights
from spark_queue.errors import InvalidArgumentError, SchemaMismatchError, did_you_mean
from spark_queue.wording import line_of

#: One column or several, by name or as expressions.
Columns = str | Column | Sequence[str | Column]

#: Columns of our own start with this, so that none is mistaken for one of the caller's.
PRIVATE = "__spark_queue_"

#: How Spark names a column that says how to sort.
_SORTED = re.compile(r" (ASC|DESC) NULLS (FIRST|LAST)$")


def private(name: str) -> str:
    """Return the name under which a column of our own is carried."""
    return PRIVATE + name


def plain_column(name: str) -> Column:
    """Return the column of a name, in which nothing is syntax."""
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")


def all_columns(df: DataFrame) -> list[Column]:
    """Return the columns of a frame."""
    return [plain_column(name) for name in df.columns]


def require_frame(what: str, df: object) -> None:
    """Raise where something is no frame, or has a column that an operator could not keep.

    Raises
    ------
    InvalidArgumentError
        It names the argument, or the column.
    """
    if not isinstance(df, DataFrame):
        raise InvalidArgumentError(f"{what} is a {type(df).__name__}: give it a DataFrame of Spark")
    seen: set[str] = set()
    for name in df.columns:
        lower = name.lower()
        if lower.startswith(PRIVATE):
            raise InvalidArgumentError(
                f"{what} has a column {name!r}, and names of columns that operators make start "
                f"with {PRIVATE!r}: rename it"
            )
        if name in seen or (lower in seen and not _is_case_sensitive(df)):
            raise InvalidArgumentError(f"{what} has the column {name!r} twice: rename one")
        seen |= {name, lower}


def require_batch(what: str, df: object) -> None:
    """Raise where something is no frame that an operator on frames takes.

    Raises
    ------
    InvalidArgumentError
        As :func:`require_frame`, or when it is a stream.
    """
    require_frame(what, df)
    if isinstance(df, DataFrame) and df.isStreaming:
        raise InvalidArgumentError(
            f"{what} is a stream: use spark_queue.streaming, or a batch of it in foreachBatch"
        )


def resolve_columns(df: DataFrame, what: str, given: Columns | None) -> list[Column]:
    """Return the columns that an argument names.

    Raises
    ------
    InvalidArgumentError
        When it names none, or one that the frame does not have.
    """
    if isinstance(given, str | Column):
        return [one(df, what, given)]
    if not isinstance(given, list | tuple) or not given:
        raise InvalidArgumentError(f"{what} is {given!r}: name a column, or several")
    return [one(df, what, column) for column in given]


def one(df: DataFrame, what: str, given: str | Column) -> Column:
    """Return the one column that an argument names.

    Raises
    ------
    InvalidArgumentError
        When it is not one, or the frame does not have it.
    """
    if isinstance(given, Column):
        return given
    if not isinstance(given, str):
        raise InvalidArgumentError(f"{what} is {given!r}: name one column")
    if has(df, given):
        return plain_column(given)
    if has(df, given.split(".")[0]):
        return F.col(given)
    raise InvalidArgumentError(
        f"{what}: there is no column {given!r}{did_you_mean(given, df.columns)}"
    )


def fields_of(df: DataFrame, what: str, columns: Sequence[Column]) -> list[T.StructField]:
    """Return the names and types of columns.

    Raises
    ------
    InvalidArgumentError
        When one cannot be computed of the frame's rows, each by itself.
    """
    found = _analyze(what, lambda: df.select("*", *columns))
    return found.fields[-len(columns) :]


def keys_of(
    df: DataFrame, what: str, given: Columns | None
) -> tuple[list[Column], list[T.StructField]]:
    """Return the columns of a key, with their names and types.

    Raises
    ------
    InvalidArgumentError
        As :func:`resolve_columns` and :func:`fields_of`.
    SchemaMismatchError
        When a type has more than one equality, or none; it names the column.
    """
    columns = resolve_columns(df, what, given)
    fields = fields_of(df, what, columns)
    for field in fields:
        _require_equality(field)
    return columns, fields


def order_of(df: DataFrame, given: Columns | None) -> list[Column]:
    """Return the columns that rows are ordered by.

    Raises
    ------
    InvalidArgumentError
        As :func:`resolve_columns`, or when rows cannot be ordered by one.
    """
    columns = resolve_columns(df, "order_by", given)
    _analyze("order_by", lambda: df.sort(*columns))
    return columns


def require_ascending(df: DataFrame, order: Sequence[Column]) -> None:
    """Raise where an order is more than columns.

    Raises
    ------
    InvalidArgumentError
        When it says how to sort.
    """
    for field in fields_of(df, "order_by", order):
        if _SORTED.search(field.name):
            raise InvalidArgumentError(
                f"order_by has {field.name!r}; with skewed it must be ascending: name the column"
            )


def add_key_columns(
    df: DataFrame, what: str, given: Columns
) -> tuple[DataFrame, list[str], list[T.StructField]]:
    """Add the columns of a key under private names; return these, and what the columns are."""
    columns, fields = keys_of(df, what, given)
    named = {private(f"{what}_{n}"): column for n, column in enumerate(columns)}
    return df.withColumns(named), list(named), fields


def is_complete(keys: Sequence[Column]) -> Column:
    """Whether a key is one: none of its parts is null."""
    return all_of(key.isNotNull() for key in keys)


def all_of(conditions: Iterable[Column]) -> Column:
    """Whether every one of some conditions holds."""
    return reduce(and_, conditions)


def has(df: DataFrame, name: str) -> bool:
    """Whether a frame has a column, in any case, as Spark finds it."""
    return name.lower() in {column.lower() for column in df.columns}


def require_free(df: DataFrame, name: str) -> None:
    """Raise where a frame has a column that an operator adds.

    Raises
    ------
    InvalidArgumentError
        It names the column.
    """
    if has(df, name):
        raise InvalidArgumentError(f"the frame has a column {name!r}: rename it")


def require_beside(what: str, df: DataFrame, keys: Sequence[T.StructField]) -> None:
    """Raise where a frame that goes with another has not the keys of that.

    Raises
    ------
    InvalidArgumentError
        As :func:`require_batch`, or when a column is missing; it names the first.
    SchemaMismatchError
        When a key has a type that does not compare; it names the column and both types.
    """
    require_batch(what, df)
    for key in keys:
        there = field_named(df, what, key.name)
        _require_equality(there)
        if not _is_alike(key.dataType, there.dataType):
            types = (there.dataType.simpleString(), key.dataType.simpleString())
            raise SchemaMismatchError(
                key.name, f"is {types[0]} in {what}, and {types[1]} in the frame: cast one of them"
            )


def field_named(df: DataFrame, what: str, name: str) -> T.StructField:
    """Return a column of a frame that goes with another, in any case.

    Raises
    ------
    InvalidArgumentError
        When it is missing; it names the frame and the column.
    """
    for field in df.schema.fields:
        if field.name.lower() == name.lower():
            return field
    raise InvalidArgumentError(f"{what} has no column {name!r}{did_you_mean(name, df.columns)}")


def require_number(what: str, kind: T.DataType) -> None:
    """Raise where a column is no number.

    Raises
    ------
    SchemaMismatchError
        It names the column and its type.
    """
    if not isinstance(kind, T.NumericType):
        raise SchemaMismatchError(what, f"is {kind.simpleString()}, not a number")


def require_shares(weights: Mapping[str, float] | None, keys: int) -> None:
    """Raise where weights do not say how many turns the keys of one column get.

    Raises
    ------
    InvalidArgumentError
        It names the weight.
    """
    if weights is None:
        return
    require_weights(weights, InvalidArgumentError)
    if weights and keys > 1:
        raise InvalidArgumentError("weights name keys of one column; the key has several")


def _analyze(what: str, make: Callable[[], DataFrame]) -> T.StructType:
    try:
        return make().schema
    except AnalysisException as exc:
        raise InvalidArgumentError(
            f"{what} cannot be computed of the frame: {line_of(exc)}"
        ) from exc


def _require_equality(field: T.StructField) -> None:
    odd = _without_equality(field.dataType)
    if odd is None:
        return
    hint = (
        "texts that differ count as equal there; take its bytes as they are, by "
        "F.collate(column, 'UTF8_BINARY'), or F.lower of that"
        if isinstance(odd, T.StringType)
        else "name the part of it that makes two rows the same"
    )
    raise SchemaMismatchError(field.name, f"is {field.dataType.simpleString()}, no key: {hint}")


#: How the names of types of places begin.
_IN_SPACE = ("geometry", "geography")


def _without_equality(kind: T.DataType) -> T.DataType | None:
    """Return the part of a type that does not say which values are the same; None for none."""
    if isinstance(kind, T.StructType):
        return next(filter(None, (_without_equality(f.dataType) for f in kind.fields)), None)
    if isinstance(kind, T.ArrayType):
        return _without_equality(kind.elementType)
    if isinstance(kind, T.StringType):
        return None if kind.isUTF8BinaryCollation() else kind
    is_plain = isinstance(kind, T.AtomicType | T.NullType) and not isinstance(kind, VariantType)
    # Types of space came with Spark 4.1, and have no order.
    has_one = is_plain and not kind.simpleString().startswith(_IN_SPACE)
    return None if has_one else kind


def _is_alike(here: T.DataType, there: T.DataType) -> bool:
    """Whether values of two types compare as what they are, without a cast to a text."""
    if isinstance(here, T.StructType) and isinstance(there, T.StructType):
        pairs = list(zip(here.fields, there.fields, strict=False))
        return len(here) == len(there) and all(
            a.name.lower() == b.name.lower() and _is_alike(a.dataType, b.dataType) for a, b in pairs
        )
    if isinstance(here, T.ArrayType) and isinstance(there, T.ArrayType):
        return _is_alike(here.elementType, there.elementType)
    if isinstance(here, T.NumericType) and isinstance(there, T.NumericType):
        return True
    return T.NullType() in (here, there) or here.simpleString() == there.simpleString()


def _is_case_sensitive(df: DataFrame) -> bool:
    return str(df.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
