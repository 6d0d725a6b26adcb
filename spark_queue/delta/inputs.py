"""What a user's frame must look like, and the keys that are computed from it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import CharType, DataType, DoubleType, StructType, TimestampType, VarcharType

from spark_queue.config import QueueConfig
from spark_queue.delta.schema import OPTIONAL_INPUTS, QUEUE_COLUMNS
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, SchemaMismatchError

OrderBy = str | Column | list[str | Column] | None

#: Key options of the configuration, the column that each fills, and its type.
_KEYS = (
    ("dedup_key", "_dedup_key", "string"),
    ("fair_key", "_fair_key", "string"),
    ("group_key", "_group_key", "string"),
    ("priority", "_priority", "int"),
)

_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`")
_STATEMENT = re.compile(r";|--|/\*|\b(select|from|with|values|table)\b", re.IGNORECASE)


def require_user_schema(schema: StructType) -> None:
    """Check the columns with which a queue is created.

    Raises
    ------
    SchemaMismatchError
        When a column starts with ``_`` or is named like an optional input, or there is none; or
        when texts in it have a limited length, which only a write would find out.
    """
    if not schema.fields:
        raise InvalidArgumentError("the schema has no columns; a queue needs at least one")
    for field in schema:
        if isinstance(field.dataType, CharType | VarcharType):
            kind = field.dataType.simpleString()
            raise SchemaMismatchError(field.name, f"is {kind}; a queue holds texts as string")
    for name in schema.names:
        if name.startswith("_"):
            raise SchemaMismatchError(name, "names that start with _ belong to the queue; rename")
        if name in OPTIONAL_INPUTS:
            raise SchemaMismatchError(
                name, "is read from the frames that are enqueued; leave it out of the schema"
            )


def require_keys(spark: SparkSession, schema: StructType, config: QueueConfig) -> None:
    """Check that every key of a configuration is an expression over the user's columns.

    Raises
    ------
    InvalidConfigError
        When a key names an unknown column or is more than an expression; it names the option.
    """
    empty = spark.createDataFrame([], schema)
    for option, column, kind in _KEYS:
        text = getattr(config, option)
        if text is None:
            continue
        try:
            expression = sql_expression(option, text).cast(kind)
            _ = empty.select("*", expression.alias(column)).schema
        except (AnalysisException, InvalidArgumentError) as exc:
            raise InvalidConfigError(
                f"{option} is {text!r}, which is no expression over the columns "
                f"{', '.join(schema.names)}: {_first_line(exc)}"
            ) from exc


def sql_expression(what: str, text: str) -> Column:
    """Read a SQL expression that may name columns and call functions, and nothing else.

    Raises
    ------
    InvalidArgumentError
        When the text holds a statement, a subquery or a comment, or does not parse.
    """
    if not text.strip():
        raise InvalidArgumentError(f"{what} is {text!r}: it must be a SQL expression")
    found = _STATEMENT.search(_QUOTED.sub("''", text))
    if found:
        raise InvalidArgumentError(
            f"{what} is {text!r}: {found.group()!r} is not allowed, only an expression over columns"
        )
    try:
        return F.expr(text)
    except Exception as exc:
        raise InvalidArgumentError(f"{what} is {text!r}: {_first_line(exc)}") from exc


def keyed(
    df: DataFrame,
    schema: StructType,
    config: QueueConfig,
    order_by: OrderBy,
    *,
    extra: Sequence[str] = (),
) -> DataFrame:
    """Check a frame and add the queue's columns to it: keys, priority, cost and times.

    With ``extra`` the frame also has these columns of the item log.

    Raises
    ------
    SchemaMismatchError
        When a column is missing, unknown or of another type; it names the column.
    """
    _require_fits(df.drop(*extra), schema)
    ordered = df if order_by is None else _ordered(df, order_by)
    keys = [_key(config, option, column, kind) for option, column, kind in _KEYS]
    optional = [_optional(df, name, column) for name, column in OPTIONAL_INPUTS.items()]
    columns = [F.col(_quoted(name)) for name in schema.names]
    staged = ordered.select(*columns, *keys, *optional, *extra)
    hashed = F.when(F.col("_dedup_key").isNotNull(), F.xxhash64("_dedup_key"))
    return staged.withColumn("_dedup_hash", hashed)


def _key(config: QueueConfig, option: str, column: str, kind: str) -> Column:
    text = getattr(config, option)
    if text is None:
        return F.lit(0 if column == "_priority" else None).cast(kind).alias(column)
    value = F.expr(text).cast(kind)
    return (F.coalesce(value, F.lit(0)) if column == "_priority" else value).alias(column)


def _optional(df: DataFrame, name: str, column: str) -> Column:
    kind = QUEUE_COLUMNS[column].dataType
    value = F.col(name).cast(kind) if name in df.columns else F.lit(None).cast(kind)
    return (F.coalesce(value, F.lit(1.0)) if column == "_cost" else value).alias(column)


def _require_fits(df: DataFrame, schema: StructType) -> None:
    given = {field.name: field.dataType for field in df.schema}
    for field in schema:
        if field.name not in given:
            raise SchemaMismatchError(
                field.name, f"is missing; the frame has {', '.join(given) or 'no columns'}"
            )
        if not _same_type(given[field.name], field.dataType):
            raise SchemaMismatchError(
                field.name,
                f"is {given[field.name].simpleString()}, the queue has "
                f"{field.dataType.simpleString()}; cast it",
            )
    for name in given.keys() - set(schema.names):
        if name not in OPTIONAL_INPUTS:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")
    _require_optional_types(given)


def _require_optional_types(given: dict[str, DataType]) -> None:
    for name in ("available_at", "expires_at"):
        if name in given and not isinstance(given[name], TimestampType):
            raise SchemaMismatchError(name, f"is {given[name].simpleString()}, not a timestamp")
    if "cost" in given and given["cost"].simpleString() not in _NUMBERS:
        raise SchemaMismatchError("cost", f"is {given['cost'].simpleString()}, not a number")


_NUMBERS = {"tinyint", "smallint", "int", "bigint", "float", DoubleType().simpleString()}


def _same_type(a: DataType, b: DataType) -> bool:
    return a.simpleString() == b.simpleString()


def _ordered(df: DataFrame, order_by: str | Column | list[str | Column]) -> DataFrame:
    columns = order_by if isinstance(order_by, list) else [order_by]
    for column in columns:
        if isinstance(column, str) and column not in df.columns:
            raise InvalidArgumentError(
                f"order_by names {column!r}; the frame has {', '.join(df.columns)}"
            )
    return df.orderBy(*columns)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _first_line(exc: Exception) -> str:
    return str(exc).strip().split("\n", 1)[0]
