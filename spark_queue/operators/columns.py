"""The columns that a caller names: checked before the plan, and carried under private names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.checks import is_positive
from spark_queue.errors import InvalidArgumentError, did_you_mean

#: One column or several, by name or as expressions.
Columns = str | Column | Sequence[str | Column]

#: Columns of our own start with this, so that none is mistaken for one of the caller's.
PRIVATE = "__spark_queue_"


def private(name: str) -> str:
    """Return the name under which a column of our own is carried."""
    return PRIVATE + name


def listed(df: DataFrame, what: str, given: Columns | None) -> list[Column]:
    """Return the columns that an argument names.

    Raises
    ------
    InvalidArgumentError
        When it names none, or one that the frame does not have.
    """
    if given is None or (isinstance(given, Sequence) and not given):
        raise InvalidArgumentError(f"{what} is {given!r}: name a column, or several")
    several = [given] if isinstance(given, str | Column) else list(given)
    return [_column(df, what, one) for one in several]


def one(df: DataFrame, what: str, given: str | Column) -> Column:
    """Return the one column that an argument names.

    Raises
    ------
    InvalidArgumentError
        When it is not one, or the frame does not have it.
    """
    if not isinstance(given, str | Column):
        raise InvalidArgumentError(f"{what} is {given!r}: name one column")
    return _column(df, what, given)


def carried(df: DataFrame, what: str, given: Columns) -> tuple[DataFrame, list[str]]:
    """Add the columns that an argument names under private names, and return these."""
    columns = {private(f"{what}_{n}"): c for n, c in enumerate(listed(df, what, given))}
    return df.withColumns(columns), list(columns)


def known(keys: Sequence[Column]) -> Column:
    """Tell whether a key is one: none of its parts is null."""
    return all_of(key.isNotNull() for key in keys)


def all_of(conditions: Iterable[Column]) -> Column:
    """Tell whether every one of some conditions holds."""
    return reduce(and_, conditions)


def has(df: DataFrame, name: str) -> bool:
    """Tell whether a frame has a column, in any case, as Spark finds it."""
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


def require_columns(df: DataFrame, what: str, names: Sequence[str]) -> None:
    """Raise where a frame that goes with another lacks columns.

    Raises
    ------
    InvalidArgumentError
        It names the frame and the first column that is missing.
    """
    for name in names:
        if not has(df, name):
            raise InvalidArgumentError(
                f"{what} has no column {name!r}{did_you_mean(name, df.columns)}"
            )


def require_at_least_one(what: str, value: int) -> None:
    """Raise where a count is below 1.

    Raises
    ------
    InvalidArgumentError
        It names the count and its value.
    """
    if value < 1:
        raise InvalidArgumentError(f"{what} is {value!r}: it must be at least 1")


def require_positive(what: str, values: Mapping[str, float]) -> None:
    """Raise where one of some named numbers is not above 0 and finite.

    Raises
    ------
    InvalidArgumentError
        It names the number and its value.
    """
    for name, value in values.items():
        if not is_positive(value):
            raise InvalidArgumentError(f"{what} of {name!r} is {value!r}: it must be above 0")


def _column(df: DataFrame, what: str, given: str | Column) -> Column:
    if isinstance(given, Column):
        return given
    if has(df, given):
        return F.col(f"`{given}`")
    if has(df, given.split(".")[0]):
        return F.col(given)
    raise InvalidArgumentError(
        f"{what}: there is no column {given!r}{did_you_mean(given, df.columns)}"
    )
