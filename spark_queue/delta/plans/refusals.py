"""Refused rows of a frame: duplicates, and rows without room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.input.sizes import bytes_of
from spark_queue.delta.plans import capacity, dedup, snapshot
from spark_queue.delta.plans.stage import Stage
from spark_queue.delta.replica.request import EnqueueRules
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import QueueHead
from spark_queue.delta.tables.settings import Settings
from spark_queue.errors import DuplicateItemError, ReaderFullError


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Rows that are not enqueued."""

    rows: DataFrame | None = None
    """``_pos``, ``_duplicate_of`` (null where there was no room); ``None`` for no row."""
    duplicates: int = 0
    full: int = 0

    def total(self) -> int:
        """Return how many rows are not enqueued."""
        return self.duplicates + self.full


# rule again: one item of a key
def refused(
    store: Store,
    stage: Stage,
    settings: Settings,
    before: QueueHead,
    now: datetime,
    rules: EnqueueRules,
    readers: Sequence[Store],
) -> Refused:
    """Decide which rows a step does not take, as of the step before it.

    Raises
    ------
    DuplicateItemError, ReaderFullError
        When there are such rows, and the rules say so.
    """
    held = [
        _held_in_frame(stage, before),
        _held_before(store, stage, settings, before, now, readers),
        _redriven(store, stage, before, rules.redriven_since),
    ]
    duplicates = _duplicates(held)
    count = 0 if duplicates is None else duplicates.count()
    if duplicates is not None and count and rules.on_duplicate == "raise":
        raise _duplicate_error(stage, duplicates, count)
    found = Refused(rows=duplicates if count else None, duplicates=count)
    space = capacity.left(readers)
    if not space.is_bounded():
        return found
    return _within(store, stage, found, space, rules)


def _within(
    store: Store, stage: Stage, found: Refused, space: capacity.Room, rules: EnqueueRules
) -> Refused:
    """Refuse also what finds no room: every row behind the first that does not."""
    rows = stage.rows.withColumn("_bytes", bytes_of(store.user_schema()))
    if found.rows is not None:
        rows = rows.join(found.rows, "_pos", "left_anti")
    cut = space.cut(rows.select("_pos", "_bytes"))
    if cut is None:
        return found
    if rules.on_full == "raise":
        raise ReaderFullError(store.name, space.reader, stage.count)
    left_out = stage.rows.where(F.col("_pos") > cut)
    full = left_out.select("_pos", F.lit(None).cast("long").alias("_duplicate_of"))
    if found.rows is None:
        return Refused(rows=full, full=stage.count - cut)
    kept = found.rows.where(F.col("_pos") <= cut).localCheckpoint()
    return Refused(rows=kept.unionByName(full), duplicates=kept.count(), full=stage.count - cut)


def _duplicates(held: list[DataFrame | None]) -> DataFrame | None:
    """Return ``_pos`` and ``_duplicate_of`` of the rows to refuse, staged; None for none."""
    known = [frame for frame in held if frame is not None]
    if not known:
        return None
    of = F.coalesce(F.max("_holder"), F.max("_first")).alias("_duplicate_of")
    found = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), known)
    if "_taken" in found.columns:
        found = found.join(found.where("_taken").select("_pos"), "_pos", "left_anti")
    return found.groupBy("_pos").agg(of).localCheckpoint()


def _held_in_frame(stage: Stage, before: QueueHead) -> DataFrame | None:
    """Return the rows whose key an earlier row of the frame has, and that row's seq."""
    if stage.repeats is None:
        return None
    first = F.col("_first_pos") + before.last_seq
    return stage.repeats.select(
        "_pos", F.lit(None).cast("long").alias("_holder"), first.alias("_first")
    )


def _held_before(
    store: Store,
    stage: Stage,
    settings: Settings,
    before: QueueHead,
    now: datetime,
    readers: Sequence[Store],
) -> DataFrame | None:
    """Return the rows whose key an item of the queue holds, and that item's seq."""
    if not stage.has_keys or not before.items:
        return None
    log = store.queue.read().where(F.col("_step") <= before.step)
    newest = dedup.last_accepted(log, _asking(stage)).localCheckpoint()
    if newest.isEmpty():
        return None
    scope = settings.config.dedup_scope
    holding = dedup.still_holding(newest, dedup.views(store, readers), scope, now)
    met = _asking(stage).join(holding, "_dedup_key")
    if "_origin" not in stage.rows.columns:
        return met.select("_pos", "_holder", F.lit(None).cast("long").alias("_first"))
    return _beside_their_own(met, before)


def _beside_their_own(met: DataFrame, before: QueueHead) -> DataFrame:
    """Return the rows that are duplicates where some may replace the item that holds their key.

    Such a row is taken, no matter what its frame has before it, and it holds the key from there on.
    """
    own = met.where("_holder <=> _own").groupBy("_dedup_key").agg(F.min("_pos").alias("_new"))
    placed = met.join(own, "_dedup_key", "left")
    is_behind = F.coalesce(F.col("_pos") > F.col("_new"), F.lit(False))
    others = placed.where("not _pos <=> _new").select(
        "_pos",
        F.when(~is_behind, F.col("_holder")).alias("_holder"),
        F.when(is_behind, F.col("_new") + before.last_seq).alias("_first"),
    )
    taken = own.select(F.col("_new").alias("_pos"), *_nobody("_holder", "_first"))
    return others.unionByName(taken.withColumn("_taken", F.lit(True)), allowMissingColumns=True)


def _nobody(*names: str) -> list[Column]:
    return [F.lit(None).cast("long").alias(name) for name in names]


# rule again: redrive of an ended item
def _redriven(store: Store, stage: Stage, before: QueueHead, since: int | None) -> DataFrame | None:
    """Return the rows whose old item somebody has redriven meanwhile, and the new item's seq."""
    if since is None or before.step <= since:
        return None
    log = store.queue.read().where((F.col("_step") > since) & (F.col("_step") <= before.step))
    newer = snapshot.successors(log).select(F.col("_seq").alias("_origin"), "_successor")
    none = F.lit(None).cast("long").alias("_first")
    return stage.rows.join(newer, "_origin").select(
        "_pos", F.col("_successor").alias("_holder"), none
    )


def _asking(stage: Stage) -> DataFrame:
    own = F.col("_origin") if "_origin" in stage.rows.columns else F.lit(None)
    rows = stage.rows.select("_pos", "_dedup_key", "_dedup_hash", own.cast("long").alias("_own"))
    return rows.where(F.col("_dedup_key").isNotNull())


def _duplicate_error(stage: Stage, duplicates: DataFrame, count: int) -> DuplicateItemError:
    row = stage.rows.join(duplicates, "_pos").select("_dedup_key", "_duplicate_of").first()
    assert row is not None  # noqa: S101 - as above
    return DuplicateItemError(count, f"key {row[0]!r} of seq {row[1]}")
