"""Rows of the item log that an enqueue by SQL writes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.replica.request import EnqueueFacts
from spark_queue.delta.tables.heads import QueueHead
from spark_queue.delta.tables.schema import (
    GROUP,
    ITEM,
    KEY,
    META_LANE,
    QUEUE_COLUMNS,
    REFUSED,
    REFUSED_LANE,
)
from spark_queue.delta.tables.settings import Settings


def is_clamped(settings: Settings) -> bool:
    """Tell whether members of a group may stand in an order of their own."""
    config = settings.config
    has_lines = config.fair_key is not None or config.priority is not None
    return config.group_key is not None and has_lines


def step_rows(
    rows: pa.Table,
    before: QueueHead,
    settings: Settings,
    now: datetime,
    decided: pa.Table,
    tagged: pa.Table,
    placed: pa.Table,
) -> tuple[pa.Table, EnqueueFacts]:
    """Return the rows of a step as they are logged, and the facts of them.

    Parameters
    ----------
    rows : pyarrow.Table
        The batch.
    decided, tagged, placed : pyarrow.Table
        Its rows by ``pos``, with ``duplicate_of``. Those that are accepted, with the tags that
        their lines give out. The same with their places.
    """
    config, count = settings.config, rows.num_rows
    at = pc.subtract(placed["pos"], 1)
    items = _logged_items(rows.take(at), placed, before, now)
    parts = [items.sort_by([("_priority", "ascending"), ("_round", "ascending")])]
    refused = decided.filter(pc.is_valid(decided["duplicate_of"]))
    if refused.num_rows:
        given = rows.take(pc.subtract(refused["pos"], 1))
        said = {"_kind": REFUSED, "_gen": REFUSED_LANE, "_enqueued_at": now}
        columns = {
            "_seq": pc.add(refused["pos"], before.last_seq),
            "_duplicate_of": refused["duplicate_of"],
        }
        parts.append(_with(given, said, columns))
    if config.fair_key is None:
        tops = _tops(settings, float(before.last_seq + count), placed)
    else:
        ends = tagged.group_by(["priority", "fair_key"]).aggregate([("tag", "max")])
        ends = ends.rename_columns(["_priority", "_fair_key", "_round"])
        parts.append(_with(ends, {"_kind": KEY, "_gen": META_LANE}, {}))
        highest = ends.group_by("_priority").aggregate([("_round", "max")])
        tops = dict(zip(*(column.to_pylist() for column in highest.columns), strict=True))
    if is_clamped(settings):
        parts.append(_last_of_groups(placed, before))
    table = pa.concat_tables(parts, promote_options="default")
    return table, EnqueueFacts(count, refused.num_rows, 0, tops)


def _logged_items(given: pa.Table, placed: pa.Table, before: QueueHead, now: datetime) -> pa.Table:
    said = {"_kind": ITEM, "_gen": before.gen, "_enqueued_at": now}
    columns = {
        "_seq": pc.add(placed["pos"], before.last_seq),
        "_priority": placed["priority"],
        "_round": placed["round"],
        "_duplicate_of": pa.nulls(placed.num_rows, pa.int64()),
    }
    return _with(given, said, columns)


def _last_of_groups(placed: pa.Table, before: QueueHead) -> pa.Table:
    members = placed.filter(pc.is_valid(placed["group_key"]))
    last = members.group_by("group_key").aggregate([("pos", "max")])
    ends = members.filter(pc.is_in(members["pos"], last["pos_max"].combine_chunks()))
    named = ends.rename_columns([f"_{name}" for name in ends.column_names]).drop_columns("_pos")
    seqs = pc.add(ends["pos"], before.last_seq)
    return _with(named, {"_kind": GROUP, "_gen": META_LANE}, {"_seq": seqs})


def _tops(settings: Settings, last: float, placed: pa.Table) -> dict[int, float]:
    """Return the highest tag at each priority of a queue of one line."""
    if settings.config.priority is None:
        return {0: last}
    return dict.fromkeys(sorted(pc.unique(placed["priority"]).to_pylist()), last)


def _with(
    given: pa.Table, said: Mapping[str, object], columns: Mapping[str, pa.ChunkedArray]
) -> pa.Table:
    """Return rows with columns of the log, each of its type there."""
    kinds = QUEUE_COLUMNS.arrow
    made = {name: given[name] for name in given.column_names}
    for name, value in said.items():
        made[name] = pa.repeat(pa.scalar(value, kinds.field(name).type), given.num_rows)
    made |= {name: column.cast(kinds.field(name).type) for name, column in columns.items()}
    return pa.table(made)
