"""Who decides the steps that this process cannot decide by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from spark_queue.delta.replica.request import (
    Choice,
    EnqueueFacts,
    EnqueueRules,
    GrantedClaim,
    Request,
)
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import Pointer, QueueHead, StatusHead
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.verdicts import StagedSettle, Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_queue.delta.input.columns import OrderBy


class Chooser(Protocol):
    """What is chosen for a claim, carried over the steps to which a try was lost."""

    def at(self, head: StatusHead, settings: Settings) -> Choice | None:
        """Choose as of a step; ``None`` where there is nothing to write."""


class Frame(Protocol):
    """A frame on its way into the item log: checked, with its keys, and evaluated once."""

    rows: pa.Table | None
    """The rows, if they are few and such as can be decided in this process."""

    def is_empty(self) -> bool:
        """Tell whether there is nothing to enqueue."""

    def entered(
        self,
        before: QueueHead,
        pointers: Mapping[int, Pointer],
        settings: Settings,
        rules: EnqueueRules,
        readers: Sequence[Store],
        now: datetime,
    ) -> tuple[DataFrame | pa.Table, EnqueueFacts]:
        """Decide the rows of a step, and return them with the facts of them.

        Parameters
        ----------
        before : QueueHead
            The head of the step before.
        pointers : mapping
            How far the order of service has come, by priority.
        settings : Settings
            The settings in force.
        rules : EnqueueRules
            What to do with rows that cannot be taken.
        readers : sequence of Store
            The queue as each of its readers sees it.
        now : datetime
            The instant of the enqueue.

        Raises
        ------
        DuplicateItemError, ReaderFullError
            When there are such rows, and the rules say so.
        """


class Planner(Protocol):
    """Decides the steps of a queue by its tables, as one of its readers sees them.

    What it returns is computed, and not committed; its rows are frames of its own.
    """

    def frame(
        self,
        df: DataFrame,
        order_by: OrderBy,
        settings: Settings,
        extra: Sequence[str],
        *,
        is_decidable: bool,
    ) -> Frame:
        """Check a frame, compute its keys, and evaluate it.

        Parameters
        ----------
        df : DataFrame
            What is enqueued.
        order_by : str, Column or list of them, optional
            The order in which its rows enter.
        settings : Settings
            The settings in force.
        extra : sequence of str
            Columns of the log that the frame has as well.
        is_decidable : bool
            Whether its rows are such as can be decided in this process.

        Raises
        ------
        SchemaMismatchError
            When it does not fit the queue; it names the column.
        """

    def outcomes(self, step: int, logged: pa.Table | None) -> DataFrame:
        """Return what became of each row of an enqueue; ``logged`` where its rows are at hand."""

    def chooser(self, request: Request, now: datetime) -> Chooser:
        """Return who chooses for a claim, as often as it is tried."""

    def nearest(self, settings: Settings, request: Request) -> float:
        """Return how many turns ahead of the pointer a claim looks at the least."""

    def granted(self, claim_id: str) -> GrantedClaim | None:
        """Return the claim that was granted under an id, if there was one."""

    def settled(
        self, head: StatusHead, lease: int, verdict: Verdict, now: datetime
    ) -> StagedSettle:
        """Judge the items of a lease as of a step."""

    def chosen_after(
        self,
        head: StatusHead,
        done: StagedSettle,
        settled: StatusHead,
        request: Request,
        now: datetime,
    ) -> tuple[Choice, DataFrame | pa.Table] | None:
        """Choose for a claim as if a settle of this planner were logged; ``None`` for nothing.

        Parameters
        ----------
        head : StatusHead
            The step as of which was settled.
        done : StagedSettle
            What the settle would write.
        settled : StatusHead
            The head after that, at the same step: both are to be one.

        Returns
        -------
        tuple of Choice and rows
            What is chosen, and the rows of both as they are logged.
        """


def planner_of(store: Store) -> Planner:
    """Return who decides by the session of a store; nothing of Spark is imported before."""
    planner: Planner = import_module("spark_queue.delta.plans.planner").SparkPlanner(store)
    return planner
