"""Lag of a reader behind its queue, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import rows_of
from spark_queue.delta.commands.rows import columns_of
from spark_queue.delta.commands.trim import FULL, LAGS
from spark_queue.delta.input.kinds import WIDTHS, Field
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import CANCELLED, CLAIMED, READY
from spark_queue.delta.views.ends import ends_at
from spark_queue.errors import SparkNeededError
from spark_queue.local import views
from spark_queue.results import Lag


def lag(store: Store) -> Lag:
    """Count what a reader is not done with; as :func:`spark_queue.delta.views.lag.lag` does.

    Raises
    ------
    SparkNeededError
        When only Spark counts the bytes of a column, or reads the logs.
    """
    facts, newest = store.registered(), store.queue_head()
    if facts.streams:
        return Lag(
            reader=facts.name,
            items=newest.items - facts.since_items,
            bytes=_bytes(store, _coming(store)),
            open_items=0,
            age=None,
            steps=newest.step - facts.since_step,
            lost=facts.lost,
            dropped=0,
        )
    found = views.standing(store, ends_at(store, None))
    held = pc.equal(found["_state"], CLAIMED)
    left = found.filter(pc.or_(held, pc.equal(found["_state"], READY)))
    waiting = left.filter(pc.equal(left["_state"], READY))
    oldest, first = pc.min(waiting["_enqueued_at"]).as_py(), pc.min(left["_step"]).as_py()
    return Lag(
        reader=facts.name,
        items=left.num_rows,
        bytes=_bytes(store, left["_seq"]),
        open_items=left.num_rows - waiting.num_rows,
        age=None if oldest is None else store.clock.now() - oldest,
        steps=0 if first is None else newest.step - first + 1,
        lost=facts.lost,
        dropped=_count_dropped(store),
    )


def _coming(store: Store) -> pa.ChunkedArray:
    """Return the items that a stream is to read."""
    rows = rows_of(store, "queue", ("_seq", "_step"))
    return rows.filter(pc.greater(rows["_step"], store.registered().since_step))["_seq"]


def _bytes(store: Store, seqs: pa.ChunkedArray) -> int:
    """Return what the values of some items take, as :mod:`spark_queue.delta.input.sizes` does."""
    values = views.values(store, seqs)
    return sum(_size(column, values[column.name]) for column in columns_of(store))


def _size(column: Field, values: pa.ChunkedArray) -> int:
    width = WIDTHS.get(column.kind.form)
    if width is not None:
        return width * int(pc.count(values).as_py())
    if column.kind.form not in ("string", "binary"):
        raise SparkNeededError(
            f"to count the bytes of {column.name!r}", f"it is {column.kind.simple}"
        )
    return pc.sum(pc.binary_length(values)).as_py() or 0


def _count_dropped(store: Store) -> int:
    moves = rows_of(store, "status", ("_state", "_error"))
    ended = moves.filter(pc.equal(moves["_state"], CANCELLED))["_error"]
    return pc.sum(pc.is_in(ended, value_set=pa.array([FULL, LAGS]))).as_py() or 0
