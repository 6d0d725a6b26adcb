"""Removal of items for good, checked again while no step is made.

To find such items takes long, and others go on meanwhile: a reader may make an item ready again
that was over. So a removal first notes how far the logs are, and asks, once nobody can make a step
any more, what has come back since then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TypeAlias

from spark_queue.delta.commands import readers
from spark_queue.delta.store.lanes import rewrites
from spark_queue.delta.store.store import Store

#: The newest step of each reader's log, by the reader's number; 0 for one that reads a stream.
Seen: TypeAlias = Mapping[int, int]


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
