"""What to do about claims whose holder is gone."""

from __future__ import annotations

import os
import re
import socket

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.delta import fold, settle
from spark_queue.delta.evidence import Output
from spark_queue.delta.schema import CLAIMED
from spark_queue.delta.settle import Settled
from spark_queue.delta.store import Store


def recover(store: Store, output: Output | None) -> list[Settled]:
    """Settle the claims whose holder is known to be gone.

    A holder is gone when its lease ran out, or when it was another process on this machine that
    wrote to a queue on this disk: this process has the writer lock now, so that one has ended.
    What the holder wrote to the output counts as done; the rest comes back, charged with a loss.

    Returns
    -------
    list of Settled
        One for each claim that was settled.
    """
    with store.writing("status"):
        open_claims = _open(store)
    return [
        _settled(store, output, lease, claim_id, otherwise=settle.LOSE)
        for lease, claim_id in open_claims
    ]


def _open(store: Store) -> list[tuple[int, str]]:
    now = store.clock.now()
    head = store.status_head()
    if head.claimed == 0:
        return []
    claimed = fold.touched(store.recent(head)).where(F.col("_state") == CLAIMED)
    gone = F.col("_lease_expires_at") <= now
    if store.is_only_writer():
        ours = rf"^{re.escape(socket.gethostname())}/\d+$"
        me = f"{socket.gethostname()}/{os.getpid()}"
        gone = gone | (F.col("_worker_id").rlike(ours) & (F.col("_worker_id") != me))
    rows = claimed.where(gone).select("_lease", "_claim_id").distinct().collect()
    return sorted((row[0], row[1]) for row in rows)


def abandon(store: Store, output: Output | None, lease: int, claim_id: str) -> Settled:
    """Settle a claim that its own holder gives up: what is in the output is done, the rest back."""
    return _settled(store, output, lease, claim_id, otherwise="release")


def _settled(
    store: Store, output: Output | None, lease: int, claim_id: str, otherwise: str
) -> Settled:
    done = None if output is None else output.shut_out(claim_id)
    with store.writing("status"):
        recent = store.recent(store.status_head())
    mine = fold.touched(recent).where((F.col("_state") == CLAIMED) & (F.col("_lease") == lease))
    verdict = settle.by_a_rescuer(settle.each(_outcomes(mine, done, otherwise)))
    return settle.settle(store, lease, verdict, action="recover")


def _outcomes(mine: DataFrame, done: DataFrame | None, otherwise: str) -> DataFrame:
    outcome: Column = F.lit(otherwise)
    rows = mine.select("_seq")
    if done is not None:
        rows = rows.join(done.withColumn("_done", F.lit(True)).distinct(), "_seq", "left")
        outcome = F.when(F.col("_done"), "ack").otherwise(outcome)
    error = F.when(outcome == settle.LOSE, "holder is gone")
    return rows.select("_seq", outcome.alias("outcome"), error.alias("error")).localCheckpoint()
