"""The items of a claim, read from the item log through what the claim knows of their place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from spark_queue.delta.plans import settling
from spark_queue.delta.plans.snapshot import user_columns
from spark_queue.delta.replica.columns import status_table
from spark_queue.delta.replica.state import RememberedClaim
from spark_queue.delta.store import fetching, replicas
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, ITEM, TRACE

#: Up to this many items, what is held is sent to where the items are: 20 bytes each.
_SENT = 1_000_000


@dataclass(frozen=True, slots=True)
class LeasedItems:
    """The items of a lease."""

    rows: DataFrame
    """The user's columns, ``_seq``, ``_lease``, ``_attempts``, ``_group_key``, or ``_trace``."""
    losses: int
    """The most losses that one of them has."""


def claimed(store: Store, lease: int) -> DataFrame:
    """Return the items of a lease: the user's columns, ``_seq``, ``_lease``, ``_attempts``."""
    return leased(store, lease).rows.drop("_group_key", TRACE)


def traces(store: Store, lease: int) -> dict[int, str]:
    """Return the traces that items of a lease belong to, by their seqs."""
    rows = leased(store, lease).rows
    if TRACE not in rows.columns:
        return {}
    return dict(rows.where(F.col(TRACE).isNotNull()).select("_seq", TRACE).collect())


def in_order(store: Store, lease: int) -> DataFrame:
    """Return the items of a lease, as :func:`claimed` does, in the order of service."""
    return _placed(store, lease, claimed(store, lease))


def _placed(store: Store, lease: int, rows: DataFrame) -> DataFrame:
    granted = _granted(store, lease).select("_seq", "_priority", "_turn")
    placed = rows.join(F.broadcast(granted), "_seq")
    return placed.orderBy(F.col("_priority").desc(), "_turn", "_seq").drop("_priority", "_turn")


def collected(store: Store, lease: int) -> list[dict[str, Any]]:
    """Return the rows of :func:`in_order`; no query is made for what is read in this process.

    Those that belong to a trace may have it, as ``_trace``.
    """
    known = _known(store, lease)
    here = None
    if known is not None:
        here = fetching.brought(store, known, most_bytes=fetching.MOST_BYTES)
    if known is None or here is None:
        rows = _placed(store, lease, leased(store, lease).rows.drop("_group_key"))
        return [row.asDict(recursive=True) for row in rows.collect()]
    return _as_collected(fetching.in_order(here, known, keep=(TRACE,)))


def leased(store: Store, lease: int) -> LeasedItems:
    """Return the items of a lease with the ``_group_key`` that orders their processing."""
    known = _known(store, lease)
    here = None if known is None else fetching.fetched(store, known)
    if known is not None and here is not None:
        return LeasedItems(_frame(store, here), max(row["_losses"] for row in known.rows.values()))
    queue = store.queue.read()
    granted = _granted(store, lease)
    names = user_columns(queue)
    bounds = _bounds(granted)
    if bounds is None or bounds[0] is None:
        nothing = queue.limit(0).select(*names, "_seq", "_group_key")
        marks = {"_lease": F.lit(lease).cast("long"), "_attempts": F.lit(0)}
        return LeasedItems(nothing.withColumns(marks), 0)
    rows = queue.where(
        F.col("_gen").isin(*bounds[4])
        & F.col("_round").between(bounds[2], bounds[3])
        & F.col("_seq").between(bounds[0], bounds[1])
        & (F.col("_kind") == ITEM)
    )
    held = granted.select("_seq", "_lease", "_attempts")
    if bounds[5] <= _SENT:
        held = F.broadcast(held)
    # No step is made of it: what an older format lacks is left out.
    ours = [name for name in ("_group_key", TRACE) if name in queue.columns]
    joined = rows.select(*names, "_seq", *ours).join(held, "_seq")
    return LeasedItems(joined.select(*names, "_seq", "_lease", "_attempts", *ours), bounds[6] or 0)


def _bounds(granted: DataFrame) -> Row | None:
    """Return between which seqs and tags the items lie, their generations, and what is said of all.

    With those, the files of other items are not read.
    """
    return granted.agg(
        F.min("_seq"),
        F.max("_seq"),
        F.min("_round"),
        F.max("_round"),
        F.collect_set("_gen"),
        F.count(F.lit(1)),
        F.max("_losses"),
    ).head()


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
    schema = store.user_schema().add("_seq", "long").add("_lease", "long")
    schema = schema.add("_attempts", "integer").add("_group_key", "string")
    if TRACE in rows.column_names:
        schema = schema.add(TRACE, "string")
    return store.spark.createDataFrame(rows, schema)


def _known(store: Store, lease: int) -> RememberedClaim | None:
    """Return what a lease was granted for, if this process remembers it."""
    with store.cache().lock:
        replica = replicas.at_hand(store)
        return None if replica is None else replica.grants.get(lease)


def _granted(store: Store, lease: int) -> DataFrame:
    """Return the rows of the status log by which a lease was granted."""
    known = _known(store, lease)
    if known is not None:
        return store.spark.createDataFrame(status_table(list(known.rows.values())))
    return settling.log_since(store, store.status_head(), lease).where(
        (F.col("_step") == lease) & (F.col("_kind") == ITEM) & (F.col("_state") == CLAIMED)
    )
