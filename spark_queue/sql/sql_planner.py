"""Decisions by SQL."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from spark_queue.errors import SparkNeededError
from spark_queue.log.heads import StatusHead
from spark_queue.log.job_descriptions import named
from spark_queue.log.settings import Settings
from spark_queue.sql import checkpointing, choosing, settlement
from spark_queue.sql.choosing import SqlChoice
from spark_queue.sql.decisions import StagedCheckpoint
from spark_queue.sql.operating import ItemPlanner
from spark_queue.sql.session_planner import Planner
from spark_queue.sql.sql_engines import SqlEngine, engines_of, first_able
from spark_queue.state.request import Choice, Request
from spark_queue.state.settle_decision import StagedSettle, Verdict
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store


@dataclass(frozen=True, slots=True)
class SqlPlanner(ItemPlanner):
    """Decides the steps of a queue by its tables, as one of its readers sees them.

    What it returns is computed, and not committed; its rows are frames of its own. It decides a
    step as of the snapshot of the try, and asks for nothing newer.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beyond, name)

    @named("claim")
    def choose(self, at: Snapshot, request: Request, now: datetime) -> Choice | None:
        """Choose for a claim; ``None`` for nothing to write.

        Raises
        ------
        EvidenceFirst
            When it would take over an item of a claim that names an output.
        """

        def decide(engine: SqlEngine) -> SqlChoice | None:
            return choosing.choose(at, request, now, by=engine)

        return first_able(self._engines("to claim from"), decide)

    @named("claim")
    def with_output(self, leases: Collection[int]) -> dict[int, str]:
        """Return the claims, by their leases, that name an output."""

        def find(engine: SqlEngine) -> dict[int, str]:
            return engine.logs.with_output(self.store, leases)

        return first_able(self._engines("to look at claims of"), find)

    @named("settle")
    def judge(self, at: Snapshot, lease: int, verdict: Verdict, now: datetime) -> StagedSettle:
        """Judge the items of a lease."""

        def decide(engine: SqlEngine) -> StagedSettle:
            return settlement.settle(at, lease, verdict, now, engine)

        return first_able(self._engines("to settle items of"), decide)

    @named("settle")
    def debts(self, at: Snapshot) -> pa.Table:
        """Return rows of what keys of rates owe, since the checkpoint and of it."""

        def find(engine: SqlEngine) -> pa.Table:
            return engine.logs.debts_of(self.store, at.status)

        return first_able(self._engines("to read the rates of"), find)

    @named("settle and claim")
    def chosen_after(
        self, at: Snapshot, done: StagedSettle, settled: StatusHead, request: Request, now: datetime
    ) -> tuple[Choice, Any] | None:
        """Choose for a claim in the step of a settle; ``None`` for nothing.

        Parameters
        ----------
        done : StagedSettle
            What the settle would write.
        settled : StatusHead
            The head after that, at the same step: both are to be one.

        Returns
        -------
        tuple of Choice and rows
            What is chosen, and the rows of both as they are logged.
        """

        def decide(engine: SqlEngine) -> tuple[SqlChoice, Any] | None:
            stage = choosing.choose(at, request, now, (settled, done.rows), engine)
            return None if stage is None else (stage, engine.logs.joined(stage.table(), done.rows))

        try:
            return first_able(self._engines("to claim from"), decide)
        except SparkNeededError:
            # The settle needs none.
            return None

    @named("checkpoint")
    def checkpoint(
        self, at: Snapshot, changed: Settings | None = None, beside: pa.Table | None = None
    ) -> StagedCheckpoint:
        """Return the rows of a checkpoint as of a step.

        Parameters
        ----------
        changed : Settings, optional
            The settings from then on, if they are others.
        beside : pyarrow.Table, optional
            Rows that the step writes as well, before those of the checkpoint.
        """

        def decide(engine: SqlEngine) -> StagedCheckpoint:
            return checkpointing.stage(at, changed, beside, engine)

        return first_able(self._engines("to write a checkpoint of"), decide)

    def _engines(self, what: str) -> Iterator[SqlEngine]:
        return engines_of(self.store, self.beyond.engines, f"{what} {self.store.name!r}")


def of(store: Store, beyond: Planner) -> SqlPlanner:
    """Return the planner of a store."""
    return SqlPlanner(store, beyond)
