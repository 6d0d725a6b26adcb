"""Checks of a user's frame, and the keys computed from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, functions as F
from pyspark.sql.types import StructType

from spark_queue import checks
from spark_queue.columns import expressions, key_rules, kinds
from spark_queue.columns.expressions import Expression
from spark_queue.columns.key_rules import KEYS, PLAIN_SCALE
from spark_queue.columns.kinds import Field, Kind, no_such_type
from spark_queue.config import QueueConfig
from spark_queue.errors import (
    InvalidArgumentError,
    InvalidConfigError,
    SchemaMismatchError,
)
from spark_queue.flow import Rate, rates_by_units, stored_texts, stored_units
from spark_queue.log.log_columns import LogColumn
from spark_queue.log.schema import INPUTS, inputs_of
from spark_queue.log.spark.spark_types import column_named
from spark_queue.rules import pacing
from spark_queue.wording import shorten


def parse_columns(schema: StructType | str, what: str = "schema") -> StructType:
    """Read columns from a schema or from DDL; errors name what they are for.

    Raises
    ------
    InvalidArgumentError
        When it is neither.
    """
    if isinstance(schema, StructType):
        return schema
    checks.require_text(what, schema)
    try:
        parsed = StructType.fromDDL(schema)
    except Exception as exc:
        raise InvalidArgumentError(
            f"{what} is {shorten(schema)}, which is no DDL: {why_no_ddl(str(exc))}"
        ) from exc
    if not isinstance(parsed, StructType):
        raise InvalidArgumentError(
            f"{what} is {shorten(schema)}: name the columns, as in 'path string'"
        )
    return parsed


def why_no_ddl(said: str) -> str:
    """Return Spark's error in one line, with the type that was probably meant."""
    unknown = re.search(r'Unsupported data type "(\w+)"', said)
    if unknown is None:
        return said.strip().split("\n", 1)[0]
    return no_such_type(unknown.group(1).lower())


_DAY = 86_400_000_000
_HOUR = 3_600_000_000
_MINUTE = 60_000_000
_SECOND = 1_000_000


def text_of(expression: Expression) -> Column:
    """Return the text of a key; NULL where the key is."""
    if expression.kind is None:
        return _frame([text_of(part) for part in expression.parts])
    return _text(F.expr(expression.text), expression.kind)


# rule: text of a key
def _text(value: Column, kind: Kind) -> Column:
    if kind.form == "struct":
        fields = [_text(value.getField(f.name), f.kind) for f in kind.inner]
        return F.when(value.isNotNull(), _frame(fields))
    if kind.form == "array":
        element = kind.inner[0].kind
        return F.to_json(F.transform(value, lambda one: _text(one, element)))
    if kind.form == "timestamp":
        return _instant(F.unix_micros(value))
    if kind.digits:
        return _decimal(value, kind.digits[1])
    return F.hex(value) if kind.form == "binary" else value.cast("string")


def _frame(parts: list[Column]) -> Column:
    """Write texts as a JSON array, which tells where each ends and which is NULL."""
    return F.to_json(F.array(*parts))


def _decimal(value: Column, scale: int) -> Column:
    """Write a decimal with all digits of its type.

    Small ones are cast to an exponent in some sessions, and to zeros in others.
    """
    text = value.cast("string")
    if scale <= PLAIN_SCALE:
        return text
    digits = F.regexp_replace(F.substring_index(text, "E", 1), "[-.]", "")
    sign = F.when(text.startswith("-"), "-").otherwise("")
    plain = F.concat(sign, F.lit("0."), F.lpad(digits, scale, "0"))
    return F.when(text.contains("E"), plain).otherwise(text)


def _instant(micros: Column) -> Column:
    """Write an instant as ISO 8601 in UTC; what Spark offers for that asks for the session's zone.

    The quotients are exact: of whole days, and of numbers far below 2 ** 53.
    """
    of_day = F.pmod(micros, F.lit(_DAY))
    day = F.date_from_unix_date(F.round((micros - of_day) / _DAY).cast("int"))
    hour = _digits(F.floor(of_day / _HOUR))
    minute = _digits(F.pmod(F.floor(of_day / _MINUTE), F.lit(60)))
    second = _digits(F.pmod(F.floor(of_day / _SECOND), F.lit(60)))
    rest = _digits(F.pmod(of_day, F.lit(_SECOND)), 6)
    colon = F.lit(":")
    clock = (hour, colon, minute, colon, second, F.lit("."), rest, F.lit("Z"))
    return F.concat(day.cast("string"), F.lit("T"), *clock)


def _digits(number: Column, count: int = 2) -> Column:
    return F.lpad(number.cast("string"), count, "0")


OrderBy = str | Column | list[str | Column] | None

_STATEMENT = re.compile(r";|--|/\*|\b(select|from|with|values|table)\b", re.IGNORECASE)


def of_spark(schema: StructType) -> tuple[Field, ...]:
    """Return the columns of a schema, as what knows nothing of Spark has them."""
    return kinds.from_json(schema.jsonValue())


def require_user_schema(schema: StructType) -> StructType:
    """Check the columns with which a queue is created, and return them.

    Raises
    ------
    SchemaMismatchError
        When a column starts with ``_``, has a dot or a backtick, or is named like an optional
        input, or there is none; or when texts in it have a limited length, which only a write would
        find out.
    """
    kinds.require_columns(of_spark(schema))
    return schema


def require_order(order_by: object) -> None:
    """Check what a frame is to be ordered by.

    Raises
    ------
    InvalidArgumentError
        When it is neither ``None``, nor a column, nor a list of some.
    """
    if order_by is None:
        return
    columns = order_by if isinstance(order_by, list) else [order_by]
    if not columns:
        raise InvalidArgumentError("order_by is []: name a column, or leave it out")
    for column in columns:
        if not isinstance(column, str | Column) or (isinstance(column, str) and not column):
            raise InvalidArgumentError(
                f"order_by is {shorten(order_by)}: it must be a column, or a list of columns"
            )


def require_keys(spark: SparkSession, schema: StructType, config: QueueConfig) -> None:
    """Check that every key of a configuration is an expression over the user's columns.

    Raises
    ------
    InvalidConfigError
        When a key names an unknown column, is more than an expression, or is not the same in every
        session; it names the option.
    """
    empty = spark.createDataFrame([], schema)
    priority = [] if config.priority is None else [("priority", config.priority)]
    for option, text in [*key_rules.of(config), *priority]:
        _require_key(empty, option, text)
    key_rules.require_same_everywhere(of_spark(schema), config)


def _require_key(empty: DataFrame, option: str, text: str) -> None:
    try:
        expression = sql_expression(option, text)
        if option == "priority":
            expression = expression.cast("int")
        _ = empty.select("*", expression.alias(f"_{option}")).schema
    except (AnalysisException, InvalidArgumentError) as exc:
        raise InvalidConfigError(
            f"{option} is {shorten(text)}, which is no expression over the columns "
            f"{', '.join(empty.columns)}: {first_line(exc)}"
        ) from exc


def sql_expression(what: str, text: str) -> Column:
    """Read a SQL expression that may name columns and call functions, and nothing else.

    Raises
    ------
    InvalidArgumentError
        When the text holds a statement, a subquery or a comment, or does not parse.
    """
    checks.require_expression(what, text, kind="a SQL expression")
    found = _STATEMENT.search(checks.QUOTED.sub("''", text))
    if found:
        raise InvalidArgumentError(
            f"{what} is {shorten(text)}: {shorten(found.group())} is not allowed, only an "
            "expression over columns"
        )
    try:
        return F.expr(text)
    except Exception as exc:
        raise InvalidArgumentError(f"{what} is {shorten(text)}: {first_line(exc)}") from exc


#: The column that says why the units of a row are refused.
UNFIT = "_unfit"

#: The queue's columns that a row enters with, and the value where nothing sets one.
UNSET: Mapping[str, float | None] = {
    **dict.fromkeys([*KEYS.values(), "_dedup_hash", "_flow_keys", "_units"]),
    "_priority": 0,
    **{c.name: c.input.default for c in INPUTS.values() if c.input is not None},
}


def add_keys(
    df: DataFrame,
    schema: StructType,
    config: QueueConfig,
    order_by: OrderBy,
    *,
    extra: Sequence[str] = (),
    is_again: bool = False,
) -> DataFrame:
    """Check a frame and add the queue's columns to it: keys, priority, cost and times.

    Those that nothing sets are left out: in all rows they are as in :data:`UNSET`. With ``extra``
    the frame also has these columns of the item log. Where items have units,
    :data:`UNFIT` says of each row why it is to be refused. What were items before may have more
    units than a burst.

    Raises
    ------
    SchemaMismatchError
        When a column is missing, unknown or of another type; it names the column.
    """
    kinds.require_plain(schema.names)
    fields = of_spark(schema)
    _require_fits(df.drop(*extra) if extra else df, fields)
    df = _widen(df, schema)
    ordered = df if order_by is None else _sort(df, order_by)
    given = inputs_of(schema.names).keys() & set(df.columns)
    optional = [_optional(name, one) for name, one in INPUTS.items() if name in given]
    columns = [column_named(name) for name in schema.names]
    return ordered.select(*columns, *_keys_and_units(config, fields, is_again), *optional, *extra)


def _keys_and_units(
    config: QueueConfig,
    fields: Sequence[Field],
    is_again: bool,  # noqa: FBT001 - as its caller says it
) -> Iterator[Column]:
    """Yield what a configuration computes of each row."""
    named = [(name, getattr(config, option)) for option, name in KEYS.items()]
    keys = {name: text_of(expressions.read(text, fields)) for name, text in named if text}
    yield from (key.alias(name) for name, key in keys.items())
    if (key := keys.get("_dedup_key")) is not None:
        yield F.when(key.isNotNull(), F.xxhash64(key)).alias("_dedup_hash")
    if stored_texts(config):
        yield _flow_keys(config, fields)
    if config.priority is not None:
        yield F.coalesce(F.expr(config.priority).cast("int"), F.lit(0)).alias("_priority")
    if stored_units(config):
        yield _units(config)
        yield _unfit(config, fields, is_again=is_again).alias(UNFIT)


def _flow_keys(config: QueueConfig, fields: Sequence[Field]) -> Column:
    texts = [text_of(expressions.read(text, fields)) for text in stored_texts(config)]
    return _frame(texts).alias("_flow_keys")


def _units(config: QueueConfig) -> Column:
    units = [F.expr(text).cast("double") for text in stored_units(config)]
    return F.to_json(F.array(*units)).alias("_units")


def _unfit(config: QueueConfig, fields: Sequence[Field], *, is_again: bool) -> Column:
    """Return why the units of each row are refused; null where they are not."""
    texts = stored_units(config)
    known = None if is_again else config
    return F.coalesce(*(why for text in texts for why in _why_unfit(text, known, fields)))


def _why_unfit(text: str, config: QueueConfig | None, fields: Sequence[Field]) -> Iterator[Column]:
    units = F.expr(text).cast("double")
    is_one = F.coalesce((units > 0) & (units < float("inf")), F.lit(False))
    told = F.coalesce(_number_text(units), F.lit("None"))
    yield F.when(~is_one, F.format_string(pacing.NO_UNITS, F.lit(shorten(text)), told))
    for rate in () if config is None else rates_by_units(config, text):
        most = _burst(rate, fields)
        whose = F.lit(pacing.whose(rate))
        why = F.format_string(pacing.TOO_MANY_UNITS, told, whose, _number_text(most))
        yield F.when(units > most, why)


def _number_text(number: Column) -> Column:
    return F.regexp_replace(number.cast("string"), r"\.0$", "")


def _burst(rate: Rate, fields: Sequence[Field]) -> Column:
    """Return the burst of each row's key; NULL for any number."""

    def of(limit: float | None) -> Column:
        return F.lit(None if limit is None else float(pacing.burst_of(rate, limit))).cast("double")

    if rate.by is None:
        return of(rate.limit)
    key = text_of(expressions.read(rate.by, fields))
    # What has no key has no rate.
    found = F.when(key.isNotNull(), of(rate.limit))
    for name, limit in rate.overrides.items():
        found = F.when(key == name, of(limit)).otherwise(found)
    return found


def _optional(name: str, column: LogColumn) -> Column:
    value, default = F.col(name).cast(column.kind), UNSET[column.name]
    return (value if default is None else F.coalesce(value, F.lit(default))).alias(column.name)


def _require_fits(df: DataFrame, columns: Sequence[Field]) -> None:
    kinds.require_different(df.columns)
    given = {field.name: field.kind for field in of_spark(df.schema)}
    names = [column.name for column in columns]
    for name in names:
        if name not in given:
            raise SchemaMismatchError(
                name, f"is missing; the frame has {', '.join(given) or 'no columns'}"
            )
    inputs = inputs_of(names).items()
    ours = [Field(name, Kind(one.kind)) for name, one in inputs if name in given]
    for column in (*columns, *ours):
        kinds.require_fit(given[column.name], column)
    for name in given.keys() - set(names):
        if name not in INPUTS:
            raise SchemaMismatchError(name, "is not a column of the queue; drop it")


def _widen(df: DataFrame, schema: StructType) -> DataFrame:
    """Return rows with the types of the queue."""
    given = {field.name: field.dataType.simpleString() for field in df.schema}
    widened = {
        field.name: column_named(field.name).cast(field.dataType)
        for field in schema
        if given[field.name] != field.dataType.simpleString()
    }
    return df.withColumns(widened) if widened else df


def _sort(df: DataFrame, order_by: str | Column | list[str | Column]) -> DataFrame:
    columns = order_by if isinstance(order_by, list) else [order_by]
    for column in columns:
        if isinstance(column, str) and column not in df.columns:
            raise InvalidArgumentError(
                f"order_by names {shorten(column)}; the rows have {', '.join(df.columns)}"
            )
    return df.orderBy(*columns)


def first_line(exc: Exception) -> str:
    """Return what an error says, without where: a parser puts an empty line first."""
    return str(exc).strip().split("\n", 1)[0]
