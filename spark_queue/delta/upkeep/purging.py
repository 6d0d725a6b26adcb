"""Finished items that an operator takes away, with their history: what goes, and in which order.

To find such items takes long, and others go on meanwhile: a reader may make an item ready again
that was over. So a removal first notes how far the logs are, and asks, once nobody can make a step
any more, what has come back since then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Protocol, TypeAlias, TypeVar

from spark_queue.delta.commands import checkpoint, readers
from spark_queue.delta.steps import report
from spark_queue.delta.store import existence
from spark_queue.delta.store.lanes import rewrites
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName

#: Items that were found, by Spark or without.
_Found = TypeVar("_Found")

#: The newest step of each reader's log, by the reader's number; 0 for one that reads a stream.
Seen: TypeAlias = Mapping[int, int]


class Purge(Protocol[_Found]):
    """Who looks at the tables of a queue for a purge, and takes items out of them."""

    def find_finished(self, reader: Store) -> _Found:
        """Return the items that are meant, and that are over for a reader."""

    def without(self, found: _Found, reader: Store, since: int | None) -> _Found:
        """Leave out the items that a reader is not done with.

        Where that is known as of a step of its log, only what was in its hands after that one.
        """

    def without_successors(self, found: _Found, store: Store) -> _Found:
        """Leave out the items that were enqueued again from one that stays."""

    def split_kept(self, found: _Found) -> tuple[_Found, int]:
        """Return items as they are now, for good, and how many there are."""

    def remove(self, reader: Store, which: LogName, found: _Found) -> None:
        """Take items out of a log."""


def purgeable(store: Store, purge: Purge[_Found]) -> _Found | None:
    """Return the finished items that are meant, and that nobody needs; ``None`` for no reader.

    What is meant is asked of what the first reader did with them; without a log it did nothing.
    """
    first = next(readers.claiming(store), None)
    if first is None or not existence.is_prepared(first):
        return None
    return _drop_needed(store, purge, purge.find_finished(first), {})[0]


def purge_items(store: Store, purge: Purge[_Found]) -> int:
    """Remove such items, and return how many there were."""
    started, seen = time.monotonic(), see_all(store)
    meant = purgeable(store, purge)
    if meant is None:
        return 0
    found, count = purge.split_kept(meant)
    if not count:
        return 0
    with standstill(store):
        found, count = _drop_needed(store, purge, found, seen)
        if count:
            _remove(store, purge, found)
    report(store, "queue", store.queue_head().step, "purge", {"purged": count}, started)
    return count


def _drop_needed(
    store: Store, purge: Purge[_Found], found: _Found, seen: Seen
) -> tuple[_Found, int]:
    """Return what neither a reader needs nor an older item that stays, and how much that is.

    It is by its successor that an item is known to have been redriven, or taken back.
    """
    for reader in registered_readers(store):
        found = purge.without(found, reader, seen.get(reader.reader))
    found, count = purge.split_kept(found)
    while count:
        left, fewer = purge.split_kept(purge.without_successors(found, store))
        if fewer == count:
            break
        # What stays now may have a successor itself.
        found, count = left, fewer
    return found, count


def _remove(store: Store, purge: Purge[_Found], found: _Found) -> None:
    every = list(readers.every(store))
    for reader in every:
        if reader.status_head().log_rows:
            # The turns that its line was given outlive an item.
            checkpoint.checkpoint(reader)
    # Items first, as when a generation is dropped.
    purge.remove(store, "queue", found)
    store.rewritten()
    for reader in every:
        purge.remove(reader, "status", found)
        reader.rewritten()


def see_all(store: Store) -> Seen:
    """Return how far the logs of all readers are; one that has none gets it."""
    return {
        reader.reader: 0
        if reader.registered().streams
        else readers.prepare(reader).status_head().step
        for reader in registered_readers(store)
    }


def registered_readers(store: Store) -> Iterator[Store]:
    """Return the queue as each reader sees it: those that read a stream or have no log, too."""
    return map(store.of_reader, store.queue_head().readers)


@contextmanager
def standstill(store: Store) -> Iterator[None]:
    """Hold the right to write to the item log, and to the logs of all readers.

    Nobody enqueues, claims, settles, redrives or registers meanwhile: on this machine's disk no
    process, on a shared store no thread of this one.

    Raises
    ------
    WriterLockedError
        When another process keeps a log too long; it names its pid.
    """
    # In the order of all who need several: rewriting, items, readers.
    with rewrites(store), store.writing("queue"), ExitStack() as held:
        for reader in list(readers.every(store)):
            held.enter_context(reader.writing("status"))
        yield
