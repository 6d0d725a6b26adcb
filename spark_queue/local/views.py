"""Views of a queue without Spark: tables of Arrow, now or as it was."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow import snapshot
from spark_queue.delta.arrow.rows import beside, having, last_of_each, log_of, rows_of
from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.commands.rows import columns_of
from spark_queue.delta.input.plain.arrow import schema_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import (
    DEAD,
    ITEM,
    QUEUE_COLUMNS,
    READY,
    REFUSED,
    STATUS_COLUMNS,
)
from spark_queue.delta.views.ends import Ends

#: Columns of an item's entry that a list of items shows.
_ENTERED = ("_seq", "_fair_key", "_enqueued_at", "_step")

#: Columns of a transition, by log, in the order of a history.
_FIRST = ("_step", "_enqueued_at", "_duplicate_of", "_origin")
_LATER = (
    *("_step", "_at", "_state", "_attempts", "_losses", "_lease", "_claim_id", "_worker_id"),
    *("_lease_expires_at", "_available_at", "_error"),
)


def outcomes(store: Store, done: Enqueued) -> pa.Table:
    """Return what became of each row of an enqueue."""
    users = schema_of(columns_of(store))
    rows = done.rows
    if rows is None:
        rows = pa.unify_schemas([users, QUEUE_COLUMNS.arrow]).empty_table()
    rows = rows.filter(pc.is_in(rows["_kind"], pa.array([ITEM, REFUSED]))).sort_by("_seq")
    became = pc.if_else(pc.equal(rows["_kind"], ITEM), "inserted", "duplicate")
    kept = rows.select([*users.names, "_seq"]).append_column("outcome", became)
    return kept.append_column("duplicate_of", rows["_duplicate_of"])


def status(store: Store, ends: Ends | None = None) -> pa.Table:
    """Return one row an item, in the order in which they were enqueued."""
    return snapshot.status(store, **_steps(ends))


def in_state(store: Store, state: str, ends: Ends | None = None) -> pa.Table:
    """Return the items in a state, as :func:`status` does."""
    rows = status(store, ends)
    return rows.filter(pc.equal(rows["_state"], state))


def dead(store: Store, ends: Ends) -> pa.Table:
    """Return the dead letters, each with its successor."""
    letters = in_state(store, DEAD, ends)
    return letters.append_column("_successor", successors(store, ends, letters["_seq"]))


def standing(store: Store, ends: Ends, most: float = math.inf) -> pa.Table:
    """Return the rows of :func:`status` without the user's columns (:func:`values`).

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs, or one has more rows than ``most``.
    """
    return snapshot.standing(store, _ENTERED, most=most, **_steps(ends))


def values(store: Store, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the columns of the user for some items, in their order."""
    users = user_columns(store)
    found = rows_of(store, "queue", ("_seq", *users), having(seqs))
    return beside(found, seqs).select(users)


def successors(store: Store, ends: Ends, seqs: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return as which item each was redriven last, null where it was not."""
    found = rows_of(store, "queue", ("_seq", "_step", "_origin"))
    seen = pc.and_(
        pc.is_valid(found["_origin"]), pc.greater(found["_step"], store.registered().since_step)
    )
    if ends.queue_step is not None:
        seen = pc.and_(seen, pc.less_equal(found["_step"], ends.queue_step))
    found = found.filter(seen)
    newest = last_of_each(
        pa.table({"_seq": found["_origin"], "_successor": found["_seq"]}), "_successor"
    )
    return beside(newest, seqs)["_successor"]


def history(store: Store, seq: int) -> pa.Table:
    """Return every transition of an item, oldest first.

    The columns are those of :func:`spark_queue.delta.plans.snapshot.history`.
    """
    one = pa.chunked_array([pa.array([seq], pa.int64())])
    parts = [_NO_TRANSITION]
    for kind, state in ((ITEM, READY), (REFUSED, REFUSED)):
        found = rows_of(store, "queue", ("_seq", *_FIRST), having(one), kind=kind)
        entered = found.filter(pc.equal(found["_seq"], seq)).select(_FIRST)
        entered = entered.rename_columns(["_at" if n == "_enqueued_at" else n for n in _FIRST])
        parts.append(_with(_with(entered, "_state", state), "log", "queue"))
    found = rows_of(store, "status", ("_seq", *_LATER), having(one))
    later = found.filter(pc.equal(found["_seq"], seq)).select(_LATER).sort_by("_step")
    parts.append(_with(later, "log", "status"))
    return pa.concat_tables(parts, promote_options="default").combine_chunks()


def user_columns(store: Store) -> list[str]:
    """Return the names of the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs.
    """
    log_of(store, "queue")
    return store.user_columns()


def _steps(ends: Ends | None) -> dict[str, Any]:
    """Return the last steps of both logs, as :func:`snapshot.status` is told them."""
    if ends is None or ends.queue_step is None:
        return {}
    return {"queue_step": ends.queue_step, "status_step": ends.head.step}


def _with(rows: pa.Table, name: str, text: str) -> pa.Table:
    return rows.append_column(name, pa.repeat(pa.scalar(text), rows.num_rows))


def _nothing() -> pa.Table:
    known = {one.name: one for one in (*QUEUE_COLUMNS.arrow, *STATUS_COLUMNS.arrow)}
    log = pa.field("log", pa.string())
    shown = ("_step", "_at", "_state", "_duplicate_of", "_origin", *_LATER[3:])
    return pa.schema([log, *(known[name] for name in shown)]).empty_table()


#: A history without a row.
_NO_TRANSITION = _nothing()
