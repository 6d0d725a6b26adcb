"""Rows of ``status``, one an item, in Arrow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import beside, first_of_each, last_of_each, rows_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import (
    CLAIMED,
    QUEUE_COLUMNS,
    READY,
    REFUSED,
    RENEWAL,
    SHOWN,
    TERMINAL,
    TIMES,
)

#: What is shown of an item behind the user's columns, in this order.
_SHOWN = (
    *("_seq", "_state", "_attempts", "_losses", "_dedup_key", "_fair_key", "_group_key"),
    *SHOWN,
    *("_first_claimed_at", "_claimed_at", "_finished_at", "_lease", "_worker_id"),
    *("_lease_expires_at", "_error", "_origin", "_step", "_gen"),
)

#: What where it stands is worked out from, of the item and of its transitions.
_OF_ITEM = ("_seq", "_step", "_errors", *TIMES)
_MOVED = (
    *("_seq", "_step", "_state", "_attempts", "_losses", "_available_at", "_at", "_error"),
    *("_lease", "_worker_id", "_lease_expires_at", "_expires_at", "_enqueued_at"),
)

#: What is read of a renewal.
_RENEWED = ("_step", "_lease", "_lease_expires_at")

#: What is only said of an item in flight, beside when its lease ends.
_HELD = ("_lease", "_worker_id")

#: By what the rows of an item are put in order: the newest is the last, whatever the clock said.
_BY_STEP = "_step"


def status(
    store: Store, *, queue_step: int | None = None, status_step: int | None = None
) -> pa.Table:
    """Return one row an item that the reader sees: the user's columns, its keys, where it stands.

    The columns are those of :func:`spark_queue.delta.plans.snapshot.status`; the parameters those
    of :func:`standing`.
    """
    users = store.user_columns()
    entered = [*users, *(name for name in _SHOWN if name in QUEUE_COLUMNS.names)]
    rows = standing(store, entered, queue_step=queue_step, status_step=status_step)
    return rows.select([*users, *_SHOWN])


# rule again: newest row of an item
def standing(
    store: Store,
    kept: Sequence[str],
    *,
    queue_step: int | None = None,
    status_step: int | None = None,
    most: float = math.inf,
) -> pa.Table:
    """Return one row an item that the reader sees, in the order of their seqs.

    Parameters
    ----------
    store : Store
        The queue, as the reader sees it.
    kept : sequence of str
        What is shown of what it entered with; where it stands, and since when, is shown of each.
    queue_step, status_step : int, optional
        The last step of each log that is looked at; by default the newest.
    most : float
        Rows up to which each log is read.

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs, or they have more rows than that.
    """
    items = rows_of(store, "queue", [*_OF_ITEM, *kept], most=most)
    items = items.filter(pc.greater(items["_step"], store.registered().since_step))
    moves = rows_of(store, "status", _MOVED, most=most)
    renewals = rows_of(store, "status", _RENEWED, kind=RENEWAL)
    items, moves = _up_to(items, queue_step), _up_to(moves, status_step)
    items = items.take(pc.sort_indices(items["_seq"]))
    stands = _stands(items, moves, _up_to(renewals, status_step))
    return pa.table({name: items[name] for name in kept if name not in stands} | stands)


def read_refused(store: Store, columns: Sequence[str], queue_step: int | None = None) -> pa.Table:
    """Return some columns of the rows that were refused, as far as the reader sees them."""
    rows = _up_to(rows_of(store, "queue", ["_step", *columns], kind=REFUSED), queue_step)
    return rows.filter(pc.greater(rows["_step"], store.registered().since_step)).select(
        list(columns)
    )


def redriven(store: Store) -> pa.ChunkedArray:
    """Return the items that were enqueued again."""
    return rows_of(store, "queue", ["_origin"])["_origin"].drop_null()


def _up_to(rows: pa.Table, step: int | None) -> pa.Table:
    return rows if step is None else rows.filter(pc.less_equal(rows["_step"], step))


def _stands(items: pa.Table, moves: pa.Table, renewals: pa.Table) -> dict[str, Any]:
    """Return where items stand, by their transitions, and the renewals of their leases."""
    seqs = items["_seq"]
    newest = beside(last_of_each(moves, _BY_STEP), seqs)
    failures = last_of_each(moves.filter(pc.is_valid(moves["_error"])), _BY_STEP)
    granted = pc.and_(pc.equal(moves["_state"], CLAIMED), pc.equal(moves["_lease"], moves["_step"]))
    grants = moves.filter(pc.fill_null(granted, False))
    states = pc.coalesce(newest["_state"], READY)
    held, over = pc.equal(states, CLAIMED), pc.is_in(states, pa.array(TERMINAL))
    is_timed = pc.is_valid(newest["_enqueued_at"])
    return {
        "_state": states,
        "_attempts": pc.coalesce(newest["_attempts"], items["_errors"], _int(0)),
        "_losses": pc.coalesce(newest["_losses"], _int(0)),
        **{name: pc.if_else(is_timed, newest[name], items[name]) for name in TIMES},
        "_first_claimed_at": beside(first_of_each(grants, "_at"), seqs)["_at"],
        "_claimed_at": beside(last_of_each(grants, "_at"), seqs)["_at"],
        "_finished_at": _where(over, newest["_at"]),
        **{name: _where(held, newest[name]) for name in _HELD},
        "_lease_expires_at": _where(held, _lease_ends(newest, renewals)),
        "_error": beside(failures, seqs)["_error"],
    }


# rule again: renewal of a lease
def _lease_ends(newest: pa.Table, renewals: pa.Table) -> pa.ChunkedArray:
    """Return when the lease of each newest row ends, by the last renewal of it."""
    by_lease = renewals.rename_columns(
        ["_seq" if n == "_lease" else n for n in renewals.column_names]
    )
    until = beside(last_of_each(by_lease, _BY_STEP), newest["_lease"])["_lease_expires_at"]
    return pc.coalesce(until, newest["_lease_expires_at"])


def _where(condition: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(condition, values, pa.scalar(None, values.type))


def _int(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int32())
