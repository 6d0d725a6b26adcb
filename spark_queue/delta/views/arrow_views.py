"""Views of a queue without Spark: tables of Arrow, now or as it was."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.arrow.rows import (
    beside,
    having,
    item_files,
    log_of,
    once_more,
    rows_of,
)
from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.commands.rows import columns_of
from spark_queue.delta.input.plain.arrow import schema_of
from spark_queue.delta.sql.arrow_look import ArrowLook
from spark_queue.delta.sql.look import STATUS
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import ITEM, QUEUE_COLUMNS, REFUSED
from spark_queue.delta.views.ends import Ends
from spark_queue.delta.views.views import QueueViews


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


VIEWS = QueueViews(ArrowLook, schema, outcomes)


def standing(store: Store, ends: Ends, most: float, *, dead: bool = False) -> pa.Table:
    """Return items, or dead letters, without the user's columns (:func:`values`).

    Raises
    ------
    SparkNeededError
        When only Spark reads the logs, or one has more rows than ``most``.
    """
    with VIEWS.at(store, ends, most=most, has_values=False) as at:
        return at.view("dead", (*STATUS, "_successor")) if dead else at.view("status")


def values(store: Store, seqs: pa.ChunkedArray) -> pa.Table:
    """Return the columns of the user for some items, in their order."""
    users = store.user_columns()
    return beside(rows_of(store, "queue", ("_seq", *users), having(seqs)), seqs).select(users)
