"""Upkeep: expiry, dead letters, checkpoints, compaction, and dropping what finished long ago.

Every part is a step or a rewrite of its own that neither loses to other steps nor keeps them
waiting for longer than a step.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from pyspark.sql import functions as F

from spark_queue.delta import admin, checkpoint, recovery, views
from spark_queue.delta.heads import following
from spark_queue.delta.schema import CLAIMED, OPEN_LANE, READY
from spark_queue.delta.store import Store, tries
from spark_queue.results import Maintained

#: A generation is closed when it has been filled for this part of the retention.
_GENERATIONS = 4


def maintain(store: Store, retention: timedelta | None) -> Maintained:
    """Do all upkeep of a queue once."""
    started = time.monotonic()
    _, expired = admin.expire(store)
    dead = recovery.bury(store)
    head = store.status_head()
    step = checkpoint.checkpoint(store) if head.log_rows else head.checkpoint.step
    _drop_old_checkpoints(store, step)
    generations, items = (0, 0) if retention is None else _drop_finished(store, retention)
    for log in (store.queue, store.status):
        log.compact()
    return Maintained(
        expired=expired,
        dead=dead,
        checkpoint=step,
        dropped_generations=generations,
        dropped_items=items,
        seconds=time.monotonic() - started,
    )


def _drop_old_checkpoints(store: Store, newest: int) -> None:
    with store.writing("status"):
        store.status.delete(f"_gen = {OPEN_LANE} AND _step < {newest}")


def _drop_finished(store: Store, retention: timedelta) -> tuple[int, int]:
    """Drop the generations whose items all finished before the retention; close the current one.

    Keys that are taken for ever, or longer than the retention, are remembered by their items: then
    nothing is dropped.
    """
    scope = store.settings(store.status_head()).config.dedup_scope
    if scope == "forever" or (isinstance(scope, timedelta) and scope > retention):
        return 0, 0
    now = store.clock.now()
    _close_generation(store, now, retention)
    dropped = [(gen, items) for gen, items, last in _finished(store) if last <= now - retention]
    for gen, items in dropped:
        _drop(store, gen, items)
    return len(dropped), sum(items for _, items in dropped)


def _close_generation(store: Store, now: datetime, retention: timedelta) -> None:
    for _ in tries("close generation"):
        with store.writing("queue"):
            before = store.queue_head()
            if before.gen_since is None:
                return
            since = datetime.fromisoformat(before.gen_since)
            if now - since < retention / _GENERATIONS:
                return
            if store.commit_queue(following(before, gen=before.gen + 1, gen_since=None), None):
                return


def _finished(store: Store) -> list[tuple[int, int, datetime]]:
    """Return closed generations without a live item: number, items, and when the last finished."""
    current = store.queue_head().gen
    items = views.status(store.queue.read(), store.status.read()).where(F.col("_gen") < current)
    live = F.col("_state").isin(READY, CLAIMED)
    facts = items.groupBy("_gen").agg(
        F.count_if(live).alias("live"),
        F.count(F.lit(1)).alias("items"),
        F.max("_finished_at").alias("last"),
    )
    rows = facts.where("live = 0").orderBy("_gen").collect()
    return [(row["_gen"], row["items"], row["last"].astimezone()) for row in rows]


def _drop(store: Store, gen: int, items: int) -> None:
    # Items first: a status row without its item says nothing, an item without its rows is ready.
    store.queue.delete(f"_gen = {gen}")
    store.status.delete(f"_gen = {gen}")
    store.rewritten()
    started = time.monotonic()
    for count in tries("drop generation"):
        with store.writing("status"):
            before = store.status_head()
            head = following(before, forgotten=before.forgotten + items)
            if store.commit_status(head, None):
                facts = {"dropped": items}
                store.report("status", head.step, "drop generation", facts, started, count)
                return


def purge(store: Store, where: str) -> int:
    """Remove the finished items for which a predicate is true, with their history."""
    started = time.monotonic()
    seqs = admin.finished(store, where).select("_seq", "_gen").localCheckpoint()
    count = seqs.count()
    if count == 0:
        return 0
    with store.writing("status"), store.writing("queue"):
        # Items first, as when a generation is dropped.
        store.queue.remove(seqs)
        store.status.remove(seqs)
        store.rewritten()
    for tried in tries("purge"):
        with store.writing("status"):
            before = store.status_head()
            head = following(before, forgotten=before.forgotten + count)
            if store.commit_status(head, None):
                store.report("status", head.step, "purge", {"purged": count}, started, tried)
                return count
    raise AssertionError
