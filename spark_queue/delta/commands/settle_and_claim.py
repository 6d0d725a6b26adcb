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
from spark_queue.delta.steps import Answer, Step, is_small, once_on_status
from spark_queue.delta.store import replicas
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import READY
from spark_queue.delta.tables.wishes import PlainSession
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

    def decided(head: StatusHead) -> Answer[tuple[SettledStep, GrantedClaim] | None]:
        if checkpoint.is_due(head, request.limit):
            return _NEITHER
        both = _here(store, head, lease, verdict, request, now)
        if both is None and _is_refused(store):
            return _NEITHER
        if both is None:
            both = _planned(store, head, lease, verdict, request, now)
        elif verify.is_wanted(store):
            _check(store, head, lease, verdict, request, now, both)
        if both is None or not both.fits(head):
            return _NEITHER
        return replace(both.step(request, now), lease=lease)

    return once_on_status(store, "settle and claim", decided)


def _is_refused(store: Store) -> bool:
    """Tell whether nobody decides here what is not in memory."""
    return isinstance(store.session, PlainSession) and not replicas.are_files_read(store)


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
        after = claims.logged(self.settled, stage)
        return Step(
            head=after,
            rows=self.rows,
            small=is_small(done.total() + stage.total()),
            counts={**done.counts, **stage.by_state()},
            answer=(
                settle.told(done, after.step),
                claims.granted(stage, request, now, after.step),
            ),
        )

    def without(self, seqs: Collection[int]) -> _Both:
        """Return the same without some of the rows of the claim."""
        return replace(self, stage=self.stage.without(self.settled, seqs))


def _here(
    store: Store, head: StatusHead, lease: int, verdict: Verdict, request: Request, now: datetime
) -> _Both | None:
    """Decide both in this process; ``None`` where Spark has to."""
    with store.cache().lock:
        is_large = replicas.is_large(store, head, request.limit)
        replica = None if is_large else replicas.at_hand(store)
        if replica is None:
            return None
        done = settle.judged_here(store, replica, head, lease, verdict, now)
        if done is None:
            return None
        settled = replace(settle.logged(head, done), step=head.step)
        # An item that goes back would be in the step twice.
        stage = claiming.nothing(settled)
        if READY not in done.counts:
            settings, limits = store.settings(head), store.limits()
            try:
                stage = claiming.chosen_after(
                    done.rows, replica, settled, settings, limits, request, now
                )
            except TooManyItemsError:
                replicas.too_many(store)
                return None
        return _Both(settled, done, stage, status_table([*stage.rows, *done.rows]))


def _check(
    store: Store,
    head: StatusHead,
    lease: int,
    verdict: Verdict,
    request: Request,
    now: datetime,
    here: _Both,
) -> None:
    there, free = _planned(store, head, lease, verdict, request, now), frozenset[int]()
    if isinstance(here.stage, Chosen):
        planned_stage = None if there is None else there.stage
        free = claims.unmet(store, head, request, here.stage, planned_stage)

    def planned(both: _Both | None) -> Plan | None:
        both = None if both is None else both.without(free)
        if both is None or not both.fits(head):
            return None
        after = claims.logged(both.settled, both.stage)
        return Plan(head=after, rows=both.rows, left_out=free, facts=settle.facts_of(both.done))

    verify.checked(store, "settle and claim", lambda: planned(here), lambda: planned(there))


def _planned(
    store: Store, head: StatusHead, lease: int, verdict: Verdict, request: Request, now: datetime
) -> _Both | None:
    """Have both decided by the tables; ``None`` where they do not go together."""
    planner = planner_of(store)
    done = planner.settled(head, lease, verdict, now)
    if READY in done.counts or done.total() != head.claimed:
        return None
    settled = replace(settle.logged(head, done), step=head.step)
    next_one = planner.chosen_after(head, done, settled, request, now)
    return None if next_one is None else _Both(settled, done, *next_one)
