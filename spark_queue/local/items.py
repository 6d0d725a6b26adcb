"""Items of a queue as they stand at a step, as tables of Arrow.

They are read from the files of the two logs, a file at a time and without a query engine, which
would take longer to load than they take to read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.files import LogFile
from spark_queue.delta.tables.schema import CLAIMED, ITEM, META_LANE, OPEN_LANE, READY, REFUSED
from spark_queue.delta.views.ends import Ends
from spark_queue.errors import SparkNeededError

#: Rows up to which a log is looked at here; a cluster has more room.
MOST = 1_000_000

#: Seqs up to which it is asked for each whether a file may have it.
_FEW = 1_000

_ENTERED = ("_fair_key", "_errors", "_available_at", "_enqueued_at", "_step")

_MOVED = (
    *("_state", "_lease", "_attempts", "_losses", "_available_at", "_at"),
    *("_worker_id", "_lease_expires_at", "_error"),
)

#: What the two logs say of a transition.
_FIRST = ("_step", "_enqueued_at", "_duplicate_of", "_origin")
_LATER = (
    *("_step", "_at", "_state", "_attempts", "_losses", "_lease", "_claim_id", "_worker_id"),
    *("_lease_expires_at", "_available_at", "_error"),
)

#: What is told of every transition, in this order.
_TOLD = ("log", "_step", "_at", "_state", *_FIRST[2:], *_LATER[3:])
_NO_TRANSITION: dict[str, Any] = dict.fromkeys(_TOLD)

#: By what the rows of an item are put in order: the newest is the last, whatever the clock said.
_BY_STEP = "_step"

_TRUE = pa.array([True])


def standing(store: Store, ends: Ends) -> pa.Table:
    """Return one row an item, in the order of their seqs: where it stands, and since when.

    It is what :func:`spark_queue.delta.plans.snapshot.status` shows of them, without the columns
    of the user (:func:`values`).

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs, or they have more rows than a process looks at.
    """
    since = store.registered().since_step
    items = rows_of(store, "queue", ("_seq", *_ENTERED))
    items = items.filter(pc.greater(items["_step"], since))
    moves = rows_of(store, "status", ("_seq", "_step", *_MOVED))
    if ends.queue_step is not None:
        items = items.filter(pc.less_equal(items["_step"], ends.queue_step))
        moves = moves.filter(pc.less_equal(moves["_step"], ends.head.step))
    items = items.take(pc.sort_indices(items["_seq"]))
    granted = pc.and_(pc.equal(moves["_state"], CLAIMED), pc.equal(moves["_lease"], moves["_step"]))
    grants = moves.filter(granted)
    newest = beside(last_of_each(moves, _BY_STEP), items["_seq"])
    failures = last_of_each(moves.filter(pc.is_valid(moves["_error"])), _BY_STEP)
    failed = beside(failures, items["_seq"])
    state = pc.coalesce(newest["_state"], READY)
    held, waits = pc.equal(state, CLAIMED), pc.equal(state, READY)
    columns = {
        "_state": state,
        "_attempts": pc.coalesce(newest["_attempts"], items["_errors"], _int(0)),
        "_losses": pc.coalesce(newest["_losses"], _int(0)),
        "_available_at": pc.coalesce(newest["_available_at"], items["_available_at"]),
        "_first_claimed_at": beside(first_of_each(grants, "_at"), items["_seq"])["_at"],
        "_claimed_at": beside(last_of_each(grants, "_at"), items["_seq"])["_at"],
        "_finished_at": _where(pc.invert(pc.or_(held, waits)), newest["_at"]),
        "_worker_id": _where(held, newest["_worker_id"]),
        "_lease_expires_at": _where(held, newest["_lease_expires_at"]),
        "_error": failed["_error"],
    }
    kept = ("_seq", "_fair_key", "_enqueued_at", "_step")
    return pa.table({**{name: items[name] for name in kept}, **columns})


def values(store: Store, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the columns of the user for some items, in their order."""
    users = user_columns(store)
    rows = rows_of(store, "queue", ("_seq", *users), _having(seqs))
    return beside(rows, seqs).select(users)


def successors(store: Store, ends: Ends, seqs: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return of each item as which one it was redriven last, null where it was not."""
    rows = rows_of(store, "queue", ("_seq", "_step", "_origin"))
    seen = pc.and_(
        pc.is_valid(rows["_origin"]), pc.greater(rows["_step"], store.registered().since_step)
    )
    if ends.queue_step is not None:
        seen = pc.and_(seen, pc.less_equal(rows["_step"], ends.queue_step))
    rows = rows.filter(seen)
    newest = last_of_each(
        pa.table({"_seq": rows["_origin"], "_successor": rows["_seq"]}), "_successor"
    )
    return beside(newest, seqs)["_successor"]


def history(store: Store, seq: int) -> list[dict[str, Any]]:
    """Return every transition of an item, oldest first.

    It is what :func:`spark_queue.delta.plans.snapshot.history` returns.
    """
    one = pa.chunked_array([pa.array([seq], pa.int64())])
    moves = []
    for kind, state in ((ITEM, READY), (REFUSED, REFUSED)):
        found = rows_of(store, "queue", ("_seq", *_FIRST), _having(one), kind=kind)
        for row in found.filter(pc.equal(found["_seq"], seq)).select(_FIRST).to_pylist():
            at = row.pop("_enqueued_at")
            moves.append({"log": "queue", "_step": row["_step"], "_at": at, "_state": state, **row})
    found = rows_of(store, "status", ("_seq", *_LATER), _having(one))
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
    if store.native("queue") is None:
        _refuse(store, "its tables ask for more than plain reads")
    return store.user_columns()


def rows_of(
    store: Store,
    which: LogName,
    columns: Sequence[str],
    may_matter: Callable[[LogFile], bool] | None = None,
    *,
    kind: str = ITEM,
) -> pa.Table:
    """Return some columns of the rows of a kind.

    Parameters
    ----------
    store : Store
        The queue.
    which : "queue" or "status"
        The log.
    columns : sequence of str
        The columns; ``_kind`` comes with them.
    may_matter : callable, optional
        Says of a file whether it is to be read.
    kind : str
        The kind of the rows.

    Raises
    ------
    SparkNeededError
        When only Spark reads the log, or it has more rows than a process looks at.
    """
    try:
        rows = _read(store, which, ("_kind", *columns), may_matter)
    except OSError:
        # Merged meanwhile: the rows are in other files.
        rows = _read(store, which, ("_kind", *columns), may_matter)
    return rows.filter(pc.equal(rows["_kind"], kind))


def _read(
    store: Store,
    which: LogName,
    columns: Sequence[str],
    may_matter: Callable[[LogFile], bool] | None,
) -> pa.Table:
    log = store.native(which)
    if log is None:
        _refuse(store, "its tables ask for more than plain reads")
    files = [file for file in log.files() if file.gen not in (META_LANE, OPEN_LANE)]
    if may_matter is not None:
        files = [file for file in files if may_matter(file)]
    if sum(file.rows for file in files) > MOST:
        _refuse(store, "it has more rows than a process looks at")
    return log.rows_of(files, columns)


def _having(seqs: pa.ChunkedArray) -> Callable[[LogFile], bool]:
    """Return what tells whether a file may have one of some items."""
    if len(seqs) > _FEW:
        ends = pc.min_max(seqs).as_py()
        return lambda file: file.may_have("_seq", ends["min"], ends["max"])
    wanted = seqs.to_pylist()
    return lambda file: any(file.may_have("_seq", seq, seq) for seq in wanted)


def beside(rows: pa.Table, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the row of each item, null where it has none; of each there is one at most."""
    return rows.take(pc.index_in(seqs, value_set=rows["_seq"].combine_chunks()))


def last_of_each(rows: pa.Table, by: str) -> pa.Table:
    """Return the row of each item that is the last by a column."""
    ordered, differs = _ordered(rows, by)
    return ordered.filter(pa.concat_arrays([*differs, _TRUE])[: len(ordered)])


def first_of_each(rows: pa.Table, by: str) -> pa.Table:
    """Return the row of each item that is the first by a column."""
    ordered, differs = _ordered(rows, by)
    return ordered.filter(pa.concat_arrays([_TRUE, *differs])[: len(ordered)])


def _ordered(rows: pa.Table, by: str) -> tuple[pa.Table, list[pa.Array]]:
    """Return rows by item and column, and of each but the last whether the next is of another."""
    keys = [("_seq", "ascending"), (by, "ascending")]
    ordered = rows.take(pc.sort_indices(rows, sort_keys=keys))
    seq = ordered["_seq"].combine_chunks()
    return ordered, [pc.not_equal(seq[:-1], seq[1:])] if len(seq) else []


def _where(mask: Any, column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(mask, column, pa.scalar(None, column.type))


def _int(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int32())


def _refuse(store: Store, why: str) -> NoReturn:
    raise SparkNeededError(f"to look at {store.name!r}", why)
