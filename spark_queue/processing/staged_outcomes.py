"""Outcomes of a claim whose handler ran on executors: a frame that is computed, and its counts."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F

from spark_queue import saying
from spark_queue.claim import Claim
from spark_queue.state.settle_decision import Each, Every, Verdict


@dataclass(frozen=True, slots=True)
class StagedOutcomes:
    """What a handler's run said of the items of a claim."""

    stage: DataFrame
    """The columns of :func:`outcomes`, computed."""
    total: int
    """Items that have an outcome."""
    done: int
    rows: int
    """Items that are done and have a result."""
    unasked: int
    """Items for which the handler gave rows without ``returns`` or ``output``."""
    pausing: int
    """Items that pause a key."""
    seconds: float
    """How long executors worked on them, added up."""

    @classmethod
    def of(cls, stage: DataFrame) -> StagedOutcomes:
        """Count the staged outcomes."""
        is_done, with_result = F.col("outcome") == "ack", "result" in stage.columns
        has_row = is_done & F.col("result").isNotNull() if with_result else F.lit(False)
        is_unasked = F.lit(False) if with_result else F.col("unasked")
        is_pausing = F.col("pause").isNotNull()
        counts = (F.count_if(one) for one in (is_done, has_row, is_unasked, is_pausing))
        # In one part, which needs no exchange: there are few columns to look at.
        seconds = F.coalesce(F.sum("seconds"), F.lit(0.0))
        found = stage.coalesce(1).agg(F.count(F.lit(1)), *counts, seconds).collect()[0]
        return cls(stage, *found)

    def verdict(self, claim: Claim) -> Verdict:
        """Return the verdict: one ack for all, where every item is done."""
        if self.total == self.done == claim.count:
            return Every("ack")
        if not self.pausing:
            return Each(self.stage)
        found = self.stage.where(F.col("pause").isNotNull())
        rows = found.select("_seq", "outcome", "error", "after", "pause").collect()
        return Each(self.stage, {seq: saying.Said.of(*said) for seq, *said in rows})
