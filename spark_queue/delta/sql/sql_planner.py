"""Decisions by SQL."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from spark_queue.delta import verify
from spark_queue.delta.planner import Planner, StagedCheckpoint
from spark_queue.delta.replica.request import Choice, Request
from spark_queue.delta.sql import checkpointing, settlement
from spark_queue.delta.sql.choosing import SqlChoice, SqlChooser, choose, compares
from spark_queue.delta.sql.sql_engines import SqlEngine, engines_of, first_able
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.describing import named
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.verdicts import Renewed, StagedSettle, Verdict
from spark_queue.delta.verify import Plan
from spark_queue.errors import SparkNeededError


@dataclass(frozen=True, slots=True)
class SqlPlanner:
    """Decides claims, settles and checkpoints; everything else is left to another.

    Attributes
    ----------
    beyond : Planner
        The other: Spark, or the one who refuses.
    """

    store: Store
    beyond: Planner[Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beyond, name)

    def chooser(self, request: Request, now: datetime) -> SqlChooser:
        """See :class:`Planner`."""
        return SqlChooser(self.store, request, now, self.beyond)

    @named("settle")
    def judge(self, head: StatusHead, lease: int, verdict: Verdict, now: datetime) -> StagedSettle:
        """See :class:`Planner`."""

        def decide(engine: SqlEngine) -> StagedSettle:
            return settlement.settle(self.store, head, lease, verdict, now, engine)

        what = f"to settle items of {self.store.name!r}"
        ours, others = first_able(engines_of(self.store, self.beyond, what), decide)
        if compares(self.store) and (last := [*others][-1:]):
            action = "renew" if isinstance(verdict, Renewed) else "settle"
            theirs = decide(*last)
            verify.check(self.store, action, lambda: _plan(head, ours), lambda: _plan(head, theirs))
        return ours

    @named("settle and claim")
    def chosen_after(
        self,
        head: StatusHead,
        done: StagedSettle,
        settled: StatusHead,
        request: Request,
        now: datetime,
    ) -> tuple[Choice, Any] | None:
        """See :class:`Planner`."""
        settings = self.store.settings(head)

        def decide(engine: SqlEngine) -> tuple[SqlChoice, Any] | None:
            stage = choose(self.store, settled, settings, request, now, done.rows, engine)
            return None if stage is None else (stage, engine.logs.joined(stage.table(), done.rows))

        what = f"to claim from {self.store.name!r}"
        try:
            return first_able(engines_of(self.store, self.beyond, what), decide)[0]
        except SparkNeededError:
            # The settle needs none.
            return None

    @named("checkpoint")
    def checkpoint(
        self,
        head: StatusHead,
        settings: Settings,
        changed: Settings | None = None,
        beside: pa.Table | None = None,
    ) -> StagedCheckpoint:
        """See :class:`Planner`."""

        def decide(engine: SqlEngine) -> StagedCheckpoint:
            return checkpointing.stage(self.store, head, settings, changed, beside, engine)

        what = f"to write a checkpoint of {self.store.name!r}"
        return first_able(engines_of(self.store, self.beyond, what), decide)[0]


def _plan(head: StatusHead, stage: StagedSettle) -> Plan:
    facts = {"counts": dict(stage.counts), "lost": stage.lost, "failed": stage.failed}
    return Plan(head=replace(head, step=head.step + 1), rows=stage.rows, facts=facts)


def of(store: Store, beyond: Planner[Any]) -> SqlPlanner:
    """Return the planner of a store whose files are read here."""
    return SqlPlanner(store, beyond)
