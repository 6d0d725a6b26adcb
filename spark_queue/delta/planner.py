"""Planner of the steps that this process cannot decide itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyarrow as pa

from spark_queue.delta.replica.request import (
    Choice,
    GrantedClaim,
    Request,
)
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import ITEM
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.delta.verdicts import StagedSettle, Verdict
from spark_queue.reader_config import ReaderConfig
from spark_queue.results import Affected
from spark_queue.tracing import Traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_queue.delta.input.columns import OrderBy
    from spark_queue.delta.sql.look import QueueLook
    from spark_queue.delta.sql.sql_engines import SqlEngine


#: Items that a planner has found, for itself: a frame, or a table.
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedCheckpoint:
    """The rows of a checkpoint and the head of its step."""

    rows: DataFrame | pa.Table
    head: StatusHead


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """The rows by which items come to a state."""

    rows: DataFrame | pa.Table
    was: Mapping[str, int]
    """How many of them there are, by the state before."""

    def total(self) -> int:
        """Return how many rows would be written."""
        return sum(self.was.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """What time alone lets run."""

    held_until: datetime | None
    """When the first lease of those in flight ends."""
    delayed: int = 0
    """Items that wait for a time of their own."""
    due: datetime | None = None
    """When the first of these is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a step of a status log has written, by kind and state, and how often."""

    rows: Mapping[tuple[str, str | None], int]
    dropped: int = 0
    """Cancelled items of which it is said why: a limit dropped them."""

    def has(self, kind: str) -> bool:
        """Tell whether there is a row of a kind."""
        return any(one == kind for one, _ in self.rows)

    def items(self) -> dict[str, int]:
        """Return how many items came to which state."""
        return {str(state): n for (kind, state), n in self.rows.items() if kind == ITEM}


#: The columns of the log that an item has which comes back as it was.
RESTORED = ("_origin", "_round", "_errors", "_enqueued_at")

#: How many items are named whose keys are taken.
TAKEN = 1_000


class EvidenceFirst(Exception):  # noqa: N818 - what is to be done; it is not shown to users
    """A lease ran out whose claim names an output: what that has is to be asked before a claim."""


class Frame(Protocol):
    """A frame on its way into the item log: checked, with its keys, and evaluated once."""

    @property
    def rows(self) -> pa.Table | None:
        """The rows, if they are few and such as can be decided in this process."""

    def is_empty(self) -> bool:
        """Tell whether there is nothing to enqueue."""

    def stage(self) -> Any:
        """Return the rows as Spark has them, evaluated and numbered.

        Raises
        ------
        SparkNeededError
            When there is no session of Spark.
        """


class Planner(Protocol[_Found]):
    """Decides the steps of a queue by its tables, as one of its readers sees them.

    What it returns is computed, and not committed; its rows are frames of its own. It decides a
    step as of the snapshot of the try, and asks for nothing newer.

    Attributes
    ----------
    look : type of QueueLook
        The engine of questions about items.
    """

    look: type[QueueLook[_Found]]

    def frame(
        self,
        df: object,
        order_by: OrderBy,
        settings: Settings,
        extra: Sequence[str],
        *,
        is_decidable: bool,
        trace: Traces = None,
    ) -> Frame:
        """Check a frame, compute its keys, and evaluate it.

        Parameters
        ----------
        df : DataFrame, pyarrow.Table, pandas.DataFrame or list of dict
            What is enqueued.
        order_by : str, Column or list of them, optional
            The order in which its rows enter.
        settings : Settings
            The settings in force.
        extra : sequence of str
            Columns of the log that the frame has as well.
        is_decidable : bool
            Whether its rows are such as can be decided in this process.
        trace : str or sequence of str, optional
            The trace that its rows belong to; or one for each, of a table that is in this process.

        Raises
        ------
        SchemaMismatchError
            When it does not fit the queue; it names the column.
        """

    def outcomes(self, step: int, logged: pa.Table | None) -> DataFrame:
        """Return what became of each row of an enqueue; ``logged`` where its rows are at hand."""

    def choose(self, at: Snapshot, request: Request, now: datetime) -> Choice | None:
        """Choose for a claim; ``None`` where there is nothing to write.

        Raises
        ------
        EvidenceFirst
            When an item would be taken over from a claim that names an output.
        """

    def engines(self, what: str) -> Iterator[SqlEngine]:
        """Return the engines of SQL that the session has, the first for what is not too much.

        Raises
        ------
        SparkNeededError
            When there is none; it says what it was needed for.
        """

    def find_claim(self, claim_id: str) -> GrantedClaim | None:
        """Return the newest claim that was granted under an id, if there was one.

        Ignores claims whose items were all released without a worker id, as by ``clone``.
        """

    def judge(self, at: Snapshot, lease: int, verdict: Verdict, now: datetime) -> StagedSettle:
        """Judge the items of a lease."""

    def chosen_after(
        self, at: Snapshot, done: StagedSettle, settled: StatusHead, request: Request, now: datetime
    ) -> tuple[Choice, DataFrame | pa.Table] | None:
        """Choose for a claim as if a settle of this planner were logged; ``None`` for nothing.

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

    def checkpoint(
        self, at: Snapshot, changed: Settings | None = None, beside: pa.Table | None = None
    ) -> StagedCheckpoint:
        """Fold the queue to a step, and keep what still matters.

        Parameters
        ----------
        changed : Settings, optional
            The settings from then on, if they are others.
        beside : pyarrow.Table, optional
            Rows that the step writes as well, before those of the checkpoint.
        """

    def matching(self, where: Any, states: tuple[str, ...], *, is_first: bool = False) -> _Found:
        """Return the items in some states that are meant: to Spark, by a SQL predicate.

        With ``is_first`` those are left out that were enqueued again.

        Raises
        ------
        InvalidArgumentError
            When the predicate does not parse, is more than an expression, or names no such column.
        """

    def again(self, found: _Found) -> _Found:
        """Return items as rows to enqueue again, each with ``_origin``: the item that it was."""

    def read_made(self, step: int) -> Made:
        """Return what a step of the reader's log has written."""

    def cancelled_in(self, step: int, *, is_first: bool = False) -> _Found:
        """Return the items that a cancel of a step ended, and that are cancelled since.

        With ``is_first`` those are left out that were enqueued again.
        """

    def restore(self, found: _Found, *, keeps_place: bool) -> _Found:
        """Return items as rows to enqueue again, as they were: with their times and failures.

        They have the columns of the log that :data:`RESTORED` names; ``_round`` is null where an
        item keeps no place.
        """

    def find_taken(self, step: int) -> list[tuple[int, int]]:
        """Return items that a step of the item log refused to enqueue again, and who has their key.

        The first thousand.
        """

    def count_affected(self, found: _Found, becomes: str) -> Affected:
        """Count items by their state, and show the first; nothing is written."""

    def coming(self, at: Snapshot, now: datetime) -> Coming:
        """Return what time alone lets run; nothing waits in a paused queue."""

    def due(self, now: datetime) -> _Found:
        """Return the ready items whose time is over."""

    def outstanding_bytes(self, at: Snapshot) -> int:
        """Return how many bytes wait for the reader or are in its hands."""

    def oldest(self, at: Snapshot, most: int) -> _Found:
        """Return the oldest items that wait, so that no more than so many are left in all."""

    def oldest_by_bytes(self, at: Snapshot, most: int) -> _Found:
        """Return the oldest items that wait, so that no more than so many bytes are left in all."""

    def end(self, found: _Found, state: str, now: datetime, error: str | None) -> Moved:
        """Return the rows by which items that this planner has found come to a state, and why.

        They end, or are ready again with all that they had.
        """

    def revive(self, found: _Found, now: datetime) -> Moved:
        """Return the rows by which such items are ready again, as if nothing had been."""

    def leaving(
        self, at: Snapshot, limits: ReaderConfig, target: str, since: int
    ) -> DataFrame | None:
        """Return the items that ended after a step and go to a target; ``None`` for no item."""


def planner_of(store: Store) -> Planner[Any]:
    """Return who decides by the tables of a store: SQL first.

    Nothing of Spark, and no engine, is imported before it is needed.
    """
    last = last_planner_of(store)
    planner: Planner[Any] = import_module("spark_queue.delta.sql.sql_planner").of(store, last)
    return planner


def last_planner_of(store: Store) -> Planner[Any]:
    """Return who decides by the session of a store: Spark, or one who refuses."""
    is_alone = isinstance(store.session, PlainSession)
    name = "spark_queue.delta.alone" if is_alone else "spark_queue.delta.plans.planner"
    planner: Planner[Any] = import_module(name).of(store)
    return planner
