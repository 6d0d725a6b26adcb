"""A queue is made, and dropped: its two logs, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from spark_queue.columns import kinds
from spark_queue.commands.admin import config_row
from spark_queue.config import LIVE_SETTINGS, QueueConfig
from spark_queue.errors import LogDamagedError, QueueExistsError, QueueNotFoundError
from spark_queue.log import addresses
from spark_queue.log.delta.commits import newest_version, summed_up
from spark_queue.log.delta.log import Log
from spark_queue.log.disk import removal, write_lock
from spark_queue.log.disk.fsync import make_directory
from spark_queue.log.heads import QueueHead, StatusHead, following
from spark_queue.log.log_columns import fields_of, json_of
from spark_queue.log.schema import QUEUE_COLUMNS, STATUS_COLUMNS
from spark_queue.log.settings import Settings
from spark_queue.log_errors import using
from spark_queue.state import existence
from spark_queue.state.commit_step import commit_status, require_not_held
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.wording import shorten

#: Begins the name of the status log of a reader, before its number.
_READER = "reader_"


#: What a queue is, which never changes.
_FIXED = [one.name for one in fields(QueueConfig) if one.name not in LIVE_SETTINGS]


def create(
    store: Store,
    columns: Sequence[Mapping[str, Any]],
    config: QueueConfig,
    *,
    exist_ok: bool = False,
) -> None:
    """Make the tables of a queue and log its configuration as the first step.

    Parameters
    ----------
    store : Store
        Where the queue is to be.
    columns : sequence of mapping
        The user's columns, as Spark writes a schema in JSON; they and the keys were checked.
    config : QueueConfig
        The configuration.
    exist_ok : bool
        Keep a queue that another process creates first, if :func:`is_made` finds it equal.
    """
    settings = Settings.initial(config)
    _require_no_file(store)
    with making(store):
        try:
            _make(store, columns, settings)
        except QueueExistsError:
            if not exist_ok or not is_made(store, columns, config):
                raise


def is_made(store: Store, columns: Sequence[Mapping[str, Any]], config: QueueConfig) -> bool:
    """Whether a queue is there, with these columns and fixed settings.

    Raises
    ------
    QueueExistsError
        When it has others.
    """
    try:
        found = store.settings(existence.require_exists(store)).config
    except QueueNotFoundError:
        return False
    there, wanted = kinds.read_users(store.queue.schema()), kinds.from_json({"fields": columns})
    differences = [*_settings_differ(found, config), *_columns_differ(there, wanted)]
    if differences:
        ways = "open it, create it with what it has, or use another name"
        raise QueueExistsError(store.name, f"it exists, and {'; '.join(differences)}: {ways}")
    return True


def _settings_differ(found: QueueConfig, wanted: QueueConfig) -> Iterator[str]:
    for name in _FIXED:
        is_now, would_be = getattr(found, name), getattr(wanted, name)
        if is_now != would_be:
            yield f"its {name} is {shorten(is_now)}, not {shorten(would_be)}"


def _columns_differ(found: Sequence[kinds.Field], wanted: Sequence[kinds.Field]) -> Iterator[str]:
    types, others = ({one.name: one.kind.simple for one in side} for side in (found, wanted))
    for name in others:
        if name not in types:
            yield f"it has no column {name!r}"
        elif types[name] != others[name]:
            yield f"its column {name!r} is {types[name]}, not {others[name]}"
    yield from (f"it has a column {name!r} more" for name in types if name not in others)
    if types == others and [*types] != [*others]:
        yield f"its columns are in another order: {', '.join(types)}"


@contextmanager
def making(store: Store) -> Iterator[None]:
    """Hold the right to create a queue's tables, against others on this disk."""
    # Threads come one by one to the directory, which a drop may remove.
    name = store.name
    with write_lock.holding(f"{name} is made", None), write_lock.holding(name, _home(store)):
        yield


def _home(store: Store) -> Path | None:
    """Return the directory for a queue's tables, if its path has one."""
    status = addresses.directory_of(store.session, store.handle.address.status)
    if status is None:
        return None
    with using(status.parent):
        make_directory(status.parent)
    return status.parent


def _make(store: Store, columns: Sequence[Mapping[str, Any]], settings: Settings) -> None:
    _require_free(store)
    # A row of our own has no values in the user's columns.
    users = [{**column, "nullable": True} for column in columns]
    # Of two processes the first step decides; neither replaces what the other has just made.
    whole = json_of([*fields_of(QUEUE_COLUMNS.json), *users])
    store.queue.create(whole, replaces=_is_there(store.queue))
    store.status.create(STATUS_COLUMNS.json, replaces=_is_there(store.status))
    # A queue whose first step survives a power cut needs this log, too.
    store.queue.force()
    with store.writing("status"):
        head = following(StatusHead(), config_step=1)
        row = config_row(settings, store.clock.now())
        if commit_status(Snapshot(store), head, row) is None:
            raise QueueExistsError(store.name)
        _note_empty(store, settings)


def _note_empty(store: Store, settings: Settings) -> None:
    """Remember a queue that this process has just created: no item, and its first settings."""
    store.position().settings[1] = settings
    cache = store.cache()
    with cache.lock:
        # Another process may have enqueued since: those are later versions.
        if cache.queue.head is None and store.is_local():
            cache.queue.head, cache.queue.version = QueueHead(), 0


def _is_there(log: Log[Any]) -> bool:
    # Spark cannot tell of a table whose first commit is cut.
    return log.is_unfinished() or log.exists()


def _require_no_file(store: Store) -> None:
    file = store.handle.address.plain_file()
    if file is not None:
        raise QueueExistsError(
            store.name, f"{str(file)!r} is a plain file: move it, or use another path"
        )


def _require_free(store: Store) -> None:
    """Refuse a taken place; the rest of an interrupted ``create`` is no obstacle."""
    for log in (store.queue, store.status):
        directory = addresses.directory_of(store.session, log.address)
        if directory is None and log.exists() and not log.is_empty():
            raise QueueExistsError(store.name)
        if directory is None or not directory.exists() or removal.is_unfinished(directory):
            continue
        if newest_version(directory, None) or summed_up(directory):
            raise QueueExistsError(store.name)
        why = f"{str(directory)!r} has files that may be of steps, and no commit that names them"
        raise QueueExistsError(store.name, f"{why}: restore those, or move the files away")


def drop(store: Store) -> None:
    """Remove the tables of a queue, and their files.

    Raises
    ------
    QueueNotFoundError
        When there is none.
    FencedError
        When a front holds the queue.
    FormatVersionError
        When a newer release wrote it: which tables it has is not known here.
    """
    with making(store):
        # Another drop may have removed it while this waited.
        existence.require_exists(store)
        with suppress(LogDamagedError):
            existence.require_known_format(store)
        with store.writing("queue"), store.writing("status"):
            require_not_held(store, store.queue_head())
            numbers = [number for number in store.queue_head().readers if number]
            store.forget()
            # First: without it there is no queue, and the next drop removes the rest.
            store.queue.drop()
            _drop_status(store, numbers)


def finish_drop(store: Store) -> bool:
    """Remove the rest of an interrupted :func:`drop`; return whether there was any."""
    if not _is_half_dropped(store):
        return False
    with making(store):
        store.forget()
        # Meantime another process may have finished it, and created another queue.
        if _is_half_dropped(store):
            found = [int(name.removeprefix(_READER)) for name in _readers_beside(store)]
            if store.queue.is_remote:
                store.queue.drop()
            _drop_status(store, [n for n in found if _has_status_log(store.of_reader(n))])
    return True


def _readers_beside(store: Store) -> Iterator[str]:
    """Yield the names of possible status logs of readers in a queue's place."""
    status, tables = store.status.address, store.handle.place.tables
    directory = None if tables else addresses.directory_of(store.session, status)
    there = tables.tables_beside(status) if tables else set()
    there |= {one.name for one in directory.parent.iterdir()} if directory else set()
    names = (name for name in there if name.startswith(_READER))
    return (name for name in names if name.removeprefix(_READER).isdecimal())


def is_dropped(store: Store, file: str) -> bool:
    """Whether a file belongs to a log that was dropped from this disk."""
    places = (
        addresses.directory_of(store.session, log.address) for log in (store.queue, store.status)
    )
    its = [place for place in places if place is not None and Path(file).is_relative_to(place)]
    return any(not place.exists() for place in its)


def _is_half_dropped(store: Store) -> bool:
    """Whether a status log is known to lack its item log."""
    directory = addresses.directory_of(store.session, store.status.address)
    is_here = store.queue.is_remote or directory is not None
    return is_here and _has_status_log(store) and not store.queue.exists()


def _has_status_log(store: Store) -> bool:
    """Whether the place has a status log, and not a user's table."""
    return "_lease" in (existence.status_columns(store) or ())


def _drop_status(store: Store, numbers: Sequence[int]) -> None:
    """Remove the status logs; the first reader's last, as it leads to the others."""
    for reader in map(store.of_reader, numbers):
        if reader.status.exists():
            reader.status.drop()
    store.status.drop()
