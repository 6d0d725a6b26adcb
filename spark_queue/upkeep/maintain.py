"""Upkeep: expiry, dead letters, checkpoints, compaction, and retention.

Every part is a step or a rewrite of its own that does not lose to other steps. It keeps none of
them waiting for longer than a step, save on a local disk, where it takes turns with native ones.
A small queue is looked after without Spark, where its files can be read here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from spark_queue.commands import admin, forward_items, readers, recovery
from spark_queue.commands.dry_runs import GONE, together
from spark_queue.log.delta.table_properties import keeps_rows
from spark_queue.log.disk import liveness, staged_rows
from spark_queue.log.schema import CANCELLED, CLAIMED, DEAD, EXPIRED, OPEN_LANE, TERMINAL
from spark_queue.log.session_options import PlainSession
from spark_queue.results import Affected, Maintained
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store
from spark_queue.upkeep import purge_items
from spark_queue.upkeep.rewriter import Rewriter, rewriter_of


class _Upkeep(NamedTuple):
    """The result of a reader's upkeep."""

    expired: int
    dead: int
    replaced: int
    checkpoint: int
    """The step of its newest checkpoint."""


def maintain(
    store: Store, retention: timedelta | None, archive_to: str | None = None
) -> Maintained:
    """Do all upkeep of a queue once, for each of its readers."""
    started = time.monotonic()
    if retention is not None:
        purge_items.require_removals(store)
    given = store
    store, by = _rewriter(store, archive_to)
    archive = None if archive_to is None else by.open_archive(store, archive_to)
    admin.free_of_gone(store)
    done = [_keep_up(reader, by, given.of_reader(reader.reader)) for reader in readers.every(store)]
    readers.behind(store)
    dropped: list[purge_items.Generation] = []
    if retention is not None:
        dropped = purge_items.drop_generations(store, retention, by, archive)
        purge_items.drop_refused(store, retention, by)
    tidied = by.tidy(store)
    directory = store.handle.place.directory()
    if directory is not None:
        liveness.sweep(directory)
        staged_rows.sweep(directory)
    return Maintained(
        expired=sum(upkeep.expired for upkeep in done),
        dead=sum(upkeep.dead for upkeep in done),
        replaced=sum(upkeep.replaced for upkeep in done),
        checkpoint=max((upkeep.checkpoint for upkeep in done), default=0),
        dropped_generations=len(dropped),
        dropped_items=sum(gen.items for gen in dropped),
        merged_files=tidied.merged,
        removed_files=tidied.removed,
        seconds=time.monotonic() - started,
    )


def maintainable(store: Store, retention: timedelta | None) -> Affected:
    """Return the items that would expire, die or be dropped; nothing is written.

    What an output has of a claim whose last lease ran out is asked when that is settled, and not
    here: some of the dead may be acked. Of a reader that has no log nothing is told.
    """
    if retention is not None:
        purge_items.require_removals(store)
    parts = [part for reader in readers.with_logs(store) for part in _foresee(reader)]
    gone = [] if retention is None else purge_items.due(store, retention, rewriter_of(store))
    if gone:
        first = next(readers.with_logs(store), store)
        ended = admin.matching(first, {"_gen": [gen.number for gen in gone]}, TERMINAL)
        parts.append(planner_of(first).count_affected(ended, GONE))
    return together(parts)


def _rewriter(store: Store, archive_to: str | None) -> tuple[Store, Rewriter]:
    """Return the rewriter of a queue, and the queue in its session."""
    by = rewriter_of(store)
    if archive_to is not None or isinstance(store.session, PlainSession):
        return store, by
    from spark_queue.upkeep import spark_upkeep  # noqa: PLC0415 - takes Spark

    return spark_upkeep.without_spark(store) or (store, by)


def _keep_up(reader: Store, by: Rewriter, given: Store) -> _Upkeep:
    """Log the ends of a reader's items that are due, and write a checkpoint of its log.

    Parameters
    ----------
    given : Store
        The same reader in the caller's session, which may be the only one that reads outputs.
    """
    _, expired = admin.expire(reader)
    dead, replaced = _bury(reader, given), admin.end_replaced(reader)
    forward_items.forward(reader)
    head = reader.status_head()
    step = admin.checkpoint(reader) if head.log_rows else head.checkpoint.step
    if not keeps_rows(reader.status.properties()):
        by.drop(reader, "status", OPEN_LANE, before=step)
    return _Upkeep(expired, dead, replaced, step)


def _bury(reader: Store, given: Store) -> int:
    """Settle the items that lost their last lease; return how many died."""
    # Without Spark it is known sooner that there are none.
    is_same = reader.session is given.session
    return recovery.bury(given) if is_same or recovery.lost_for_good(reader) else 0


def _foresee(reader: Store) -> Iterator[Affected]:
    planner = planner_of(reader)
    yield planner.count_affected(planner.due(reader.clock.now()), EXPIRED)
    if reader.queue_head().has_chains:
        replaced = planner.find_replaced(Snapshot(reader), reader.clock.now())
        yield planner.count_affected(replaced, CANCELLED)
    if lost := recovery.lost_for_good(reader):
        held = admin.matching(reader, {"_seq": lost}, (CLAIMED,))
        yield planner.count_affected(held, DEAD)
