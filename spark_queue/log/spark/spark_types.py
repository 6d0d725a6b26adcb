"""Values and columns in the types of Spark, and columns of a log that its queue may not know."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, functions as F, types as T
from pyspark.sql.conversion import LocalDataToArrowConversion
from pyspark.sql.pandas.types import to_arrow_schema  # noqa: TID251 - this is the one place

from spark_queue.log.delta import table_properties
from spark_queue.log.heads import Head, step_rows
from spark_queue.log.log_columns import Columns
from spark_queue.log.schema import QUEUE_COLUMNS, foreign_names, is_item_log, later_of

_TYPES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "timestamp": T.TimestampType(),
}


def struct_of(columns: Columns) -> T.StructType:
    """Return columns as a schema of Spark."""
    return T.StructType([T.StructField(name, _TYPES[kind]) for name, kind in columns.kinds])


def arrow_schema_of(schema: T.StructType) -> pa.Schema:
    """Return a schema of Spark as Arrow has it, with instants in UTC."""
    # Before Spark 4.2 they always are, and there is no such argument.
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


#: Types whose values Arrow reads as Spark does.
_PLAIN = (T.BinaryType, T.BooleanType, T.DoubleType, T.IntegerType, T.LongType, T.StringType)


def table(columns: Mapping[str, list[Any]], schema: T.StructType) -> pa.Table:
    """Return columns of values as a table.

    Parameters
    ----------
    columns : mapping
        The values of each column.
    schema : StructType
        What the columns are, by name; it may have more.

    Raises
    ------
    pyarrow.ArrowException, PySparkTypeError, PySparkValueError
        When a value is not of its column's type.
    """
    return pa.table(columns_of(columns, schema))


def columns_of(columns: Mapping[str, list[Any]], schema: T.StructType) -> dict[str, pa.Array]:
    """Return the values of columns; parameters and errors are those of :func:`table`."""
    return {name: column(values, schema[name]) for name, values in columns.items()}


def column(values: list[Any], field: T.StructField) -> pa.Array:
    """Return the values of one column; the errors are those of :func:`table`."""
    if isinstance(field.dataType, _PLAIN):
        return pa.array(values, arrow_schema_of(T.StructType([field])).field(0).type)
    return _convert(values, field)


def _convert(values: Sequence[Any], field: T.StructField) -> pa.Array:
    """Read values as Spark Connect does: times without a zone, rows, what they hold."""
    rows = [(value,) for value in values]
    one = T.StructType([field])
    return LocalDataToArrowConversion.convert(rows, one, use_large_var_types=False).column(0)


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a frame as a process without Spark reads them.

    An instant is in UTC and says so, of any year: ``collect`` gives the time of this process's
    zone, and fails where that has no name, as on the first day of the year 1.
    """
    rows = frame.toArrow().cast(arrow_schema_of(frame.schema))
    return [plain(row, frame.schema) for row in rows.to_pylist()]


def plain(value: Any, kind: T.DataType) -> Any:
    """Return a value that Arrow gives, with dictionaries for its maps."""
    if value is None:
        return None
    if isinstance(kind, T.ArrayType):
        return [plain(one, kind.elementType) for one in value]
    if isinstance(kind, T.MapType):
        return {_key(key, kind.keyType): plain(one, kind.valueType) for key, one in value}
    if isinstance(kind, T.StructType):
        return {part.name: plain(value[part.name], part.dataType) for part in kind}
    return value


def _key(key: Any, kind: T.DataType) -> Any:
    # A dictionary cannot be one, and a row can.
    return Row(**key) if isinstance(kind, T.StructType) else plain(key, kind)


def column_named(name: str) -> Column:
    """Return a column by its name, which may hold any character."""
    return F.col(f"`{name.replace('`', '``')}`")


class SparkColumns:
    """Columns of one table.

    Parameters
    ----------
    properties : callable
        Returns the properties of the table, which may be a query.
    """

    def __init__(self, properties: Callable[[], Mapping[str, str]]) -> None:
        self._properties = properties
        self._known: set[tuple[str, ...]] = set()
        """Columns of which none is foreign: what a queue knows it does not forget."""

    def fit(self, rows: DataFrame) -> DataFrame:
        """Return rows without the columns that the queue does not know.

        What a log of an older format has not is null in them.
        """
        rows = self.drop_foreign(rows)
        nulls = {name: F.lit(None).cast(kind) for name, kind in missing(rows)}
        return rows.withColumns(nulls) if nulls else rows

    def drop_foreign(self, rows: DataFrame) -> DataFrame:
        """Return rows without the columns that the queue does not know."""
        there = tuple(rows.columns)
        if there in self._known:
            return rows
        foreign = foreign_names(self.schema(rows))
        if not foreign:
            self._known.add(there)
        return rows.drop(*foreign)

    def schema(self, rows: DataFrame) -> str:
        """Return the columns of rows, as Spark writes a schema in JSON, the foreign ones marked."""
        schema = rows.schema.json()
        if not is_item_log(schema):
            return schema
        return table_properties.known_columns(schema, self._properties())

    def adding(self, table: str, rows: DataFrame, fields: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the statements that give a table more columns, or make those there the queue's.

        Parameters
        ----------
        table : str
            The table as SQL names it.
        rows : DataFrame
            Its rows.
        fields : sequence of mapping
            The columns, as Spark writes a schema in JSON.
        """
        new = [field for field in fields if field["name"] not in rows.columns]
        known = self._properties()
        wanted = table_properties.with_users(known, [field["name"] for field in fields])
        said = []
        if new:
            added = T.StructType.fromJson(json.loads(json.dumps({"type": "struct", "fields": new})))
            said.append(f"ALTER TABLE {table} ADD COLUMNS ({added.toDDL()})")
        if listed := [f"'{name}' = '{value}'" for name, value in wanted.items() - known.items()]:
            said.append(f"ALTER TABLE {table} SET TBLPROPERTIES ({', '.join(listed)})")
        return said


def missing(rows: DataFrame) -> list[tuple[str, str]]:
    """Return what an item log or a status log of an older format has not, with types."""
    there = set(rows.columns)
    return [(name, kind) for name, kind in later_of(there).kinds if name not in there]


#: The columns of a head's row.
_OF_HEADS = [QUEUE_COLUMNS.arrow.field(name) for name in ("_gen", "_step", "_kind", "_body")]


def with_head(rows: pa.Table | None, head: Head) -> pa.Table:
    """Return the rows of a step with the row of its head, whose other columns are null."""
    given = [] if rows is None else [field.with_nullable(True) for field in rows.schema]
    names = {field.name for field in given}
    lacking = (field for field in _OF_HEADS if field.name not in names)
    return step_rows(pa.schema([*given, *lacking]), head, rows)
