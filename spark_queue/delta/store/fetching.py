"""The items of a small claim, read from the item log's files without a query."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.replica.state import RememberedClaim
from spark_queue.delta.store.store import Store

#: What is said of an item beside its own columns.
_OF_THE_LEASE = {"_lease": pa.int64(), "_attempts": pa.int32(), "_group_key": pa.string()}

#: Items up to which they are brought here.
_FEW = 1_000

#: Bytes of files up to which they are read here.
MOST_BYTES = 16 * 1024 * 1024


def fetched(store: Store, granted: RememberedClaim) -> pa.Table | None:
    """Return the items of a small claim; ``None`` where a query has to find them.

    Returns
    -------
    pyarrow.Table
        The user's columns, ``_seq``, ``_lease``, ``_attempts`` and ``_group_key``.
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
    names = store.user_columns()
    seqs = sorted(granted.rows)
    items = (file for file in log.files() if file.gen >= 0)
    found = [file for file in items if seqs and file.may_have("_seq", seqs[0], seqs[-1])]
    if sum(file.size for file in found) > most_bytes:
        return None
    try:
        rows = log.rows_of(found, [*names, "_kind", "_seq"])
    except FileNotFoundError:
        # Whoever tidied the table up meanwhile has put their rows elsewhere.
        if {file.path for file in found} <= {file.path for file in log.files()}:
            raise
        return None
    wanted = pa.array(seqs, pa.int64())
    rows = rows.filter(pc.and_(pc.is_in(rows["_seq"], wanted), pc.equal(rows["_kind"], "item")))
    # Somebody may have taken them out of the log; what there is to say of that, a query says.
    return _with_lease(rows, names, granted) if rows.num_rows == len(seqs) else None


def in_order(brought: pa.Table, granted: RememberedClaim, *, with_groups: bool = False) -> pa.Table:
    """Return items of a claim that were brought here in the order of service."""
    leased = [granted.rows[seq] for seq in brought["_seq"].to_pylist()]
    ranks = pa.array([-row["_priority"] for row in leased], pa.int64())
    turns = pa.array([row["_turn"] for row in leased], pa.float64())
    placed = brought.append_column("_rank", ranks).append_column("_turn", turns)
    order = [(name, "ascending") for name in ("_rank", "_turn", "_seq")]
    ours = ["_rank", "_turn"] if with_groups else ["_rank", "_turn", "_group_key"]
    return placed.sort_by(order).drop_columns(ours)


def _with_lease(rows: pa.Table, names: Sequence[str], granted: RememberedClaim) -> pa.Table:
    leased = [granted.rows[seq] for seq in rows["_seq"].to_pylist()]
    for name, kind in _OF_THE_LEASE.items():
        rows = rows.append_column(name, pa.array([row[name] for row in leased], kind))
    return rows.select([*names, "_seq", *_OF_THE_LEASE])
