"""Text of a key: one for each value, in every session."""

from __future__ import annotations

from pyspark.sql import Column, functions as F

from spark_queue.delta.input.expressions import Expression
from spark_queue.delta.input.key_rules import PLAIN_SCALE
from spark_queue.delta.input.kinds import Kind

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
    """Write texts as one, which tells where each ends, and what is NULL: as JSON does."""
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
