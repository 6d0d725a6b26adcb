"""Upkeep: expiry, dead letters, checkpoints, compaction, and dropping what finished long ago.

Every part is a step or a rewrite of its own that does not lose to other steps. It keeps none of
them waiting for longer than a step, save on a local disk, where it takes turns with native ones.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.commands import (
    admin,
    checkpoint,
    forwarding,
    readers,
    rescue,
    trim,
)
from spark_queue.delta.plans import snapshot
from spark_queue.delta.steps import Answer, Step, on_items, report
from spark_queue.delta.store.lanes import rewriting
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import QueueHead, following
from spark_queue.delta.tables.schema import CLAIMED, ITEM, OPEN_LANE, READY, TERMINAL
from spark_queue.delta.upkeep import archive
from spark_queue.results import Maintained

#: A generation is closed when it has been filled for this part of the retention.
_GENERATIONS = 4


def maintain(
    store: Store, retention: timedelta | None, archive_to: str | None = None
) -> Maintained:
    """Do all upkeep of a queue once, for each of its readers."""
    started = time.monotonic()
    done = [_kept_up(reader) for reader in readers.every(store)]
    trim.behind(store)
    generations, items = 0, 0
    if retention is not None:
        generations, items = drop_finished(store, retention, archive_to)
    compact(store)
    return Maintained(
        expired=sum(upkeep.expired for upkeep in done),
        dead=sum(upkeep.dead for upkeep in done),
        checkpoint=max((upkeep.checkpoint for upkeep in done), default=0),
        dropped_generations=generations,
        dropped_items=items,
        seconds=time.monotonic() - started,
    )


def compact(store: Store) -> None:
    """Merge the small files of a queue's logs."""
    with rewriting(store, "queue"):
        store.queue.compact()
    for reader in readers.every(store):
        with rewriting(reader, "status"):
            reader.status.compact()


@dataclass(frozen=True, slots=True)
class _Upkeep:
    expired: int
    dead: int
    checkpoint: int


def _kept_up(reader: Store) -> _Upkeep:
    """Log what is over for a reader, and write a checkpoint of its log."""
    _, expired = admin.expire(reader)
    dead = rescue.bury(reader)
    forwarding.forward(reader)
    head = reader.status_head()
    step = checkpoint.checkpoint(reader) if head.log_rows else head.checkpoint.step
    _drop_old_checkpoints(reader, step)
    return _Upkeep(expired, dead, step)


def _drop_old_checkpoints(store: Store, newest: int) -> None:
    with store.writing("status"):
        store.status.delete(f"_gen = {OPEN_LANE} AND _step < {newest}")


def drop_finished(store: Store, retention: timedelta, archive_to: str | None) -> tuple[int, int]:
    """Drop the generations whose items all finished before the retention; close the current one.

    Keys that are taken for ever, or longer than the retention, are remembered by their items: then
    nothing is dropped.
    """
    scope = store.settings(store.status_head()).config.dedup_scope
    if scope == "forever" or (isinstance(scope, timedelta) and scope > retention):
        return 0, 0
    now = store.clock.now()
    _close_generation(store, now, retention)
    asked = frozenset(store.queue_head().readers)
    due = [gen for gen in _finished(store) if gen.last is None or gen.last <= now - retention]
    dropped = [gen for gen in due if _drop(store, gen, asked, archive_to)]
    return len(dropped), sum(gen.items for gen in dropped)


def _close_generation(store: Store, now: datetime, retention: timedelta) -> None:
    def decided(before: QueueHead) -> Answer[None]:
        since = before.gen_since
        if since is None or now - datetime.fromisoformat(since) < retention / _GENERATIONS:
            return Answer(answer=None)
        return Step(head=following(before, gen=before.gen + 1, gen_since=None), answer=None)

    on_items(store, "close generation", decided)


@dataclass(frozen=True, slots=True)
class _Generation:
    """A closed generation that no reader needs any more."""

    number: int
    items: int
    last_step: int
    last: datetime | None
    """When the last of its items finished; ``None`` where no reader ever saw one."""


def _finished(store: Store) -> list[_Generation]:
    """Return the closed generations with whose items all readers are done, oldest first.

    The oldest one that is still needed ends the list, so that what is kept is all of the later.
    """
    items = store.queue.read().where((F.col("_kind") == ITEM) & (F.col("_gen") >= 0))
    closed = items.where(F.col("_gen") < store.queue_head().gen)
    facts = closed.groupBy("_gen").agg(
        F.count(F.lit(1)).alias("items"), F.max("_step").alias("last_step")
    )
    needed = _needed(store)
    ended = _last_ends(store)
    done = []
    for row in facts.orderBy("_gen").collect():
        if row["_gen"] in needed:
            break
        last = ended.get(row["_gen"])
        done.append(_Generation(row["_gen"], row["items"], row["last_step"], last))
    return done


def _needed(store: Store) -> set[int]:
    """Return the generations of items that some reader is not done with."""
    live: set[int] = set()
    for number, facts in store.queue_head().readers.items():
        reader = readers.prepared(store.of_reader(number))
        if facts.streams:
            left = reader.items().where(F.col("_kind") == ITEM)
        else:
            left = snapshot.status(reader.items(), reader.status.read())
            left = left.where(F.col("_state").isin(READY, CLAIMED))
        live |= {row[0] for row in left.select("_gen").distinct().collect()}
    return live


def _last_ends(store: Store) -> dict[int, datetime]:
    """Return when the last item of each generation finished, by the last reader to finish it."""
    ends: dict[int, datetime] = {}
    for reader in readers.every(store):
        log = reader.status.read().where(F.col("_state").isin(*TERMINAL) & (F.col("_gen") >= 0))
        for row in log.groupBy("_gen").agg(F.max("_at").alias("last")).collect():
            last = row["last"].astimezone()
            ends[row["_gen"]] = max(ends.get(row["_gen"], last), last)
    return ends


def _drop(store: Store, gen: _Generation, asked: Collection[int], archive_to: str | None) -> bool:
    """Drop a generation, unless a reader needs it that registered after the others were asked."""
    if archive_to is not None:
        _archive(store, gen, archive_to)
    # The floor first: who registers from now on does not count on what is about to go.
    if not _raise_floor(store, gen, asked):
        return False
    # Items next: a status row without its item says nothing, an item without its rows is ready.
    with rewriting(store, "queue"):
        store.queue.delete(f"_gen = {gen.number}")
    for reader in readers.every(store):
        with rewriting(reader, "status"):
            reader.status.delete(f"_gen = {gen.number}")
        reader.rewritten()
    return True


def _raise_floor(store: Store, gen: _Generation, asked: Collection[int]) -> bool:
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


def _archive(store: Store, gen: _Generation, archive_to: str) -> None:
    """Append the items of a generation to another table, once."""
    rows = store.queue.read().where((F.col("_kind") == ITEM) & (F.col("_gen") == gen.number))
    archive.add(rows, store.name, gen.number, archive_to)


def purge(store: Store, where: str) -> int:
    """Remove finished items for which a predicate is true, and that no reader needs; with history.

    The predicate is asked of what the first reader did with them.
    """
    started = time.monotonic()
    seqs = purgeable(store, where).localCheckpoint()
    count = seqs.count()
    if count == 0:
        return 0
    for reader in readers.every(store):
        if reader.status_head().log_rows:
            # The turns that its line was given outlive an item.
            checkpoint.checkpoint(reader)
    with store.writing("queue"):
        # Items first, as when a generation is dropped.
        store.queue.remove(seqs)
        store.rewritten()
    for reader in readers.every(store):
        with reader.writing("status"):
            reader.status.remove(seqs)
            reader.rewritten()
    report(store, "queue", store.queue_head().step, "purge", {"purged": count}, started)
    return count


def purgeable(store: Store, where: str) -> DataFrame:
    """Return the finished items for which a predicate is true, and that no reader needs."""
    first, *others = readers.every(store)
    seqs = admin.finished(first, where).select("_seq", "_gen")
    for reader in others:
        live = snapshot.status(reader.items(), reader.status.read())
        live = live.where(F.col("_state").isin(READY, CLAIMED)).select("_seq")
        seqs = seqs.join(live, "_seq", "left_anti")
    return seqs
