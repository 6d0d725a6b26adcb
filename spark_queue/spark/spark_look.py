"""Questions about the items of a queue, answered by Spark over its tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.types import TimestampType

from spark_queue.columns.columns import first_line, sql_expression
from spark_queue.columns.values import bytes_of
from spark_queue.errors import InvalidArgumentError
from spark_queue.log.schema import CONFIG, ITEM, RENEWAL, user_names
from spark_queue.log.spark import spark_types
from spark_queue.log.spark.spark_types import arrow_schema_of, column_named, struct_of
from spark_queue.overriding import override
from spark_queue.spark.frames import frame_of, plain
from spark_queue.spark.spark_engines import FrameRows, SparkDatabase
from spark_queue.sql.look import CONFIGURED, ENTERED, MOVED, MOVES, VIEWED, QueueLook
from spark_queue.sql.where import Where, values_of
from spark_queue.state import spark_frames
from spark_queue.wording import shorten


class SparkLook(QueueLook[DataFrame]):
    """Views of a queue in Spark; its frames are read when they are used."""

    logs = FrameRows()
    is_lazy = True

    def _start(self) -> SparkDatabase:
        return SparkDatabase(self.store.spark, {})

    @override
    def entries(self, kind: str) -> DataFrame:
        rows = self._up_to(self.store.queue.read(), self.since, self.queue_step)
        rows = rows.where(F.col("_kind") == kind)
        if self.seq is not None:
            rows = rows.where(F.col("_seq") == self.seq)
        own = F.struct(*map(column_named, user_names(self.store.columns())))
        own = own if self.has_values else F.col("_seq")
        return plain(rows.select(*ENTERED, own.alias("_own")))

    @override
    def moves(self) -> DataFrame:
        rows = self._up_to(self.store.status.read(), self.moved_since, self.status_step)
        is_move, is_renewal = (F.col("_kind") == kind for kind in (ITEM, RENEWAL))
        if self.seq is not None:
            is_move &= F.col("_seq") == self.seq
        return plain(rows.where(is_move | is_renewal).select(*MOVES))

    def _up_to(self, rows: DataFrame, since: int, step: int | None) -> DataFrame:
        """Return the rows of the steps that are looked at."""
        rows = rows.where(F.col("_step") > since) if since else rows
        return rows if step is None else rows.where(F.col("_step") <= step)

    @override
    def configs(self) -> DataFrame:
        rows = self._up_to(self.store.status.read(), 0, self.status_step)
        return plain(rows.where(F.col("_kind") == CONFIG).select(*CONFIGURED))

    @override
    def step_rows(self, step: int) -> DataFrame:
        return plain(self.store.status.read().where(F.col("_step") == step).select(*MOVES))

    @override
    def item_sizes(self) -> DataFrame:
        rows = spark_frames.items(self.store).where(F.col("_kind") == ITEM)
        size = bytes_of(spark_frames.user_schema(self.store)).alias("_bytes")
        return plain(rows.select("_seq", "_step", "_enqueued_at", size))

    @override
    def show(self, found: DataFrame, columns: Sequence[str]) -> DataFrame:
        own = ["own.*"] if self.has_values and "own" in found.columns else []
        return found.select(*own, *map(_column, columns))

    @override
    def choose(self, found: DataFrame, where: Where) -> DataFrame:
        return choose(found, where)

    @override
    def find_selected(self, where: Where) -> Any:
        steps = (self.queue_step, self.status_step)
        with SparkLook(self.store, steps=steps, asked=self._asked) as look:
            return look.facts_of(look.choose(look.view("status"), where), ("_seq",))

    @override
    def facts_of(self, found: DataFrame, names: Sequence[str] = MOVED) -> DataFrame:
        return plain(found.select(*names)).localCheckpoint()

    @override
    def evaluate(self, found: DataFrame) -> DataFrame:
        return found.localCheckpoint()

    @override
    def sample(self, found: DataFrame, names: Sequence[str], count: int) -> list[Mapping[str, Any]]:
        shown = found.orderBy("_seq").limit(count)
        if others := [name for name in names if name not in found.columns]:
            own = spark_frames.items(self.store).where(F.col("_kind") == ITEM)
            own = own.select("_seq", *map(column_named, others))
            shown = shown.join(own, "_seq").orderBy("_seq")
        return [*spark_types.rows_of(shown.select(*map(column_named, names)))]

    @override
    def rename(self, found: DataFrame, names: Mapping[str, str], nothing: str | None) -> DataFrame:
        kinds = dict(found.dtypes)
        columns = [
            (F.lit(None).cast(kinds[old]) if new == nothing else F.col(old)).alias(new)
            for new, old in names.items()
        ]
        return found.orderBy("_seq").select(
            *map(column_named, user_names(self.store.columns())), *columns
        )


_KINDS = {field.name: field.dataType for field in struct_of(VIEWED)}


def _column(name: str) -> Column:
    column, kind = name.removeprefix("_"), _KINDS.get(name)
    value = F.timestamp_micros(column) if isinstance(kind, TimestampType) else F.col(column)
    return (value if kind is None else value.cast(kind)).alias(name)


def choose(items: DataFrame, where: Where) -> DataFrame:
    """Return the items that are meant.

    Raises
    ------
    InvalidArgumentError
        When SQL does not parse, is more than an expression, or names no such column; when a column
        cannot have a value; or when it is an expression of Arrow.
    """
    if isinstance(where, Mapping):
        return _having(items, where)
    if not isinstance(where, str):
        raise InvalidArgumentError(
            f"where is {where}, an expression of pyarrow.compute, which Spark does not read: say "
            "it in SQL, or name columns with their values"
        )
    predicate = sql_expression("where", where)
    try:
        return items.where(predicate)
    except AnalysisException as exc:
        raise InvalidArgumentError(
            f"where is {shorten(where)}: {first_line(exc)}; the columns are "
            f"{', '.join(items.columns)}"
        ) from exc


#: Values up to which a condition names each; more are a table, as a call for each takes long.
_NAMED = 1_000

#: The column of such a table.
_VALUE = "__spark_queue_value"


def _having(items: DataFrame, where: Mapping[str, object]) -> DataFrame:
    """Return the items whose columns have certain values."""
    schema = items.schema
    columns = arrow_schema_of(schema)
    for name, value in where.items():
        known, column = values_of(columns, name, value), column_named(name)
        if len(known) > _NAMED:
            table = frame_of(items.sparkSession, pa.table({_VALUE: known}))
            items = items.join(table, column.eqNullSafe(F.col(_VALUE)), "left_semi")
            continue
        kind = schema[name].dataType
        named = [one for one in known.to_pylist() if one is not None]
        literals = [F.lit(_read_written(one)).cast(kind) for one in named]
        is_null = column.isNull() & F.lit(known.null_count > 0)
        items = items.where(F.coalesce(column.isin(literals) | is_null, F.lit(False)))
    return items


def _read_written(value: object) -> object:
    """Return a value as Spark reads it, in any time zone of its session."""
    return value.isoformat() if isinstance(value, datetime) else value
