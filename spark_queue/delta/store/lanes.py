"""Native commits of a queue's steps, and the right to rewrite its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from spark_queue.delta.store.store import PATIENCE, Store
from spark_queue.delta.tables import turnstile
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.natives import Natives
from spark_queue.delta.tables.wishes import STALENESS, is_fresh
from spark_queue.errors import UnsafeSessionError


def write_natively(store: Store) -> None:
    """Commit steps without Spark from now on, where it is not Spark that has their rows.

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
        logs = Natives()
        logs.of(store.queue)
    store.handle.natives = logs


@contextmanager
def rewriting(store: Store, which: LogName) -> Iterator[None]:
    """Hold the right to rewrite files of a log: on a local disk steps wait meanwhile."""
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
    return turnstile.holding(name, None, timeout=PATIENCE)
