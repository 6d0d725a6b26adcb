"""Rows of the logs as a replica, and between tables and Python."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.log.delta.log import Log
from spark_queue.log.schema import (
    CLAIMED,
    ITEM,
    KEY,
    OPEN,
    OPEN_LANE,
    RATE,
    RENEWAL,
    SERVED,
    STATUS_COLUMNS,
    TERMINAL,
)
from spark_queue.rules.pacing import Debt
from spark_queue.state.open_items import FOLLOWED, RememberedClaim, Row
from spark_queue.state.replica import Replica

_SCHEMA = STATUS_COLUMNS.arrow
_ROW = pa.struct(_SCHEMA)

#: Rows up to which each, and each instant, is made by itself.
_FEW = 4


def status_table(rows: Sequence[Row]) -> pa.Table:
    """Return rows as a table; columns that they leave out are null."""
    # All columns at once: one by one a row takes four times as long.
    return pa.Table.from_struct_array(pa.array(rows, _ROW))


def rows_of(table: pa.Table, columns: Sequence[str]) -> list[Row]:
    """Return some columns of a table as rows; missing columns are null."""
    nothing = [None] * table.num_rows
    known = set(table.column_names)
    if table.num_rows <= _FEW:
        found = table.select([name for name in columns if name in known])
        return [{**dict.fromkeys(columns), **row} for row in found.to_pylist()]
    values = [_values(table[name]) if name in known else nothing for name in columns]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    if column.null_count == len(column):
        return [None] * len(column)
    if len(column) <= _FEW or not pa.types.is_timestamp(column.type):
        found: list[Any] = column.to_pylist()
        return found
    # Few different instants are in a step, and each takes as long to make as thirty numbers.
    encoded = column.combine_chunks().dictionary_encode()
    instants = encoded.dictionary.to_pylist()
    return [None if at is None else instants[at] for at in encoded.indices.to_pylist()]


def replica_of(entered: pa.Table, followed: pa.Table, since: int, begins: int = 0) -> Replica:
    """Return the state that rows of the two logs leave.

    Claims of which nothing is in flight are not remembered: what became of them, the tables say.

    Parameters
    ----------
    entered : pyarrow.Table
        The columns :data:`~spark_queue.state.replica.ENTERED` of the item log.
    followed : pyarrow.Table
        The columns :data:`~spark_queue.state.replica.FOLLOWED` of a reader's log.
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
    in_flight = set(held.to_pylist()) & replica.grants.keys()
    granted = set(_grants(moves)["_lease"].to_pylist())
    replica.grants = {lease: replica.grants[lease] for lease in sorted(in_flight)}
    replica.has_forgotten = granted > in_flight
    owed = followed.filter(pc.equal(followed["_kind"], RATE))
    replica.debts = read_debts(owed)
    for lease, grant in replica.grants.items() if replica.debts else ():
        grant.charges = read_debts(owed.filter(pc.equal(owed["_step"], lease)))
    replica.keys = _keys(entered)
    replica.chains = _chains(entered)
    replica.ends = {(p, key): tag for p, key, tag in _ends(entered)}
    counted = followed.filter(pc.greater_equal(followed["_step"], begins))
    replica.served = {((p, key), late): turn for p, key, late, turn in _served_turns(counted)}
    return replica


def grant_of(followed: pa.Table, lease: int) -> RememberedClaim | None:
    """Return a claim and its unsettled items; ``None`` if no row is of it.

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


# rule again: debt of a key
def read_debts(rows: pa.Table, now: int | None = None) -> dict[tuple[str, Hashable], Debt]:
    """Return debts by rows of a log: of a key the newest counts.

    With an instant, the debts that are over by then are left out.
    """
    if not rows.num_rows:
        return {}
    lasting = pc.ScalarAggregateOptions(skip_nulls=False)
    facts = ("_tat", "_refunds", "_at", "_body")
    newest = rows.sort_by("_step").group_by(["_by", "_key"], use_threads=False)
    found = newest.aggregate([(name, "last", lasting) for name in facts])
    at = pc.multiply(found["_at_last"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1_000)
    righted = pc.fill_null(found["_body_last"].cast(pa.int64()), 0)
    columns = (found["_tat_last"], found["_refunds_last"], at, righted)
    owed = pa.table([*columns, found["_by"], found["_key"]], [*facts, "_by", "_key"])
    if now is not None:
        # Most keys rest. What came back, and what was set right, counts for longer.
        is_more = pc.or_(pc.greater(owed["_refunds"], 0), pc.greater(righted, 0))
        owed = owed.filter(pc.or_(pc.greater(owed["_tat"], now), is_more))
    debts = map(Debt, *(owed[name].to_pylist() for name in facts))
    keys = zip(owed["_by"].to_pylist(), owed["_key"].to_pylist(), strict=True)
    return dict(zip(keys, debts, strict=True))


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
    """Return the rows of open items, and of items granted together with one in flight."""
    granted = _grants(moves)
    with_held = granted.filter(_among(granted["_lease"], held))["_seq"]
    is_open = pc.invert(_among(moves["_seq"], over))
    return moves.filter(pc.or_(is_open, _among(moves["_seq"], with_held)))


def _grants(moves: pa.Table) -> pa.Table:
    """Return the rows that leased items."""
    first = pc.and_(pc.equal(moves["_lease"], moves["_step"]), pc.equal(moves["_state"], CLAIMED))
    return moves.filter(pc.fill_null(first, False))


def _keys(entered: pa.Table) -> dict[str, tuple[int, datetime]]:
    items = entered.filter(pc.equal(entered["_kind"], ITEM))
    named = items.filter(pc.is_valid(items["_dedup_key"]))
    newest = named.sort_by("_seq").select(["_dedup_key", "_seq", "_enqueued_at"])
    columns = (newest[name].to_pylist() for name in newest.column_names)
    return {key: (seq, at) for key, seq, at in zip(*columns, strict=True)}


def _chains(entered: pa.Table) -> dict[str, int]:
    """Return the first of the items that replace each other, by the key of the newest."""
    if entered["_chain"].null_count == entered.num_rows:
        return {}
    named = entered.filter(pc.is_valid(entered["_dedup_key"])).sort_by("_seq")
    newest = dict(zip(named["_dedup_key"].to_pylist(), named["_chain"].to_pylist(), strict=True))
    return {key: chain for key, chain in newest.items() if chain is not None}


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


def rows_since(log: Log[Any], first: int, most: int) -> pa.Table | None:
    """Return the rows of a status log that count since a checkpoint; ``None`` for too many.

    Those of the checkpoint come as what they were before.

    Parameters
    ----------
    log : Log
        The log.
    first : int
        The step of its newest checkpoint.
    most : int
        Rows of the log up to which it is read.
    """
    files = [file for file in log.files() if file.may_have("_step", first)]
    if sum(file.rows for file in files) > most:
        return None
    rows = log.rows_of(files, (*FOLLOWED, "_item_gen"))
    is_open = pc.equal(rows["_gen"], OPEN_LANE)
    base = pc.and_(is_open, pc.equal(rows["_step"], first))
    since = pc.and_(pc.invert(is_open), pc.greater(rows["_step"], first))
    kinds = pc.if_else(pc.equal(rows["_kind"], OPEN), ITEM, rows["_kind"])
    gens = pc.coalesce(rows["_item_gen"], rows["_gen"])
    rows = _with(_with(rows, "_kind", kinds), "_gen", gens)
    return rows.filter(pc.or_(base, since)).select(FOLLOWED)


def _with(rows: pa.Table, column: str, values: pa.ChunkedArray) -> pa.Table:
    at = rows.schema.get_field_index(column)
    return rows.set_column(at, rows.schema.field(column), values)
