"""Columns and fields by the names that expressions have for them."""

from __future__ import annotations

from spark_queue.delta.input.kinds import Field, Kind
from spark_queue.delta.input.tokens import Token
from spark_queue.errors import InvalidArgumentError, InvalidExpressionError
from spark_queue.wording import did_you_mean

#: Names that Spark takes for something else, where there is no such column.
_OF_SPARK = (
    *("current_catalog", "current_database", "current_date", "current_path", "current_schema"),
    *("current_time", "current_timestamp", "current_user", "localtime", "localtimestamp"),
    *("all", "any", "default", "distinct", "interval", "select", "session_user", "some", "user"),
)


def may_be_of_spark(token: Token, after: Token) -> bool:
    """Tell whether a name that is no column, followed by another token, may mean more to Spark.

    Views of Spark have more columns of their own, which begin with a low line.
    """
    if token.name().startswith("_"):
        return True
    return token.kind != "quoted" and (token.word in _OF_SPARK or after.kind == "text")


def field_of(kind: Kind, name: str, *, may_be_of_spark: bool = False) -> Field:
    """Return the field of a struct, or the column among columns, of a name.

    Raises
    ------
    InvalidExpressionError
        When there is none.
    InvalidArgumentError
        When there is none and it may be something else to Spark, or when there are several.
    """
    fields = kind.inner if kind.form == "struct" else ()
    shown = f"{name:.100}"
    found = [field for field in fields if field.name.lower() == name.lower()]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidArgumentError(f"{shown} may be any of several columns")
    if may_be_of_spark:
        raise InvalidArgumentError(f"{shown} is no column")
    hint = did_you_mean(name, [field.name for field in fields]) if fields else ""
    raise InvalidExpressionError(f"{shown} is no column{hint}; a text has quotes: '{shown}'")
