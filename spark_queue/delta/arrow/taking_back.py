"""A past step and the items it ended, in Arrow, for undo.

As :mod:`spark_queue.delta.plans.taking_back` finds them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow import snapshot
from spark_queue.delta.arrow.rows import last_of_each, log_of, rows_of
from spark_queue.delta.planner import TAKEN, Made
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CANCELLED, REFUSED, inputs_of


def read_made(store: Store, step: int) -> Made:
    """Return what a step of the reader's log has written."""
    log = log_of(store, "status")
    files = [file for file in log.files() if file.may_have("_step", step, step)]
    rows = log.rows_of(files, ("_kind", "_step", "_state", "_error"))
    rows = rows.filter(pc.equal(rows["_step"], step))
    counted = rows.group_by(["_kind", "_state"]).aggregate([([], "count_all")]).to_pylist()
    over = pc.fill_null(pc.equal(rows["_state"], CANCELLED), fill_value=False)
    return Made(
        rows={(row["_kind"], row["_state"]): row["count_all"] for row in counted},
        dropped=rows.filter(pc.and_(over, pc.is_valid(rows["_error"]))).num_rows,
    )


def cancelled_in(store: Store, step: int) -> pa.Table:
    """Return the items that a cancel of a step ended, and that are cancelled since."""
    moves = rows_of(
        store,
        "status",
        ("_seq", "_step", "_state", "_error"),
        lambda file: file.may_have("_step", step),
    )
    newest = last_of_each(moves, "_step")
    meant = pc.and_(pc.equal(newest["_step"], step), pc.equal(newest["_state"], CANCELLED))
    ended = newest.filter(pc.and_(meant, pc.is_null(newest["_error"])))
    rows = snapshot.status(store)
    return rows.filter(pc.is_in(rows["_seq"], ended["_seq"].combine_chunks()))


def restore(store: Store, found: pa.Table, *, keeps_place: bool) -> pa.Table:
    """Return items as rows to enqueue again, as they were."""
    users = store.user_columns()
    renamed = {
        **{column.name: name for name, column in inputs_of(users).items()},
        "_seq": "_origin",
        "_round": "_round",
        "_attempts": "_errors",
        "_enqueued_at": "_enqueued_at",
    }
    rows = found.select([*users, *renamed]).rename_columns([*users, *renamed.values()])
    if keeps_place:
        return rows
    nothing = pa.nulls(rows.num_rows, pa.float64())
    return rows.set_column(rows.schema.get_field_index("_round"), "_round", nothing)


def find_taken(store: Store, step: int) -> list[tuple[int, int]]:
    """Return items that a step of the item log refused, and who has their key."""
    rows = rows_of(
        store,
        "queue",
        ("_step", "_origin", "_duplicate_of"),
        lambda file: file.may_have("_step", step, step),
        kind=REFUSED,
    )
    rows = rows.filter(pc.equal(rows["_step"], step)).sort_by("_origin").slice(0, TAKEN)
    return [(row["_origin"], row["_duplicate_of"]) for row in rows.to_pylist()]
