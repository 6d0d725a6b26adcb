"""Enqueue: stage the frame once, decide its duplicates and tags, append it as one step.

The frame is evaluated once, into a stage; everything after that reads the stage. What depends on
other steps (who holds a key, how far a key's tags have come) is looked up in small frames, again
for each try.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta import holders, tags
from spark_queue.delta.heads import QueueHead, StatusHead, following
from spark_queue.delta.inputs import OrderBy, keyed
from spark_queue.delta.schema import (
    GROUP,
    ITEM,
    KEY,
    META_LANE,
    QUEUE_COLUMNS,
    REFUSED,
    REFUSED_LANE,
)
from spark_queue.delta.settings import Settings
from spark_queue.delta.store import Store, is_small, tries
from spark_queue.errors import DuplicateItemError, InvalidArgumentError, SchemaMismatchError
from spark_queue.operators.distinct import LOST_TO, distinct_refused

OnDuplicate = Literal["skip", "raise"]

#: ``monotonically_increasing_id`` keeps the partition above this bit.
_PARTITION_BIT = 33

#: Rows of one step at most, so that a seq never overflows.
_MAX_ROWS = 1 << 40

_LINE = ("_priority", "_fair_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What an enqueue did."""

    step: int
    """The step of the item log; 0 where the frame was empty and nothing was written."""
    inserted: int
    duplicates: int


_NOTHING = Enqueued(step=0, inserted=0, duplicates=0)


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """The micro-batch of a streaming query whose rows are enqueued."""

    query: str
    """The id of the query, which stays the same when it is started again."""
    number: int

    def is_in(self, head: QueueHead) -> bool:
        """Tell whether this batch, or a later one of the query, is in the queue already."""
        return head.streams.get(self.query, -1) >= self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """A frame that was evaluated once, and what is known of it."""

    rows: DataFrame
    count: int
    has_keys: bool
    repeats: DataFrame | None


def enqueue(
    store: Store,
    df: DataFrame,
    *,
    order_by: OrderBy,
    on_duplicate: OnDuplicate,
    redriven: bool = False,
    batch: StreamBatch | None = None,
) -> Enqueued:
    """Append the rows of a frame to the item log as one step.

    With ``batch``, the step says which batch of which query it is, so that a batch that comes again
    after a crash is found there, and nothing is written.
    """
    if on_duplicate not in ("skip", "raise"):
        raise InvalidArgumentError(f"on_duplicate is {on_duplicate!r}: use 'skip' or 'raise'")
    started = time.monotonic()
    now = store.clock.now()
    status = store.status_head()
    settings = store.settings(status)
    stage = _staged(keyed(df, store.user_schema(), settings.config, order_by, redriven=redriven))
    if stage.count == 0:
        return _NOTHING
    for count in tries("enqueue"):
        with store.writing("queue"):
            done = _try_once(store, stage, status, settings, now, on_duplicate, batch)
        if done is _NOTHING:
            return done
        if done is not None:
            counts = {"inserted": done.inserted, "duplicates": done.duplicates}
            store.report("queue", done.step, "enqueue", counts, started, count)
            return done
    raise AssertionError


def _staged(inputs: DataFrame) -> _Stage:
    marked = inputs.withColumn("_mid", F.monotonically_increasing_id()).localCheckpoint()
    partition = F.shiftright("_mid", _PARTITION_BIT).cast("int").alias("partition")
    facts = (
        marked.groupBy(partition)
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.count("_dedup_hash").alias("keys"),
            F.min("_cost").alias("cheapest"),
        )
        .orderBy("partition")
        .collect()
    )
    _require_costs([row.cheapest for row in facts])
    rows = marked.withColumn("_pos", _position({r.partition: r.rows for r in facts})).drop("_mid")
    count = sum(row.rows for row in facts)
    if count > _MAX_ROWS:
        raise InvalidArgumentError(f"the frame has {count} rows; one step takes {_MAX_ROWS}")
    has_keys = any(row.keys for row in facts)
    repeats = _repeats(rows, count) if has_keys else None
    return _Stage(rows=rows, count=count, has_keys=has_keys, repeats=repeats)


def _repeats(rows: DataFrame, count: int) -> DataFrame | None:
    """Return the rows whose key an earlier row has, with its position; None where there is none.

    Nearly all keys differ, as a rule: only rows whose hash comes twice are looked at.
    """
    hashes = holders.repeated_hashes(rows, tags.partitions(count)).localCheckpoint()
    if hashes.isEmpty():
        return None
    twice = rows.select("_pos", "_dedup_key", "_dedup_hash").join(hashes, "_dedup_hash")
    lost = distinct_refused(twice, "_dedup_key", order_by="_pos")
    first = F.col(f"{LOST_TO}.winner._pos").alias("_first_pos")
    return lost.select("_pos", first).localCheckpoint()


def _require_costs(cheapest: list[float]) -> None:
    for cost in cheapest:
        if not cost > 0 or cost == float("inf"):
            raise SchemaMismatchError("cost", f"has the value {cost}; a cost is above 0 and finite")


def _position(rows_of: dict[int, int]) -> Column:
    """Return each row's place in the frame, from 1 and without gaps."""
    within: Column = F.col("_mid").bitwiseAND((1 << _PARTITION_BIT) - 1) + 1
    offsets = [0] * (max(rows_of) + 1 if rows_of else 1)
    before = 0
    for number, rows in sorted(rows_of.items()):
        offsets[number] = before
        before += rows
    if len(offsets) == 1:
        return within
    partition = F.shiftright("_mid", _PARTITION_BIT).cast("int")
    return within + F.element_at(F.array(*[F.lit(o) for o in offsets]), partition + 1)


def _try_once(
    store: Store,
    stage: _Stage,
    status: StatusHead,
    settings: Settings,
    now: datetime,
    on_duplicate: OnDuplicate,
    batch: StreamBatch | None,
) -> Enqueued | None:
    before = store.queue_head()
    if batch is not None and batch.is_in(before):
        return _NOTHING
    duplicates = _duplicates(store, stage, settings, before, now)
    refused = 0 if duplicates is None else duplicates.count()
    if refused and on_duplicate == "raise":
        raise _duplicate_error(stage, duplicates, refused)
    rows, tops = _rows(store, stage, duplicates if refused else None, status, settings, before, now)
    head = following(
        before,
        last_seq=before.last_seq + stage.count,
        items=before.items + stage.count - refused,
        refused=before.refused + refused,
        tops=_higher(before.tops, tops),
        status_step=status.step,
        gen_since=before.gen_since or now.isoformat(),
        streams=before.streams if batch is None else {**before.streams, batch.query: batch.number},
    )
    if not store.commit_queue(head, rows, small=is_small(stage.count)):
        return None
    return Enqueued(step=head.step, inserted=stage.count - refused, duplicates=refused)


def _duplicates(
    store: Store, stage: _Stage, settings: Settings, before: QueueHead, now: datetime
) -> DataFrame | None:
    """Return ``_pos`` and ``_duplicate_of`` of the rows to refuse, staged; None for none."""
    found = [_held_in_frame(stage, before), _held_before(store, stage, settings, before, now)]
    known = [frame for frame in found if frame is not None]
    if not known:
        return None
    of = F.coalesce(F.max("_holder"), F.max("_first")).alias("_duplicate_of")
    return reduce(DataFrame.unionByName, known).groupBy("_pos").agg(of).localCheckpoint()


def _held_in_frame(stage: _Stage, before: QueueHead) -> DataFrame | None:
    """Return the rows whose key an earlier row of the frame has, and that row's seq."""
    if stage.repeats is None:
        return None
    first = F.col("_first_pos") + before.last_seq
    return stage.repeats.select(
        "_pos", F.lit(None).cast("long").alias("_holder"), first.alias("_first")
    )


def _held_before(
    store: Store, stage: _Stage, settings: Settings, before: QueueHead, now: datetime
) -> DataFrame | None:
    """Return the rows whose key an item of the queue holds, and that item's seq."""
    if not stage.has_keys or not before.items:
        return None
    log = store.queue.read().where(F.col("_step") <= before.step)
    newest = holders.last_accepted(log, _asking(stage)).localCheckpoint()
    if newest.isEmpty():
        return None
    holding = holders.still_holding(newest, store.status.read(), settings.config.dedup_scope, now)
    # A redriven item is no duplicate of the finished one that it replaces.
    other = _asking(stage).join(holding, "_dedup_key").where("not _holder <=> _own")
    return other.select("_pos", "_holder", F.lit(None).cast("long").alias("_first"))


def _asking(stage: _Stage) -> DataFrame:
    own = F.col("_origin") if "_origin" in stage.rows.columns else F.lit(None)
    rows = stage.rows.select("_pos", "_dedup_key", "_dedup_hash", own.cast("long").alias("_own"))
    return rows.where(F.col("_dedup_key").isNotNull())


def _duplicate_error(stage: _Stage, duplicates: DataFrame | None, count: int) -> DuplicateItemError:
    assert duplicates is not None  # noqa: S101 - for the type checker: there are some
    row = stage.rows.join(duplicates, "_pos").select("_dedup_key", "_duplicate_of").first()
    assert row is not None  # noqa: S101 - as above
    return DuplicateItemError(count, f"key {row[0]!r} of seq {row[1]}")


def _rows(
    store: Store,
    stage: _Stage,
    duplicates: DataFrame | None,
    status: StatusHead,
    settings: Settings,
    before: QueueHead,
    now: datetime,
) -> tuple[DataFrame, dict[int, float]]:
    """Return the rows of the step, and the highest tag that it gives at each priority."""
    accepted = stage.rows
    if duplicates is not None:
        accepted = accepted.join(duplicates, "_pos", "left_anti")
    placed = _placed(accepted, stage.count, _ends(store, before), status, settings, before)
    seq = (F.col("_pos") + before.last_seq).alias("_seq")
    logged = {"_seq": seq, "_enqueued_at": F.lit(now)}
    items = placed.items.withColumns(
        {**logged, "_gen": F.lit(before.gen), "_kind": F.lit(ITEM)}
    ).drop("_pos")
    # A sort by one number is a radix sort; by two columns it compares rows.
    order = ["_round"] if settings.config.priority is None else ["_priority", "_round"]
    step = items.sortWithinPartitions(*order)
    if duplicates is not None:
        refused = stage.rows.join(duplicates, "_pos").withColumns(
            {**logged, "_gen": F.lit(REFUSED_LANE), "_kind": F.lit(REFUSED)}
        )
        step = step.unionByName(refused.drop("_pos"), allowMissingColumns=True)
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
    accepted: DataFrame,
    rows: int,
    log: DataFrame,
    status: StatusHead,
    settings: Settings,
    before: QueueHead,
) -> _Placed:
    config = settings.config
    # In one line without priorities, the items of a group are in seq order anyway.
    clamped = config.group_key is not None and (
        config.fair_key is not None or config.priority is not None
    )
    if not clamped:
        return _tagged(accepted, rows, log, status, settings, before)
    group_ends = tags.group_ends(accepted, log, settings, status.pointers).localCheckpoint()
    lowered = tags.lowered(accepted, group_ends)
    placed = _tagged(lowered, rows, log, status, settings, before)
    items = tags.raised(placed.items, group_ends, settings).localCheckpoint()
    return replace(placed, items=items, members=_last_members(items, before))


def _tagged(
    accepted: DataFrame,
    rows: int,
    log: DataFrame,
    status: StatusHead,
    settings: Settings,
    before: QueueHead,
) -> _Placed:
    if settings.config.fair_key is None:
        # One line, whose tag is the seq and whose end need not be kept.
        seq = F.col("_pos") + before.last_seq
        return _Placed(accepted.withColumn("_round", seq.cast("double")))
    spans = tags.key_spans(accepted, log, settings, status.pointers).localCheckpoint()
    return _Placed(tags.tagged(accepted, spans, rows), spans)


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


def _higher(a: Mapping[int, float], b: Mapping[int, float]) -> dict[int, float]:
    return {p: max(a.get(p, 0.0), b.get(p, 0.0)) for p in {*a, *b}}


def outcomes(store: Store, step: int) -> DataFrame:
    """Return what became of each row of an enqueue, as it was logged.

    Returns
    -------
    DataFrame
        The user's columns, then ``_seq``, ``outcome`` (``inserted`` or ``duplicate``) and
        ``duplicate_of`` (the seq that holds the key, or null).
    """
    rows = store.queue.read().where((F.col("_step") == step) & F.col("_kind").isin(ITEM, REFUSED))
    outcome = F.when(F.col("_kind") == ITEM, "inserted").otherwise("duplicate")
    users = [c for c in rows.columns if c not in QUEUE_COLUMNS.names]
    return rows.select(
        *users, "_seq", outcome.alias("outcome"), F.col("_duplicate_of").alias("duplicate_of")
    )
