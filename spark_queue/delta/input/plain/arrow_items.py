"""Rows of this process, given as dicts: each value must be one of its column's, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import repeat
from numbers import Integral, Real
from typing import Any

import pyarrow as pa

from spark_queue.delta.input.kinds import Field
from spark_queue.delta.input.measures import misfit
from spark_queue.delta.input.plain.arrow import type_of
from spark_queue.errors import SchemaMismatchError
from spark_queue.wording import shorten


def table(rows: Sequence[object], wanted: Mapping[str, Field], required: Sequence[str]) -> pa.Table:
    """Return rows as a table of the required columns, and of the others that some row has.

    Raises
    ------
    SchemaMismatchError
        When a row is no dict, lacks a column, or has an unknown one or a value of another type.
    """
    for row in rows:
        _require_columns(row, wanted, required)
    named: Sequence[Mapping[str, Any]] = [row for row in rows if isinstance(row, Mapping)]
    used = dict.fromkeys([*required, *(name for row in named for name in row)])
    return pa.table({name: column([row.get(name) for row in named], wanted[name]) for name in used})


def _require_columns(row: object, wanted: Mapping[str, Field], required: Sequence[str]) -> None:
    if not isinstance(row, Mapping):
        raise SchemaMismatchError(
            required[0], f"is missing in {shorten(row)}: a row is a mapping of its columns"
        )
    for name in required:
        if name not in row:
            raise SchemaMismatchError(name, "is missing in the item")
    for name in row:
        if name not in wanted:
            raise SchemaMismatchError(name, "is not a column of the queue")


def column(values: Sequence[Any], field: Field) -> pa.Array:
    """Return the values of one column.

    Raises
    ------
    SchemaMismatchError
        When one is not of its type.
    """
    simple = field.kind.simple
    for value in values:
        # Only what is inside of a value may be required: a row of the log has no values in it.
        if value is not None and not _is_of(value, field):
            raise misfit(value, field.name, simple)
    try:
        return pa.array(values, type_of(field))
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as exc:
        raise SchemaMismatchError(field.name, f"does not fit {simple}: {exc}") from exc


def _is_of(value: Any, field: Field) -> bool:
    if value is None:
        return field.nullable
    kind = field.kind
    if kind.form == "array":
        return isinstance(value, list | tuple) and all(_is_of(v, kind.inner[0]) for v in value)
    if kind.form == "map":
        return isinstance(value, Mapping) and all(map(_is_row, value.items(), repeat(kind.inner)))
    if kind.form == "struct":
        names = [inner.name for inner in kind.inner]
        is_known = isinstance(value, Mapping) and value.keys() <= set(names)
        return is_known and _is_row([value.get(name) for name in names], kind.inner)
    return _CHECKS["decimal" if kind.digits else kind.form](value)


def _is_row(values: Sequence[Any], fields: Sequence[Field]) -> bool:
    return all(map(_is_of, values, fields))


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


#: Whether a value is of a type. To Python a truth is a number, and a time is a day.
_CHECKS: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "binary": lambda value: isinstance(value, bytes | bytearray),
    "boolean": lambda value: isinstance(value, bool),
    "date": lambda value: type(value) is date,
    "timestamp": lambda value: isinstance(value, datetime) and value.tzinfo is not None,
    "timestamp_ntz": lambda value: isinstance(value, datetime) and value.tzinfo is None,
    **dict.fromkeys(["tinyint", "smallint", "int", "bigint"], _is_whole),
    **dict.fromkeys(["float", "double"], _is_number),
    "decimal": lambda value: isinstance(value, Decimal) or _is_whole(value),
}
