"""Decisions by SQL where this process reads the files of the logs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from spark_queue.delta import verify
from spark_queue.delta.planner import Planner
from spark_queue.delta.replica.request import Choice, Request
from spark_queue.delta.sql import settlement
from spark_queue.delta.sql.choosing import SqlChooser, choose, compares
from spark_queue.delta.sql.log_rows import TooManyRowsError
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.verdicts import Renewed, StagedSettle, Verdict
from spark_queue.delta.verify import Plan


@dataclass(frozen=True, slots=True)
class SqlPlanner:
    """Decides claims and settles; everything else, and what is too much, is left to another.

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
        return SqlChooser(self.store, request, now, self.beyond.chooser(request, now))

    def settled(
        self, head: StatusHead, lease: int, verdict: Verdict, now: datetime
    ) -> StagedSettle:
        """See :class:`Planner`."""
        try:
            ours = settlement.settle(self.store, head, lease, verdict, now)
        except TooManyRowsError:
            ours = None
        if ours is not None and not compares(self.store):
            return ours
        theirs = self.beyond.settled(head, lease, verdict, now)
        if ours is None:
            return theirs
        action = "renew" if isinstance(verdict, Renewed) else "settle"
        verify.checked(self.store, action, lambda: _plan(head, ours), lambda: _plan(head, theirs))
        return ours

    def chosen_after(
        self,
        head: StatusHead,
        done: StagedSettle,
        settled: StatusHead,
        request: Request,
        now: datetime,
    ) -> tuple[Choice, Any] | None:
        """See :class:`Planner`."""
        if not isinstance(done.rows, pa.Table):
            return self.beyond.chosen_after(head, done, settled, request, now)
        settings = self.store.settings(head)
        try:
            stage = choose(self.store, settled, settings, request, now, done.rows)
        except TooManyRowsError:
            return None
        return None if stage is None else (stage, pa.concat_tables([stage.table(), done.rows]))


def _plan(head: StatusHead, stage: StagedSettle) -> Plan:
    facts = {"counts": dict(stage.counts), "lost": stage.lost, "failed": stage.failed}
    return Plan(head=replace(head, step=head.step + 1), rows=stage.rows, facts=facts)


def of(store: Store, beyond: Planner[Any]) -> SqlPlanner:
    """Return the planner of a store whose files are read here."""
    return SqlPlanner(store, beyond)
