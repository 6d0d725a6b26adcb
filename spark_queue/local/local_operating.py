"""Figures and findings of a queue without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_queue.delta.views.ends import AsOf
from spark_queue.local import counting
from spark_queue.local.local_claim import LocalClaim
from spark_queue.operating import Claimable, Operating
from spark_queue.results import QueueStats

if TYPE_CHECKING:
    from spark_queue.doctor.finding import Checkup
    from spark_queue.doctor.thresholds import Thresholds


class Operated(Operating, Claimable[LocalClaim]):
    """A queue in the hands of an operator."""

    _claim_type = LocalClaim

    def stats(self, as_of: AsOf = None) -> QueueStats:
        """Count the items per state and per fair key; ``as_of`` as for ``status``."""
        return counting.stats(self._store, self._ends(as_of))

    def doctor(self, limits: Thresholds | None = None) -> Checkup:
        """Say what is wrong with the queue, since when, how bad it is, and what mends it.

        Parameters
        ----------
        limits : Thresholds, optional
            From where on something is worth a word.
        """
        from spark_queue.doctor.examine import examine  # noqa: PLC0415 - takes a while

        return examine(self._main, limits)
