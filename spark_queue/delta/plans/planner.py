"""Spark as the one who decides the steps of a queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import DataFrame

from spark_queue.delta.planner import Planner
from spark_queue.delta.plans import candidates, claiming, settling
from spark_queue.delta.plans.claiming import PlannedClaim, SparkChooser
from spark_queue.delta.replica.request import GrantedClaim, Request
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.verdicts import StagedSettle, Verdict


@dataclass(frozen=True, slots=True)
class SparkPlanner(Planner):
    """See :class:`~spark_queue.delta.planner.Planner`: by the session of the store."""

    store: Store

    def chooser(self, request: Request, now: datetime) -> SparkChooser:
        """See :class:`Planner`."""
        return SparkChooser(self.store, request, now)

    def nearest(self, settings: Settings, request: Request) -> float:
        """See :class:`Planner`."""
        return candidates.nearest(settings, request)

    def granted(self, claim_id: str) -> GrantedClaim | None:
        """See :class:`Planner`."""
        return claiming.granted(self.store, claim_id)

    def settled(
        self, head: StatusHead, lease: int, verdict: Verdict, now: datetime
    ) -> StagedSettle:
        """See :class:`Planner`."""
        return settling.staged(self.store, head, lease, verdict, now)

    def chosen_after(
        self,
        head: StatusHead,
        done: StagedSettle,
        settled: StatusHead,
        request: Request,
        now: datetime,
    ) -> tuple[PlannedClaim, DataFrame] | None:
        """See :class:`Planner`."""
        return claiming.chosen_after(self.store, head, done, settled, request, now)
