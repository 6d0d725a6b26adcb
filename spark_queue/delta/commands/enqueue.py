"""Enqueue: stage the frame once, decide its duplicates and tags, append it as one step.

The frame is evaluated once, into a stage; everything after that reads the stage. What depends on
other steps (who holds a key, how far a key's tags have come) is looked up in small frames, again
for each try.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.commands import readers, trim
from spark_queue.delta.commands.refusals import Rules, refused
from spark_queue.delta.input.columns import OrderBy, keyed, require_same_texts
from spark_queue.delta.plans import tags
from spark_queue.delta.plans.stage import Stage, collected, evaluated, staged
from spark_queue.delta.replica import entering
from spark_queue.delta.replica.entering import Entered
from spark_queue.delta.store import replicas
from spark_queue.delta.store.store import Store, is_small, tries
from spark_queue.delta.tables.facts import logger
from spark_queue.delta.tables.heads import QueueHead, StatusHead, following
from spark_queue.delta.tables.schema import (
    GROUP,
    ITEM,
    KEY,
    META_LANE,
    QUEUE_COLUMNS,
    REFUSED,
    REFUSED_LANE,
)
from spark_queue.delta.tables.settings import Settings
from spark_queue.errors import DuplicateItemError

_LINE = ("_priority", "_fair_key")

#: Rows up to which a frame is brought here, to be decided without Spark.
_FEW = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueued:
    """What an enqueue did."""

    step: int
    """The step of the item log; 0 where the frame was empty and nothing was written."""
    inserted: int
    duplicates: int
    refused: int = 0
    """Rows for which a reader had no room."""
    rows: pa.Table | None = None
    """The rows that were logged, where this process has them."""


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


def enqueue(
    store: Store,
    df: DataFrame,
    *,
    order_by: OrderBy,
    rules: Rules,
    extra: Sequence[str] = (),
    batch: StreamBatch | None = None,
) -> Enqueued:
    """Append the rows of a frame to the item log as one step.

    With ``batch``, the step says which batch of which query it is, so that a batch that comes again
    after a crash is found there, and nothing is written. With ``extra``, the frame has these
    columns of the log as well.
    """
    started = time.monotonic()
    now = store.clock.now()
    status = store.status_head()
    settings = store.settings(status)
    schema = store.user_schema()
    require_same_texts(store.name, settings, schema)
    frame = _Frame(
        evaluated(keyed(df, schema, settings.config, order_by, extra=extra)),
        # What comes from another queue is compared with what is in the tables.
        is_decidable=set(extra) <= {"_origin"} and replicas.is_possible(store),
    )
    # Before anybody has to wait for this step: what is large takes long.
    if frame.is_empty():
        return _NOTHING
    for count in tries("enqueue"):
        with store.writing("queue"):
            done = _try_once(store, frame, status, settings, now, rules, batch)
        if done is _NOTHING:
            return done
        if done is not None:
            counts = {"inserted": done.inserted, "duplicates": done.duplicates}
            if done.refused:
                counts["refused"] = done.refused
            store.report("queue", done.step, "enqueue", counts, started, count)
            _trim(store)
            return done
    raise AssertionError


def _trim(store: Store) -> None:
    """Drop what readers have too much of; the items are in the queue, whatever comes of this."""
    try:
        trim.full(store)
    except Exception:  # noqa: BLE001 - the step it follows stands
        logger.exception("%s: a reader keeps more than it may until the next enqueue", store.name)


class _Frame:
    """A frame that was evaluated, as whoever decides its step needs it."""

    def __init__(self, marked: DataFrame, *, is_decidable: bool) -> None:
        self._marked = marked
        self._stage: Stage | None = None
        self.rows = collected(marked, _FEW) if is_decidable else None
        """The rows, if they are few and such as can be decided in this process."""

    def is_empty(self) -> bool:
        """Tell whether there is nothing to enqueue."""
        return (self.stage().count if self.rows is None else self.rows.num_rows) == 0

    def stage(self) -> Stage:
        """Return the rows, numbered by Spark."""
        if self._stage is None:
            self._stage = staged(self._marked)
        return self._stage


def _try_once(
    store: Store,
    frame: _Frame,
    status: StatusHead,
    settings: Settings,
    now: datetime,
    rules: Rules,
    batch: StreamBatch | None,
) -> Enqueued | None:
    before = store.queue_head()
    if batch is not None and batch.is_in(before):
        return _NOTHING
    found = None
    if rules.redriven_since is None or before.step <= rules.redriven_since:
        found = _entered(store, frame, settings, before, now)
    if found is not None:
        return _commit_entered(store, found, status, before, now, rules, batch)
    stage = frame.stage()
    left_out = refused(store, stage, settings, before, now, rules)
    status = replace(status, pointers=readers.slowest(store))
    rows, tops = _rows(store, stage, left_out.rows, status, settings, before, now)
    facts = _Facts(stage.count, left_out.duplicates, left_out.full, tops)
    head = _following(before, facts, status, now, batch)
    if not store.commit_queue(head, rows, small=is_small(stage.count)):
        return None
    return facts.enqueued(head.step)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is to be said of a step beside its rows."""

    rows: int
    duplicates: int
    full: int
    tops: Mapping[int, float]

    def inserted(self) -> int:
        return self.rows - self.duplicates - self.full

    def enqueued(self, step: int) -> Enqueued:
        return Enqueued(
            step=step, inserted=self.inserted(), duplicates=self.duplicates, refused=self.full
        )


def _following(
    before: QueueHead, facts: _Facts, status: StatusHead, now: datetime, batch: StreamBatch | None
) -> QueueHead:
    return following(
        before,
        last_seq=before.last_seq + facts.rows,
        items=before.items + facts.inserted(),
        refused=before.refused + facts.duplicates + facts.full,
        tops=_higher(before.tops, facts.tops),
        status_step=status.step,
        gen_since=before.gen_since or now.isoformat(),
        streams=before.streams if batch is None else {**before.streams, batch.query: batch.number},
    )


def _entered(
    store: Store, frame: _Frame, settings: Settings, before: QueueHead, now: datetime
) -> Entered | None:
    """Decide a small step in this process; ``None`` where Spark has to."""
    if frame.rows is None or not replicas.is_wanted(store):
        return None
    # What is asked of the readers may make their logs, for which others may wait.
    every, pointers = list(readers.every(store)), readers.slowest(store)
    with store.cache().lock:
        replica = replicas.of_all(store, every)
        if replica is None:
            return None
        return entering.entered(replica, settings.config, frame.rows, before, pointers, now)


def _commit_entered(
    store: Store,
    found: Entered,
    status: StatusHead,
    before: QueueHead,
    now: datetime,
    rules: Rules,
    batch: StreamBatch | None,
) -> Enqueued | None:
    if found.duplicates and rules.on_duplicate == "raise":
        key, holder = found.first_duplicate()
        raise DuplicateItemError(len(found.duplicates), f"key {key!r} of seq {holder}")
    facts = _Facts(found.count, len(found.duplicates), 0, found.tops)
    head = _following(before, facts, status, now, batch)
    if not store.commit_queue(head, found.rows):
        return None
    return replace(facts.enqueued(head.step), rows=found.rows)


def _rows(
    store: Store,
    stage: Stage,
    left_out: DataFrame | None,
    status: StatusHead,
    settings: Settings,
    before: QueueHead,
    now: datetime,
) -> tuple[DataFrame, dict[int, float]]:
    """Return the rows of the step, and the highest tag that it gives at each priority."""
    accepted = stage.rows
    if left_out is not None:
        accepted = accepted.join(left_out, "_pos", "left_anti")
    placed = _placed(accepted, stage.count, _ends(store, before), status, settings, before)
    seq = (F.col("_pos") + before.last_seq).alias("_seq")
    logged = {"_seq": seq, "_enqueued_at": F.lit(now)}
    items = placed.items.withColumns(
        {**logged, "_gen": F.lit(before.gen), "_kind": F.lit(ITEM)}
    ).drop("_pos")
    # A sort by one number is a radix sort; by two columns it compares rows.
    order = ["_round"] if settings.config.priority is None else ["_priority", "_round"]
    step = items.sortWithinPartitions(*order)
    if left_out is not None:
        others = stage.rows.join(left_out, "_pos").withColumns(
            {**logged, "_gen": F.lit(REFUSED_LANE), "_kind": F.lit(REFUSED)}
        )
        step = step.unionByName(others.drop("_pos"), allowMissingColumns=True)
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


def outcomes(store: Store, done: Enqueued) -> DataFrame:
    """Return what became of each row of an enqueue, as it was logged.

    Returns
    -------
    DataFrame
        The user's columns, then ``_seq``, ``outcome`` (``inserted``, ``duplicate``, or ``refused``
        where a reader was full) and ``duplicate_of`` (the seq that holds the key, or null).
    """
    rows = _logged(store, done).where(F.col("_kind").isin(ITEM, REFUSED))
    refused = F.when(F.col("_duplicate_of").isNull(), "refused").otherwise("duplicate")
    outcome = F.when(F.col("_kind") == ITEM, "inserted").otherwise(refused)
    users = [c for c in rows.columns if c not in QUEUE_COLUMNS.names]
    return rows.select(
        *users, "_seq", outcome.alias("outcome"), F.col("_duplicate_of").alias("duplicate_of")
    )


def _logged(store: Store, done: Enqueued) -> DataFrame:
    if done.rows is None:
        return store.queue.read().where(F.col("_step") == done.step)
    schema = store.user_schema().add("_seq", "long").add("_kind", "string")
    schema = schema.add("_duplicate_of", "long")
    return store.spark.createDataFrame(done.rows.select(schema.names), schema)
