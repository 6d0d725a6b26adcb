"""A queue of an older format becomes one of this release's, as a step of each reader's log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from spark_queue.columns import key_rules, kinds
from spark_queue.columns.kinds import Field, Kind
from spark_queue.commands import admin, readers
from spark_queue.errors import SchemaMismatchError
from spark_queue.log.log_columns import Columns, column_names
from spark_queue.log.schema import (
    FORMAT_VERSION,
    QUEUE_COLUMNS,
    STATUS_COLUMNS,
    foreign_names,
    format_of,
    later_than,
)
from spark_queue.log.step_events import LogName
from spark_queue.results import Upgraded
from spark_queue.state.commit_step import require_not_held
from spark_queue.state.store import Store


def add_columns(store: Store, columns: Sequence[Field]) -> list[str]:
    """Add user columns to a queue, and return the names of the new ones.

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
            # On a shared store two may do it at once, and one gets an error that they exist.
            store.cache().columns = None
            if _missing(store, which, columns):
                raise
        store.cache().columns = None
    return [column.name for column in missing]


def _missing(store: Store, which: LogName, columns: Sequence[Field]) -> list[Field]:
    there = store.columns() if which == "queue" else (store.native(which) or store.status).schema()
    known = {field.name.lower(): field for field in kinds.read(there)}
    foreign = foreign_names(there)
    # A column that another tool has added becomes one of the queue's.
    named = [known.get(column.name.lower(), column) for column in columns]
    for column, found in zip(columns, named, strict=True):
        if found.kind != column.kind:
            raise SchemaMismatchError(column.name, f"is {found.kind.simple} in the queue")
    return [one for one in named if one.name.lower() not in known or one.name in foreign]


def _add(store: Store, which: LogName, columns: Sequence[Field]) -> None:
    # A row of our own has no values in them.
    fields = [{**field, "nullable": True} for field in kinds.to_json(columns)["fields"]]
    store.log(which).add_columns(fields)


def upgrade(store: Store, *, dry_run: bool = False) -> Upgraded:
    """Bring a queue to this release's format; nothing is done if it has that.

    A dry run makes the same checks, and writes nothing.

    First each reader's log says the new format, so that an older release refuses the queue from
    then on; then the tables get what is new in it. Where that is cut short, the next call goes on.

    Raises
    ------
    FormatVersionError
        When a key had a text that is not safe, which this release would not find.
    FencedError
        When a front holds the queue.
    """
    first = store.of_reader(0)
    settings = first.settings(first.status_head())
    key_rules.require_same_texts(store.name, settings, kinds.read_users(store.columns()))
    require_not_held(store, store.queue_head())
    was = oldest_format(store, [log.settings(log.status_head()).format for log in _logs(first)])
    if dry_run:
        return Upgraded(step=0, was=was, now=FORMAT_VERSION)
    step, *_ = [_log_format(reader) for reader in _logs(first)]
    for reader in _logs(first):
        widen(reader, _later(STATUS_COLUMNS), "status")
    # Last: where it has all columns, so have the others.
    widen(store, _later(QUEUE_COLUMNS))
    return Upgraded(step=step, was=was, now=FORMAT_VERSION)


def oldest_format(store: Store, logged: list[int]) -> int:
    """Return the oldest format of logs and tables: an upgrade may be cut."""
    return min(*logged, format_of(column_names(store.columns())))


def _later(columns: Columns) -> list[Field]:
    """Return the features of formats after the first."""
    return [Field(one.name, Kind(one.kind)) for one in later_than(1, columns)]


def _logs(first: Store) -> Iterator[Store]:
    """Return the queue with each of its status logs; the first has the settings for all."""
    yield first
    yield from (reader for reader in readers.every(first) if reader.reader != first.reader)


def _log_format(store: Store) -> int:
    """Log the format as a step; 0 where it is logged."""
    if store.settings(store.status_head()).format == FORMAT_VERSION:
        return 0
    return admin.configure(store, lambda old, _: replace(old, format=FORMAT_VERSION), "upgrade")
