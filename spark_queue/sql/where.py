"""Items that an operator selects: by values, Arrow, or plain SQL."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue import checks
from spark_queue.columns import kinds
from spark_queue.columns.arrow import conditions
from spark_queue.columns.arrow.arrow_types import ddl_of
from spark_queue.columns.kinds import Field, Kind
from spark_queue.errors import InvalidArgumentError, did_you_mean
from spark_queue.log.schema import STATES
from spark_queue.sql.file_rows import log_of
from spark_queue.state.store import Store
from spark_queue.wording import shorten

#: Values by column (one, or any of several), an expression over the columns of the status, or a
#: condition in SQL.
Where: TypeAlias = "Mapping[str, object] | pc.Expression | str"


def require_where(where: object, **flags: object) -> None:
    """Check a selection of items, and flags, before anything is read.

    Raises
    ------
    InvalidArgumentError
        When it is no selection, or names no column.
    """
    if isinstance(where, str):
        checks.require_expression("where", where)
    elif not isinstance(where, pc.Expression) and (not isinstance(where, Mapping) or not where):
        raise InvalidArgumentError(
            f"where is {shorten(where)}: it must name columns with their values, such as "
            "{'tenant': 'a', '_seq': [1, 2]}, or be an expression of pyarrow.compute, or SQL"
        )
    for name, value in flags.items():
        checks.require_flag(name, value)


def choose(store: Store, rows: pa.Table, where: Where) -> pa.Table:
    """Return the selected rows of a queue's status."""
    return rows_meant(rows, where, kinds.read(log_of(store, "queue").schema()))


def rows_meant(rows: pa.Table, where: Where, users: Sequence[Field]) -> pa.Table:
    """Return the selected rows.

    Parameters
    ----------
    rows : pyarrow.Table
        The columns of the status.
    where : dict, pyarrow.compute.Expression or str
        Which.
    users : sequence of Field
        What Spark knows of the user's columns, and perhaps of others.

    Raises
    ------
    InvalidArgumentError
        When a column is unknown, or cannot have such a value; it names the column.
    SparkNeededError
        When it is SQL of which it is not plain what Spark makes of it.
    """
    if isinstance(where, str):
        return rows.filter(conditions.is_true(where, _columns_of(rows, users), rows))
    if isinstance(where, Mapping):
        for column, value in where.items():
            known = values_of(rows.schema, column, value)
            rows = rows.filter(pc.is_in(rows[column], known))
        return rows
    try:
        return rows.filter(where)
    except pa.ArrowException as exc:
        first = str(exc).splitlines()[0]
        raise InvalidArgumentError(
            f"where is {where}: {first}; {_column_named(rows.schema)}"
        ) from exc


def _columns_of(rows: pa.Table, users: Sequence[Field]) -> list[Field]:
    known = {field.name: field for field in users}
    return [known.get(one.name) or Field(one.name, Kind(ddl_of(one.type))) for one in rows.schema]


def values_of(columns: pa.Schema, column: str, value: object) -> pa.Array:
    """Return the values of a column that a dictionary names, with the type of the column.

    Raises
    ------
    InvalidArgumentError
        When there is no such column, or it cannot have such a value.
    """
    if column not in columns.names:
        hint = did_you_mean(str(column), columns.names)
        raise InvalidArgumentError(f"where names {shorten(column)}{hint}; {_column_named(columns)}")
    kind = columns.field(column).type
    values = list(value) if _are_several(value) else [value]
    _require_meant(column, values, kind)
    try:
        read = pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as exc:
        raise InvalidArgumentError(f"where[{shorten(column)}] is {shorten(value)}: {exc}") from exc
    _require_same(column, values, read)
    return read


def _require_same(column: str, values: Sequence[object], read: pa.Array) -> None:
    """Refuse values that Arrow cuts: fractions, times of days, numbers as times."""
    if not (pa.types.is_integer(read.type) or pa.types.is_temporal(read.type)):
        return
    for value, kept in zip(values, read.to_pylist(), strict=True):
        if kept is not None and kept != value:
            raise InvalidArgumentError(
                f"where[{shorten(column)}] is {shorten(value)}: the column is "
                f"{ddl_of(read.type)}, which has no such value"
            )


def _require_meant(column: str, values: Sequence[object], kind: pa.DataType) -> None:
    """Refuse values that Arrow would read as others, and unknown states."""
    if pa.types.is_nested(kind):
        raise InvalidArgumentError(
            f"where names {shorten(column)}, which is {ddl_of(kind)}: say in SQL which are meant"
        )
    for value in values:
        if isinstance(value, bytes | bytearray) and not pa.types.is_binary(kind):
            raise InvalidArgumentError(
                f"where[{shorten(column)}] is {shorten(value)}: the column is {ddl_of(kind)}, not "
                "binary"
            )
        if isinstance(value, datetime) and getattr(kind, "tz", None) is not None:
            checks.require_moment(f"where[{shorten(column)}]", value)
        if column == "_state" and value is not None:
            checks.require_choice("where['_state']", value, STATES)


def _are_several(value: object) -> TypeGuard[Collection[object]]:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


def _column_named(columns: pa.Schema) -> str:
    return f"the columns are {', '.join(columns.names)}"
