"""Settle a claim and make the next one, as one step of the status log."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_queue.delta.commands import checkpoint, claims, settle
from spark_queue.delta.commands.claims import Granted
from spark_queue.delta.commands.settle import Settled, Verdict
from spark_queue.delta.plans import candidates
from spark_queue.delta.replica import claiming
from spark_queue.delta.replica.claiming import Chosen
from spark_queue.delta.replica.columns import status_table
from spark_queue.delta.replica.request import Request
from spark_queue.delta.replica.settling import Judged
from spark_queue.delta.store import replicas
from spark_queue.delta.store.store import Store, is_small
from spark_queue.delta.tables import recent
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import READY


def settle_and_claim(
    store: Store, lease: int, verdict: Verdict, request: Request
) -> tuple[Settled, Granted] | None:
    """Write what became of a lease and what is leased next as one step.

    Returns
    -------
    tuple of Settled and Granted, or None
        ``None`` where this is not possible, and nothing was written: an item goes back, so that it
        would be in the step twice; others hold claims, which may have lapsed; there is nothing to
        claim; a checkpoint is due; or the step was lost to another writer.
    """
    started = time.monotonic()
    now = store.clock.now()
    with store.writing("status"):
        head = store.status_head()
        if checkpoint.is_due(head, request.limit):
            return None
        both = _here(store, head, lease, verdict, request, now)
        if both is None:
            both = _by_spark(store, head, lease, verdict, request, now)
        if both is None or not both.fits(head):
            return None
        done, stage = both.done, both.stage
        after = claims.logged(both.settled, stage)
        if not store.commit_status(after, both.rows, small=is_small(both.total())):
            return None
    counts = {**done.counts, **stage.by_state()}
    store.report("status", after.step, "settle and claim", counts, started, 1)
    settled = settle.Settled(
        step=after.step, counts=done.counts, lost=done.lost, failed=done.failed
    )
    return settled, claims.granted(stage, request, now, after.step)


@dataclass(frozen=True, slots=True)
class _Both:
    """What a settle would write, and a claim after it."""

    settled: StatusHead
    """The head after the settle, at the step before it."""
    done: settle.Staged | Judged
    stage: candidates.Staged | Chosen
    rows: DataFrame | pa.Table

    def fits(self, head: StatusHead) -> bool:
        """Tell whether nothing goes back, nobody else holds a claim, and there is a next one."""
        others = self.done.total() != head.claimed
        return READY not in self.done.counts and not others and self.stage.total() > 0

    def total(self) -> int:
        """Return how many rows would be written."""
        return self.done.total() + self.stage.total()


def _here(
    store: Store, head: StatusHead, lease: int, verdict: Verdict, request: Request, now: datetime
) -> _Both | None:
    """Decide both in this process; ``None`` where Spark has to."""
    with store.cache().lock:
        replica = replicas.at_hand(store)
        if replica is None or not claiming.may_choose(replica, request, now):
            return None
        done = settle.judged_here(store, replica, head, lease, verdict, now)
        if done is None:
            return None
        settled = replace(settle.logged(head, done), step=head.step)
        after = replica.after(head.step, done.rows)
        settings, limits = store.settings(head), store.limits()
        stage = claiming.chosen(after, settled, settings, limits, request, now)
        return _Both(settled, done, stage, status_table([*stage.rows, *done.rows]))


def _by_spark(
    store: Store, head: StatusHead, lease: int, verdict: Verdict, request: Request, now: datetime
) -> _Both | None:
    done = settle.staged(store, head, lease, verdict, now)
    if READY in done.counts or done.total() != head.claimed:
        return None
    staged = _claimed(store, head, done, request, now)
    if staged is None:
        return None
    settled, stage = staged
    leased = claims.rows(stage, request, now, head.step + 1)
    rows = leased.unionByName(done.rows, allowMissingColumns=True)
    return _Both(settled, done, stage, rows)


def _claimed(
    store: Store, head: StatusHead, done: settle.Staged, request: Request, now: datetime
) -> tuple[StatusHead, candidates.Staged] | None:
    """Choose what is next as if the settle were logged; return the head that it would have."""
    settled = replace(settle.logged(head, done), step=head.step)
    rows = store.recent(head).unionByName(recent.of_step(done.rows, head.step + 1))
    stage = candidates.staged(store, settled, store.settings(head), request, now, rows)
    return None if stage is None else (settled, stage)
