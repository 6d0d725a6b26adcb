"""Native commits of a queue's steps, and the right to rewrite its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from spark_queue.errors import InvalidArgumentError, UnsafeSessionError
from spark_queue.log.delta.log import Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk import write_lock
from spark_queue.log.session_options import STALENESS, is_fresh
from spark_queue.log.step_events import LogName
from spark_queue.state.store import PATIENCE, Store


def write_natively(store: Store) -> None:
    """Commit steps without Spark from now on, unless Spark has their rows.

    Raises
    ------
    InvalidArgumentError
        When the queue is not on this machine's disk, or ``deltalake`` is not installed.
    UnsafeSessionError
        When the session may read a table as it was some time ago.
    """
    if not is_fresh(store.session):
        raise UnsafeSessionError(STALENESS, "native commits would be read late; unset it")
    with store.writing("queue"):
        _require_appends(store.queue)
    store.handle.is_native = True


def _require_appends(log: Log[Any]) -> None:
    directory = log.find_directory()
    if directory is None or not isinstance(log, DeltaLog):
        raise InvalidArgumentError(
            f"native is True, and {log.address.target!r} is not on this machine's disk: on a "
            "shared store steps are committed by Spark"
        )
    if "%" in str(directory):
        raise InvalidArgumentError(
            f"native is True, and deltalake takes the % in {str(directory)!r} for an escape: use "
            "another path, or let Spark commit"
        )
    log.require_appends()


@contextmanager
def rewriting(store: Store, which: LogName) -> Iterator[None]:
    """Hold the right to rewrite files of a log; on a local disk steps wait for it."""
    with rewrites(store):
        if not store.is_local():
            yield
            return
        with store.writing(which):
            try:
                yield
            finally:
                store.cache().drop_replicas()


def rewrites(store: Store) -> AbstractContextManager[object]:
    """Return the lock of this process's threads that rewrite files of a queue."""
    name = f"{store.handle.place.name()}/rewrites"
    return write_lock.holding(name, None, timeout=PATIENCE)
