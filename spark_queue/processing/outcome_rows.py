"""Outcomes of items as rows, as they come from where a handler runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_queue.log.log_columns import Columns, LogColumn
from spark_queue.processing.apart import Died
from spark_queue.wording import lasting

#: An item with its group.
Item = tuple["str | None", dict[str, Any]]

#: The columns of outcomes that there are always.
OUTCOMES = Columns(
    [
        LogColumn("_seq", "bigint", "the item"),
        LogColumn("outcome", "string", "what becomes of it"),
        LogColumn("error", "string", "why"),
        LogColumn("after", "bigint", "for how many microseconds it waits"),
        LogColumn("pause", "string", "by which key others wait"),
        LogColumn(
            "together", "bigint", "how many were in a call that a worker died of; 0: unbegun"
        ),
        LogColumn("seconds", "double", "what it took, of the time of its batch, where measured"),
    ]
)


def columns_of(returns: pa.Schema | None) -> pa.Schema:
    """Return the columns of outcomes.

    Parameters
    ----------
    returns : pyarrow.Schema, optional
        The columns of ``result``. Without them there is ``unasked`` instead: whether the handler
        gave rows all the same.
    """
    last = ("unasked", pa.bool_()) if returns is None else ("result", pa.struct(returns))
    return pa.schema([*OUTCOMES.arrow, last])


def overtime(seq: int, limit: float) -> dict[str, Any]:
    """Return the outcome of an item that took longer than so many seconds."""
    error = f"it took longer than its item_time_limit, {lasting(limit)}"
    return {"_seq": seq, "outcome": "nack", "error": error}


def release(seqs: Sequence[int], schema: pa.Schema, together: int | None = 0) -> pa.RecordBatch:
    """Give items back, uncharged, that were not begun."""
    return batch_of([_back(seq, together) for seq in seqs], schema)


def back(item: Item, together: int | None = 0) -> dict[str, Any]:
    """Return the outcome of an item that goes back, and was not begun."""
    return _back(item[1]["_seq"], together)


def _back(seq: int, together: int | None) -> dict[str, Any]:
    return {"_seq": seq, "outcome": "release", "together": together}


def loss(seq: int, died: Died) -> dict[str, Any]:
    """Return the outcome of an item of which its child died."""
    return {"_seq": seq, "outcome": "lose", "error": f"the worker died of it ({died})"}


def batch_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Return outcomes, each of which has some of the columns, as a batch."""
    return pa.RecordBatch.from_pylist(rows, schema=schema)
