"""A replica from the rows of both logs: of what has ended, only what still counts is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.replica.state import RememberedClaim, Replica, Row
from spark_queue.delta.tables.schema import CLAIMED, ITEM, KEY, RENEWAL, SERVED, TERMINAL


def replica_of(entered: pa.Table, followed: pa.Table, since: int, begins: int = 0) -> Replica:
    """Return the state that rows of the two logs leave.

    Claims of which nothing is in flight are not remembered: what became of them, the tables say.

    Parameters
    ----------
    entered : pyarrow.Table
        The columns :data:`~spark_queue.delta.replica.state.ENTERED` of the item log.
    followed : pyarrow.Table
        The columns :data:`~spark_queue.delta.replica.state.FOLLOWED` of a reader's log.
    since : int
        The reader sees the items of later steps.
    begins : int
        The step of the reader's newest checkpoint: there it says again what each line was served,
        which a changed weight has moved.
    """
    moves = followed.filter(pc.equal(followed["_kind"], ITEM))
    newest = newest_of(moves)
    over = newest.filter(pc.is_in(newest["_state"], pa.array(TERMINAL)))["_seq"]
    held = newest.filter(pc.equal(newest["_state"], CLAIMED))["_lease"]
    replica = Replica()
    for step, rows in _steps(entered.filter(_still_counts(entered, over))):
        replica.enter("", rows, is_seen=step > since)
    renewals = followed.filter(pc.equal(followed["_kind"], RENEWAL))
    for step, rows in _steps(pa.concat_tables([_of_leases_or_open(moves, over, held), renewals])):
        replica.follow("", step, rows)
    leases = set(held.to_pylist())
    in_flight = leases & replica.grants.keys()
    replica.unknown_grants = frozenset(leases - in_flight)
    granted = set(_grants(moves)["_lease"].to_pylist())
    replica.grants = {lease: replica.grants[lease] for lease in sorted(in_flight)}
    replica.has_forgotten = granted > in_flight
    replica.keys = _keys(entered)
    replica.ends = {(p, key): tag for p, key, tag in _ends(entered)}
    counted = followed.filter(pc.greater_equal(followed["_step"], begins))
    replica.served = {((p, key), late): turn for p, key, late, turn in _served_turns(counted)}
    return replica


def grant_of(followed: pa.Table, lease: int) -> RememberedClaim | None:
    """Return a claim, and what of it its holder has not settled; ``None`` where no row is of it.

    Parameters
    ----------
    followed : pyarrow.Table
        As for :func:`replica_of`.
    lease : int
        The step that granted it.
    """
    named = pc.and_(pc.equal(followed["_kind"], ITEM), pc.equal(followed["_lease"], lease))
    replica = Replica()
    for step, rows in _steps(followed.filter(named)):
        replica.follow("", step, rows)
    return replica.grants.get(lease)


# rule again: newest row of an item
def newest_of(moves: pa.Table) -> pa.Table:
    """Return seq, state and lease of the newest row of each item."""
    order = moves.select(["_seq", "_step", "_state", "_lease"]).sort_by("_step")
    last = order.group_by("_seq", use_threads=False)
    named = last.aggregate([("_state", "last"), ("_lease", "last")])
    return named.rename_columns({"_state_last": "_state", "_lease_last": "_lease"})


def _still_counts(entered: pa.Table, over: pa.ChunkedArray) -> pa.ChunkedArray:
    is_item = pc.equal(entered["_kind"], ITEM)
    return pc.and_(is_item, pc.invert(_among(entered["_seq"], over)))


def _of_leases_or_open(moves: pa.Table, over: pa.ChunkedArray, held: pa.ChunkedArray) -> pa.Table:
    """Return the rows of items that are open, and of those granted with one that is in flight."""
    granted = _grants(moves)
    with_held = granted.filter(_among(granted["_lease"], held))["_seq"]
    is_open = pc.invert(_among(moves["_seq"], over))
    return moves.filter(pc.or_(is_open, _among(moves["_seq"], with_held)))


def _grants(moves: pa.Table) -> pa.Table:
    """Return the rows by which items were leased."""
    first = pc.and_(pc.equal(moves["_lease"], moves["_step"]), pc.equal(moves["_state"], CLAIMED))
    return moves.filter(pc.fill_null(first, False))


def _keys(entered: pa.Table) -> dict[str, tuple[int, datetime]]:
    items = entered.filter(pc.equal(entered["_kind"], ITEM))
    named = items.filter(pc.is_valid(items["_dedup_key"]))
    newest = named.sort_by("_seq").select(["_dedup_key", "_seq", "_enqueued_at"])
    columns = (newest[name].to_pylist() for name in newest.column_names)
    return {key: (seq, at) for key, seq, at in zip(*columns, strict=True)}


def _ends(entered: pa.Table) -> Iterator[tuple[Any, ...]]:
    ends = entered.filter(pc.equal(entered["_kind"], KEY))
    return _highest(ends, ["_priority", "_fair_key"], "_round")


# rule again: turns handed out
def _served_turns(followed: pa.Table) -> Iterator[tuple[Any, ...]]:
    handed_out = pc.or_kleene(
        pc.equal(followed["_kind"], SERVED),
        pc.and_(pc.equal(followed["_kind"], ITEM), pc.equal(followed["_state"], CLAIMED)),
    )
    turns = followed.filter(
        pc.and_(pc.fill_null(handed_out, False), pc.is_valid(followed["_turn"]))
    )
    late = pc.fill_null(turns["_overdue"], False)
    turns = turns.select(["_priority", "_fair_key", "_turn"]).append_column("_late", late)
    return _highest(turns, ["_priority", "_fair_key", "_late"], "_turn")


def _highest(rows: pa.Table, by: list[str], value: str) -> Iterator[tuple[Any, ...]]:
    if not rows.num_rows:
        return iter(())
    found = rows.group_by(by).aggregate([(value, "max")])
    return zip(*(found[name].to_pylist() for name in (*by, f"{value}_max")), strict=True)


def _among(values: pa.ChunkedArray, of: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.is_in(values, pc.unique(of.combine_chunks()), skip_nulls=True)


def _steps(rows: pa.Table) -> Iterator[tuple[int, list[Row]]]:
    ordered = sorted(rows.to_pylist(), key=_step_of)
    for step, of_step in groupby(ordered, key=_step_of):
        yield step, list(of_step)


def _step_of(row: Row) -> int:
    return int(row["_step"])
