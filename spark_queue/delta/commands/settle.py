"""Settle and renew: what the holder of a lease says of its items, as one step.

A settle counts for an item while the newest row of the item is still the holder's: nobody
claimed it since, and it has not ended. What a later claim has taken is reported, not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_queue.config import QueueConfig
from spark_queue.delta import verify
from spark_queue.delta.plans import judging, limits
from spark_queue.delta.replica import settling
from spark_queue.delta.replica.settling import Judged
from spark_queue.delta.replica.state import Replica
from spark_queue.delta.steps import Answer, Step, is_small, on_status
from spark_queue.delta.store import replicas
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead, following
from spark_queue.delta.tables.schema import CLAIMED, ITEM, READY, RECENT, TERMINAL
from spark_queue.delta.verify import Plan

#: What a holder may say of an item.
OUTCOMES = ("ack", "nack", "release", "dead")

#: How many lost items an error names.
NAMED = 1_000

#: Outcomes up to which a frame of them is brought here.
_FEW = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledStep:
    """What a settle or a renewal did."""

    step: int
    """The step of the status log; 0 where nothing was left to write."""
    counts: Mapping[str, int]
    """Items by the state they went to."""
    lost: tuple[int, ...]
    """Items that were no longer held; the first thousand where there are more."""
    failed: int = 0
    """Of the items that are ready again, those that failed: the others were only released."""

    @property
    def released(self) -> int:
        """Items that are ready again, and were charged no attempt."""
        return self.counts.get(READY, 0) - self.failed


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedSettle:
    """Rows that a settle would write, computed but not committed, and the facts of them."""

    rows: DataFrame | pa.Table
    counts: Mapping[str, int]
    lost: tuple[int, ...]
    failed: int

    def total(self) -> int:
        """Return how many rows would be written."""
        return sum(self.counts.values())

    def settled(self, step: int) -> SettledStep:
        """Return what the step that writes these rows did."""
        return SettledStep(step=step, counts=self.counts, lost=self.lost, failed=self.failed)


class Verdict(Protocol):
    """What is said of the items of a lease."""

    def rows(self, mine: DataFrame, config: QueueConfig, now: datetime) -> DataFrame:
        """Make the rows of a settle from the newest rows of a lease's items, with ``_held``."""

    def judged(
        self, replica: Replica, lease: int, config: QueueConfig, now: datetime
    ) -> Judged | None:
        """Do the same by what this process knows; ``None`` where Spark has to."""


@dataclass(frozen=True, slots=True)
class Every:
    """One outcome for all that is left of a claim; what its holder settled before stays."""

    outcome: str
    error: str | None = None

    def rows(self, mine: DataFrame, config: QueueConfig, now: datetime) -> DataFrame:
        """See :class:`Verdict`."""
        said = {"outcome": F.lit(self.outcome), "error": F.lit(self.error).cast("string")}
        return judging.judged(_not_yet_settled(mine).withColumns(said), config, now)

    def judged(
        self, replica: Replica, lease: int, config: QueueConfig, now: datetime
    ) -> Judged | None:
        """See :class:`Verdict`."""
        return settling.judged(replica, lease, (self.outcome, self.error), config, now)


@dataclass(frozen=True, slots=True)
class Each:
    """The outcomes of a frame: ``_seq``, ``outcome``, ``error``; already staged."""

    outcomes: DataFrame

    def rows(self, mine: DataFrame, config: QueueConfig, now: datetime) -> DataFrame:
        """See :class:`Verdict`."""
        told = self.outcomes.select("_seq", "outcome", "error").join(mine, "_seq", "left")
        return judging.judged(told.fillna({"_held": False}), config, now)

    def judged(
        self, replica: Replica, lease: int, config: QueueConfig, now: datetime
    ) -> Judged | None:
        """See :class:`Verdict`."""
        if lease not in replica.grants:
            return None
        said = self.outcomes.select("_seq", "outcome", "error").limit(_FEW + 1).collect()
        if len(said) > _FEW:
            return None
        outcomes = {row["_seq"]: (row["outcome"], row["error"]) for row in said}
        return settling.judged(replica, lease, outcomes, config, now)


@dataclass(frozen=True, slots=True)
class Renewed:
    """A lease extended for all that is left of a claim, counted from now."""

    by: timedelta

    def rows(self, mine: DataFrame, config: QueueConfig, now: datetime) -> DataFrame:  # noqa: ARG002
        """See :class:`Verdict`."""
        until = {"_at": F.lit(now), "_lease_expires_at": F.lit(now + self.by)}
        return _not_yet_settled(mine).withColumns(until)

    def judged(
        self,
        replica: Replica,
        lease: int,
        config: QueueConfig,  # noqa: ARG002
        now: datetime,
    ) -> Judged | None:
        """See :class:`Verdict`."""
        return settling.renewed(replica, lease, self.by, now)


@dataclass(frozen=True, slots=True)
class ByARescuer:
    """A verdict in nobody's name, so that a holder who comes back sees a loss.

    Only of items for whose newest row ``which`` is true: the others are their holder's.
    """

    verdict: Verdict
    which: Column

    def rows(self, mine: DataFrame, config: QueueConfig, now: datetime) -> DataFrame:
        """See :class:`Verdict`."""
        meant = mine.withColumn("_held", F.col("_held") & self.which)
        told = self.verdict.rows(meant, config, now)
        return told.withColumn("_lease", F.lit(None).cast("long"))

    def judged(
        self,
        replica: Replica,
        lease: int,
        config: QueueConfig,
        now: datetime,
    ) -> Judged | None:
        """See :class:`Verdict`."""
        del replica, lease, config, now
        return None


def _not_yet_settled(mine: DataFrame) -> DataFrame:
    """Leave out what the holder settled itself, whatever became of that since."""
    return mine.where(~F.col("_settled"))


def settle(store: Store, lease: int, verdict: Verdict, *, action: str = "settle") -> SettledStep:
    """Write what became of the items of a lease, as one step."""
    now = store.clock.now()

    def decided(head: StatusHead) -> Answer[SettledStep]:
        here = _judged(store, head, lease, verdict, now)
        if here is not None:
            _check(store, head, lease, verdict, now, here, action)
        stage = here or staged(store, head, lease, verdict, now)
        if not stage.counts:
            return Answer(answer=stage.settled(0))
        after = logged(head, stage)
        return Step(
            head=after,
            rows=stage.rows,
            small=is_small(stage.total()),
            counts=stage.counts,
            answer=stage.settled(after.step),
        )

    return on_status(store, action, decided)


def judged_here(
    store: Store, replica: Replica, head: StatusHead, lease: int, verdict: Verdict, now: datetime
) -> Judged | None:
    """Judge the items of a lease in this process; ``None`` where Spark has to."""
    config = limits.in_force(store.settings(head).config, store.limits())
    return verdict.judged(replica, lease, config, now)


def _judged(
    store: Store, head: StatusHead, lease: int, verdict: Verdict, now: datetime
) -> StagedSettle | None:
    with store.cache().lock:
        replica = replicas.at_hand(store)
        if replica is None:
            return None
        found = judged_here(store, replica, head, lease, verdict, now)
    if found is None:
        return None
    lost = found.lost[:NAMED]
    return StagedSettle(rows=found.table(), counts=found.counts, lost=lost, failed=found.failed)


def _check(
    store: Store,
    head: StatusHead,
    lease: int,
    verdict: Verdict,
    now: datetime,
    here: StagedSettle,
    action: str,
) -> None:
    def planned(stage: StagedSettle) -> Plan:
        return Plan(head=logged(head, stage), rows=stage.rows, facts=facts_of(stage))

    verify.checked(
        store,
        action,
        lambda: planned(here),
        lambda: planned(staged(store, head, lease, verdict, now)),
    )


def facts_of(stage: StagedSettle | Judged) -> dict[str, object]:
    """Return what is told of a settle beside its rows."""
    return {"counts": stage.counts, "lost": stage.lost[:NAMED], "failed": stage.failed}


def staged(
    store: Store, head: StatusHead, lease: int, verdict: Verdict, now: datetime
) -> StagedSettle:
    """Judge the items of a lease as of a step."""
    mine = newest_of(log_since(store, head, lease), head, lease).withColumns(
        {
            "_held": (F.col("_state") == CLAIMED) & (F.col("_lease") == lease),
            "_lost_before": F.col("_losses"),
        }
    )
    config = limits.in_force(store.settings(head).config, store.limits())
    rows = verdict.rows(mine, config, now).localCheckpoint()
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


def logged(head: StatusHead, stage: StagedSettle | Judged) -> StatusHead:
    """Return the head of the step that writes a stage."""
    left = sum(n for state, n in stage.counts.items() if state != CLAIMED)
    finished = {state: n for state, n in stage.counts.items() if state in TERMINAL}
    return following(
        head,
        claimed=head.claimed - left,
        finished=head.finishing(finished),
        log_rows=head.log_rows + stage.total(),
    )


def log_since(store: Store, head: StatusHead, lease: int) -> DataFrame:
    """Return the status log from a lease on: from memory, if it is there."""
    # What was granted before the checkpoint and has ended is in the table only.
    known = store.remembered(head) if lease > head.checkpoint.step else None
    return store.status.read() if known is None else known


def newest_of(status: DataFrame, head: StatusHead, lease: int) -> DataFrame:
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
