"""Finished items that an operator takes away, with their history: what goes, and in which order.

To find such items takes long, and others go on meanwhile: a reader may make an item ready again
that was over. So a removal first notes how far the logs are, and asks, once nobody can make a step
any more, what has come back since then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, TypeAlias

from spark_queue.delta.commands import admin, checkpoint, readers
from spark_queue.delta.commands.foreseeing import GONE
from spark_queue.delta.planner import planner_of
from spark_queue.delta.sql.look import find_needed
from spark_queue.delta.steps import report
from spark_queue.delta.store import existence
from spark_queue.delta.store.lanes import rewrites
from spark_queue.delta.store.store import Store
from spark_queue.delta.upkeep.rewriter import Rewriter, rewriter_of
from spark_queue.results import Affected

#: The newest step of each reader's log, by the reader's number; 0 for one that reads a stream.
Seen: TypeAlias = Mapping[int, int]


def foresee_purge(store: Store, where: Any) -> Affected:
    """Return which finished items are meant that no reader needs; nothing is written."""
    by = rewriter_of(store)
    found = purgeable(store, where, by)
    if found is None:
        return Affected(0)
    first = next(readers.claiming(store))
    rows = by.among(admin.read_finished(first, where), found, is_in=True)
    return planner_of(first).count_affected(rows, GONE)


def purge(store: Store, where: Any) -> Affected:
    """Remove such items with their history."""
    count = _purge(store, where, rewriter_of(store))
    return Affected(count, becomes={GONE: count})


def purgeable(store: Store, where: Any, by: Rewriter[Any]) -> Any | None:
    """Return the finished items that are meant, and that nobody needs; ``None`` for no reader.

    What is meant is asked of what the first reader did with them; without a log it did nothing.
    """
    first = next(readers.claiming(store), None)
    if first is None or not existence.is_prepared(first):
        return None
    return _drop_needed(store, by, admin.read_finished(first, where), {})[0]


def _purge(store: Store, where: Any, by: Rewriter[Any]) -> int:
    """Remove items, and return how many there were."""
    started, seen = time.monotonic(), see_all(store)
    meant = purgeable(store, where, by)
    if meant is None:
        return 0
    found, count = by.evaluate(meant)
    if not count:
        return 0
    with standstill(store):
        found, count = _drop_needed(store, by, found, seen)
        if count:
            _remove(store, by, found)
    report(store, "queue", store.queue_head().step, "purge", {"purged": count}, started)
    return count


def _drop_needed(store: Store, by: Rewriter[Any], found: Any, seen: Seen) -> tuple[Any, int]:
    """Return what neither a reader needs nor an older item that stays, and how much that is.

    It is by its successor that an item is known to have been redriven, or taken back.
    """
    for reader in registered_readers(store):
        needed = find_needed(by.look, reader, seen.get(reader.reader))
        found = by.among(found, needed, is_in=False)
    found, count = by.evaluate(found)
    while count:
        with by.look(store, since=0, has_values=False) as at:
            at.give("found", at.facts_of(found, ("_seq",)))
            left, fewer = by.evaluate(by.among(found, at.view("staying", ("_seq",)), is_in=False))
        if fewer == count:
            break
        # What stays now may have a successor itself.
        found, count = left, fewer
    return found, count


def _remove(store: Store, by: Rewriter[Any], found: Any) -> None:
    every = list(readers.every(store))
    for reader in every:
        if reader.status_head().log_rows:
            # The turns that its line was given outlive an item.
            checkpoint.checkpoint(reader)
    # Items first, as when a generation is dropped.
    by.remove(store, "queue", found)
    store.rewritten()
    for reader in every:
        by.remove(reader, "status", found)
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
