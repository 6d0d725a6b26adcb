"""Candidates of a claim, in service order, and expired items."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta.planner import EvidenceFirst
from spark_queue.delta.plans import fold, limits, order, predecessors, selection, tags
from spark_queue.delta.replica.request import MARGIN, ChoiceFacts, Request
from spark_queue.delta.sql.reach import is_sure, reaches, wanted_of
from spark_queue.delta.store.store import Store, is_long
from spark_queue.delta.tables.heads import Pointer, StatusHead
from spark_queue.delta.tables.schema import CLAIMED, DEAD, EXPIRED, ITEM, READY, SCHEDULE
from spark_queue.delta.tables.settings import Settings
from spark_queue.operators import serial


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedClaim(ChoiceFacts):
    """Rows that a claim would write, computed but not committed, and the facts of them."""

    rows: DataFrame
    """STATE columns, ``_turn``, ``_overdue`` and ``_was``: the state before."""


def staged(
    store: Store,
    head: StatusHead,
    settings: Settings,
    request: Request,
    now: datetime,
    recent: DataFrame | None = None,
) -> StagedClaim | None:
    """Choose the next items as of a step; ``None`` where there is nothing to write.

    ``recent`` is what a fold to that step reads, where that is not in the log yet.

    Raises
    ------
    EvidenceFirst
        When an item would be taken over from a claim that names an output.
    """
    if settings.paused or store.outstanding(head) <= 0:
        return None
    recent = store.recent(head) if recent is None else recent
    touched = fold.touched(recent, is_long=is_long(head)).localCheckpoint()
    if request.takes_lapsed and head.claimed:
        _require_no_evidence(store, touched, now)
    lines = None if settings.config.fair_key is None else fold.served(recent)
    basis = _Basis(store, head, settings, request, now, touched, lines)
    for reach in reaches(store, head, settings, request):
        found, facts = _looked(basis, reach)
        room = _room(head, settings, facts)
        if reach is None or _is_enough(basis, found, facts, room, reach):
            break
    if facts.rows == 0:
        return None
    leased = selection.picked(head, settings, request.limit, request.run, lines, found, facts, room)
    return counted(head, _to_log(found, leased).localCheckpoint())


def _require_no_evidence(store: Store, touched: DataFrame, now: datetime) -> None:
    """Raise where the claim of a lease that ran out names an output."""
    ran_out = _is_claimed() & (F.col("_lease_expires_at") <= now)
    leases = [row[0] for row in touched.where(ran_out).select("_lease").distinct().collect()]
    if not leases:
        return
    granted = (F.col("_kind") == ITEM) & F.col("_step").isin(leases) & _is_claimed()
    if not store.status.read().where(granted & F.col("_body").isNotNull()).isEmpty():
        raise EvidenceFirst


class _Basis(NamedTuple):
    """What a claim chooses from, and what it asks for."""

    store: Store
    head: StatusHead
    settings: Settings
    request: Request
    now: datetime
    touched: DataFrame
    lines: DataFrame | None


def _looked(basis: _Basis, reach: float | None) -> tuple[DataFrame, selection.Findings]:
    """Return what is found within reach, and the facts of it."""
    settings = basis.settings
    found = _found(basis, reach, None).localCheckpoint()
    facts = selection.facts_of(found, reach)
    both_keys = settings.config.fair_key is not None and settings.config.group_key is not None
    if reach is None or not both_keys or not (settings.stretches or facts.overdue):
        return found, facts
    store, head = basis.store, basis.head
    more = predecessors.standing_before(store, head, settings, basis.touched, found, reach)
    if more.isEmpty():
        return found, facts
    found = _found(basis, reach, more).localCheckpoint()
    return found, selection.facts_of(found, reach)


def _room(head: StatusHead, settings: Settings, facts: selection.Findings) -> int | None:
    """Return how many items may start that are not in flight already; ``None`` for any number."""
    most = settings.config.max_in_flight
    return None if most is None else max(0, most - (head.claimed - facts.ended))


def _is_enough(
    basis: _Basis, found: DataFrame, facts: selection.Findings, room: int | None, reach: float
) -> bool:
    """Tell whether what comes next is within reach."""
    limit = basis.request.limit
    if room == 0:
        return True
    wanted = wanted_of(limit, room, facts.lapsed)
    if facts.eligible < wanted:
        return False
    within, settings, run = facts.within, basis.settings, basis.request.run
    rank = selection.rank_of(settings, facts, run)
    if facts.overdue or selection.is_clamped(settings, run) or rank is not order.OWN:
        timed = selection.timed(settings, found, facts, limit, run)
        within = selection.within(timed, reach, rank)
    return is_sure(basis.store, basis.head, settings, within, wanted, reach)


def _to_log(found: DataFrame, leased: DataFrame) -> DataFrame:
    """Return the rows to log: what is leased, and what is over."""
    # What is over was handed no turn.
    none = {"_turn": F.lit(None).cast("double"), "_overdue": F.lit(None).cast("boolean")}
    over = found.where("_over is not null").withColumns({"_state": F.col("_over"), **none})
    claimed = leased.withColumn("_state", F.lit(CLAIMED))
    return claimed.unionByName(over, allowMissingColumns=True)


def without(stage: StagedClaim, head: StatusHead, seqs: Collection[int]) -> StagedClaim:
    """Return a stage without some of its rows."""
    return counted(head, stage.rows.where(~F.col("_seq").isin(list(seqs)))) if seqs else stage


def _found(basis: _Basis, reach: float | None, more: DataFrame | None) -> DataFrame:
    """Return what may start now, and what is over: expired, or lost once too often.

    ``more`` are items beyond reach that count all the same.
    """
    config, head, now = basis.settings.config, basis.head, basis.now
    expires = limits.expires_at(basis.store.limits())
    ran_out = _is_claimed() & (F.col("_lease_expires_at") <= now)
    lapsed = ran_out & F.lit(basis.request.takes_lapsed)
    waiting = unleased(basis.store, head, basis.settings, basis.touched, lapsed, reach, more)
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
        claimed = basis.touched.where(_is_claimed()).withColumn("_was", F.col("_state"))
        in_flight = claimed.withColumn("_has_slot", lapsed).where(~lapsed | over.isNull())
        found = serial.may_start(
            judged.withColumn("_has_slot", F.col("_was") == CLAIMED),
            in_flight,
            limit=config.group_limit,
            run=basis.request.run,
            on_failure=config.on_failure,
            names=serial.Names(has_slot="_has_slot"),
        ).drop("_has_slot")
    return selection.with_lines(head.pointers, basis.lines, found)


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
    more: DataFrame | None = None,
) -> DataFrame:
    """Return every item within reach that is not in flight, and ``more`` that were not touched."""
    untouched = fold.fresh(store.items(), head, settings, reach).join(
        touched.select("_seq"), "_seq", "left_anti"
    )
    if more is not None:
        untouched = untouched.unionByName(more)
    first = untouched.withColumns({"_losses": F.lit(0), "_was": F.lit(READY)})
    back = touched.where((F.col("_state") == READY) | lapsed).withColumn("_was", F.col("_state"))
    columns = ["_seq", "_gen", "_attempts", "_losses", "_was", *SCHEDULE]
    again = tags.with_weights(back.select(*columns), settings)
    return first.unionByName(again)


def counted(head: StatusHead, chosen: DataFrame) -> StagedClaim:
    """Return chosen rows, already computed, with the facts of them."""
    by = chosen.groupBy("_state", "_was", "_priority")
    facts = by.agg(F.count(F.lit(1)).alias("rows"), selection.last().alias("last")).collect()
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
    return StagedClaim(rows=chosen, counts=counts, pointers=pointers, width=MARGIN * width)


def _is_claimed() -> Column:
    return F.col("_state") == CLAIMED
