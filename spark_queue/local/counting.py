"""Counts of a queue without Spark, as :mod:`spark_queue.delta.views.inspect`."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow import snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import READY, STATES
from spark_queue.delta.views.ends import Ends
from spark_queue.local import views
from spark_queue.results import WAITS, QueueStats

_MICROS = 1_000_000


def stats(store: Store, ends: Ends) -> QueueStats:
    """Count a queue as of a step of each log."""
    now, head = ends.at or store.clock.now(), ends.head
    items = views.standing(store, ends)
    refused = snapshot.read_refused(store, ["_fair_key"], ends.queue_step)
    waiting = items.filter(pc.equal(items["_state"], READY))
    oldest = pc.min(waiting["_enqueued_at"]).as_py()
    states = {state: pc.sum(pc.equal(items["_state"], state)).as_py() or 0 for state in STATES}
    return QueueStats(
        step=head.step,
        at=now,
        paused=store.settings(head).paused,
        **states,
        refused=refused.num_rows,
        oldest_age=None if oldest is None else now - oldest,
        per_key=_per_key(items, refused, now),
    )


def _per_key(items: pa.Table, refused: pa.Table, now: datetime) -> pa.Table:
    keys = pa.chunked_array([*items["_fair_key"].chunks, *refused["_fair_key"].chunks], pa.string())
    named = pa.table({"fair_key": pc.unique(keys)})
    # As Spark sorts: what has no key is first.
    named = named.append_column("has_key", pc.is_valid(named["fair_key"]))
    named = named.sort_by([("has_key", "ascending"), ("fair_key", "ascending")])
    columns = {"fair_key": named["fair_key"]}
    for state in STATES:
        of_state = items.filter(pc.equal(items["_state"], state))
        columns[state] = _count(named, of_state["_fair_key"])
    columns["refused"] = _count(named, refused["_fair_key"])
    waits = _seconds_between(items["_enqueued_at"], items["_first_claimed_at"])
    columns |= _waits(named, items["_fair_key"], waits)
    waiting = items.filter(pc.equal(items["_state"], READY))
    at = pa.scalar(now, pa.timestamp("us", "UTC"))
    ages = pa.table(
        {"key": waiting["_fair_key"], "age": _seconds_between(waiting["_enqueued_at"], at)}
    )
    columns["oldest_age"] = _of_keys(named, ages.group_by("key").aggregate([("age", "max")]))
    return pa.table(columns)


def _count(named: pa.Table, keys: pa.ChunkedArray) -> pa.ChunkedArray:
    counts = pa.table({"key": keys}).group_by("key").aggregate([([], "count_all")])
    return pc.fill_null(_of_keys(named, counts), 0)


def _waits(named: pa.Table, keys: pa.ChunkedArray, waits: pa.ChunkedArray) -> dict[str, pa.Array]:
    """Return, for each key, waits below which a part of all are: one of them, as Spark says it."""
    found = pa.table({"key": keys, "wait": waits})
    found = found.filter(pc.is_valid(found["wait"]))
    found = found.sort_by([("key", "ascending"), ("wait", "ascending")])
    sizes = found.group_by("key", use_threads=False).aggregate([([], "count_all")])
    counts = sizes["count_all"].combine_chunks()
    before = pc.subtract(pc.cumulative_sum(counts), counts)
    told = {}
    for name, part in WAITS.items():
        place = pc.subtract(pc.ceil(pc.multiply(counts.cast(pa.float64()), part)), 1)
        at = pc.add(before, place.cast(pa.int64()))
        values = pa.table({"key": sizes["key"], "value": found["wait"].take(at)})
        told[name] = _of_keys(named, values)
    return told


def _of_keys(named: pa.Table, values: pa.Table) -> pa.ChunkedArray:
    """Return the value of each key, null where it has none; the key, too, may be null."""
    (value,) = (name for name in values.column_names if name != "key")
    at = pc.index_in(named["fair_key"], values["key"].combine_chunks())
    return values[value].take(at)


def _seconds_between(first: pa.ChunkedArray, last: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray:
    # Two numbers are rounded and then subtracted, as Spark does it: to the last digit the same.
    return pc.subtract(_seconds(last), _seconds(first))


def _seconds(at: pa.ChunkedArray | pa.Scalar) -> pa.ChunkedArray | pa.Scalar:
    return pc.divide(at.cast(pa.int64()).cast(pa.float64()), float(_MICROS))
