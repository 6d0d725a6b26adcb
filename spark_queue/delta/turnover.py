"""Settle a claim and make the next one, as one step of the status log."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

from spark_queue.delta import checkpoint, choosing, claims, fold, settle
from spark_queue.delta.choosing import Request
from spark_queue.delta.claims import Granted
from spark_queue.delta.heads import StatusHead
from spark_queue.delta.schema import READY
from spark_queue.delta.settle import Settled, Verdict
from spark_queue.delta.store import Store, is_small


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
        done = settle.staged(store, head, lease, verdict, now)
        if READY in done.counts or done.total() != head.claimed:
            return None
        staged = _claimed(store, head, done, request, now)
        if staged is None:
            return None
        after, stage = staged
        leased = claims.rows(stage, request, now, after.step)
        rows = leased.unionByName(done.rows, allowMissingColumns=True)
        total = stage.total() + done.total()
        if not store.commit_status(after, rows, small=is_small(total)):
            return None
    counts = {**done.counts, **stage.by_state()}
    store.report("status", after.step, "settle and claim", counts, started, 1)
    return done.settled(after.step), claims.granted(stage, request, now, after.step)


def _claimed(
    store: Store, head: StatusHead, done: settle.Staged, request: Request, now: datetime
) -> tuple[StatusHead, choosing.Staged] | None:
    """Choose what is next as if the settle were logged; return the head of the step for both."""
    settled = replace(settle.logged(head, done), step=head.step)
    recent = store.recent(head).unionByName(fold.of_step(done.rows, head.step + 1))
    stage = choosing.staged(store, settled, store.settings(head), request, now, recent)
    return None if stage is None else (claims.logged(settled, stage), stage)
