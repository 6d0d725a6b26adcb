"""Items that are moved by what they are, and not by a claim: found in the tables, and their rows.

As :mod:`spark_queue.delta.plans.ending` finds and writes them.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.acting import operator
from spark_queue.delta.arrow import snapshot
from spark_queue.delta.arrow.rows import log_of
from spark_queue.delta.arrow.where import Where, rows_meant
from spark_queue.delta.input import kinds
from spark_queue.delta.input.plain.arrow_sizes import sizes_of
from spark_queue.delta.planner import Moved
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CLAIMED, ITEM, READY, SCHEDULE, STATUS_COLUMNS, moves_of
from spark_queue.results import SAMPLED, SAMPLES, Affected

#: What a row says of an item that comes to another state.
MOVED = ("_seq", "_gen", "_state", "_attempts", "_losses", *SCHEDULE)


def matching(store: Store, where: Where, states: Collection[str]) -> pa.Table:
    """Return the items in some states that a condition means.

    The errors are those of :func:`~spark_queue.delta.arrow.where.rows_meant`.
    """
    return choose(store, _in(snapshot.status(store), *states), where)


def choose(store: Store, rows: pa.Table, where: Where) -> pa.Table:
    """Return the rows that are meant, of what the status of a queue says."""
    return rows_meant(rows, where, kinds.read(log_of(store, "queue").schema()))


# rule again: redrive of an ended item
def not_redriven(store: Store, found: pa.Table) -> pa.Table:
    """Leave out the items that were enqueued again."""
    return found.filter(pc.invert(pc.is_in(found["_seq"], snapshot.redriven(store))))


def again(store: Store, found: pa.Table) -> pa.Table:
    """Return items as rows to enqueue again.

    Returns
    -------
    pyarrow.Table
        The user's columns, the inputs that move, and ``_origin``: the item that each row was.
    """
    users = store.user_columns()
    moves = moves_of(users)
    rows = found.select([*users, *moves, "_seq"])
    return rows.rename_columns([*users, *moves.values(), "_origin"])


def count_affected(store: Store, found: pa.Table, becomes: str) -> Affected:
    """Count items by their state, and show the first."""
    total = found.num_rows
    shown = found.select([*store.user_columns(), *SAMPLED])
    return Affected(
        total,
        states=_states(found),
        becomes={becomes: total} if total else {},
        sample=shown.slice(0, SAMPLES).to_pylist(),
    )


def due(store: Store, now: datetime) -> pa.Table:
    """Return the ready items whose time is over."""
    rows = _in(snapshot.status(store), READY)
    ends = _expires_at(rows, store.limits().max_age)
    return rows.filter(pc.less_equal(ends, pa.scalar(now, ends.type)))


def oldest(store: Store, most: int) -> pa.Table:
    """Return the oldest items that wait, so that no more than so many are left in all."""
    over = store.outstanding(store.status_head()) - most
    return _in(snapshot.status(store), READY).slice(0, max(0, over))


def outstanding_bytes(store: Store) -> int:
    """Return how many bytes wait for the reader or are in its hands."""
    rows = _in(snapshot.status(store), READY, CLAIMED)
    return int(pc.sum(sizes_in(store, rows)).as_py() or 0)


def oldest_by_bytes(store: Store, most: int) -> pa.Table:
    """Return the oldest items that wait, so that no more than so many bytes are left in all."""
    rows = snapshot.status(store)
    over = int(pc.sum(sizes_in(store, _in(rows, READY, CLAIMED))).as_py() or 0) - most
    waiting = _in(rows, READY)
    sizes = sizes_in(store, waiting)
    passed = pc.subtract(pc.cumulative_sum(sizes), sizes)
    return waiting.filter(pc.less(passed, over))


def end(found: pa.Table, state: str, now: datetime, error: str | None) -> Moved:
    """Return the rows by which items come to a state with all that they had."""
    said = {"_kind": ITEM, "_state": state, "_at": now, "_error": error}
    return _move(found.select(list(MOVED)), said | _signature())


def revive(found: pa.Table, now: datetime) -> Moved:
    """Return the rows by which items are ready again, as if nothing had been."""
    said = {"_kind": ITEM, "_state": READY, "_at": now, "_attempts": 0, "_losses": 0}
    gone = {"_available_at": None, "_expires_at": None}
    return _move(found.select(list(MOVED)), said | gone | _signature())


def release(found: pa.Table, now: datetime) -> Moved:
    """Return the rows by which claimed items are back, without a worker id and uncharged."""
    return _move(found.select(list(MOVED)), {"_kind": ITEM, "_state": READY, "_at": now})


def _signature() -> dict[str, object]:
    """Return who moves items, where somebody has said so."""
    who = operator()
    return {} if who is None else {"_worker_id": who}


def _states(found: pa.Table) -> dict[str, int]:
    counted = pc.value_counts(found["_state"]).to_pylist()
    return dict(sorted((one["values"], one["counts"]) for one in counted))


def _move(found: pa.Table, said: dict[str, object]) -> Moved:
    was = _states(found)
    columns = {name: found[name] for name in found.column_names if name not in said}
    for name, value in said.items():
        kind = STATUS_COLUMNS.arrow.field(name).type
        columns[name] = pa.repeat(pa.scalar(value, kind), found.num_rows)
    return Moved(rows=pa.table(columns), was=was)


def _in(rows: pa.Table, *states: str) -> pa.Table:
    return rows.filter(pc.is_in(rows["_state"], pa.array(states)))


# rule again: deadline of an item
def _expires_at(rows: pa.Table, max_age: timedelta | None) -> pa.ChunkedArray:
    """Return when items expire for a reader: by themselves, or because they have become too old."""
    own = rows["_expires_at"]
    if max_age is None:
        return own
    return pc.min_element_wise(own, pc.add(rows["_enqueued_at"], pa.scalar(max_age)))


def sizes_in(store: Store, rows: pa.Table) -> pa.Array:
    """Return the bytes of each item, by the user's columns."""
    users = set(store.user_columns())
    fields = kinds.read(log_of(store, "queue").schema())
    return sizes_of(rows, [field for field in fields if field.name in users])
