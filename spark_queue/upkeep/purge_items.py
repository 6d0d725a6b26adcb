"""Finished items that leave the tables with their history: by hand, or a whole generation.

To find such items takes long, and others go on: a reader may make an item ready again
that was over. So a removal first notes how far the logs are, and asks, once nobody can make a step
any more, what has come back since then.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.commands import admin, readers
from spark_queue.commands.dry_runs import GONE
from spark_queue.errors import InvalidArgumentError
from spark_queue.log import maintenance
from spark_queue.log.delta import table_properties
from spark_queue.log.delta.log import Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.disk.leftover_files import require_unshared
from spark_queue.log.heads import QueueHead, following
from spark_queue.log.schema import REFUSED, REFUSED_LANE
from spark_queue.results import LINKED, NEEDED, Affected
from spark_queue.rules.dedup_keys import kept_for
from spark_queue.sql.file_rows import rows_of
from spark_queue.sql.look import instant_of
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import existence
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Answer, Step, on_items, report
from spark_queue.state.store import Store
from spark_queue.upkeep.forget_items import end_of, find_needed, forget
from spark_queue.upkeep.rewriter import Archive, Rewriter, rewriter_of, rewrites

#: The newest step of each reader's log, by the reader's number; 0 for a stream's reader.
Seen: TypeAlias = Mapping[int, int]


def foresee_purge(store: Store, where: Any) -> Affected:
    """Return the matching finished items that no reader needs; nothing is written."""
    require_removals(store)
    by = rewriter_of(store)
    meant = purgeable(store, where, by)
    if meant is None:
        return Affected(0)
    first = next(readers.claiming(store))
    rows = by.among(admin.read_finished(first, where), meant.found, is_in=True)
    done = planner_of(first).count_affected(rows, GONE)
    return Affected(
        done, states=done.states, becomes=done.becomes, stays=meant.stays, sample=done.sample
    )


def purge(store: Store, where: Any, *, now: bool = False) -> Affected:
    """Remove items and their history; with ``now`` their replaced files, too."""
    require_removals(store)
    logs = _logs_alone(store) if now else []
    done = _purge(store, where, rewriter_of(store))
    for log in logs:
        maintenance.sweep_replaced(log)
    return done


def require_removals(store: Store) -> None:
    """Raise where a table of a queue may lose no rows, naming it."""
    logs: list[Log[Any]] = [store.queue, *(one.status for one in readers.with_logs(store))]
    for log in logs:
        table_properties.require_removable(log.address.sql(), log.properties())


def _logs_alone(store: Store) -> list[DeltaLog[Any]]:
    """Return the queue's logs, if no other process may read replaced files."""
    for facts in store.queue_head().readers.values():
        if facts.streams:
            raise InvalidArgumentError(
                f"now is True, and reader {facts.name!r} is a stream, which may read files that "
                "were replaced: drop the reader, or purge without now"
            )
    found = [store.native("queue"), *(one.native("status") for one in readers.every(store))]
    if None in found:
        raise InvalidArgumentError(
            "now is True, and only Spark removes files of these tables: purge without now, and "
            "VACUUM them"
        )
    logs = [log for log in found if isinstance(log, DeltaLog)]
    for log in logs:
        require_unshared(log.directory)
    return logs


@dataclass(frozen=True, slots=True)
class Purgeable:
    """Items that may leave the queue, and how many of the selected ones stay, by reason."""

    found: Any
    count: int
    stays: Counter[str]


def purgeable(store: Store, where: Any, by: Rewriter) -> Purgeable | None:
    """Return the finished items that match, unneeded; ``None`` without a reader.

    The condition sees the states of the first reader; without a log it has none.
    """
    first = next(readers.claiming(store), None)
    if first is None or not existence.is_prepared(first):
        return None
    live = planner_of(first).count_affected(admin.matching(first, where, admin.LIVE), GONE)
    meant = Purgeable(*by.evaluate(admin.read_finished(first, where)), Counter(live.states))
    return _drop_needed(store, by, meant, {})


def _purge(store: Store, where: Any, by: Rewriter) -> Affected:
    """Remove items, and return how many there were, and how many stay."""
    started, seen = time.monotonic(), see_all(store)
    meant = purgeable(store, where, by)
    if meant is None:
        return Affected(0, becomes={GONE: 0})
    if not meant.count:
        return Affected(0, becomes={GONE: 0}, stays=meant.stays)
    with standstill(store):
        meant = _drop_needed(store, by, meant, seen)
        if meant.count:
            _remove(store, by, meant.found)
    done = Step(head=store.queue_head(), counts={"purged": meant.count}, answer=None)
    report(store, "queue", "purge", done, started)
    return Affected(meant.count, becomes={GONE: meant.count}, stays=meant.stays)


def _drop_needed(store: Store, by: Rewriter, meant: Purgeable, seen: Seen) -> Purgeable:
    """Leave out items that a reader needs, and redriven ones whose origin stays.

    It is by its successor that an item is known to have been redriven, or taken back.
    """
    found = meant.found
    for reader in registered_readers(store):
        needed = find_needed(by.look, reader, seen.get(reader.reader))
        found = by.among(found, needed, is_in=False)
    found, unneeded = by.evaluate(found)
    count = unneeded
    while count:
        with by.look(store, since=0, has_values=False) as at:
            at.give("found", at.facts_of(found, ("_seq",)))
            left, fewer = by.evaluate(
                by.among(found, at.view("linked_items", ("_seq",)), is_in=False)
            )
        if fewer == count:
            break
        # What stays now may have a successor itself.
        found, count = left, fewer
    stays = Counter({NEEDED: meant.count - unneeded, LINKED: unneeded - count})
    # Adding leaves out what there is none of.
    return Purgeable(found, count, meant.stays + stays)


def _remove(store: Store, by: Rewriter, found: Any) -> None:
    every = list(readers.every(store))
    for reader in every:
        if reader.status_head().log_rows:
            # The turns that its line was given outlive an item.
            admin.checkpoint(reader)
    ended = [
        end_of(
            reader, by.among(admin.read_finished(reader, "true"), found, is_in=True), by, "purge"
        )
        for reader in every
    ]
    # Items first, as when a generation is dropped.
    by.remove(store, "queue", found)
    store.cache().drop_replicas()
    for reader, end in zip(every, ended, strict=True):
        forget(reader, end)
        by.remove(reader, "status", found)
        reader.cache().drop_replicas()


def see_all(store: Store) -> Seen:
    """Return the newest step of each reader's log, creating a missing log."""
    return {
        reader.reader: 0
        if reader.registered().streams
        else readers.prepare(reader).status_head().step
        for reader in registered_readers(store)
    }


def registered_readers(store: Store) -> Iterator[Store]:
    """Return the queue as each reader sees it, streams and readers without a log included."""
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
    store: Store, retention: timedelta, by: Rewriter, archive: Archive | None = None
) -> list[Generation]:
    """Drop generations that finished before the retention; close the current one.

    Keys that are taken for ever, or longer than the retention, are remembered by their items: then
    nothing is dropped. What goes is kept in the archive before, if there is one.
    """
    if _keeps_all(store, retention):
        return []
    now = store.clock.now()
    _close(store, now, retention)
    seen = see_all(store)
    due = _due(store, by, now - retention, store.queue_head().gen)
    if archive is not None:
        for gen in due:
            archive(gen.number)
    # Each by itself, up to the first with an item that a reader got back: no step waits for all.
    return [*takewhile(lambda gen: _try_drop(store, gen, seen, by), due)]


def due(store: Store, retention: timedelta, by: Rewriter) -> list[Generation]:
    """Return the generations that :func:`drop_generations` would drop; nothing is written."""
    if _keeps_all(store, retention):
        return []
    now, head = store.clock.now(), store.queue_head()
    newest = head.gen + _is_full(head, now, retention)
    return _due(store, by, now - retention, newest)


def drop_refused(store: Store, retention: timedelta, by: Rewriter) -> None:
    """Drop the rows that were refused before the retention, where the log is read here.

    How many there ever were stays in the head.
    """
    if store.native("queue") is None:
        return
    rows = rows_of(store, "queue", ("_step", "_enqueued_at"), kind=REFUSED)
    before = pa.scalar(store.clock.now() - retention, rows["_enqueued_at"].type)
    old = rows.filter(pc.less_equal(rows["_enqueued_at"], before))
    if old.num_rows:
        by.drop(store, "queue", REFUSED_LANE, before=pc.max(old["_step"]).as_py() + 1)
        store.cache().drop_replicas()


def _keeps_all(store: Store, retention: timedelta) -> bool:
    scope = store.settings(store.status_head()).config.dedup_scope
    return kept_for(scope) > retention.total_seconds()


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


def _due(store: Store, by: Rewriter, before: datetime, newest: int) -> list[Generation]:
    """Return the generations below a number with whose items all readers are done.

    Oldest first; the oldest one that is kept ends the list, so that what is kept is all of the
    later.
    """
    gens, needed = _closed_before(store, newest, by), _needed_generations(store, by, {})
    closed = takewhile(lambda gen: gen.number not in needed, gens)
    ended = last_ends(store, by)
    done = (replace(gen, last=ended.get(gen.number)) for gen in closed)
    return list(takewhile(lambda gen: gen.last is None or gen.last <= before, done))


def _closed_before(store: Store, before: int, by: Rewriter) -> list[Generation]:
    """Return the generations below a number that have items, oldest first."""
    with by.look(store, since=0, has_values=False) as at:
        found = at.rows("generations")
    return [
        Generation(row["gen"], row["items"], row["last_step"])
        for row in found
        if row["gen"] < before
    ]


def _needed_generations(store: Store, by: Rewriter, seen: Seen) -> set[int]:
    """Return the generations that some reader still needs."""
    live: set[int] = set()
    for reader in registered_readers(store):
        needed = find_needed(by.look, reader, seen.get(reader.reader))
        live |= by.generations_of(needed)
    return live


def last_ends(store: Store, by: Rewriter) -> dict[int, datetime]:
    """Return when the last item of each generation finished, for the slowest reader."""
    ends: dict[int, int] = {}
    for reader in readers.with_logs(store):
        with by.look(reader) as at:
            for row in at.rows("generation_ends"):
                ends[row["gen"]] = max(ends.get(row["gen"], 0), row["last"])
    return {gen: instant_of(last) for gen, last in ends.items()}


def _try_drop(store: Store, gen: Generation, seen: Seen, by: Rewriter) -> bool:
    with standstill(store):
        if gen.number in _needed_generations(store, by, seen):
            return False
        return _drop(store, gen, seen, by)


def _drop(store: Store, gen: Generation, asked: Collection[int], by: Rewriter) -> bool:
    """Drop a generation, unless a newly registered reader needs it."""
    # The floor first: readers that register from now on do not count on these items.
    if not _raise_floor(store, gen, asked):
        return False
    every, meant = list(readers.every(store)), {"_gen": gen.number}
    ended = [
        end_of(reader, admin.read_finished(reader, meant), by, "retention") for reader in every
    ]
    # Items next: a status row without its item says nothing, an item without its rows is ready.
    by.drop(store, "queue", gen.number)
    for reader, end in zip(every, ended, strict=True):
        forget(reader, end)
        by.drop(reader, "status", gen.number)
        reader.cache().drop_replicas()
    return True


def _raise_floor(store: Store, gen: Generation, asked: Collection[int]) -> bool:
    """Log that a generation's items may be gone; False if a new reader needs them."""

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
