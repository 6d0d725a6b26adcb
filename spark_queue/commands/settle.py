"""Settle and renew: the verdict of a lease's holder on its items, as one step.

A settle counts for an item while the newest row of the item is still the holder's: nobody
claimed it since, and it has not ended. What a later claim has taken is reported, not written.
The same step pauses a key, where a holder asks for it, and gives units back of what was not begun.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_queue.commands import key_pauses
from spark_queue.commands.admin import config_row
from spark_queue.flow import is_paced
from spark_queue.log.heads import StatusHead, following
from spark_queue.log.schema import (
    CLAIMED,
    PROGRESS,
    READY,
    RENEWAL,
    RENEWAL_LANE,
    RENEWED,
    TERMINAL,
)
from spark_queue.log.step_events import Engine
from spark_queue.rules.limiting import ITEM_KEYS
from spark_queue.rules.pacing import Charges, Paces, instant_of
from spark_queue.saying import Said
from spark_queue.sql import log_rows
from spark_queue.sql.planner_choice import planner_of
from spark_queue.state import replica_choice
from spark_queue.state.claim_decision import debt_rows
from spark_queue.state.replica import Replica
from spark_queue.state.replica_rows import read_debts, status_table
from spark_queue.state.schedulers import paces_of
from spark_queue.state.settle_decision import (
    NAMED,
    Judged,
    KnownLease,
    Renewed,
    SettleFacts,
    Some,
    StagedSettle,
    Verdict,
    charge_deferrals,
    pausing_of,
    unbegun_of,
)
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import Answer, Step, engine_of, is_small, on_status
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: The format from which on deferrals are counted, and rows beside a renewal say how far the work on
#: items is.
_DEFERS = _TELLS_PROGRESS = 6

#: What the row of a renewal has of those of its items.
_OF_THE_LEASE = ("_state", "_lease", "_claim_id", "_worker_id", "_at", "_lease_expires_at")


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledStep(SettleFacts):
    """The result of a settle or a renewal."""

    step: int
    """The step of the status log; 0 where nothing was left to write."""

    @property
    def released(self) -> int:
        """Items that are ready again, and were charged no attempt."""
        return self.counts.get(READY, 0) - self.failed - self.deferred

    def plus(self, later: SettledStep) -> SettledStep:
        """Return the result of both steps, as of the later one."""
        return SettledStep(
            step=later.step or self.step,
            counts=Counter(self.counts) + Counter(later.counts),
            lost=(*self.lost, *later.lost)[:NAMED],
            failed=self.failed + later.failed,
            deferred=self.deferred + later.deferred,
        )


def report_step(stage: SettleFacts, step: int) -> SettledStep:
    """Return the result of a stage's step."""
    return SettledStep(stage.counts, stage.lost, stage.failed, stage.deferred, step=step)


def as_noted(at: Snapshot, verdict: Verdict) -> Verdict:
    """Return a verdict as a queue of its format can note it: an older one counts no deferrals."""
    return verdict if at.settings.format >= _DEFERS else charge_deferrals(verdict)


def settle(store: Store, lease: int, verdict: Verdict, *, action: str = "settle") -> SettledStep:
    """Write the outcome of a lease's items, as one step."""

    def decide(at: Snapshot) -> Answer[SettledStep]:
        # Asked within the step: units that time has paid back, and others took, do not come back.
        now = store.clock.now()
        told = as_noted(at, verdict)
        here = _judge(at, lease, told, now)
        stage = here or planner_of(store).judge(at, lease, told, now)
        if not stage.counts:
            return Answer(answer=report_step(stage, 0))
        engine: Engine = "python" if here else engine_of(stage.rows)
        if isinstance(verdict, Renewed) and at.settings.format >= RENEWED:
            said = verdict.progress if at.settings.format >= _TELLS_PROGRESS else {}
            stage = _in_one_row(stage, said, now)
        after, rows = log_settle(at.status, stage), stage.rows
        if asked := pausing_of(told):
            said_of = None if isinstance(asked, Said) else list(asked)
            keys = _columns_of(rows, ITEM_KEYS, said_of)
            paused = key_pauses.pause_by_items(at.settings, keys, asked, now)
            if paused != at.settings:
                after = replace(after, config_step=after.step)
                rows = _join_rows(rows, config_row(paused, now))
        if (back := refunds(at, lease, told, stage.rows, now)) is not None:
            rows = _join_rows(rows, back)
        return Step(
            head=after,
            rows=rows,
            small=is_small(stage.total()),
            counts=stage.counts,
            lease=lease,
            failed=stage.failed,
            deferred=stage.deferred,
            answer=report_step(stage, after.step),
            engine=engine,
        )

    # Which items there are has no bearing on those of a lease.
    return on_status(store, action, decide, older_than=math.inf)


def judge_here(
    at: Snapshot, replica: Replica, lease: int, verdict: Verdict, now: datetime
) -> Judged | None:
    """Judge the items of a lease in this process; ``None`` where a planner has to."""
    if lease not in replica.grants:
        return None
    return verdict.judge(KnownLease(replica, lease, at.terms, now))


def _judge(at: Snapshot, lease: int, verdict: Verdict, now: datetime) -> StagedSettle | None:
    # Few outcomes are few, however much the claim has.
    count = len(verdict.outcomes) if isinstance(verdict, Some) else math.inf
    is_large = count > replica_choice.LARGE
    with at.cache.lock:
        if replica_choice.is_unread(at, count):
            return None
        replica = replica_choice.at_hand(at)
        if replica is None or (is_large and _has_many(at, replica, lease)):
            return None
        found = judge_here(at, replica, lease, verdict, now)
    if found is None:
        return None
    facts = (found.counts, found.lost[:NAMED], found.failed, found.deferred)
    return StagedSettle(*facts, rows=found.table())


def _in_one_row(
    stage: StagedSettle, progress: Mapping[int, tuple[float, str | None]], now: datetime
) -> StagedSettle:
    """Return a renewal as one row, for all that its lease still holds; and rows of progress."""
    rows = stage.rows
    first = rows.slice(0, 1) if isinstance(rows, pa.Table) else rows.limit(1)
    (held,) = (first if isinstance(first, pa.Table) else first.toArrow()).to_pylist()
    row = {name: held[name] for name in _OF_THE_LEASE}
    row |= {"_gen": RENEWAL_LANE, "_kind": RENEWAL}
    beside = {"_gen": RENEWAL_LANE, "_kind": PROGRESS, "_lease": held["_lease"], "_at": now}
    said = [
        {**beside, "_seq": seq, "_body": json.dumps({"fraction": fraction, "note": note})}
        for seq, (fraction, note) in progress.items()
        if seq not in stage.lost
    ]
    return replace(stage, rows=status_table([row, *said]), row_count=1 + len(said))


def _has_many(at: Snapshot, replica: Replica, lease: int) -> bool:
    """Whether more is left of a lease than is decided well one by one."""
    grant = replica.grants.get(lease)
    count = 0 if grant is None else len(grant.left)
    return count > replica_choice.LARGE and at.are_files_read


def log_settle(head: StatusHead, stage: StagedSettle | Judged) -> StatusHead:
    """Return the head of the step that writes a stage."""
    left = sum(n for state, n in stage.counts.items() if state != CLAIMED)
    finished = {state: n for state, n in stage.counts.items() if state in TERMINAL}
    return following(
        head,
        claimed=head.claimed - left,
        finished=head.finishing(finished),
        log_rows=head.log_rows + stage.total(),
    )


# rule again: units that come back
def refunds(
    at: Snapshot, lease: int, verdict: Verdict, rows: DataFrame | pa.Table, now: datetime
) -> pa.Table | None:
    """Return the rows of a settle that give units back; ``None`` where there are none.

    Parameters
    ----------
    rows : DataFrame or pyarrow.Table
        The rows of the items: what is no longer the holder's has none.
    """
    seqs = unbegun_of(verdict) if is_paced(at.settings.config) else []
    if seqs == []:
        return None
    paces, charges = _debts(at, lease)
    asked = [
        one for row in _columns_of(rows, (*ITEM_KEYS, "_units"), seqs) for one in paces.find_in(row)
    ]
    found = paces.give_back(asked, charges, instant_of(now.timestamp()))
    return status_table(debt_rows(paces.name_debts(found))) if found else None


def _debts(at: Snapshot, lease: int) -> tuple[Paces, Charges]:
    """Return what keys owe, and owed after a claim, as far as the log says that."""
    config = at.settings.config
    with at.cache.lock:
        replica = replica_choice.at_hand(at)
        if replica is not None:
            grant = replica.grants.get(lease)
            return paces_of(replica, config), {} if grant is None else grant.charges
    paces, rows = Paces(config), planner_of(at.store).debts(at)
    for (by, key), debt in read_debts(rows).items():
        paces.learn(by, key, debt)
    return paces, read_debts(rows.filter(pc.equal(rows["_step"], lease)))


def _join_rows(rows: DataFrame | pa.Table, others: pa.Table) -> DataFrame | pa.Table:
    """Return the rows of a settle and others; a missing column is null."""
    if isinstance(rows, pa.Table):
        return log_rows.joined(rows, others)
    return import_module("spark_queue.spark.spark_engines").FrameRows().joined(rows, others)


def _columns_of(
    rows: DataFrame | pa.Table, names: Sequence[str], seqs: list[int] | None
) -> list[dict[str, Any]]:
    """Return some columns of some items of a settle, or of all."""
    if isinstance(rows, pa.Table):
        few = rows if seqs is None else rows.filter(pc.is_in(rows["_seq"], pa.array(seqs)))
        few = few.select(names)
    else:
        frame = rows if seqs is None else rows.where(rows["_seq"].isin(seqs))
        few = frame.select(*names).toArrow()
    found: list[dict[str, Any]] = few.to_pylist()
    return found
