"""Generations of items: what finished long ago leaves the tables a whole partition at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Protocol

from spark_queue.delta.commands import readers
from spark_queue.delta.steps import Answer, Step, on_items
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.heads import QueueHead, following
from spark_queue.delta.upkeep import purging
from spark_queue.delta.upkeep.purging import Seen

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


class Finished(Protocol):
    """Who looks in the tables of a queue for what is over."""

    def closed_before(self, before: int) -> list[Generation]:
        """Return the generations below a number that have items, oldest first."""

    def find_needed(self, reader: Store, since: int | None) -> set[int]:
        """Return the generations of items that a reader is not done with.

        Where that is known as of a step of its log, only what was in its hands after that one.
        """

    def ends(self, reader: Store) -> dict[int, datetime]:
        """Return when the last item of each generation finished for a reader."""


class GenerationTables(Finished, Protocol):
    """Who also takes whole generations out of the tables of a queue."""

    def keep(self, gen: Generation) -> None:
        """Keep the items of a generation elsewhere, where that is asked for; twice is as once."""

    def drop(self, reader: Store, which: LogName, gen: Generation) -> None:
        """Take a generation out of a log."""


def archive_name(store: Store) -> str:
    """Return the name under which an archive knows which generations of a queue it has.

    A queue that is made in the place of another one has its own.
    """
    return f"archive of {store.handle.place.identity()}"


def drop_generations(
    store: Store, retention: timedelta, tables: GenerationTables
) -> list[Generation]:
    """Drop the generations whose items all finished before the retention; close the current one.

    Keys that are taken for ever, or longer than the retention, are remembered by their items: then
    nothing is dropped.
    """
    if _keeps_all(store, retention):
        return []
    now = store.clock.now()
    _close(store, now, retention)
    seen = purging.see_all(store)
    due = _due(store, tables, now - retention, store.queue_head().gen)
    for gen in due:
        tables.keep(gen)
    return _drop_all(store, due, seen, tables) if due else []


def due(store: Store, retention: timedelta, tables: Finished) -> list[Generation]:
    """Return the generations that :func:`drop_generations` would drop; nothing is written."""
    if _keeps_all(store, retention):
        return []
    now, head = store.clock.now(), store.queue_head()
    newest = head.gen + _is_full(head, now, retention)
    return _due(store, tables, now - retention, newest)


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


def _due(store: Store, tables: Finished, before: datetime, newest: int) -> list[Generation]:
    """Return the generations below a number with whose items all readers were done by then.

    Oldest first; the oldest one that is kept ends the list, so that what is kept is all of the
    later.
    """
    closed = _drop_needed(tables.closed_before(newest), _needed_generations(store, tables, {}))
    ended = _last_ends(store, tables)
    done = (replace(gen, last=ended.get(gen.number)) for gen in closed)
    return list(takewhile(lambda gen: gen.last is None or gen.last <= before, done))


def _drop_needed(gens: Iterable[Generation], needed: Collection[int]) -> list[Generation]:
    return list(takewhile(lambda gen: gen.number not in needed, gens))


def _needed_generations(store: Store, tables: Finished, seen: Seen) -> set[int]:
    """Return the generations that some reader still needs; see :class:`GenerationTables`."""
    live: set[int] = set()
    for reader in purging.registered_readers(store):
        live |= tables.find_needed(reader, seen.get(reader.reader))
    return live


def _last_ends(store: Store, tables: Finished) -> dict[int, datetime]:
    """Return when the last item of each generation finished, by the last reader to finish it."""
    ends: dict[int, datetime] = {}
    for reader in readers.with_logs(store):
        for gen, last in tables.ends(reader).items():
            ends[gen] = max(ends.get(gen, last), last)
    return ends


def _drop_all(
    store: Store, due: Iterable[Generation], seen: Seen, tables: GenerationTables
) -> list[Generation]:
    """Drop generations, up to the first with an item that came back to a reader; return which.

    Each by itself, so that nobody waits for his step until all are gone.
    """
    return list(takewhile(lambda gen: _try_drop(store, gen, seen, tables), due))


def _try_drop(store: Store, gen: Generation, seen: Seen, tables: GenerationTables) -> bool:
    with purging.standstill(store):
        if gen.number in _needed_generations(store, tables, seen):
            return False
        return _drop(store, gen, seen, tables)


def _drop(store: Store, gen: Generation, asked: Collection[int], tables: GenerationTables) -> bool:
    """Drop a generation, unless a reader needs it that registered after the others were asked."""
    # The floor first: who registers from now on does not count on what is about to go.
    if not _raise_floor(store, gen, asked):
        return False
    # Items next: a status row without its item says nothing, an item without its rows is ready.
    tables.drop(store, "queue", gen)
    for reader in readers.every(store):
        tables.drop(reader, "status", gen)
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
