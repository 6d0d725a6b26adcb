"""Views of a queue without Spark: tables of Arrow, now or as it was."""

from __future__ import annotations

import math
from bisect import bisect
from datetime import datetime
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow import snapshot
from spark_queue.delta.arrow.rows import (
    beside,
    having,
    item_files,
    last_of_each,
    log_of,
    once_more,
    rows_of,
)
from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.commands.rows import columns_of
from spark_queue.delta.commands.trim import FULL, LAGS
from spark_queue.delta.input.kinds import WIDTHS, Field
from spark_queue.delta.input.plain.arrow import schema_of
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import (
    CANCELLED,
    CLAIMED,
    DEAD,
    ITEM,
    QUEUE_COLUMNS,
    READY,
    REFUSED,
    RENEWAL,
    STATES,
    STATUS_COLUMNS,
)
from spark_queue.delta.views.ends import Ends, ends_at
from spark_queue.errors import SparkNeededError
from spark_queue.results import WAITS, Lag, QueueStats

#: Columns of an item's entry that a list of items shows.
_ENTERED = ("_seq", "_fair_key", "_enqueued_at", "_step")

#: Columns of a transition, by log, in the order of a history.
_FIRST = ("_step", "_enqueued_at", "_duplicate_of", "_origin")
_LATER = (
    *("_step", "_at", "_state", "_attempts", "_losses", "_lease", "_claim_id", "_worker_id"),
    *("_lease_expires_at", "_available_at", "_error"),
)

#: What the renewal of a lease says of its items.
_RENEWED = ("_step", "_at", "_lease", "_lease_expires_at")


def schema(store: Store) -> pa.Schema:
    """Return the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the tables.
    """
    return schema_of(columns_of(store))


def outcomes(store: Store, done: Enqueued) -> pa.Table:
    """Return what became of each row of an enqueue."""
    users = schema(store)
    rows = _logged(store, done.step, users) if done.rows is None else done.rows
    rows = rows.filter(pc.is_in(rows["_kind"], pa.array([ITEM, REFUSED]))).sort_by("_seq")
    left_out = pc.if_else(pc.is_null(rows["_duplicate_of"]), "refused", "duplicate")
    became = pc.if_else(pc.equal(rows["_kind"], ITEM), "inserted", left_out)
    kept = rows.select([*users.names, "_seq"]).append_column("outcome", became)
    return kept.append_column("duplicate_of", rows["_duplicate_of"])


def _logged(store: Store, step: int, users: pa.Schema) -> pa.Table:
    """Return the rows of a step of the item log, and of the users' columns all."""
    names = ("_kind", "_step", "_seq", "_duplicate_of")
    if not step:
        ours = QUEUE_COLUMNS.arrow
        return pa.unify_schemas([users, pa.schema([ours.field(n) for n in names])]).empty_table()
    log = log_of(store, "queue")

    def read() -> pa.Table:
        files = [file for file in item_files(log) if file.may_have("_step", step, step)]
        return log.rows_of(files, [*users.names, *names])

    rows = once_more(read)
    return rows.filter(pc.equal(rows["_step"], step))


def status(store: Store, ends: Ends | None = None) -> pa.Table:
    """Return one row an item, in the order in which they were enqueued."""
    return snapshot.status(store, **_steps(ends))


def in_state(store: Store, state: str, ends: Ends | None = None) -> pa.Table:
    """Return the items in a state, as :func:`status` does."""
    rows = status(store, ends)
    return rows.filter(pc.equal(rows["_state"], state))


def dead(store: Store, ends: Ends) -> pa.Table:
    """Return the dead letters, each with its successor."""
    letters = in_state(store, DEAD, ends)
    return letters.append_column("_successor", successors(store, ends, letters["_seq"]))


def standing(store: Store, ends: Ends, most: float = math.inf) -> pa.Table:
    """Return the rows of :func:`status` without the user's columns (:func:`values`).

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs, or one has more rows than ``most``.
    """
    return snapshot.standing(store, _ENTERED, most=most, **_steps(ends))


def values(store: Store, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the columns of the user for some items, in their order."""
    users = user_columns(store)
    found = rows_of(store, "queue", ("_seq", *users), having(seqs))
    return beside(found, seqs).select(users)


def successors(store: Store, ends: Ends, seqs: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return as which item each was redriven last, null where it was not."""
    found = rows_of(store, "queue", ("_seq", "_step", "_origin"))
    seen = pc.and_(
        pc.is_valid(found["_origin"]), pc.greater(found["_step"], store.registered().since_step)
    )
    if ends.queue_step is not None:
        seen = pc.and_(seen, pc.less_equal(found["_step"], ends.queue_step))
    found = found.filter(seen)
    newest = last_of_each(
        pa.table({"_seq": found["_origin"], "_successor": found["_seq"]}), "_successor"
    )
    return beside(newest, seqs)["_successor"]


def history(store: Store, seq: int) -> pa.Table:
    """Return every transition of an item, oldest first.

    The columns are those of :func:`spark_queue.delta.plans.snapshot.history`.
    """
    one = pa.chunked_array([pa.array([seq], pa.int64())])
    parts = [_NO_TRANSITION]
    for kind, state in ((ITEM, READY), (REFUSED, REFUSED)):
        found = rows_of(store, "queue", ("_seq", *_FIRST), having(one), kind=kind)
        entered = found.filter(pc.equal(found["_seq"], seq)).select(_FIRST)
        entered = entered.rename_columns(["_at" if n == "_enqueued_at" else n for n in _FIRST])
        parts.append(_with(_with(entered, "_state", state), "log", "queue"))
    found = rows_of(store, "status", ("_seq", *_LATER), having(one))
    later = found.filter(pc.equal(found["_seq"], seq)).select(_LATER).sort_by("_step")
    parts.append(_with(_add_renewals(store, later), "log", "status"))
    return pa.concat_tables(parts, promote_options="default").combine_chunks()


# rule again: renewal of a lease
def _add_renewals(store: Store, moves: pa.Table) -> pa.Table:
    """Return the transitions of an item with the renewals of its leases, by its own rows."""
    rows = moves.to_pylist()
    held = [row["_step"] for row in rows if row["_state"] == CLAIMED]
    if not held:
        return moves
    renewals = rows_of(
        store, "status", _RENEWED, lambda file: file.may_have("_step", held[0]), kind=RENEWAL
    )
    for renewal in renewals.select(_RENEWED).sort_by("_step").to_pylist():
        at = bisect(rows, renewal["_step"], key=itemgetter("_step"))
        before = rows[at - 1] if at else {}
        if before.get("_state") == CLAIMED and before["_lease"] == renewal["_lease"]:
            rows.insert(at, before | renewal)
    return pa.Table.from_pylist(rows, moves.schema)


def user_columns(store: Store) -> list[str]:
    """Return the names of the user's columns.

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs.
    """
    log_of(store, "queue")
    return store.user_columns()


def _steps(ends: Ends | None) -> dict[str, Any]:
    """Return the last steps of both logs, as :func:`snapshot.status` is told them."""
    if ends is None or ends.queue_step is None:
        return {}
    return {"queue_step": ends.queue_step, "status_step": ends.head.step}


def _with(rows: pa.Table, name: str, text: str) -> pa.Table:
    return rows.append_column(name, pa.repeat(pa.scalar(text), rows.num_rows))


def _nothing() -> pa.Table:
    known = {one.name: one for one in (*QUEUE_COLUMNS.arrow, *STATUS_COLUMNS.arrow)}
    log = pa.field("log", pa.string())
    shown = ("_step", "_at", "_state", "_duplicate_of", "_origin", *_LATER[3:])
    return pa.schema([log, *(known[name] for name in shown)]).empty_table()


#: A history without a row.
_NO_TRANSITION = _nothing()


_MICROS = 1_000_000


def stats(store: Store, ends: Ends) -> QueueStats:
    """Count a queue as of a step of each log."""
    now, head = ends.at or store.clock.now(), ends.head
    items = standing(store, ends)
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


def lag(store: Store) -> Lag:
    """Count what a reader is not done with, as :mod:`~spark_queue.delta.views.spark_views` does.

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
    found = standing(store, ends_at(store, None))
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
    """Return what the values of some items take, as :mod:`spark_queue.delta.input.values` does."""
    found = values(store, seqs)
    return sum(_size(column, found[column.name]) for column in columns_of(store))


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
