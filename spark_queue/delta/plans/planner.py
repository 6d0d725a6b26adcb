"""Spark as the one who decides the steps of a queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_queue.delta.arrow.where import Where
from spark_queue.delta.input.columns import OrderBy
from spark_queue.delta.planner import Coming, Made, Moved
from spark_queue.delta.plans import (
    capacity,
    claiming,
    coming,
    ending,
    entering,
    forwarding,
    taking_back,
)
from spark_queue.delta.plans.entering import SparkFrame
from spark_queue.delta.plans.spark_engines import engines_of
from spark_queue.delta.replica.request import GrantedClaim
from spark_queue.delta.sql.sql_engines import SqlEngine
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.describing import named
from spark_queue.delta.tables.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.results import Affected
from spark_queue.tracing import Traces


def of(store: Store) -> SparkPlanner:
    """Return the planner of a store's session."""
    return SparkPlanner(store)


@dataclass(frozen=True, slots=True)
class SparkPlanner:
    """See :class:`~spark_queue.delta.planner.Planner`: by the session of the store."""

    store: Store

    @named("read what is enqueued")
    def frame(
        self,
        df: object,
        order_by: OrderBy,
        settings: Settings,
        extra: Sequence[str],
        *,
        is_decidable: bool,
        trace: Traces = None,
    ) -> SparkFrame:
        """See :class:`Planner`."""
        return entering.frame(
            self.store, df, order_by, settings, extra, is_decidable=is_decidable, trace=trace
        )

    def outcomes(self, step: int, logged: pa.Table | None) -> DataFrame:
        """See :class:`Planner`."""
        return entering.outcomes(self.store, step, logged)

    def engines(self, what: str) -> Iterator[SqlEngine]:
        """See :class:`Planner`."""
        del what
        return engines_of(self.store)

    @named("look for a claim")
    def find_claim(self, claim_id: str) -> GrantedClaim | None:
        """See :class:`Planner`."""
        return claiming.find_claim(self.store, claim_id)

    def matching(self, where: Where, states: tuple[str, ...]) -> DataFrame:
        """See :class:`Planner`."""
        return ending.matching(self.store, where, states)

    def not_redriven(self, found: DataFrame) -> DataFrame:
        """See :class:`Planner`."""
        return ending.not_redriven(self.store, found)

    def again(self, found: DataFrame) -> DataFrame:
        """See :class:`Planner`."""
        return ending.again(self.store, found)

    def read_made(self, step: int) -> Made:
        """See :class:`Planner`."""
        return taking_back.read_made(self.store, step)

    def cancelled_in(self, step: int) -> DataFrame:
        """See :class:`Planner`."""
        return taking_back.cancelled_in(self.store, step)

    def restore(self, found: DataFrame, *, keeps_place: bool) -> DataFrame:
        """See :class:`Planner`."""
        return taking_back.restore(self.store, found, keeps_place=keeps_place)

    def find_taken(self, step: int) -> list[tuple[int, int]]:
        """See :class:`Planner`."""
        return taking_back.find_taken(self.store, step)

    def count_affected(self, found: DataFrame, becomes: str) -> Affected:
        """See :class:`Planner`."""
        return ending.count_affected(self.store, found, becomes)

    @named("look at what waits")
    def coming(self, at: Snapshot, now: datetime) -> Coming:
        """See :class:`Planner`."""
        return coming.coming(at, now)

    def due(self, now: datetime) -> DataFrame:
        """See :class:`Planner`."""
        return ending.due(self.store, now)

    @named("count what waits")
    def outstanding_bytes(self) -> int:
        """See :class:`Planner`."""
        return capacity.outstanding_bytes(self.store)

    @named("look for the oldest")
    def oldest(self, most: int) -> DataFrame:
        """See :class:`Planner`."""
        return ending.oldest(self.store, most)

    @named("look for the oldest")
    def oldest_by_bytes(self, most: int) -> DataFrame:
        """See :class:`Planner`."""
        return ending.oldest_by_bytes(self.store, most)

    @named("end items")
    def end(self, found: DataFrame, state: str, now: datetime, error: str | None) -> Moved:
        """See :class:`Planner`."""
        return ending.end(found, state, now, error)

    @named("redrive")
    def revive(self, found: DataFrame, now: datetime) -> Moved:
        """See :class:`Planner`."""
        return ending.revive(found, now)

    @named("forward items")
    def leaving(
        self, at: Snapshot, limits: ReaderConfig, target: str, since: int
    ) -> DataFrame | None:
        """See :class:`Planner`."""
        return forwarding.leaving(at, limits, target, since)
