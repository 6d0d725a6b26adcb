"""Spark as the one who decides the steps of a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_queue.delta.input.columns import OrderBy
from spark_queue.delta.planner import Planner
from spark_queue.delta.plans import candidates, claiming, entering, settling
from spark_queue.delta.plans.claiming import PlannedClaim, SparkChooser
from spark_queue.delta.plans.entering import SparkFrame
from spark_queue.delta.replica.request import GrantedClaim, Request
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.verdicts import StagedSettle, Verdict


@dataclass(frozen=True, slots=True)
class SparkPlanner(Planner):
    """See :class:`~spark_queue.delta.planner.Planner`: by the session of the store."""

    store: Store

    def frame(
        self,
        df: DataFrame,
        order_by: OrderBy,
        settings: Settings,
        extra: Sequence[str],
        *,
        is_decidable: bool,
    ) -> SparkFrame:
        """See :class:`Planner`."""
        return entering.frame(self.store, df, order_by, settings, extra, is_decidable=is_decidable)

    def outcomes(self, step: int, logged: pa.Table | None) -> DataFrame:
        """See :class:`Planner`."""
        return entering.outcomes(self.store, step, logged)

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
