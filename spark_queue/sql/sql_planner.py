"""Decisions by SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from spark_queue.errors import SparkNeededError
from spark_queue.log.heads import StatusHead
from spark_queue.log.job_descriptions import named
from spark_queue.log.settings import Settings
from spark_queue.rules.bounds import Played
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

_T = TypeVar("_T")


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
        return self._decide("to claim from", partial(choosing.choose, at, request, now, None))

    @named("explain")
    def play(self, at: Snapshot, now: datetime, item: int | None) -> Played:
        """Return what a claim would take now, up to an item, or all; nothing is written."""
        return self._decide("to look at", partial(choosing.play, at, now, item))

    @named("claim")
    def with_output(self, leases: Collection[int]) -> dict[int, str]:
        """Return the claims, by their leases, that name an output."""
        return self._decide(
            "to look at claims of", lambda engine: engine.logs.with_output(self.store, leases)
        )

    @named("settle")
    def judge(self, at: Snapshot, lease: int, verdict: Verdict, now: datetime) -> StagedSettle:
        """Judge the items of a lease."""
        settle = partial(settlement.settle, at, lease, verdict, now)
        return self._decide("to settle items of", settle)

    @named("settle")
    def debts(self, at: Snapshot) -> pa.Table:
        """Return rows of what keys owe, since the checkpoint and of it."""
        return self._decide(
            "to read the debts of", lambda engine: engine.logs.debts_of(self.store, at.status)
        )

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
            return self._decide("to claim from", decide)
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
        stage = partial(checkpointing.stage, at, changed, beside)
        return self._decide("to write a checkpoint of", stage)

    def _decide(self, what: str, decide: Callable[[SqlEngine], _T]) -> _T:
        """Decide by the first engine that can."""
        name = f"{what} {self.store.name!r}"
        return first_able(engines_of(self.store, self.beyond.engines, name), decide)


def of(store: Store, beyond: Planner) -> SqlPlanner:
    """Return the planner of a store."""
    return SqlPlanner(store, beyond)
