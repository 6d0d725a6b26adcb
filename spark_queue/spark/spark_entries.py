"""Rows of an enqueue as frames of Spark, or in this process where they are few."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions as F

from spark_queue.columns.columns import UNSET
from spark_queue.columns.values import bytes_of
from spark_queue.log.schema import GROUP, ITEM, KEY, META_LANE, QUEUE_COLUMNS, REFUSED, REFUSED_LANE
from spark_queue.log.spark.spark_types import column_named
from spark_queue.overriding import override
from spark_queue.spark.frames import bring, frame_of, having, plain, seldom_having
from spark_queue.sql.decisions import Frame
from spark_queue.sql.entry_rows import (
    BATCH,
    KEYED,
    LINE,
    MEMBER,
    Decided,
    EnqueueState,
    EntryBatch,
    EntryRows,
    Room,
)
from spark_queue.sql.log_rows import TooManyRowsError
from spark_queue.state import spark_frames

#: Rows up to which a batch is decided in this process: their keys are brought, not their values.
_MOST = 1_000_000


class FrameEntries(EntryRows):
    """Rows of a batch and of the item log as frames; see :class:`EntryRows`."""

    @override
    def batch_of(self, frame: Frame, entry: EnqueueState, room: Room) -> EntryBatch:
        stage = frame.stage()
        rows = _batch(stage.rows, entry, room)
        return EntryBatch(
            rows=rows,
            given=rows.select("seq", "given"),
            count=stage.count,
            has_keys=stage.has_keys,
        )

    @override
    def rows_by_number(self, frame: Frame, entry: EnqueueState) -> tuple[DataFrame, int] | None:
        stage = frame.stage()
        if stage.has_keys or not entry.has_one_line(stage.rows.columns):
            return None
        rows = stage.rows.withColumn("_seq", F.col("_pos") + entry.before.last_seq).drop("_pos")
        unset = {name: value for name, value in UNSET.items() if value is not None}
        own = {"_gen": entry.before.gen, "_kind": ITEM, "_enqueued_at": entry.now}
        said = {n: F.lit(value) for n, value in (unset | own).items() if n not in rows.columns}
        # rule again: one line without keys
        return rows.withColumns(said | {"_round": F.col("_seq").cast("double")}), stage.count

    @override
    def keyed_of(self, entry: EnqueueState, batch: EntryBatch) -> Any:
        items = plain(_items(entry).select(*KEYED))
        return seldom_having(items, batch.rows, "dedup_hash").localCheckpoint()

    @override
    def redriven_of(self, entry: EnqueueState, since: int) -> Any:
        items = _items(entry).where((F.col("_step") > since) & F.col("_origin").isNotNull())
        return plain(items.select("_origin", "_seq"))

    @override
    def line_rows(self, entry: EnqueueState) -> Any:
        return plain(_meta(entry, KEY).where(_may_be_ahead(entry)).select(*LINE))

    @override
    def group_rows(self, entry: EnqueueState, groups: Any) -> Any:
        return _of_groups(_meta(entry, GROUP), groups)

    @override
    def members_of(self, entry: EnqueueState, groups: Any) -> Any:
        return _of_groups(_items(entry).where(_may_be_ahead(entry)), groups)

    @override
    def there_of(self, entry: EnqueueState, members: Any) -> Any:
        return having(plain(_items(entry).select("_seq")), members, "seq")

    @override
    def step_rows(self, batch: EntryBatch, decided: Decided, entry: EnqueueState) -> DataFrame:
        items = _beside(batch, decided.items)
        now, columns = F.lit(entry.now), _given_columns(batch)
        # What a step took back waits since the item that it was has.
        since = F.coalesce(columns["_enqueued_at"], now) if "_enqueued_at" in columns else now
        place = {"_priority": F.col("lowest"), "_round": F.col("place")}
        if decided.replacing is not None:
            items, said = _with_chains(items, decided.replacing)
            own_time = [columns["_available_at"]] if "_available_at" in columns else []
            place |= said | {"_available_at": F.coalesce(*own_time, said["_available_at"])}
        own = {"_gen": entry.before.gen, "_kind": ITEM}
        # A sort by one number is a radix sort; by two columns it compares rows.
        has_priority = entry.settings.config.priority is not None
        items = items.sortWithinPartitions(*(["lowest"] if has_priority else []), "place")
        step = _rows_to_log(items, columns | place | {"_enqueued_at": since}, own)
        if decided.refused is not None:
            # Refused rows have no place, not even their former one.
            kept = {name: column for name, column in columns.items() if name != "_round"}
            said = {f"_{name}": F.col(name) for name in ("duplicate_of", "holder")}
            said["_enqueued_at"] = now
            own = {"_gen": REFUSED_LANE, "_kind": REFUSED}
            step = _join_rows(step, _rows_to_log(_beside(batch, decided.refused), kept | said, own))
        for kind, ends in ((KEY, decided.line_ends), (GROUP, decided.group_ends)):
            if ends is not None:
                rows = frame_of(entry.store.spark, ends)
                named = {f"_{name}": F.col(name) for name in rows.columns if name != "seq"}
                step = _join_rows(
                    step, _rows_to_log(rows, named, {"_gen": META_LANE, "_kind": kind})
                )
        return step


class BroughtEntries(FrameEntries):
    """The entries that decide a batch, in this process; its values stay with Spark.

    Raises
    ------
    TooManyRowsError
        When there are too many rows.
    """

    @override
    def batch_of(self, frame: Frame, entry: EnqueueState, room: Room) -> EntryBatch:
        batch = super().batch_of(frame, entry, room)
        if batch.count > _MOST:
            raise TooManyRowsError
        keys = batch.rows.withColumn("given", F.lit(None).cast("int"))
        rows = bring(keys, batch.count).sort_by("seq")
        return EntryBatch(rows=rows, given=batch.given, count=batch.count, has_keys=batch.has_keys)

    @override
    def keyed_of(self, entry: EnqueueState, batch: EntryBatch) -> pa.Table:
        items = plain(_items(entry).select(*KEYED))
        return bring(seldom_having(items, batch.rows, "dedup_hash"), entry.before.items)

    @override
    def redriven_of(self, entry: EnqueueState, since: int) -> pa.Table:
        return bring(super().redriven_of(entry, since), entry.before.items)

    @override
    def line_rows(self, entry: EnqueueState) -> pa.Table:
        return bring(super().line_rows(entry), entry.before.items)

    @override
    def group_rows(self, entry: EnqueueState, groups: pa.Table) -> pa.Table:
        return bring(super().group_rows(entry, groups), entry.before.items)

    @override
    def members_of(self, entry: EnqueueState, groups: pa.Table) -> pa.Table:
        return bring(super().members_of(entry, groups), entry.before.items)

    @override
    def there_of(self, entry: EnqueueState, members: pa.Table) -> pa.Table:
        return bring(super().there_of(entry, members), members.num_rows)


def _batch(rows: DataFrame, entry: EnqueueState, room: Room) -> DataFrame:
    """Return the entries that decide a batch, with its values as one column."""
    columns, kinds = {}, dict(QUEUE_COLUMNS.kinds)
    for name in (*BATCH, "_origin", "_round"):
        own = F.col(name) if name in rows.columns else F.lit(UNSET.get(name))
        columns[name] = own.cast(kinds[name])
    if entry.settings.config.fair_key is None:
        columns["_cost"] = F.lit(1.0)
    columns["_seq"] = F.col("_pos") + entry.before.last_seq
    # Rows are compared by the first eight bytes of the sort key where they differ.
    columns["_line"] = F.xxhash64(columns["_fair_key"])
    has_sizes = room.bytes is not None
    columns["_bytes"] = (
        bytes_of(spark_frames.user_schema(entry.store)) if has_sizes else F.lit(None)
    )
    named = [column.alias(name[1:]) for name, column in columns.items()]
    given = [column_named(name) for name in rows.columns if name != "_pos"]
    return rows.select(*named, F.struct(*given).alias("given"))


def _beside(batch: EntryBatch, rows: DataFrame | pa.Table) -> DataFrame:
    """Return decided rows with their values."""
    if isinstance(rows, pa.Table):
        decided = ("seq", "lowest", "place", "duplicate_of", "holder")
        rows = rows.select([name for name in decided if name in rows.column_names])
        rows = frame_of(batch.given.sparkSession, rows)
    return rows if "given" in rows.columns else rows.join(batch.given, "seq")


def _with_chains(
    items: DataFrame, replacing: DataFrame | pa.Table
) -> tuple[DataFrame, dict[str, Column]]:
    """Return decided rows, and what they say of those that they replace."""
    if isinstance(replacing, pa.Table):
        replacing = frame_of(items.sparkSession, replacing)
    names = [name for name in replacing.columns if name != "seq"]
    named = [F.col(name).alias(f"said_{name}") for name in names]
    said = {f"_{name}": F.col(f"said_{name}") for name in names}
    for name in ("_chain_at", "_available_at"):
        said[name] = F.timestamp_micros(said[name])
    return items.join(replacing.select("seq", *named), "seq", "left"), said


def _given_columns(batch: EntryBatch) -> dict[str, Column]:
    """Return the columns that rows enter with, but for those of nulls alone."""
    names = batch.given.schema["given"].dataType.names
    defaults = {name: F.lit(value) for name, value in UNSET.items() if value is not None}
    return defaults | {name: F.col("given").getField(name) for name in names}


def _rows_to_log(rows: DataFrame, columns: dict[str, Column], own: dict[str, object]) -> DataFrame:
    if "seq" in rows.columns:
        columns = {**columns, "_seq": F.col("seq")}
    said = {name: F.lit(value) for name, value in own.items()}
    return rows.select(*(column.alias(name) for name, column in {**columns, **said}.items()))


def _join_rows(rows: DataFrame, others: DataFrame) -> DataFrame:
    return rows.unionByName(others, allowMissingColumns=True)


def _items(entry: EnqueueState) -> DataFrame:
    # By their partition: other lanes are not read, and no row is asked for its kind.
    rows = entry.store.queue.read().where(F.col("_gen") >= 0)
    return rows.where(F.col("_step") <= entry.before.step)


def _meta(entry: EnqueueState, kind: str) -> DataFrame:
    """Return rows that say where lines, or groups, end."""
    rows = entry.store.queue.read().where(F.col("_step") <= entry.before.step)
    return rows.where((F.col("_gen") == META_LANE) & (F.col("_kind") == kind))


def _of_groups(rows: DataFrame, groups: DataFrame | pa.Table) -> DataFrame:
    return seldom_having(plain(rows.select(*MEMBER)), groups, "group_key")


def _may_be_ahead(entry: EnqueueState) -> Column:
    """Bound the stored tags by literals, so that files are skipped."""
    ahead = (
        (F.col("_priority") == priority) & (F.col("_round") >= F.lit(tag))
        for priority, tag in entry.least_tags().items()
    )
    return reduce(or_, ahead, F.lit(False))
