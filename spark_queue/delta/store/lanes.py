"""Who commits the steps of a queue: Spark, or this process by itself; and who rewrites files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from spark_queue.delta.store.store import Store
from spark_queue.delta.tables import lock, natives
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
    with rewrites(store):
        natives.begin(store.handle.place.name())
    store.handle.natives = logs


def stop_writing_natively(store: Store) -> None:
    """Commit all steps by Spark again."""
    if store.handle.natives is not None:
        store.handle.natives = None
        natives.end(store.handle.place.name())


@contextmanager
def rewriting(store: Store, which: LogName) -> Iterator[None]:
    """Hold the right to rewrite files of a log: steps wait where they are written natively."""
    place = store.handle.place
    with rewrites(store):
        if not place.is_local() and not natives.is_written_natively(place.name()):
            yield
            return
        with store.writing(which):
            try:
                yield
            finally:
                store.cache().drop_replicas()


def rewrites(store: Store) -> AbstractContextManager[object]:
    """Return the lock of those who rewrite: natives may begin only when nobody does."""
    return lock.log_lock(f"{store.handle.place.name()}/rewrites")
