"""Turns of stored tags, and where an order of service stands, for columns of rows."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.tables.heads import Checkpoint, Pointer
from spark_queue.delta.tables.settings import Settings, Stretch

#: Pinned together where nothing is said: the tag, and the turn.
_UNPINNED = (0.0, 0.0)


# rule again: weight of a key
def turns_of(rows: pa.Table, settings: Settings) -> pa.ChunkedArray:
    """Return the turn at which each row's ``_round`` comes up; weighted ones name their key.

    The order of the sums is that of Spark's plans, and of :meth:`Stretch.turn`, so that the last
    digit is, too.
    """
    tags = rows["_round"]
    if not settings.stretches:
        return tags
    keys, stretches = list(settings.stretches), list(settings.stretches.values())
    at = pc.index_in(rows["_fair_key"], pa.array(keys, pa.string()))
    weights = _take([stretch.weight for stretch in stretches], at, 1.0)
    pin_tags, pin_turns = (_pins(rows, stretches, at, end) for end in (0, 1))
    return pc.add(pin_turns, pc.divide(pc.subtract(tags, pin_tags), weights))


# rule: untouched item
def are_unpassed(rows: pa.Table, turns: pa.ChunkedArray, checkpoint: Checkpoint) -> pa.ChunkedArray:
    """Tell of items whether a checkpoint knows nothing of them: they were ahead, or came later."""
    later = pc.greater(rows["_step"], checkpoint.queue_step)
    return pc.or_kleene(are_ahead(rows, turns, checkpoint.pointers), later)


# rule again: overdue item
def are_ahead(
    rows: pa.Table, turns: pa.ChunkedArray, pointers: Mapping[int, Pointer]
) -> pa.ChunkedArray:
    """Tell of rows whether the order has yet to reach them, by turn, ``_seq`` and ``_priority``."""
    last = _by_priority(rows, {p: seq for p, (_, seq) in pointers.items()}, pa.scalar(0))
    return are_after(rows, turns, (pointer_turns(rows, pointers), last))


def are_after(
    rows: pa.Table, turns: pa.ChunkedArray, place: tuple[pa.Array | float, pa.Array | float]
) -> pa.ChunkedArray:
    """Tell of rows whether they stand behind a turn and a seq, of all or of each."""
    turn, seq = place
    tied = pc.and_(pc.equal(turns, turn), pc.greater(rows["_seq"], seq))
    return pc.or_(pc.greater(turns, turn), tied)


def pointer_turns(rows: pa.Table, pointers: Mapping[int, Pointer]) -> pa.ChunkedArray:
    """Return the turn that the order has reached at the priority of each row."""
    return _by_priority(rows, {p: turn for p, (turn, _) in pointers.items()}, pa.scalar(0.0))


def _by_priority(rows: pa.Table, values: Mapping[int, object], default: pa.Scalar) -> pa.Array:
    """Return one of some values for each row, by its ``_priority``."""
    chosen = pa.repeat(default, rows.num_rows)
    for priority, value in values.items():
        is_it = pc.fill_null(pc.equal(rows["_priority"], priority), False)
        chosen = pc.if_else(is_it, pa.scalar(value, default.type), chosen)
    return chosen


def _pins(rows: pa.Table, stretches: list[Stretch], at: pa.Array, end: int) -> pa.Array:
    """Return one end of what is pinned for the key and the priority of each row."""
    pins = pa.repeat(pa.scalar(0.0), rows.num_rows)
    for priority in sorted({p for stretch in stretches for p in stretch.pins}):
        known = [stretch.pins.get(priority, _UNPINNED)[end] for stretch in stretches]
        is_it = pc.fill_null(pc.equal(rows["_priority"], priority), False)
        pins = pc.if_else(is_it, _take(known, at, 0.0), pins)
    return pins


def _take(values: list[float], at: pa.Array, otherwise: float) -> pa.Array:
    return pc.fill_null(pc.take(pa.array(values, pa.float64()), at), otherwise)
