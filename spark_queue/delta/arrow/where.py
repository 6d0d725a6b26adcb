"""Which items an operator means, said without SQL: values of columns, or an expression of Arrow."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.errors import InvalidArgumentError, SparkNeededError, did_you_mean

#: Values by column (one, or any of several), or an expression over the columns of the status.
Where: TypeAlias = "Mapping[str, object] | pc.Expression"


def require_where(where: object) -> None:
    """Check that it is said which items are meant, before anything is read.

    Raises
    ------
    InvalidArgumentError
        When it is nothing of the kind, or names no column.
    SparkNeededError
        When it is SQL.
    """
    if isinstance(where, str):
        why = "say it as columns, {'tenant': 'a'}, or as an expression of pyarrow.compute"
        raise SparkNeededError(f"the SQL {where!r}", why)
    if isinstance(where, pc.Expression):
        return
    if not isinstance(where, Mapping) or not where:
        raise InvalidArgumentError(
            f"where is {where!r}: it must name columns with their values, such as "
            "{'tenant': 'a', '_seq': [1, 2]}, or be an expression of pyarrow.compute"
        )


def meant(rows: pa.Table, where: Where) -> pa.Table:
    """Return the rows that are meant.

    Raises
    ------
    InvalidArgumentError
        When a column is unknown, or cannot have such a value; it names the column.
    """
    if isinstance(where, Mapping):
        for column, value in where.items():
            rows = rows.filter(_have(rows, column, value))
        return rows
    try:
        return rows.filter(where)
    except pa.ArrowException as exc:
        first = str(exc).splitlines()[0]
        raise InvalidArgumentError(f"where is {where}: {first}; {_columns(rows)}") from exc


def _have(rows: pa.Table, column: str, value: object) -> pa.ChunkedArray:
    if column not in rows.column_names:
        hint = did_you_mean(str(column), rows.column_names)
        raise InvalidArgumentError(f"where names {column!r}{hint}; {_columns(rows)}")
    values = list(value) if _are_several(value) else [value]
    try:
        known = pa.array(values, rows.schema.field(column).type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as exc:
        raise InvalidArgumentError(f"where[{column!r}] is {value!r}: {exc}") from exc
    return pc.is_in(rows[column], known)


def _are_several(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


def _columns(rows: pa.Table) -> str:
    return f"the columns are {', '.join(rows.column_names)}"
