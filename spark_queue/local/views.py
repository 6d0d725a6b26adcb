"""What can be seen of a queue without Spark: tables of Arrow, of both logs as they are now."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow import snapshot
from spark_queue.delta.arrow.rows import having, rows_of
from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.schema import CLAIMED, ITEM, READY, REFUSED, TERMINAL
from spark_queue.delta.views import explaining
from spark_queue.errors import SparkNeededError
from spark_queue.results import Explanation

#: What is shown of a transition.
_TRANSITION = ["_seq", "_step", "_at", "_state", "_attempts", "_losses", "_worker_id", "_error"]


def counts(store: Store) -> dict[str, int]:
    """Return how many items are in each state, and how many rows were refused."""
    head, queue = store.status_head(), store.queue_head()
    over = {state: head.finished.get(state, 0) for state in TERMINAL}
    waiting = store.outstanding(head) - head.claimed
    return {READY: waiting, CLAIMED: head.claimed, **over, REFUSED: queue.refused}


def outcomes(store: Store, done: Enqueued) -> pa.Table:
    """Return what became of each row of an enqueue."""
    users = store.user_columns()
    if done.rows is None:
        return pa.table({name: [] for name in (*users, "_seq", "outcome", "duplicate_of")})
    rows = done.rows.filter(pc.is_in(done.rows["_kind"], pa.array([ITEM, REFUSED])))
    rows = rows.sort_by("_seq")
    is_in = pc.equal(rows["_kind"], ITEM)
    kept = rows.select([*users, "_seq"])
    return kept.append_column("outcome", pc.if_else(is_in, "inserted", "duplicate")).append_column(
        "duplicate_of", rows["_duplicate_of"]
    )


def status(store: Store) -> pa.Table:
    """Return one row an item, in the order in which they were enqueued."""
    return snapshot.status(store)


def in_state(store: Store, state: str) -> pa.Table:
    """Return the items in a state, as :func:`status` does."""
    rows = status(store)
    return rows.filter(pc.equal(rows["_state"], state))


def history(store: Store, seq: int) -> pa.Table:
    """Return every transition of an item, oldest first."""
    return _rows_of(store, "status", seq, _TRANSITION).select(_TRANSITION).sort_by("_step")


def over(store: Store, seq: int) -> Explanation:
    """Say of an item that is not live why it is not running.

    Raises
    ------
    SparkNeededError
        When it is live, and the queue is not one that this process knows.
    """
    refused = _rows_of(store, "queue", seq, ("_duplicate_of",), REFUSED).to_pylist()
    if refused:
        return explaining.refused(seq, refused[0]["_duplicate_of"])
    items = _rows_of(store, "queue", seq, ("_step",)).to_pylist()
    if not items or items[0]["_step"] <= store.registered().since_step:
        return explaining.because(seq, "unknown", "no row of the queue has this seq")
    moves = history(store, seq).to_pylist()
    if not moves or moves[-1]["_state"] not in TERMINAL:
        why = "the queue has more open items than a process keeps in memory"
        raise SparkNeededError(f"to explain an item of {store.name!r}", why)
    last = moves[-1]
    failed = [move["_error"] for move in moves if move["_error"] is not None]
    return explaining.finished(seq, last["_state"], last["_at"], failed[-1] if failed else None)


def _rows_of(
    store: Store, which: LogName, seq: int, columns: Sequence[str], kind: str = ITEM
) -> pa.Table:
    """Return the rows of a kind that one item has in a log."""
    may_have = having(pa.chunked_array([[seq]], pa.int64()))
    rows = rows_of(store, which, ("_seq", *columns), may_have, kind=kind)
    return rows.filter(pc.equal(rows["_seq"], seq))
