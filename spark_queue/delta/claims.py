"""Claim: choose what comes next, and lease it, as one step of the status log."""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta import fold, tags
from spark_queue.delta.heads import Pointer, StatusHead, following
from spark_queue.delta.schema import CLAIMED, DEAD, EXPIRED, ITEM, READY, SCHEDULE
from spark_queue.delta.settings import Settings
from spark_queue.delta.store import Store, tries
from spark_queue.operators import fair, serial

#: The error of an item that lost its lease too often.
LEASE_LOST = "lease lost"

#: How far ahead of the pointer a first claim looks, in turns, and how fast it looks further.
_FIRST_WIDTH = 64.0
_WIDER = 8

#: Steps of up to this many rows are written as one file.
_SMALL = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a claim asks for."""

    limit: int
    lease: timedelta
    worker_id: str
    run: int
    claim_id: str
    repeatable: bool = False
    """Whether the caller named the claim, and may name it again."""
    take_lapsed: bool = True
    """Whether items whose lease ran out may be taken as they are, without asking for evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """What a claim got."""

    step: int
    """The step that granted the lease; 0 where nothing was claimed."""
    count: int
    claim_id: str
    claimed_at: datetime
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """Rows that a claim would write, computed but not committed, and the facts of them."""

    rows: DataFrame
    """STATE columns, ``_turn``, ``_overdue`` and ``_was``: the state before."""
    counts: Mapping[tuple[str, str], int]
    """Rows by (new state, state before)."""
    pointers: Mapping[int, Pointer]
    width: float

    def claimed(self) -> int:
        """Return how many items would be leased."""
        return sum(n for (state, _), n in self.counts.items() if state == CLAIMED)

    def by_state(self) -> dict[str, int]:
        """Return the rows by new state."""
        counts: dict[str, int] = {}
        for (state, _), n in self.counts.items():
            counts[state] = counts.get(state, 0) + n
        return counts

    def total(self) -> int:
        """Return how many rows would be written."""
        return sum(self.counts.values())


def staged(
    store: Store,
    head: StatusHead,
    settings: Settings,
    request: Request,
    now: datetime,
    recent: DataFrame | None = None,
) -> Staged | None:
    """Choose the next items as of a step; ``None`` where there is nothing to write.

    ``recent`` is what a fold to that step reads, where that is not in the log yet.
    """
    limit = _allowed(head, settings, request)
    if settings.paused or store.queue_head().items <= sum(head.finished.values()):
        return None
    recent = store.recent(head) if recent is None else recent
    touched = fold.touched(recent).localCheckpoint()
    lines = None if settings.config.fair_key is None else fold.served(recent)
    width = _first_width(head, settings, request)
    for wider in (1, _WIDER, _WIDER**2, None):
        reach = _reach(store, head, settings, None if wider is None else width * wider)
        found = _found(store, head, settings, request, now, touched, lines, reach).localCheckpoint()
        facts = _facts(found)
        if reach is None or facts.eligible >= request.limit:
            break
    if facts.rows == 0:
        return None
    chosen = _chosen(settings, request, found, facts, limit)
    return _counted(head, chosen.localCheckpoint())


def _allowed(head: StatusHead, settings: Settings, request: Request) -> int:
    """Return how many items may be leased that are not in flight already."""
    most = settings.config.max_in_flight
    return request.limit if most is None else max(0, min(request.limit, most - head.claimed))


def _first_width(head: StatusHead, settings: Settings, request: Request) -> float:
    if settings.config.fair_key is None:
        return max(head.width, 4.0 * request.limit)
    return max(head.width, _FIRST_WIDTH)


def _reach(store: Store, head: StatusHead, settings: Settings, width: float | None) -> float | None:
    """Return how far to look, or ``None`` where that is as far as there are items."""
    if width is None:
        return None
    if settings.stretches:
        return width
    for priority, top in store.queue_head().tops.items():
        if top > head.pointers.get(priority, (0.0, 0))[0] + width:
            return width
    return None


def _found(
    store: Store,
    head: StatusHead,
    settings: Settings,
    request: Request,
    now: datetime,
    touched: DataFrame,
    lines: DataFrame | None,
    reach: float | None,
) -> DataFrame:
    """Return what may start now, and what is over: expired, or lost once too often."""
    config = settings.config
    lapsed = _is_claimed() & (F.col("_lease_expires_at") <= now) & F.lit(request.take_lapsed)
    waiting = _waiting(store, head, settings, touched, lapsed, reach)
    over = F.when(F.col("_expires_at") <= now, EXPIRED)
    if config.max_losses is not None:
        lost = (F.col("_was") == CLAIMED) & (F.col("_losses") + 1 >= config.max_losses)
        over = over.when(lost, DEAD)
    judged = waiting.withColumns(
        {"_over": over, "_due": F.coalesce(F.col("_available_at") <= now, F.lit(True))}
    )
    if config.group_key is None:
        found = judged.where("_due or _over is not null")
    else:
        in_flight = touched.where(_is_claimed() & ~lapsed)
        found = serial.may_start(
            judged,
            in_flight,
            limit=config.group_limit,
            run=request.run,
            on_failure=config.on_failure,
        )
    return _with_lines(head, lines, found)


def _waiting(
    store: Store,
    head: StatusHead,
    settings: Settings,
    touched: DataFrame,
    lapsed: Column,
    reach: float | None,
) -> DataFrame:
    """Return every item within reach that is not in flight."""
    untouched = fold.fresh(store.queue.read(), head, settings, reach).join(
        touched.select("_seq"), "_seq", "left_anti"
    )
    first = untouched.withColumns(
        {"_attempts": F.lit(0), "_losses": F.lit(0), "_was": F.lit(READY)}
    )
    back = touched.where((F.col("_state") == READY) | lapsed).withColumn("_was", F.col("_state"))
    columns = ["_seq", "_gen", "_attempts", "_losses", "_was", *SCHEDULE]
    again = tags.with_weights(back.select(*columns), settings)
    return first.unionByName(again)


def _with_lines(head: StatusHead, lines: DataFrame | None, found: DataFrame) -> DataFrame:
    """Add what decides an item's turn: its tag, its cost, and what its line was given."""
    placed = found.withColumns(
        {
            "_tag_turn": tags.turn_of(F.col("_round")),
            "_increment": F.col("_cost") / F.col("_weight"),
            "_pointer_turn": tags.pointer_turn(head.pointers).cast("double"),
            "_pointer_seq": tags.pointer_seq(head.pointers).cast("long"),
        }
    )
    if lines is None:
        return placed.withColumn("_overdue", F.lit(False))
    return fair.split_overdue(tags.join_lines(placed, lines))


@dataclass(frozen=True, slots=True)
class _Facts:
    rows: int
    eligible: int
    overdue: int


def _facts(found: DataFrame) -> _Facts:
    eligible = F.col("_over").isNull()
    row = found.agg(
        F.count(F.lit(1)), F.count_if(eligible), F.count_if(eligible & F.col("_overdue"))
    ).head()
    return _Facts(*row) if row else _Facts(0, 0, 0)


def _chosen(
    settings: Settings,
    request: Request,
    found: DataFrame,
    facts: _Facts,
    limit: int,
) -> DataFrame:
    """Return the rows to log: the next items in order, and those that are over."""
    config = settings.config
    over = found.where("_over is not null").withColumns(
        {"_state": F.col("_over"), "_turn": F.lit(None).cast("double")}
    )
    eligible = found.where("_over is null")
    turns = _turns(eligible, facts.overdue, request.limit)
    if config.fair_key is not None and config.group_limit * request.run > 1:
        turns = fair.clamped_by_group(turns)
    order = (F.col("_priority").desc(), F.col("_turn"), F.col("_seq"))
    if limit < request.limit:
        # Items whose lease ran out hold their place in flight already.
        new = turns.where(F.col("_was") == READY).orderBy(*order).limit(limit)
        turns = new.unionByName(turns.where(F.col("_was") == CLAIMED))
    following_items = turns.orderBy(*order).limit(request.limit)
    leased = following_items.withColumn("_state", F.lit(CLAIMED))
    return leased.unionByName(over, allowMissingColumns=True)


def _turns(eligible: DataFrame, overdue: int, limit: int) -> DataFrame:
    if overdue == 0:
        return fair.on_time(eligible)
    late = eligible.where("_overdue").select("_priority", "_fair_key").distinct()
    marked = tags.join_lines(eligible, late.withColumn("_late", F.lit(True)))
    on_time = fair.on_time(marked.where("_late is null"))
    return on_time.unionByName(fair.reassigned(marked.where("_late"), limit)).drop("_late")


def _counted(head: StatusHead, chosen: DataFrame) -> Staged:
    by = chosen.groupBy("_state", "_was", "_priority")
    facts = by.agg(
        F.count(F.lit(1)).alias("rows"), F.max(F.struct("_turn", "_seq")).alias("last")
    ).collect()
    counts: dict[tuple[str, str], int] = {}
    pointers: dict[int, Pointer] = {}
    for row in facts:
        kind = (row["_state"], row["_was"])
        counts[kind] = counts.get(kind, 0) + row["rows"]
        if row["_state"] == CLAIMED:
            last = (float(row["last"][0]), int(row["last"][1]))
            pointers[row["_priority"]] = max(pointers.get(row["_priority"], last), last)
    width = max(
        (
            turn - head.pointers.get(priority, (0.0, 0))[0]
            for priority, (turn, _) in pointers.items()
        ),
        default=0.0,
    )
    return Staged(rows=chosen, counts=counts, pointers=pointers, width=2 * width)


def claim(store: Store, request: Request) -> Granted:
    """Lease the next items, as one step; a claim that gets nothing writes nothing."""
    started = time.monotonic()
    now = store.clock.now()
    nothing = Granted(
        step=0, count=0, claim_id=request.claim_id, claimed_at=now, lease_expires_at=now
    )
    stage: Staged | None = None
    basis: StatusHead | None = None
    for count in tries("claim"):
        with store.writing("status"):
            same = same_claim(store, request.claim_id) if request.repeatable else None
            if same is not None:
                return same
            head = store.status_head()
            settings = store.settings(head)
            stage = _rebased(store, basis, head, settings, stage)
            if stage is None or stage.total() == 0:
                stage = staged(store, head, settings, request, now)
            if stage is None:
                return nothing
            after = logged(head, stage)
            if store.commit_status(
                after, rows(stage, request, now, after.step), small=stage.total() <= _SMALL
            ):
                store.report("status", after.step, "claim", stage.by_state(), started, count)
                return granted(stage, request, now, after.step)
            basis = head
    raise AssertionError


def granted(stage: Staged, request: Request, now: datetime, step: int) -> Granted:
    """Return what a claim got by a stage that was logged as a step."""
    return Granted(
        step=step if stage.claimed() else 0,
        count=stage.claimed(),
        claim_id=request.claim_id,
        claimed_at=now,
        lease_expires_at=now + request.lease,
    )


def logged(head: StatusHead, stage: Staged) -> StatusHead:
    """Return the head of the step that writes a stage."""
    taken = sum(n for (state, was), n in stage.counts.items() if state == CLAIMED and was == READY)
    ended = sum(n for (state, was), n in stage.counts.items() if state != CLAIMED and was != READY)
    finished = {state: n for state, n in stage.by_state().items() if state != CLAIMED}
    return following(
        head,
        pointers=head.advanced(stage.pointers),
        claimed=head.claimed + taken - ended,
        finished=head.finishing(finished),
        log_rows=head.log_rows + stage.total(),
        width=stage.width,
    )


def rows(stage: Staged, request: Request, now: datetime, step: int) -> DataFrame:
    """Return the rows of a stage as they are logged in a step."""
    leased = F.col("_state") == CLAIMED
    dead = F.col("_state") == DEAD
    lost = ((leased | dead) & (F.col("_was") == CLAIMED)).cast("int")
    error = F.when(dead, LEASE_LOST)
    columns: dict[str, Column] = {
        "_kind": F.lit(ITEM),
        "_lease": F.lit(step).cast("long"),
        "_losses": F.col("_losses") + lost,
        "_claim_id": F.when(leased, request.claim_id),
        "_worker_id": F.when(leased, request.worker_id),
        "_at": F.lit(now),
        "_lease_expires_at": F.when(leased, F.lit(now + request.lease)),
        "_error": error,
    }
    names = ["_seq", "_gen", "_state", "_attempts", "_losses", "_turn", "_overdue", *SCHEDULE]
    return stage.rows.select(*names, "_was").withColumns(columns).drop("_was")


def _rebased(
    store: Store,
    basis: StatusHead | None,
    head: StatusHead,
    settings: Settings,
    stage: Staged | None,
) -> Staged | None:
    """Carry a stage over the steps that came between, or ``None`` where it must be made anew.

    Whatever those steps name leaves the stage, and so does the rest of its group: a claim may have
    filled it, and a returned item goes first. Other settles only free things.
    """
    if basis is None or stage is None:
        return None
    if basis.config_step != head.config_step or settings.config.max_in_flight is not None:
        return None
    between = (
        store.status.read()
        .where(
            (F.col("_kind") == ITEM) & (F.col("_step") > basis.step) & (F.col("_step") <= head.step)
        )
        .localCheckpoint()
    )
    left = stage.rows.join(between.select("_seq"), "_seq", "left_anti")
    moved = between.where(F.col("_state").isin(CLAIMED, READY)).select("_group_key")
    left = left.join(moved.where("_group_key is not null"), "_group_key", "left_anti")
    return _counted(head, left.localCheckpoint())


def same_claim(store: Store, claim_id: str) -> Granted | None:
    """Return the claim that was granted under an id, if there was one."""
    row = (
        store.status.read()
        .where((F.col("_kind") == ITEM) & (F.col("_claim_id") == claim_id) & _is_claimed())
        .where(F.col("_lease") == F.col("_step"))
        .agg(F.max("_lease"), F.count(F.lit(1)), F.max("_at"), F.max("_lease_expires_at"))
        .head()
    )
    if row is None or row[0] is None:
        return None
    return Granted(
        step=row[0],
        count=row[1],
        claim_id=claim_id,
        claimed_at=row[2].astimezone(timezone.utc),
        lease_expires_at=row[3].astimezone(timezone.utc),
    )


def new_claim_id() -> str:
    """Return an id for a claim whose caller gave none."""
    return uuid.uuid4().hex


def _is_claimed() -> Column:
    return F.col("_state") == CLAIMED
