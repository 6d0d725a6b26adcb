"""What a queue looks like now, one row an item, by columns: as Spark's ``status`` shows it."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.native import NativeLog
from spark_queue.delta.tables.schema import CLAIMED, ITEM, READY, REFUSED, TERMINAL
from spark_queue.errors import SparkNeededError

#: What an item enters with, beside the user's columns.
_ENTERED = (
    *("_seq", "_dedup_key", "_fair_key", "_group_key", "_priority", "_round", "_cost"),
    *("_available_at", "_expires_at", "_enqueued_at", "_origin", "_step", "_gen"),
)

#: What its newest transition says.
_NEWEST = (
    *("_state", "_attempts", "_losses", "_available_at", "_at"),
    *("_lease", "_worker_id", "_lease_expires_at"),
)

#: What is only said of an item in flight.
_HELD = ("_lease", "_worker_id", "_lease_expires_at")

_WHOLE = pc.ScalarAggregateOptions(skip_nulls=False)


def log_of(store: Store, which: LogName) -> NativeLog:
    """Return a log of a queue.

    Raises
    ------
    SparkNeededError
        When only Spark reads it.
    """
    log = store.native(which)
    if log is None:
        why = "its tables ask for more than plain reads and appends"
        raise SparkNeededError(f"to look at {store.name!r}", why)
    return log


def status(store: Store) -> pa.Table:
    """Return one row an item that the reader sees: the user's columns, its keys, where it stands.

    The columns are those of :func:`spark_queue.delta.plans.snapshot.status`.
    """
    items = _items(store)
    log = log_of(store, "status").read(("_kind", "_step", "_seq", "_error", *_NEWEST))
    moves = log.filter(pc.equal(log["_kind"], ITEM)).sort_by("_step")
    newest = beside(_last(moves, _NEWEST), items["_seq"])
    granted = beside(_granted(moves), items["_seq"])
    failed = beside(_last(moves.filter(pc.is_valid(moves["_error"])), ["_error"]), items["_seq"])
    states = pc.fill_null(newest["_state"], READY)
    held = {name: _where(pc.equal(states, CLAIMED), newest[name]) for name in _HELD}
    attempts = pc.coalesce(newest["_attempts"], items["_errors"], pa.scalar(0, pa.int32()))
    over = pc.is_in(states, pa.array(TERMINAL))
    made = {
        "_state": states,
        "_attempts": attempts,
        "_losses": pc.fill_null(newest["_losses"], 0),
        "_available_at": pc.coalesce(newest["_available_at"], items["_available_at"]),
        "_first_claimed_at": granted["_at_min"],
        "_claimed_at": granted["_at_max"],
        "_finished_at": _where(over, newest["_at"]),
        **held,
        "_error": failed["_error"],
    }
    kept = [name for name in items.column_names if name not in (*made, "_kind", "_errors")]
    return pa.table({name: items[name] for name in kept} | made)


def refused(store: Store, columns: Sequence[str]) -> pa.Table:
    """Return some columns of the rows that were refused, as far as the reader sees them."""
    rows = log_of(store, "queue").read(["_kind", "_step", *columns])
    seen = pc.greater(rows["_step"], store.registered().since_step)
    return rows.filter(pc.and_(pc.equal(rows["_kind"], REFUSED), seen)).select(list(columns))


def redriven(store: Store) -> pa.ChunkedArray:
    """Return the items that were enqueued again."""
    rows = log_of(store, "queue").read(("_kind", "_origin"))
    return rows.filter(pc.equal(rows["_kind"], ITEM))["_origin"].drop_null()


def beside(rows: pa.Table, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the row of each item, null where it has none; of each there is one at most."""
    at = pc.index_in(seqs, rows["_seq"].combine_chunks())
    return rows.combine_chunks().take(at.combine_chunks())


def _items(store: Store) -> pa.Table:
    names = [*store.user_columns(), *_ENTERED]
    rows = log_of(store, "queue").read([*names, "_kind", "_errors"])
    seen = pc.greater(rows["_step"], store.registered().since_step)
    return rows.filter(pc.and_(pc.equal(rows["_kind"], ITEM), seen)).sort_by("_seq")


def _last(moves: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return what the newest of the rows, which come in order, say of each item."""
    found = moves.group_by("_seq", use_threads=False)
    last = found.aggregate([(name, "last", _WHOLE) for name in names])
    return last.rename_columns({f"{name}_last": name for name in names})


def _granted(moves: pa.Table) -> pa.Table:
    """Return when each item was leased for the first and for the last time."""
    first = pc.and_(pc.equal(moves["_state"], CLAIMED), pc.equal(moves["_lease"], moves["_step"]))
    rows = moves.filter(pc.fill_null(first, False))
    return rows.group_by("_seq").aggregate([("_at", "min"), ("_at", "max")])


def _where(condition: pa.ChunkedArray, values: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(condition, values, pa.scalar(None, values.type))
