"""The rows of an enqueue, as Spark decides them: places in the order, and where lines end now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.plans import dedup, members, tags
from spark_queue.delta.plans.stage import Stage
from spark_queue.delta.steps import is_small
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import Pointer, QueueHead
from spark_queue.delta.tables.schema import GROUP, ITEM, KEY, META_LANE, REFUSED, REFUSED_LANE
from spark_queue.delta.tables.settings import Settings

_LINE = ("_priority", "_fair_key")


def rows(
    store: Store,
    stage: Stage,
    left_out: DataFrame | None,
    pointers: Mapping[int, Pointer],
    settings: Settings,
    before: QueueHead,
    now: datetime,
    readers: Sequence[Store],
) -> tuple[DataFrame, dict[int, float]]:
    """Return the rows of the step, and the highest tag that it gives at each priority."""
    accepted = stage.rows
    if left_out is not None:
        accepted = accepted.join(left_out, "_pos", "left_anti")
    placed = _placed(store, accepted, stage.count, pointers, settings, before, readers)
    seq = (F.col("_pos") + before.last_seq).alias("_seq")
    logged = {"_seq": seq, "_enqueued_at": F.lit(now)}
    # What a step took back waits since the item that it was has.
    keeps_age = "_enqueued_at" in placed.items.columns
    since = {"_enqueued_at": F.coalesce("_enqueued_at", F.lit(now))} if keeps_age else {}
    items = placed.items.withColumns(
        {**logged, **since, "_gen": F.lit(before.gen), "_kind": F.lit(ITEM)}
    ).drop("_pos")
    # A sort by one number is a radix sort; by two columns it compares rows.
    order = ["_round"] if settings.config.priority is None else ["_priority", "_round"]
    step = items.sortWithinPartitions(*order)
    if left_out is not None:
        others = stage.rows.join(left_out, "_pos").withColumns(
            {**logged, "_gen": F.lit(REFUSED_LANE), "_kind": F.lit(REFUSED)}
        )
        # Whoever is refused has no place, not even the one that it had.
        step = step.unionByName(others.drop("_pos", "_round"), allowMissingColumns=True)
    for frame in placed.ends():
        step = step.unionByName(frame, allowMissingColumns=True)
    return step, _tops(placed, settings, before.last_seq + stage.count)


@dataclass(frozen=True, slots=True)
class _Placed:
    """Rows with their place in the order, and where their lines and groups end now."""

    items: DataFrame
    spans: DataFrame | None = None
    members: DataFrame | None = None

    def ends(self) -> list[DataFrame]:
        """Return the rows to log beside the items."""
        ends = []
        if self.spans is not None:
            ends.append(_meta(self.spans.select(*_LINE, F.col("_end").alias("_round")), KEY))
        if self.members is not None:
            ends.append(_meta(self.members, GROUP))
        return ends


def _ends(store: Store, before: QueueHead) -> DataFrame:
    """Return the rows of the log that say where lines and groups end; a new queue has none."""
    log = store.queue.read()
    if not before.items:
        return log.limit(0)
    return log.where((F.col("_gen") == META_LANE) & (F.col("_step") <= before.step))


def _placed(
    store: Store,
    accepted: DataFrame,
    rows: int,
    pointers: Mapping[int, Pointer],
    settings: Settings,
    before: QueueHead,
    readers: Sequence[Store],
) -> _Placed:
    config, log = settings.config, _ends(store, before)
    # In one line without priorities, the items of a group are in seq order anyway.
    clamped = config.group_key is not None and (
        config.fair_key is not None or config.priority is not None
    )
    if not clamped:
        return _tagged(accepted, rows, log, pointers, settings, before)
    items = store.queue.read().where(F.col("_step") <= before.step)
    known = members.Known(ends=log, items=items, readers=dedup.views(store, readers))
    group_ends = members.ends(accepted, known, settings, pointers)
    lowered = tags.lowered(accepted, group_ends)
    placed = _tagged(lowered, rows, log, pointers, settings, before)
    items = tags.raised(placed.items, group_ends, settings).localCheckpoint()
    return replace(placed, items=items, members=_last_members(items, before))


# rule again: one line without keys
def _tagged(
    accepted: DataFrame,
    rows: int,
    log: DataFrame,
    pointers: Mapping[int, Pointer],
    settings: Settings,
    before: QueueHead,
) -> _Placed:
    keeps = "_round" in accepted.columns
    if settings.config.fair_key is None:
        # One line, whose tag is the seq and whose end need not be kept.
        seq = (F.col("_pos") + before.last_seq).cast("double")
        return _Placed(accepted.withColumn("_round", F.coalesce("_round", seq) if keeps else seq))
    if keeps:
        return _beside_kept(accepted, rows, log, pointers, settings, before)
    spans = tags.key_spans(accepted, log, settings, pointers).localCheckpoint()
    tagged = tags.tagged(accepted, spans, rows)
    if not is_small(rows):
        # Not to compute the tags twice, a last digit may differ from that of the last item.
        return _Placed(tagged, spans)
    tagged = tagged.localCheckpoint()
    return _Placed(tagged, tags.ends_of(tagged).localCheckpoint())


def _beside_kept(
    accepted: DataFrame,
    rows: int,
    log: DataFrame,
    pointers: Mapping[int, Pointer],
    settings: Settings,
    before: QueueHead,
) -> _Placed:
    """Tag the rows that have no place yet; the others keep theirs, which ends no line."""
    new = accepted.where("_round is null").drop("_round")
    placed = _tagged(new, rows, log, pointers, settings, before)
    kept = accepted.where("_round is not null")
    return replace(placed, items=placed.items.unionByName(kept, allowMissingColumns=True))


def _last_members(items: DataFrame, before: QueueHead) -> DataFrame:
    placed = F.struct(*_LINE, "_round", "_pos")
    last = items.where(F.col("_group_key").isNotNull()).groupBy("_group_key")
    members = last.agg(F.max_by(placed, "_pos").alias("_last")).select("_group_key", "_last.*")
    return members.withColumn("_seq", F.col("_pos") + before.last_seq).drop("_pos")


def _meta(rows: DataFrame, kind: str) -> DataFrame:
    return rows.withColumns({"_gen": F.lit(META_LANE), "_kind": F.lit(kind)})


def _tops(placed: _Placed, settings: Settings, last_seq: int) -> dict[int, float]:
    """Return the highest tag of the step at each priority."""
    if placed.spans is not None:
        ends = placed.spans.groupBy("_priority").agg(F.max("_end"))
        return {row[0]: row[1] for row in ends.collect()}
    if settings.config.priority is None:
        return {0: float(last_seq)}
    return {r[0]: float(last_seq) for r in placed.items.select("_priority").distinct().collect()}
