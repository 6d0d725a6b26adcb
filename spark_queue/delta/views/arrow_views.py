"""Views of a queue without Spark: tables of Arrow, now or as it was."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.delta.commands.enqueue import Enqueued
from spark_queue.delta.commands.rows import columns_of
from spark_queue.delta.input.plain.arrow import schema_of
from spark_queue.delta.sql.arrow_look import ArrowLook
from spark_queue.delta.sql.file_rows import (
    item_files,
    log_of,
    once_more,
)
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import ITEM, QUEUE_COLUMNS, REFUSED
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
