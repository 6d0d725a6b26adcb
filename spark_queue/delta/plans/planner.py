"""Spark as the one who decides the steps of a queue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame

from spark_queue.delta.input.columns import OrderBy
from spark_queue.delta.plans import entering, forwarding
from spark_queue.delta.plans.entering import SparkFrame
from spark_queue.delta.plans.spark_engines import engines_of
from spark_queue.delta.plans.spark_look import SparkLook
from spark_queue.delta.sql.sql_engines import SqlEngine
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.describing import named
from spark_queue.delta.tables.settings import Settings
from spark_queue.reader_config import ReaderConfig
from spark_queue.tracing import Traces


def of(store: Store) -> SparkPlanner:
    """Return the planner of a store's session."""
    return SparkPlanner(store)


@dataclass(frozen=True, slots=True)
class SparkPlanner:
    """See :class:`~spark_queue.delta.planner.Planner`: by the session of the store."""

    store: Store
    look: ClassVar = SparkLook

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

    @named("forward items")
    def leaving(
        self, at: Snapshot, limits: ReaderConfig, target: str, since: int
    ) -> DataFrame | None:
        """See :class:`Planner`."""
        return forwarding.leaving(at, limits, target, since)
