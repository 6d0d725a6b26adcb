"""Items of a claim, and views of a queue, as frames of Spark."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.types import StructType

from spark_queue.commands import enqueue
from spark_queue.errors import SparkNeededError
from spark_queue.log.schema import CLAIMED, ITEM, TRACE
from spark_queue.overriding import override
from spark_queue.results import QueueStats
from spark_queue.spark.frames import frame_of, user_columns
from spark_queue.spark.spark_look import SparkLook
from spark_queue.sql import file_rows
from spark_queue.state import replica_choice, spark_frames
from spark_queue.state.replica_rows import status_table
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.views.answers import Ends
from spark_queue.views.views import ARROW_VIEWS, QueueViews

#: Up to this many items, the leased ones are sent to the tables: 20 bytes each.
_SENT = 1_000_000

#: Rows up to which this process reads each log to count items: a hundred bytes each.
_COUNTED = 250_000

#: Bytes up to which items are part of a frame, instead of what it reads.
_FEW_BYTES = 16 * 1024 * 1024

#: Bytes up to which items are read in this process for those who take them from here.
_MOST_BYTES = 256 * 1024 * 1024

#: What a frame of a claim has of the rows by which it was leased.
_GRANTED = ("_seq", "_gen", "_round", "_losses", "_priority", "_turn", "_lease", "_attempts")


@dataclass(frozen=True, slots=True)
class LeasedItems:
    """The items of a lease."""

    rows: DataFrame
    """The user's columns, ``_seq``, ``_lease``, ``_attempts``, ``_group_key``, or ``_trace``."""
    losses: int
    """The most losses that one of them has."""


@dataclass(frozen=True, slots=True)
class LeasedTable:
    """The items of a lease in this process; as :class:`LeasedItems`."""

    rows: pa.Table
    losses: int


def claimed_items(store: Store, lease: int, over: Collection[int] = ()) -> DataFrame:
    """Return the items of a lease: the user's columns, ``_seq``, ``_lease``, ``_attempts``.

    Items that are over for it are left out.
    """
    rows = lease_items(store, lease).rows.drop("_group_key", TRACE)
    if not over:
        return rows
    gone = frame_of(store.spark, pa.table({"_seq": pa.array(over, pa.int64())}))
    return rows.join(F.broadcast(gone), "_seq", "left_anti").select(rows.columns)


def traces(store: Store, lease: int) -> dict[int, str]:
    """Return the traces that items of a lease belong to, by their seqs."""
    rows = lease_items(store, lease).rows
    if TRACE not in rows.columns:
        return {}
    return dict(rows.where(F.col(TRACE).isNotNull()).select("_seq", TRACE).collect())


def in_order(store: Store, lease: int) -> DataFrame:
    """Return the items of a lease, as :func:`claimed_items` does, in the order of service."""
    return _add_place(store, lease, claimed_items(store, lease))


def _add_place(store: Store, lease: int, rows: DataFrame) -> DataFrame:
    granted = _grants(store, lease).select("_seq", "_priority", "_turn")
    placed = rows.join(F.broadcast(granted), "_seq")
    return placed.orderBy(F.col("_priority").desc(), "_turn", "_seq").drop("_priority", "_turn")


def collect(store: Store, lease: int) -> list[dict[str, Any]]:
    """Return the rows of :func:`in_order`; rows that this process reads take no query.

    Items of a trace may have it, as ``_trace``.
    """
    grant = _grant(store, lease)
    here = None if grant is None else file_rows.items_of(store, grant, most_bytes=_FEW_BYTES)
    if grant is None or here is None:
        rows = _add_place(store, lease, lease_items(store, lease).rows.drop("_group_key"))
        return [row.asDict(recursive=True) for row in rows.collect()]
    return _as_collected(file_rows.in_order(here, grant, keep=(TRACE,)))


def read_table(store: Store, lease: int) -> LeasedTable | None:
    """Return a lease's items as a table; ``None`` where a query must read them."""
    grant = _grant(store, lease)
    rows = None if grant is None else file_rows.items_of(store, grant, most_bytes=_MOST_BYTES)
    return None if grant is None or rows is None else LeasedTable(rows, _losses(grant))


def lease_items(store: Store, lease: int) -> LeasedItems:
    """Return the items of a lease with the ``_group_key`` that orders their processing."""
    grant = _grant(store, lease)
    here = None if grant is None else file_rows.items_of(store, grant, most_bytes=_FEW_BYTES)
    if grant is not None and here is not None:
        return LeasedItems(_frame(store, here), _losses(grant))
    queue = store.queue.read()
    granted = _grants(store, lease)
    names = user_columns(queue)
    facts = _facts(granted) if grant is None else _facts_here(grant)
    if not facts.count:
        nothing = queue.limit(0).select(*names, "_seq", "_group_key")
        marks = {"_lease": F.lit(lease).cast("long"), "_attempts": F.lit(0)}
        return LeasedItems(nothing.withColumns(marks), 0)
    rows = queue.where(
        F.col("_gen").isin(*facts.gens)
        & F.col("_round").between(*facts.rounds)
        & F.col("_seq").between(*facts.seqs)
        & (F.col("_kind") == ITEM)
    )
    held = granted.select("_seq", "_lease", "_attempts")
    if facts.count <= _SENT:
        held = F.broadcast(held)
    # No step is made of it: what an older format lacks is left out.
    ours = [name for name in ("_group_key", TRACE) if name in queue.columns]
    joined = rows.select(*names, "_seq", *ours).join(held, "_seq")
    return LeasedItems(joined.select(*names, "_seq", "_lease", "_attempts", *ours), facts.losses)


@dataclass(frozen=True, slots=True)
class _Facts:
    """Bounds of the seqs and tags of leased items, and totals.

    They spare reading the files of other items.
    """

    seqs: tuple[Any, Any]
    rounds: tuple[Any, Any]
    gens: list[int]
    count: int
    losses: int


def _facts(granted: DataFrame) -> _Facts:
    ends = [end(name) for name in ("_seq", "_round") for end in (F.min, F.max)]
    rest = (F.collect_set("_gen"), F.count(F.lit(1)), F.max("_losses"))
    found = granted.agg(*ends, *rest).collect()[0]
    return _Facts(tuple(found[:2]), tuple(found[2:4]), found[4], found[5], found[6] or 0)


def _facts_here(grant: pa.Table) -> _Facts:
    seqs, rounds = (tuple(pc.min_max(grant[name]).as_py().values()) for name in ("_seq", "_round"))
    gens = pc.unique(grant["_gen"]).to_pylist()
    return _Facts(seqs, rounds, gens, grant.num_rows, _losses(grant))


def _losses(grant: pa.Table) -> int:
    return int(pc.max(grant["_losses"]).as_py() or 0)


def _as_collected(rows: pa.Table) -> list[dict[str, Any]]:
    """Return rows with the values that Spark gives: instants as times of this process's zone."""
    kinds = {column.name: column.type for column in rows.schema}
    instants = [name for name, kind in kinds.items() if getattr(kind, "tz", None) is not None]
    found: list[dict[str, Any]] = rows.to_pylist()
    for row in found:
        row |= {name: _local(row[name]) for name in instants}
    return found


def _local(instant: datetime | None) -> datetime | None:
    return None if instant is None else instant.astimezone().replace(tzinfo=None)


def _frame(store: Store, rows: pa.Table) -> DataFrame:
    schema = spark_frames.user_schema(store).add("_seq", "long").add("_lease", "long")
    schema = schema.add("_attempts", "integer").add("_group_key", "string")
    if TRACE in rows.column_names:
        schema = schema.add(TRACE, "string")
    return frame_of(store.spark, rows, schema)


def _grant(store: Store, lease: int) -> pa.Table | None:
    """Return the rows that granted a lease, if known without a query."""
    at = Snapshot(store)
    if at.are_files_read:
        rows = file_rows.grant_of(store, lease)
        return rows if rows.num_rows else None
    with at.cache.lock:
        replica = replica_choice.at_hand(at)
        known = None if replica is None else replica.grants.get(lease)
    return None if known is None else status_table(list(known.rows.values()))


def _grants(store: Store, lease: int) -> DataFrame:
    """Return the rows of the status log that granted a lease."""
    grant = _grant(store, lease)
    if grant is not None:
        return frame_of(store.spark, grant.select(_GRANTED))
    return store.status.read().where(
        (F.col("_step") == lease) & (F.col("_kind") == ITEM) & (F.col("_state") == CLAIMED)
    )


def _in_order(rows: DataFrame) -> DataFrame:
    return rows.orderBy("_seq")


class SparkViews(QueueViews[DataFrame, StructType]):
    """Views by Spark; this process counts where that is quicker than to plan a query."""

    @override
    def stats(self, store: Store, ends: Ends, most: float = inf) -> QueueStats:
        if Snapshot(store).are_files_read:
            with suppress(SparkNeededError):
                found = ARROW_VIEWS.stats(store, ends, min(most, _COUNTED))
                return replace(found, per_key=frame_of(store.spark, found.per_key))
        return super().stats(store, ends, most)


SPARK_VIEWS = SparkViews(SparkLook, spark_frames.user_schema, enqueue.outcomes, _in_order)
