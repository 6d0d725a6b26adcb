"""The tables of a front's queue, as Spark reads them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from spark_queue.columns import values
from spark_queue.columns.values import bytes_of
from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import ITEM
from spark_queue.log.spark import spark_types
from spark_queue.memory.journal.records import Entry
from spark_queue.overriding import override
from spark_queue.spark.frames import frame_of
from spark_queue.spark.spark_look import SparkLook
from spark_queue.sql.look import newest_rows
from spark_queue.sql.operating import release_claimed
from spark_queue.state import spark_frames
from spark_queue.state.store import Store
from spark_queue.stores.journal_tables import (
    ENTRY_COLUMNS,
    JournalTables,
    Touched,
    by_column,
    entry_of,
)
from spark_queue.stores.ownership import GivenBack
from spark_queue.upkeep.purge_items import drop_generations
from spark_queue.upkeep.spark_upkeep import REWRITER


class SparkTables(JournalTables):
    """Tables of a journaled queue, read by Spark.

    Parameters
    ----------
    store : Store
        The queue, as its first reader sees it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._schema = spark_frames.user_schema(store)
        self.measure = values.measure(self._schema)

    @override
    def values(self, puts: Sequence[Entry[Any]]) -> dict[str, pa.Array]:
        return spark_types.columns_of(by_column(puts, self._schema.names), self._schema)

    @override
    def entries(self, first: int, last: int) -> list[Entry[Any]]:
        size = bytes_of(self._schema).alias("_size")
        found = self._items().where(F.col("_seq").between(first, last))
        found = found.select(*ENTRY_COLUMNS, size, F.struct(*self._schema.names).alias("_item"))
        rows = spark_types.rows_of(found)
        return [entry_of(row, row["_item"], row["_size"]) for row in rows]

    @override
    def next_id(self, first: int) -> int | None:
        found = self._items().where(F.col("_seq") >= first).agg(F.min("_seq")).collect()[0][0]
        return None if found is None else int(found)

    @override
    def generations(self) -> list[tuple[int, int]]:
        items = self._items().where(F.col("_gen") >= 0)
        found = items.groupBy("_gen").agg(F.min("_seq")).collect()
        return sorted((row[1], row[0]) for row in found)

    @override
    def origins(self, passed: int) -> dict[str, int]:
        items = self._items().where((F.col("_seq") > passed) & F.col("_body").isNotNull())
        return {row[0]: row[1] for row in items.select("_body", "_seq").collect()}

    @override
    def last_step(self, seq: int) -> int:
        steps = self._items().groupBy("_step").agg(F.max("_seq").alias("last"))
        found = steps.where(F.col("last") <= seq).agg(F.max("_step")).collect()[0][0]
        return int(found or 0)

    @override
    def ids_after(self, step: int, last: int) -> list[int]:
        items = self._items().where((F.col("_step") > step) & (F.col("_seq") <= last))
        return [row[0] for row in items.select("_seq").collect()]

    @override
    def find_touched(self, place: Store, head: StatusHead) -> list[Touched]:
        newest = newest_rows(SparkLook, place, head, "newest_rows", ("_seq", "_state", "_attempts"))
        return [Touched(*row) for row in newest.collect()]

    @override
    def bytes_of(
        self, place: Store, passed: int, done: Collection[int], back: Collection[int]
    ) -> int:
        items = spark_frames.items(place).where(F.col("_kind") == ITEM)
        found = items.where(F.col("_seq") > passed)
        if done:
            found = found.join(_ids(place, done), "_seq", "left_anti")
        if back:
            before = items.where(F.col("_seq").between(min(back), max(back)))
            found = found.unionByName(before.join(_ids(place, back), "_seq", "left_semi"))
        return int(found.agg(F.sum(bytes_of(self._schema))).collect()[0][0] or 0)

    @override
    def release_claimed(self, place: Store, head: StatusHead) -> GivenBack:
        return release_claimed(SparkLook, place, head)

    @override
    def tidy(self, retention: timedelta | None, archive_to: str | None) -> None:
        if retention is not None:
            archive = archive_to and REWRITER.open_archive(self._store, archive_to)
            drop_generations(self._store, retention, REWRITER, archive or None)
        if not self._store.handle.is_native:
            REWRITER.tidy(self._store)

    def _items(self) -> DataFrame:
        return self._store.queue.read().where(F.col("_kind") == ITEM)


def of(store: Store) -> SparkTables:
    """Return the tables of a queue."""
    return SparkTables(store)


def _ids(place: Store, seqs: Collection[int]) -> DataFrame:
    return frame_of(place.spark, pa.table({"_seq": pa.array(seqs, pa.int64())}))
