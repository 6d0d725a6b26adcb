"""Generations of items: what finished long ago leaves the tables a whole partition at a time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from spark_queue.delta.commands import readers
from spark_queue.delta.steps import Answer, Step, on_items
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.facts import LogName
from spark_queue.delta.tables.heads import QueueHead, following

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


class Tables(Protocol):
    """Who looks at the tables of a queue, and takes whole generations out of them."""

    def closed(self, before: int) -> list[Generation]:
        """Return the generations below a number that have items, oldest first."""

    def needed(self, reader: Store, *, streams: bool) -> set[int]:
        """Return the generations of items that a reader is not done with.

        What ``streams`` is not done with whatever is behind where it said to be.
        """

    def ends(self, reader: Store) -> dict[int, datetime]:
        """Return when the last item of each generation finished for a reader."""

    def keep(self, gen: Generation) -> None:
        """Keep the items of a generation elsewhere, where that is asked for; twice is as once."""

    def drop(self, reader: Store, which: LogName, gen: Generation) -> None:
        """Take a generation out of a log."""


def dropped(store: Store, retention: timedelta, tables: Tables) -> list[Generation]:
    """Drop the generations whose items all finished before the retention; close the current one.

    Keys that are taken for ever, or longer than the retention, are remembered by their items: then
    nothing is dropped.
    """
    scope = store.settings(store.status_head()).config.dedup_scope
    if scope == "forever" or (isinstance(scope, timedelta) and scope > retention):
        return []
    now = store.clock.now()
    _close(store, now, retention)
    asked = frozenset(store.queue_head().readers)
    due = [g for g in _finished(store, tables) if g.last is None or g.last <= now - retention]
    return [gen for gen in due if _drop(store, gen, asked, tables)]


def _close(store: Store, now: datetime, retention: timedelta) -> None:
    def decided(before: QueueHead) -> Answer[None]:
        since = before.gen_since
        if since is None or now - datetime.fromisoformat(since) < retention / _GENERATIONS:
            return Answer(answer=None)
        return Step(head=following(before, gen=before.gen + 1, gen_since=None), answer=None)

    on_items(store, "close generation", decided)


def _finished(store: Store, tables: Tables) -> list[Generation]:
    """Return the closed generations with whose items all readers are done, oldest first.

    The oldest one that is still needed ends the list, so that what is kept is all of the later.
    """
    closed = tables.closed(store.queue_head().gen)
    needed, ended = _needed(store, tables), _last_ends(store, tables)
    done = []
    for gen in closed:
        if gen.number in needed:
            break
        done.append(replace(gen, last=ended.get(gen.number)))
    return done


def _needed(store: Store, tables: Tables) -> set[int]:
    """Return the generations of items that some reader is not done with."""
    live: set[int] = set()
    for number, facts in store.queue_head().readers.items():
        reader = readers.prepared(store.of_reader(number))
        live |= tables.needed(reader, streams=facts.streams)
    return live


def _last_ends(store: Store, tables: Tables) -> dict[int, datetime]:
    """Return when the last item of each generation finished, by the last reader to finish it."""
    ends: dict[int, datetime] = {}
    for reader in readers.every(store):
        for gen, last in tables.ends(reader).items():
            ends[gen] = max(ends.get(gen, last), last)
    return ends


def _drop(store: Store, gen: Generation, asked: Collection[int], tables: Tables) -> bool:
    """Drop a generation, unless a reader needs it that registered after the others were asked."""
    tables.keep(gen)
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

    def decided(before: QueueHead) -> Answer[bool]:
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

    return on_items(store, "drop generation", decided)
