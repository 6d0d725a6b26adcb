"""Generations of items: what finished long ago leaves the tables a whole partition at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from spark_queue.delta.commands import readers
from spark_queue.delta.sql.look import find_needed, instant_of
from spark_queue.delta.steps import Answer, Step, on_items
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import QueueHead, following
from spark_queue.delta.upkeep import purging
from spark_queue.delta.upkeep.purging import Seen
from spark_queue.delta.upkeep.rewriter import Archive, Rewriter

#: A generation is closed when it has been filled for this part of the retention.
_GENERATIONS = 4


@dataclass(frozen=True, slots=True)
class Generation:
    """A closed generation."""

    number: int
    items: int
    last_step: int
    last: datetime | None = None
    """When the last of its items finished; ``None`` where no reader ever saw one."""


def drop_generations(
    store: Store, retention: timedelta, by: Rewriter[Any], archive: Archive | None = None
) -> list[Generation]:
    """Drop the generations whose items all finished before the retention; close the current one.

    Keys that are taken for ever, or longer than the retention, are remembered by their items: then
    nothing is dropped. What goes is kept in the archive before, if there is one.
    """
    if _keeps_all(store, retention):
        return []
    now = store.clock.now()
    _close(store, now, retention)
    seen = purging.see_all(store)
    due = _due(store, by, now - retention, store.queue_head().gen)
    if archive is not None:
        for gen in due:
            archive(gen.number)
    return _drop_all(store, due, seen, by) if due else []


def due(store: Store, retention: timedelta, by: Rewriter[Any]) -> list[Generation]:
    """Return the generations that :func:`drop_generations` would drop; nothing is written."""
    if _keeps_all(store, retention):
        return []
    now, head = store.clock.now(), store.queue_head()
    newest = head.gen + _is_full(head, now, retention)
    return _due(store, by, now - retention, newest)


# rule again: scope of a key
def _keeps_all(store: Store, retention: timedelta) -> bool:
    scope = store.settings(store.status_head()).config.dedup_scope
    return scope == "forever" or (isinstance(scope, timedelta) and scope > retention)


def _is_full(head: QueueHead, now: datetime, retention: timedelta) -> bool:
    since = head.gen_since
    return since is not None and now - datetime.fromisoformat(since) >= retention / _GENERATIONS


def _close(store: Store, now: datetime, retention: timedelta) -> None:
    def decide(at: Snapshot) -> Answer[None]:
        before = at.queue
        if not _is_full(before, now, retention):
            return Answer(answer=None)
        return Step(head=following(before, gen=before.gen + 1, gen_since=None), answer=None)

    on_items(store, "close generation", decide)


def _due(store: Store, by: Rewriter[Any], before: datetime, newest: int) -> list[Generation]:
    """Return the generations below a number with whose items all readers were done by then.

    Oldest first; the oldest one that is kept ends the list, so that what is kept is all of the
    later.
    """
    closed = _drop_needed(_closed_before(store, newest, by), _needed_generations(store, by, {}))
    ended = last_ends(store, by)
    done = (replace(gen, last=ended.get(gen.number)) for gen in closed)
    return list(takewhile(lambda gen: gen.last is None or gen.last <= before, done))


def _closed_before(store: Store, before: int, by: Rewriter[Any]) -> list[Generation]:
    """Return the generations below a number that have items, oldest first."""
    with by.look(store, since=0, has_values=False) as at:
        found = at.rows("filled")
    return [
        Generation(row["gen"], row["items"], row["last_step"])
        for row in found
        if row["gen"] < before
    ]


def _drop_needed(gens: Iterable[Generation], needed: Collection[int]) -> list[Generation]:
    return list(takewhile(lambda gen: gen.number not in needed, gens))


def _needed_generations(store: Store, by: Rewriter[Any], seen: Seen) -> set[int]:
    """Return the generations that some reader still needs."""
    live: set[int] = set()
    for reader in purging.registered_readers(store):
        needed = find_needed(by.look, reader, seen.get(reader.reader))
        live |= by.generations_of(needed)
    return live


def last_ends(store: Store, by: Rewriter[Any]) -> dict[int, datetime]:
    """Return when the last item of each generation finished, by the last reader to finish it."""
    ends: dict[int, int] = {}
    for reader in readers.with_logs(store):
        with by.look(reader) as at:
            for row in at.rows("ended"):
                ends[row["gen"]] = max(ends.get(row["gen"], 0), row["last"])
    return {gen: instant_of(last) for gen, last in ends.items()}


def _drop_all(
    store: Store, due: Iterable[Generation], seen: Seen, by: Rewriter[Any]
) -> list[Generation]:
    """Drop generations, up to the first with an item that came back to a reader; return which.

    Each by itself, so that nobody waits for his step until all are gone.
    """
    return list(takewhile(lambda gen: _try_drop(store, gen, seen, by), due))


def _try_drop(store: Store, gen: Generation, seen: Seen, by: Rewriter[Any]) -> bool:
    with purging.standstill(store):
        if gen.number in _needed_generations(store, by, seen):
            return False
        return _drop(store, gen, seen, by)


def _drop(store: Store, gen: Generation, asked: Collection[int], by: Rewriter[Any]) -> bool:
    """Drop a generation, unless a reader needs it that registered after the others were asked."""
    # The floor first: who registers from now on does not count on what is about to go.
    if not _raise_floor(store, gen, asked):
        return False
    # Items next: a status row without its item says nothing, an item without its rows is ready.
    by.drop(store, "queue", gen.number)
    for reader in readers.every(store):
        by.drop(reader, "status", gen.number)
        reader.rewritten()
    return True


def _raise_floor(store: Store, gen: Generation, asked: Collection[int]) -> bool:
    """Log that the items of a generation may be gone; False where a new reader needs them."""

    def decide(at: Snapshot) -> Answer[bool]:
        before = at.queue
        if before.floor_step >= gen.last_step:
            return Answer(answer=True)
        late = before.readers.keys() - asked
        if any(before.readers[number].since_step < gen.last_step for number in late):
            return Answer(answer=False)
        head = following(
            before,
            forgotten=before.forgotten + gen.items,
            floor_step=gen.last_step,
            floor_items=before.floor_items + gen.items,
        )
        return Step(head=head, counts={"dropped": gen.items}, answer=True)

    return on_items(store, "drop generation", decide)
