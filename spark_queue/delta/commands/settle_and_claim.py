"""Settle a claim and make the next one, as one step of the status log."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from spark_queue.delta import verify
from spark_queue.delta.commands import checkpoint, claims, settle
from spark_queue.delta.commands.settle import SettledStep, Verdict
from spark_queue.delta.planner import planner_of
from spark_queue.delta.replica import claiming
from spark_queue.delta.replica.claiming import Chosen
from spark_queue.delta.replica.columns import status_table
from spark_queue.delta.replica.request import Choice, GrantedClaim, Request
from spark_queue.delta.replica.settling import Judged
from spark_queue.delta.replica.state import TooManyItemsError
from spark_queue.delta.steps import Answer, Step, engine_of, is_small, once_on_status
from spark_queue.delta.store import replicas
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import READY
from spark_queue.delta.verify import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Nothing is written: settling and claiming are two steps.
_NEITHER: Answer[tuple[SettledStep, GrantedClaim] | None] = Answer(answer=None)


def settle_and_claim(
    store: Store, lease: int, verdict: Verdict, request: Request
) -> tuple[SettledStep, GrantedClaim] | None:
    """Write what became of a lease and what is leased next as one step.

    Returns
    -------
    tuple of SettledStep and GrantedClaim, or None
        ``None`` where this is not possible, and nothing was written: an item goes back, so that it
        would be in the step twice; others hold claims, which may have lapsed; there is nothing to
        claim; a checkpoint is due; or the step was lost to another writer.
    """
    now = store.clock.now()

    def decide(at: Snapshot) -> Answer[tuple[SettledStep, GrantedClaim] | None]:
        if checkpoint.is_due(at.status, request.limit):
            return _NEITHER
        here = both = _here(at, lease, verdict, request, now)
        if here is None and not at.has_spark and not at.are_files_read:
            # Nobody decides here what is not in memory.
            return _NEITHER
        if here is None:
            both = _plan_by_tables(at, lease, verdict, request, now)
        elif verify.is_wanted(at):
            _check(at, lease, verdict, request, now, here)
        if both is None or not both.fits(at.status):
            return _NEITHER
        engine = "python" if here else engine_of(both.rows)
        return replace(both.step(request, now), lease=lease, engine=engine)

    return once_on_status(store, "settle and claim", decide)


@dataclass(frozen=True, slots=True)
class _Both:
    """What a settle would write, and a claim after it."""

    settled: StatusHead
    """The head after the settle, at the step before it."""
    done: settle.StagedSettle | Judged
    stage: Choice
    rows: DataFrame | pa.Table

    def fits(self, head: StatusHead) -> bool:
        """Tell whether nothing goes back, nobody else holds a claim, and there is a next one."""
        others = self.done.total() != head.claimed
        return READY not in self.done.counts and not others and self.stage.total() > 0

    def step(
        self, request: Request, now: datetime
    ) -> Step[StatusHead, tuple[SettledStep, GrantedClaim] | None]:
        """Return the step that writes both."""
        done, stage = self.done, self.stage
        after = claims.log_claim(self.settled, stage)
        return Step(
            head=after,
            rows=self.rows,
            small=is_small(done.total() + stage.total()),
            counts={**done.counts, **stage.by_state()},
            answer=(
                settle.report_step(done, after.step),
                claims.grant(stage, request, now, after.step),
            ),
        )

    def without(self, seqs: Collection[int]) -> _Both:
        """Return the same without some of the rows of the claim."""
        return replace(self, stage=self.stage.without(self.settled, seqs))


def _here(
    at: Snapshot, lease: int, verdict: Verdict, request: Request, now: datetime
) -> _Both | None:
    """Decide both in this process; ``None`` where a planner has to."""
    with at.cache.lock:
        is_large = replicas.is_large(at, request.limit)
        replica = None if is_large else replicas.at_hand(at)
        if replica is None:
            return None
        done = settle.judge_here(at, replica, lease, verdict, now)
        if done is None:
            return None
        head = at.status
        settled = replace(settle.log_settle(head, done), step=head.step)
        # An item that goes back would be in the step twice.
        stage = claiming.nothing(settled)
        if READY not in done.counts:
            try:
                stage = claiming.chosen_after(done.rows, replica, settled, at.terms, request, now)
            except TooManyItemsError:
                replicas.too_many(at)
                return None
        return _Both(settled, done, stage, status_table([*stage.rows, *done.rows]))


def _check(
    at: Snapshot,
    lease: int,
    verdict: Verdict,
    request: Request,
    now: datetime,
    here: _Both,
) -> None:
    there, free = _plan_by_tables(at, lease, verdict, request, now), frozenset[int]()
    if isinstance(here.stage, Chosen):
        planned_stage = None if there is None else there.stage
        free = claims.unmet(at, at.status, request, here.stage, planned_stage)

    def plan(both: _Both | None) -> Plan | None:
        both = None if both is None else both.without(free)
        if both is None or not both.fits(at.status):
            return None
        after = claims.log_claim(both.settled, both.stage)
        return Plan(head=after, rows=both.rows, left_out=free, facts=settle.facts_of(both.done))

    verify.check(at, "settle and claim", lambda: plan(here), lambda: plan(there))


def _plan_by_tables(
    at: Snapshot, lease: int, verdict: Verdict, request: Request, now: datetime
) -> _Both | None:
    """Have both decided by the tables; ``None`` where they do not go together."""
    planner, head = planner_of(at.store), at.status
    done = planner.judge(at, lease, verdict, now)
    if READY in done.counts or done.total() != head.claimed:
        return None
    settled = replace(settle.log_settle(head, done), step=head.step)
    next_one = planner.chosen_after(at, done, settled, request, now)
    return None if next_one is None else _Both(settled, done, *next_one)
