"""The text of a key: one for each value, whatever the session, and the same for no two values."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_queue.delta.input.expressions import Expression
from spark_queue.errors import InvalidArgumentError

#: Types whose cast to a text depends on nothing.
_PLAIN = (IntegralType, BooleanType, DateType, TimestampNTZType)

#: The types that have one text, beside strings without a collation and what is made of these.
_WITH_TEXT = (*_PLAIN, DecimalType, BinaryType, TimestampType)

#: Up to so many digits behind the point, a small decimal is not written with an exponent.
_PLAIN_SCALE = 6

_DAY = 86_400_000_000
_HOUR = 3_600_000_000
_MINUTE = 60_000_000
_SECOND = 1_000_000


def require_text(expression: Expression) -> None:
    """Check that a key has a text.

    Raises
    ------
    InvalidArgumentError
        When it is of a type that has none, or that has several; it names the type.
    """
    for part in expression.parts:
        require_text(part)
    if expression.kind is not None:
        _require_text(expression.text, expression.kind)


def is_as_cast(expression: Expression) -> bool:
    """Tell whether the text is that of Spark's own cast, which keys had in format 1."""
    kind = expression.kind
    if isinstance(kind, DecimalType):
        return kind.scale <= _PLAIN_SCALE
    return kind == StringType() or isinstance(kind, _PLAIN)


def text_of(expression: Expression) -> Column:
    """Return the text of a key; NULL where the key is."""
    if expression.kind is None:
        return _framed([text_of(part) for part in expression.parts])
    return _text(F.expr(expression.text), expression.kind)


def _require_text(what: str, kind: DataType) -> None:
    if isinstance(kind, StructType):
        for field in kind:
            _require_text(f"{what}.{field.name}", field.dataType)
    elif isinstance(kind, ArrayType):
        _require_text(f"an element of {what}", kind.elementType)
    elif kind != StringType() and not isinstance(kind, _WITH_TEXT):
        raise InvalidArgumentError(
            f"{what} is {kind.simpleString()}, which has no text that is the same everywhere"
        )


def _text(value: Column, kind: DataType) -> Column:
    if isinstance(kind, StructType):
        fields = [_text(value.getField(f.name), f.dataType) for f in kind]
        return F.when(value.isNotNull(), _framed(fields))
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return F.to_json(F.transform(value, lambda one: _text(one, element)))
    if isinstance(kind, TimestampType):
        return _instant(F.unix_micros(value))
    if isinstance(kind, DecimalType):
        return _decimal(value, kind)
    return F.hex(value) if isinstance(kind, BinaryType) else value.cast("string")


def _framed(parts: list[Column]) -> Column:
    """Write texts as one, which tells where each ends, and what is NULL: as JSON does."""
    return F.to_json(F.array(*parts))


def _decimal(value: Column, kind: DecimalType) -> Column:
    """Write a decimal with all digits of its type.

    Small ones are cast to an exponent in some sessions, and to zeros in others.
    """
    text = value.cast("string")
    if kind.scale <= _PLAIN_SCALE:
        return text
    digits = F.regexp_replace(F.substring_index(text, "E", 1), "[-.]", "")
    sign = F.when(text.startswith("-"), "-").otherwise("")
    plain = F.concat(sign, F.lit("0."), F.lpad(digits, kind.scale, "0"))
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
