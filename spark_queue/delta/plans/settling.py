"""Settles as Spark judges them: the newest rows of a lease's items, and what becomes of those."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.config import QueueConfig
from spark_queue.delta.plans import judging
from spark_queue.delta.replica.rules import in_force
from spark_queue.delta.replica.settling import GONE, LOSE
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import CLAIMED, ITEM, READY, RECENT
from spark_queue.delta.verdicts import (
    NAMED,
    ByARescuer,
    Each,
    Every,
    Gone,
    Renewed,
    Some,
    StagedSettle,
    Verdict,
)

_SAID = "_seq long, outcome string, error string"


def staged(
    store: Store, head: StatusHead, lease: int, verdict: Verdict, now: datetime
) -> StagedSettle:
    """Judge the items of a lease as of a step."""
    mine = _newest_of(log_since(store, head, lease), head, lease).withColumns(
        {
            "_held": (F.col("_state") == CLAIMED) & (F.col("_lease") == lease),
            "_lost_before": F.col("_losses"),
        }
    )
    config = in_force(store.settings(head).config, store.limits())
    rows = _judged(verdict, mine, config, now).localCheckpoint()
    facts = (
        rows.groupBy("_held", "_state")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.slice(
                F.sort_array(F.collect_set(F.when(~F.col("_held"), F.col("_seq")))), 1, NAMED
            ).alias("lost"),
            # Of what goes back a failure alone has a time to wait for, or one more loss.
            F.count_if(
                F.col("_available_at").isNotNull() | (F.col("_losses") > F.col("_lost_before"))
            ).alias("failed"),
        )
        .collect()
    )
    return StagedSettle(
        rows=rows.where("_held").drop("_held", "_settled", "_lost_before"),
        counts={row["_state"]: row["rows"] for row in facts if row["_held"]},
        lost=tuple(sorted(seq for row in facts for seq in row["lost"])),
        failed=sum(row["failed"] for row in facts if row["_held"] and row["_state"] == READY),
    )


def log_since(store: Store, head: StatusHead, lease: int) -> DataFrame:
    """Return the status log from a lease on: from memory, if it is there."""
    # What was granted before the checkpoint and has ended is in the table only.
    known = store.remembered(head) if lease > head.checkpoint.step else None
    return store.status.read() if known is None else known


def _judged(verdict: Verdict, mine: DataFrame, config: QueueConfig, now: datetime) -> DataFrame:
    """Make the rows of a settle from the newest rows of a lease's items, with ``_held``."""
    match verdict:
        case Every():
            said = {"outcome": F.lit(verdict.outcome), "error": F.lit(verdict.error).cast("string")}
            return judging.judged(_not_yet_settled(mine).withColumns(said), config, now)
        case Each():
            told = verdict.outcomes.select("_seq", "outcome", "error").join(mine, "_seq", "left")
            return judging.judged(told.fillna({"_held": False}), config, now)
        case Some():
            listed = [(seq, *said) for seq, said in verdict.outcomes.items()]
            frame = mine.sparkSession.createDataFrame(listed, _SAID)
            return _judged(Each(frame), mine, config, now)
        case Renewed():
            until = {"_at": F.lit(now), "_lease_expires_at": F.lit(now + verdict.by)}
            return _not_yet_settled(mine).withColumns(until)
        case Gone():
            said = {"outcome": F.lit(LOSE), "error": F.lit(GONE)}
            over = (F.col("_lease_expires_at") <= verdict.now) | _is_one_of(verdict.ended)
            meant = _not_yet_settled(mine).where(F.col("_held") & over).withColumns(said)
            lost = judging.judged(meant, config, now)
            return lost.withColumn("_lease", F.lit(None).cast("long"))
        case ByARescuer():
            which = F.lit(True) if verdict.which is None else verdict.which
            meant = mine.withColumn("_held", F.col("_held") & which)
            rescued = _judged(verdict.verdict, meant, config, now)
            return rescued.withColumn("_lease", F.lit(None).cast("long"))


def _is_one_of(workers: Collection[str]) -> Column:
    return F.coalesce(F.col("_worker_id").isin(*workers), F.lit(False))


def _not_yet_settled(mine: DataFrame) -> DataFrame:
    """Leave out what the holder settled itself, even if it has changed since."""
    return mine.where(~F.col("_settled"))


def _newest_of(status: DataFrame, head: StatusHead, lease: int) -> DataFrame:
    """Return the newest row of every item that a lease was granted for.

    ``_settled`` says whether the holder has settled it: such rows carry its lease.
    """
    log = status.where((F.col("_kind") == ITEM) & (F.col("_step") <= head.step))
    log = log.select(*RECENT)
    granted = log.where((F.col("_step") == lease) & (F.col("_state") == CLAIMED))
    if head.step == lease:
        return granted.withColumn("_settled", F.lit(False))
    later = log.where(F.col("_step") > lease).join(granted.select("_seq"), "_seq", "left_semi")
    everything = granted.unionByName(later)
    row = F.struct(*everything.columns)
    its_own = (F.col("_lease") == lease) & (F.col("_state") != CLAIMED)
    newest = everything.groupBy("_seq").agg(
        F.max_by(row, "_step").alias("_newest"),
        F.bool_or(F.coalesce(its_own, F.lit(False))).alias("_settled"),
    )
    return newest.select("_newest.*", "_settled")
