"""Knowledge of a handler: it kills workers."""

from __future__ import annotations

import threading

from pyspark.sql import DataFrame

from spark_queue.delta.tables.facts import logger
from spark_queue.processing.calling import Apart
from spark_queue.processing.loop import WorkerDied

#: What Spark says where a Python worker ended by itself.
_DIED = "Python worker exited unexpectedly"

#: Seconds in which Spark ends the other workers of a task that failed: it looks every two, and
#: gives them two more (``spark.python.task.killTimeout``).
_OTHERS_END = 5.0


class Learnt:
    """What is known of a handler, from one claim to the next.

    Parameters
    ----------
    stop : threading.Event
        Ends waiting.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._kills = False
        self._most: dict[int, int] = {}

    def apart(self, losses: int) -> Apart | None:
        """Tell whether, and how, the items of a claim run apart.

        Parameters
        ----------
        losses : int
            The most losses that one of them has.
        """
        return dict(self._most) if self._kills or losses else None

    def look_at(self, exc: Exception, apart: Apart | None) -> None:
        """Raise :class:`WorkerDied` where that is what happened, and running apart helps.

        By then nobody works on the items any more.
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
            "%d item(s) were in tasks that Spark ran again: what the first attempt did is not "
            "known, so they come back when their lease ends",
            items,
        )

    def note_divided(self, stage: DataFrame) -> None:
        """Note which items were in a call of several that a worker died of."""
        for seq, together in stage.where("together > 1").select("_seq", "together").collect():
            self._most[seq] = together // 2
