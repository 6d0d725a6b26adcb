"""Knowledge of a handler on executors, from one claim to the next."""

from __future__ import annotations

import math
import threading
import time

from pyspark.sql import DataFrame

from spark_queue.claim import Claim
from spark_queue.log.step_events import logger
from spark_queue.processing.claim_parts import RENEWALS, WorkerDied
from spark_queue.processing.handler_types import Apart
from spark_queue.wording import plural

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
