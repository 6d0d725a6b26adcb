"""Existence of a queue, and of its readers' logs, at a place."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from spark_queue.errors import QueueNotFoundError
from spark_queue.log import addresses
from spark_queue.log.addresses import QueueAddress
from spark_queue.log.delta import completeness
from spark_queue.log.heads import StatusHead
from spark_queue.log.step_events import Listener, LogName
from spark_queue.state.catch_up import Seen
from spark_queue.state.store import Store


def beside(store: Store, path: str, listener: Listener | None = None) -> Store:
    """Return another queue, existing or not, with the options of the given one."""
    mine = store.handle
    return Store.of(mine.session, QueueAddress(path), mine.clock, listener, mine.tables)


def exists(store: Store) -> bool:
    """Whether the queue was created, completely."""
    return status_columns(store) is not None and not store.status.is_empty()


def status_columns(store: Store) -> Collection[str] | None:
    """Return the status log's columns; ``None`` where there is no such table.

    Raises
    ------
    LogDamagedError
        When its newest commit is not whole.
    """
    log = store.status
    directory = addresses.directory_of(log.session, log.address)
    is_missing = directory is not None and not addresses.has_log(directory)
    if is_missing or log.is_unfinished():
        return None
    completeness.require_uncut(store.name, "status", directory)
    return log.columns() if log.exists() else None


def require_exists(store: Store) -> StatusHead:
    """Return the newest head of the status log.

    Raises
    ------
    QueueNotFoundError
        When there is no queue under the name.
    """
    columns = status_columns(store)
    if columns is None and store.status.is_unfinished():
        raise QueueNotFoundError(store.name, "its creation was cut, or is under way")
    if columns is None:
        raise QueueNotFoundError(store.name)
    if "_lease" not in columns or not (head := store.status_head()).step:
        raise QueueNotFoundError(store.name, "what is there is not a queue of this library")
    return head


def is_prepared(store: Store) -> bool:
    """Whether a reader's status log exists, with its first step."""
    seen = store.position().status.head
    return (seen is not None and seen.step > 0) or exists(store)


def require_known_format(store: Store) -> None:
    """Check that this release knows the format that the queue has now.

    Raises
    ------
    FormatVersionError
        When a newer release wrote it, or has upgraded it since it was opened.
    """
    # The first log has the queue's settings, whoever reads it.
    first = store.of_reader(0)
    first.settings(first.status_head())


def require_steps(
    store: Store, which: LogName, seen: Seen[Any], last: int, *, is_readable: bool
) -> None:
    """Check that a log has its steps up to one.

    Where all its commits are looked at one by one none goes unseen, but the newest may be cut.

    Parameters
    ----------
    is_readable : bool
        Whether this process reads the log's files.

    Raises
    ------
    LogDamagedError
        When it has not.
    """
    log = store.log(which)
    name, directory = store.name, store.handle.place.directory_of(log)
    if directory is not None and seen.version is not None and is_readable:
        completeness.require_uncut_at(name, which, directory, seen.version)
    else:
        completeness.require_end(name, which, log, directory, last)
