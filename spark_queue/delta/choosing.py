"""What comes next: the items that may run, in the order of service, and those that are over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta import fold, limits, serving, tags
from spark_queue.delta.heads import Pointer, StatusHead
from spark_queue.delta.schema import CLAIMED, DEAD, EXPIRED, READY, SCHEDULE
from spark_queue.delta.settings import Settings
from spark_queue.delta.store import Store, is_long
from spark_queue.operators import serial, turns

#: How far ahead of the pointer a first claim looks, in turns, and how fast it looks further.
_FIRST_WIDTH = 64.0
_WIDER = 8

#: How much further than the last claim a claim looks first.
_MARGIN = 1.5


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
    output: str | None = None
    """The table that gets the results: what it has of a claim is evidence. Items whose lease ran
    out are then not taken as they are; they are settled first, by what is there."""


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
    if settings.paused or store.outstanding(head) <= 0:
        return None
    recent = store.recent(head) if recent is None else recent
    touched = fold.touched(recent, is_long=is_long(head)).localCheckpoint()
    lines = None if settings.config.fair_key is None else fold.served(recent)
    width = _first_width(store, head, settings, request)
    for wider in (1, _WIDER, _WIDER**2, None):
        reach = _reach(store, head, settings, None if wider is None else width * wider)
        found = _found(store, head, settings, request, now, touched, lines, reach).localCheckpoint()
        facts = _facts(found)
        if reach is None or facts.eligible >= request.limit:
            break
    if facts.rows == 0:
        return None
    chosen = _chosen(settings, request, found, facts, limit)
    return counted(head, chosen.localCheckpoint())


def _allowed(head: StatusHead, settings: Settings, request: Request) -> int:
    """Return how many items may be leased that are not in flight already."""
    most = settings.config.max_in_flight
    return request.limit if most is None else max(0, min(request.limit, most - head.claimed))


def _first_width(store: Store, head: StatusHead, settings: Settings, request: Request) -> float:
    if settings.config.fair_key is None:
        return max(head.width, 4.0 * request.limit)
    return max(head.width, _FIRST_WIDTH, _usual_width(store, head, request.limit))


def _usual_width(store: Store, head: StatusHead, limit: int) -> float:
    """Return how many turns so many items take, if what waits is spread evenly over its turns.

    Where many lines end early the first turns have more, so that this is far enough.
    """
    newest = store.queue_head()
    left = store.outstanding(head)
    turns = sum(
        max(0.0, top - head.pointers.get(priority, (0.0, 0))[0])
        for priority, top in newest.tops.items()
    )
    return limit * turns / max(left, 1)


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
    expires = limits.expires_at(store.limits())
    lapsed = _is_claimed() & (F.col("_lease_expires_at") <= now) & F.lit(request.output is None)
    waiting = unleased(store, head, settings, touched, lapsed, reach)
    over = F.when(expires <= now, EXPIRED)
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


def waiting(store: Store, head: StatusHead) -> DataFrame:
    """Return every item that is neither over nor in flight, as of a step.

    Returns
    -------
    DataFrame
        ``_seq``, ``_gen``, ``_attempts``, ``_losses``, ``_was`` (its state) and the schedule.
    """
    touched = fold.touched(store.recent(head), is_long=is_long(head)).localCheckpoint()
    return unleased(store, head, store.settings(head), touched, F.lit(False), None)


def unleased(
    store: Store,
    head: StatusHead,
    settings: Settings,
    touched: DataFrame,
    lapsed: Column,
    reach: float | None,
) -> DataFrame:
    """Return every item within reach that is not in flight."""
    untouched = fold.fresh(store.items(), head, settings, reach).join(
        touched.select("_seq"), "_seq", "left_anti"
    )
    first = untouched.withColumns({"_losses": F.lit(0), "_was": F.lit(READY)})
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
    return turns.split_overdue(tags.join_lines(placed, lines))


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
    timed = _turns(eligible, facts.overdue, request.limit)
    if config.fair_key is not None and config.group_limit * request.run > 1:
        timed = turns.clamped_by_group(timed)
    if limit < request.limit:
        # Items whose lease ran out hold their place in flight already.
        new = serving.first(timed.where(F.col("_was") == READY), limit)
        timed = new.unionByName(timed.where(F.col("_was") == CLAIMED))
    leased = serving.first(timed, request.limit).withColumn("_state", F.lit(CLAIMED))
    return leased.unionByName(over, allowMissingColumns=True)


def _turns(eligible: DataFrame, overdue: int, limit: int) -> DataFrame:
    if overdue == 0:
        return turns.on_time(eligible)
    late = eligible.where("_overdue").select("_priority", "_fair_key").distinct()
    marked = tags.join_lines(eligible, late.withColumn("_late", F.lit(True)))
    on_time = turns.on_time(marked.where("_late is null"))
    return on_time.unionByName(turns.reassigned(marked.where("_late"), limit)).drop("_late")


def counted(head: StatusHead, chosen: DataFrame) -> Staged:
    """Return chosen rows, already computed, with the facts of them."""
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
    return Staged(rows=chosen, counts=counts, pointers=pointers, width=_MARGIN * width)


def _is_claimed() -> Column:
    return F.col("_state") == CLAIMED
