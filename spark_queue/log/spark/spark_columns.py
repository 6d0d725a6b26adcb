"""Columns of a log in a session of Spark, of which its queue may not know all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from spark_queue.log.delta import table_properties
from spark_queue.log.heads import Head, to_json
from spark_queue.log.schema import HEAD, META_LANE, foreign_names, is_item_log, later_of


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
            added = StructType.fromJson(json.loads(json.dumps({"type": "struct", "fields": new})))
            said.append(f"ALTER TABLE {table} ADD COLUMNS ({added.toDDL()})")
        if listed := [f"'{name}' = '{value}'" for name, value in wanted.items() - known.items()]:
            said.append(f"ALTER TABLE {table} SET TBLPROPERTIES ({', '.join(listed)})")
        return said


def missing(rows: DataFrame) -> list[tuple[str, str]]:
    """Return what an item log or a status log of an older format has not, with types."""
    there = set(rows.columns)
    return [(name, kind) for name, kind in later_of(there).kinds if name not in there]


#: The columns of a head's row.
_OF_HEADS = pa.schema(
    [("_gen", pa.int32()), ("_step", pa.int64()), ("_kind", pa.string()), ("_body", pa.string())]
)


def with_head(rows: pa.Table | None, head: Head) -> pa.Table:
    """Return the rows of a step with the row of its head, whose other columns are null."""
    line = pa.Table.from_pylist(
        [{"_gen": META_LANE, "_step": head.step, "_kind": HEAD, "_body": to_json(head)}],
        schema=_OF_HEADS,
    )
    if rows is None:
        return line
    step = pa.repeat(pa.scalar(head.step, pa.int64()), rows.num_rows)
    others = [name for name in rows.column_names if name != "_step"]
    rows = rows.select(others).append_column("_step", step)
    whole = pa.concat_tables([rows, line], promote_options="default")
    return whole.cast(pa.schema([field.with_nullable(True) for field in whole.schema]))
