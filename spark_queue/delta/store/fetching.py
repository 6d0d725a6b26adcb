"""The items of a small claim, read from the item log's files without a query."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.replica.state import RememberedClaim
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import TRACE

#: What is said of an item beside its own columns.
_OF_THE_LEASE = {"_lease": pa.int64(), "_attempts": pa.int32(), "_group_key": pa.string()}

#: What is for those who run handlers.
HIDDEN = ("_group_key", TRACE)

#: Items up to which they are brought here.
_FEW = 1_000

#: Bytes of files up to which they are read here.
MOST_BYTES = 16 * 1024 * 1024


def fetched(store: Store, granted: RememberedClaim) -> pa.Table | None:
    """Return the items of a small claim; ``None`` where a query has to find them.

    Returns
    -------
    pyarrow.Table
        The user's columns, ``_seq``, ``_lease``, ``_attempts`` and ``_group_key``; and ``_trace``,
        if one of them belongs to one.
    """
    is_small = 0 < len(granted.rows) <= _FEW
    return brought(store, granted, most_bytes=MOST_BYTES) if is_small else None


def brought(
    store: Store, granted: RememberedClaim, *, most_bytes: float = float("inf")
) -> pa.Table | None:
    """Return the items of a claim, however many; ``None`` where they cannot be read here."""
    log = store.native("queue")
    if log is None:
        return None
    names, traces = store.user_columns(), [TRACE] if store.carries_traces() else []
    seqs = sorted(granted.rows)
    items = (file for file in log.files() if file.gen >= 0)
    found = [file for file in items if seqs and file.may_have("_seq", seqs[0], seqs[-1])]
    if sum(file.size for file in found) > most_bytes:
        return None
    try:
        rows = log.rows_of(found, [*names, "_kind", "_seq", *traces])
    except FileNotFoundError:
        # A tidy-up meanwhile has put their rows elsewhere.
        if {file.path for file in found} <= {file.path for file in log.files()}:
            raise
        return None
    wanted = pa.array(seqs, pa.int64())
    rows = rows.filter(pc.and_(pc.is_in(rows["_seq"], wanted), pc.equal(rows["_kind"], "item")))
    # Somebody may have taken them out of the log; what there is to say of that, a query says.
    return _with_lease(rows, names, granted) if rows.num_rows == len(seqs) else None


def in_order(
    brought: pa.Table, granted: RememberedClaim, *, keep: Collection[str] = ()
) -> pa.Table:
    """Return items of a claim that were brought here in the order of service.

    Of the columns that are for those who run handlers they have what is to be kept.
    """
    leased = [granted.rows[seq] for seq in brought["_seq"].to_pylist()]
    ranks = pa.array([-row["_priority"] for row in leased], pa.int64())
    turns = pa.array([row["_turn"] for row in leased], pa.float64())
    placed = brought.append_column("_rank", ranks).append_column("_turn", turns)
    order = [(name, "ascending") for name in ("_rank", "_turn", "_seq")]
    hidden = [name for name in HIDDEN if name in placed.column_names and name not in keep]
    return placed.sort_by(order).drop_columns(["_rank", "_turn", *hidden])


def _with_lease(rows: pa.Table, names: Sequence[str], granted: RememberedClaim) -> pa.Table:
    leased = [granted.rows[seq] for seq in rows["_seq"].to_pylist()]
    for name, kind in _OF_THE_LEASE.items():
        rows = rows.append_column(name, pa.array([row[name] for row in leased], kind))
    is_traced = TRACE in rows.column_names and rows[TRACE].null_count < rows.num_rows
    return rows.select([*names, "_seq", *_OF_THE_LEASE, *([TRACE] if is_traced else [])])
