"""Items of a queue as they stand at a step, as tables of Arrow: what a process looks at of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow import rows, snapshot
from spark_queue.delta.arrow.rows import beside, having, last_of_each
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import ITEM, READY, REFUSED
from spark_queue.delta.views.ends import Ends

#: Rows up to which a log is looked at here; a cluster has more room.
MOST = 1_000_000

#: What is told of what an item entered with.
_ENTERED = ("_seq", "_fair_key", "_enqueued_at", "_step")

#: What the two logs say of a transition.
_FIRST = ("_step", "_enqueued_at", "_duplicate_of", "_origin")
_LATER = (
    *("_step", "_at", "_state", "_attempts", "_losses", "_lease", "_claim_id", "_worker_id"),
    *("_lease_expires_at", "_available_at", "_error"),
)

#: What is told of every transition, in this order.
_TOLD = ("log", "_step", "_at", "_state", *_FIRST[2:], *_LATER[3:])
_NO_TRANSITION: dict[str, Any] = dict.fromkeys(_TOLD)

#: Returns some columns of the rows of a kind; the errors are those of :func:`standing`.
rows_of = partial(rows.rows_of, most=MOST)


def standing(store: Store, ends: Ends) -> pa.Table:
    """Return one row an item, in the order of their seqs: where it stands, and since when.

    It is what :func:`spark_queue.delta.plans.snapshot.status` shows of them, without the columns
    of the user (:func:`values`).

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs, or they have more rows than a process looks at.
    """
    is_now = ends.queue_step is None
    return snapshot.standing(
        store,
        _ENTERED,
        queue_step=ends.queue_step,
        status_step=None if is_now else ends.head.step,
        most=MOST,
    )


def values(store: Store, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the columns of the user for some items, in their order."""
    users = user_columns(store)
    found = rows_of(store, "queue", ("_seq", *users), having(seqs))
    return beside(found, seqs).select(users)


def successors(store: Store, ends: Ends, seqs: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return of each item as which one it was redriven last, null where it was not."""
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


def history(store: Store, seq: int) -> list[dict[str, Any]]:
    """Return every transition of an item, oldest first.

    It is what :func:`spark_queue.delta.plans.snapshot.history` returns.
    """
    one = pa.chunked_array([pa.array([seq], pa.int64())])
    moves = []
    for kind, state in ((ITEM, READY), (REFUSED, REFUSED)):
        found = rows_of(store, "queue", ("_seq", *_FIRST), having(one), kind=kind)
        for row in found.filter(pc.equal(found["_seq"], seq)).select(_FIRST).to_pylist():
            at = row.pop("_enqueued_at")
            moves.append({"log": "queue", "_step": row["_step"], "_at": at, "_state": state, **row})
    found = rows_of(store, "status", ("_seq", *_LATER), having(one))
    later = found.filter(pc.equal(found["_seq"], seq)).select(_LATER).to_pylist()
    moves += [{"log": "status", **row} for row in sorted(later, key=lambda row: row["_step"])]
    return [{**_NO_TRANSITION, **move} for move in moves]


def user_columns(store: Store) -> list[str]:
    """Return the names of the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs.
    """
    rows.log_of(store, "queue")
    return store.user_columns()
