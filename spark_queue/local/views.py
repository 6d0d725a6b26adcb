"""What can be seen of a queue without Spark: tables of Arrow, of both logs as they are now."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.schema import CLAIMED, ITEM, READY, REFUSED, TERMINAL
from spark_queue.delta.views import explaining
from spark_queue.errors import SparkNeededError
from spark_queue.results import Explanation

#: What an item entered with.
_ENTERED = ("_seq", "_dedup_key", "_fair_key", "_group_key", "_priority", "_enqueued_at")

#: What its newest transition says of it.
_NEWEST = ("_state", "_attempts", "_losses", "_worker_id", "_lease_expires_at", "_at", "_error")

#: What is shown of a transition.
_TRANSITION = ("_seq", "_step", "_at", "_state", "_attempts", "_losses", "_worker_id", "_error")


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
    users = store.user_columns()
    items = _read(store, "queue", ("_kind", "_step", *users, *_ENTERED, "_errors"))
    since = store.registered().since_step
    seen = pc.and_(pc.equal(items["_kind"], ITEM), pc.greater(items["_step"], since))
    items = items.filter(seen).select([*users, *_ENTERED, "_errors"])
    moves = _newest(_read(store, "status", ("_kind", "_step", "_seq", *_NEWEST)))
    joined = items.join(moves, "_seq", join_type="left outer").sort_by("_seq")
    before = {
        "_state": READY,
        "_attempts": pc.fill_null(joined["_errors"], 0),
        "_losses": pa.scalar(0, pa.int32()),
    }
    for name, value in before.items():
        column = pc.coalesce(joined[name], value)
        joined = joined.set_column(joined.schema.get_field_index(name), name, column)
    return joined.drop_columns(["_errors"])


def in_state(store: Store, state: str) -> pa.Table:
    """Return the items in a state, as :func:`status` does."""
    rows = status(store)
    return rows.filter(pc.equal(rows["_state"], state))


def history(store: Store, seq: int) -> pa.Table:
    """Return every transition of an item, oldest first."""
    rows = _read(store, "status", ("_kind", *_TRANSITION))
    mine = pc.and_(pc.equal(rows["_seq"], seq), pc.equal(rows["_kind"], ITEM))
    return rows.filter(mine).select(list(_TRANSITION)).sort_by("_step")


def over(store: Store, seq: int) -> Explanation:
    """Say of an item that is not live why it is not running.

    Raises
    ------
    SparkNeededError
        When it is live, and the queue is not one that this process knows.
    """
    rows = _read(store, "queue", ("_kind", "_step", "_seq", "_duplicate_of"))
    mine = rows.filter(pc.equal(rows["_seq"], seq)).to_pylist()
    if mine and mine[0]["_kind"] == REFUSED:
        return _refused(seq, mine[0]["_duplicate_of"])
    if not mine or mine[0]["_step"] <= store.registered().since_step:
        return explaining.because(seq, "unknown", "no row of the queue has this seq")
    moves = history(store, seq).to_pylist()
    if not moves or moves[-1]["_state"] not in TERMINAL:
        why = "the queue has more open items than a process keeps in memory"
        raise SparkNeededError(f"to explain an item of {store.name!r}", why)
    last = moves[-1]
    failed = [move["_error"] for move in moves if move["_error"] is not None]
    error = f": {failed[-1]}" if failed and failed[-1] else ""
    when = explaining.said(last["_at"])
    return explaining.because(seq, "finished", f"{last['_state']} at {when}{error}")


def _refused(seq: int, holder: int | None) -> Explanation:
    if holder is None:
        text = "a reader was full when it came; enqueue it again"
        return explaining.because(seq, "refused", text)
    return explaining.because(seq, "duplicate", f"its key is held by item {holder}", by=holder)


def _newest(moves: pa.Table) -> pa.Table:
    moves = moves.filter(pc.equal(moves["_kind"], ITEM)).sort_by("_step")
    whole = pc.ScalarAggregateOptions(skip_nulls=False)
    last = moves.group_by("_seq", use_threads=False).aggregate(
        [(name, "last", whole) for name in _NEWEST]
    )
    return last.rename_columns([name.removesuffix("_last") for name in last.column_names])


def _read(store: Store, which: LogName, columns: Sequence[str]) -> pa.Table:
    log = store.native(which)
    if log is None:
        raise SparkNeededError(f"to look at {store.name!r}", "its tables ask for more than reads")
    return log.read(list(dict.fromkeys(columns)))
