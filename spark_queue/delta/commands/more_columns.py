"""Columns that a queue gets after it was made."""

from __future__ import annotations

from collections.abc import Sequence

from spark_queue.delta.input import kinds
from spark_queue.delta.input.kinds import Field
from spark_queue.delta.store.committing import require_not_held
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.errors import SchemaMismatchError


def add_columns(store: Store, columns: Sequence[Field]) -> list[str]:
    """Give a queue more columns of the user's, and return the names of those it did not have.

    Raises
    ------
    SchemaMismatchError
        When a queue cannot have a column of the name, or has one of another type.
    FencedError
        When a front holds the queue.
    SparkNeededError
        When only Spark keeps a type.
    """
    kinds.require_columns(columns)
    return widen(store, columns)


def widen(store: Store, columns: Sequence[Field], which: LogName = "queue") -> list[str]:
    """Give a log the columns that it has not, and return their names.

    They are null in all rows that are there. The errors are those of :func:`add_columns`.
    """
    with store.writing(which):
        missing = _missing(store, which, columns)
        if not missing:
            return []
        require_not_held(store, store.queue_head())
        try:
            _add(store, which, missing)
        except Exception:
            # On a shared store two may do it at once, and one is told that they are there.
            store.cache().columns = None
            if _missing(store, which, columns):
                raise
        store.cache().columns = None
    return [column.name for column in missing]


def _missing(store: Store, which: LogName, columns: Sequence[Field]) -> list[Field]:
    there = store.columns() if which == "queue" else (store.native(which) or store.status).schema()
    known = {field.name.lower(): field.kind for field in kinds.read(there)}
    for column in columns:
        kind = known.get(column.name.lower(), column.kind)
        if kind != column.kind:
            raise SchemaMismatchError(column.name, f"is {kind.simple} in the queue")
    return [column for column in columns if column.name.lower() not in known]


def _add(store: Store, which: LogName, columns: Sequence[Field]) -> None:
    # A row of our own has no values in them.
    fields = [{**field, "nullable": True} for field in kinds.to_json(columns)["fields"]]
    log = store.queue if which == "queue" else store.status
    log.add_columns(fields)
