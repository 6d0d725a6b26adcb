"""Outcomes of a claim that ran on executors, and knowledge of its handler."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

from pyspark.sql import DataFrame, functions as F

from spark_queue import saying
from spark_queue.claim import Claim
from spark_queue.log.step_events import logger
from spark_queue.processing.claim_parts import RENEWALS, WorkerDied
from spark_queue.processing.handler_types import Apart
from spark_queue.state.settle_decision import Each, Every, Verdict
from spark_queue.wording import plural


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


#: What Spark says where a Python worker ended by itself.
_DIED = "Python worker exited unexpectedly"

#: Seconds in which Spark ends the other workers of a task that failed: it looks every two, and
#: gives them two more (``spark.python.task.killTimeout``).
_OTHERS_END = 5.0


class Learnt:
    """Lessons about a handler, kept from one claim to the next.

    Parameters
    ----------
    stop : threading.Event
        Ends waiting.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._kills = False
        self._most: dict[int, int] = {}
        self._is_timed = True

    def apart(self, losses: int) -> Apart | None:
        """Whether, and how, the items of a claim run apart.

        Parameters
        ----------
        losses : int
            The most losses that one of them has.
        """
        return dict(self._most) if self._kills or losses else None

    def look_at(self, exc: Exception, apart: Apart | None) -> None:
        """Raise :class:`WorkerDied` where that is what happened, and running apart helps.

        By then no task works on the items any more.
        """
        if apart is not None or _DIED not in str(exc):
            return
        self._kills = True
        self._stop.wait(_OTHERS_END)
        raise WorkerDied from exc

    def note_missed(self, items: int) -> None:
        """Note that the tasks of so many items were run again, for any reason."""
        self._kills = True
        logger.warning(
            "%s in tasks that Spark ran again: what the first attempt did is not known, so it "
            "comes back when the lease ends",
            plural(items, "item was", "items were"),
        )

    def until(self, claim: Claim) -> float:
        """Return until when items of a claim may begin, to be settled in time."""
        third = (claim.lease_expires_at - claim.claimed_at).total_seconds() / RENEWALS
        return time.time() + third if self._is_timed else math.inf

    def note_none(self, claim: Claim) -> None:
        """Note that no item of a claim has begun: clocks of executors may be far ahead."""
        self._is_timed = False
        logger.warning(
            "no item of %s began in a third of its lease: if there are cores for them, the clocks "
            "of executors are ahead of the driver's; claims are worked off whole from now on",
            claim,
        )

    def note_divided(self, stage: DataFrame) -> None:
        """Note which items were in a call of several that a worker died of."""
        for seq, together in stage.where("together > 1").select("_seq", "together").collect():
            self._most[seq] = together // 2
