"""Does what a handler returned fit the columns of ``returns``? Asked item by item.

Arrow converts more than is wanted: it cuts 1.5 to 1, spells a text into a list, and drops what a
struct does not name. Here a value fits only if it can be read back as it was given.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from spark_queue.columns.arrow.arrow_types import ddl_of
from spark_queue.errors import ResultMismatchError, did_you_mean

#: Python's own class of a column's values, with which nothing needs to be tried.
_PLAIN: Mapping[pa.DataType, type] = {
    pa.int64(): int,
    pa.int32(): int,
    pa.float64(): float,
    pa.string(): str,
    pa.bool_(): bool,
}

_RANGES: Mapping[pa.DataType, range] = {
    pa.int64(): range(-(1 << 63), 1 << 63),
    pa.int32(): range(-(1 << 31), 1 << 31),
}

_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 80


class _Misfit(Exception):  # noqa: N818 - it never leaves this module
    """The first fault of a row."""


def require_fitting(seq: int | None, row: object, columns: pa.StructType) -> None:
    """Raise where a row does not fit its columns: too many, too few, or a value of another type.

    Parameters
    ----------
    seq : int, optional
        The item that the row belongs to, for the error.
    row : object
        What the handler returned.
    columns : pyarrow.StructType
        What it was said to return.

    Raises
    ------
    ResultMismatchError
        With the item, the column, the value and the column's type.
    """
    try:
        _check_row("", row, columns)
    except _Misfit as exc:
        raise ResultMismatchError(seq, str(exc)) from None


def require_columns(given: list[str], columns: pa.StructType) -> None:
    """Raise where a table of results has other columns than it was said to have.

    Raises
    ------
    ResultMismatchError
        With the column.
    """
    try:
        _check_names("", dict.fromkeys(given), columns)
    except _Misfit as exc:
        raise ResultMismatchError(None, str(exc)) from None


def _check_row(prefix: str, row: object, columns: pa.StructType) -> None:
    if not isinstance(row, dict):
        where = f"column {prefix[:-1]!r} is" if prefix else "it is"
        raise _Misfit(f"{where} {_describe(row)}: give a dict of the columns {_names(columns)}")
    _check_names(prefix, row, columns)
    for field in columns:
        _check(f"{prefix}{field.name}", row[field.name], field)


def _check_names(prefix: str, row: Mapping[str, Any], columns: pa.StructType) -> None:
    names = _names(columns)
    for name in row:
        if name not in names:
            column = f"{prefix}{name}"
            hint = did_you_mean(str(name), names)
            raise _Misfit(f"column {column!r} is unknown: returns does not name it{hint}")
    for name in names:
        if name not in row:
            raise _Misfit(f"column {prefix + name!r} is missing; give None where there is no value")


def _check(path: str, value: Any, field: pa.Field) -> None:
    if value is None:
        if not field.nullable:
            raise _Misfit(f"column {path!r} is None, and it must have a {ddl_of(field.type)}")
        return
    if _is_plain(value, field.type):
        return
    if pa.types.is_struct(field.type):
        _check_row(f"{path}.", value, field.type)
    elif not _converts(path, value, field.type):
        kind = ddl_of(field.type)
        raise _Misfit(f"column {path!r} is {_describe(value)}, which does not fit into {kind}")


def _is_plain(value: Any, kind: pa.DataType) -> bool:
    exact = _PLAIN.get(kind)
    if exact is None or value.__class__ is not exact:
        return False
    if exact is int:
        return value in _RANGES[kind]
    return not isinstance(value, str) or value.isascii()


def _converts(path: str, value: Any, kind: pa.DataType) -> bool:
    if _is_lossy(value, kind):
        return False
    if pa.types.is_list(kind) and pa.types.is_nested(kind.value_type):
        for place, element in enumerate(value):
            _check(f"{path}[{place}]", element, kind.value_field)
    try:
        pa.array([value], kind)
    except Exception:  # noqa: BLE001 - Arrow's own errors, and those of what it calls
        return False
    return True


def _is_lossy(value: Any, kind: pa.DataType) -> bool:
    """Whether Arrow would take a value, and make another one of it."""
    if pa.types.is_list(kind):
        if not hasattr(value, "__len__") or isinstance(value, (str, bytes, Mapping)):
            return True
        odd = _odd_classes(kind.value_type)
        # As a rule no element is of such a class; there are too many to look at each twice.
        if not any(issubclass(found, odd) for found in set(map(type, value))):
            return False
        return any(_is_lossy(element, kind.value_type) for element in value)
    if pa.types.is_integer(kind):
        return isinstance(value, float) and not value.is_integer()
    return isinstance(value, _odd_classes(kind))


def _odd_classes(kind: pa.DataType) -> tuple[type, ...]:
    """Return the classes of which Arrow takes values that are not of the type."""
    if pa.types.is_integer(kind):
        return (float,)
    if pa.types.is_floating(kind):
        return (bool,)
    if pa.types.is_temporal(kind):
        return (int, float)
    return (object,) if pa.types.is_list(kind) else ()


def _names(columns: pa.StructType) -> list[str]:
    return [field.name for field in columns]


def _describe(value: object) -> str:
    return f"{_shown.repr(value)} ({type(value).__name__})"
