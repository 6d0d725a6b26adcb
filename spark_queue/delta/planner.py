"""Planner of the steps that this process cannot decide itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.heads import StatusHead
from spark_queue.delta.tables.schema import ITEM
from spark_queue.delta.tables.settings import Settings
from spark_queue.delta.tables.wishes import PlainSession
from spark_queue.reader_config import ReaderConfig
from spark_queue.tracing import Traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_queue.delta.input.columns import OrderBy
    from spark_queue.delta.sql.look import QueueLook
    from spark_queue.delta.sql.sql_engines import SqlEngine
    from spark_queue.delta.sql.sql_planner import SqlPlanner


#: More items than end in a step.
_ENDS = 1 << 32


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
    """The time of claims is over that name outputs: these are to be asked before the next claim.

    Parameters
    ----------
    claims : mapping
        The id of each of them, by its lease.
    """

    def __init__(self, claims: Mapping[int, str]) -> None:
        super().__init__(claims)
        self.claims = claims


class Frame(Protocol):
    """A frame on its way into the item log: checked, with its keys, and evaluated once."""

    @property
    def rows(self) -> pa.Table | None:
        """The rows, if they are few and such as can be decided in this process."""

    def count(self) -> int:
        """Return how many rows there are."""

    def stage(self) -> Any:
        """Return the rows as Spark has them, evaluated and numbered.

        Raises
        ------
        SparkNeededError
            When there is no session of Spark.
        """


class Planner(Protocol):
    """Has the engines of a session, and decides what only that can; see :class:`SqlPlanner`.

    Attributes
    ----------
    look : type of QueueLook
        The engine of questions about items.
    """

    look: type[QueueLook[Any]]

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

    def engines(self, what: str) -> Iterator[SqlEngine]:
        """Return the engines of SQL that the session has, the first for what is not too much.

        Raises
        ------
        SparkNeededError
            When there is none; it says what it was needed for.
        """

    def leaving(
        self, at: Snapshot, limits: ReaderConfig, target: str, since: LogPosition
    ) -> Leaving | None:
        """Return the items that ended from there on and go to a target; ``None`` for no item."""


@dataclass(frozen=True, slots=True, order=True)
class LogPosition:
    """How far one has come with what ended in a log: the steps before one, and some of that."""

    step: int
    done: int = 0
    """How many of the items that ended in the step, in the order of their seqs."""

    @classmethod
    def read(cls, number: int) -> LogPosition:
        """Read a position from a number."""
        return cls(*divmod(number, _ENDS))

    @property
    def number(self) -> int:
        """The position as a number, which grows with it."""
        return self.step * _ENDS + self.done


class Leaving(Protocol):
    """Items that ended and go to another queue, in the order in which they ended."""

    def count(self) -> int:
        """Return how many there are."""

    def first(self, count: int | None = None) -> DataFrame | pa.Table:
        """Return the first of them, or all, as rows to enqueue."""

    def position_behind(self, count: int) -> LogPosition:
        """Return how far one has come with the log when the target has the first of them."""


def planner_of(store: Store) -> SqlPlanner:
    """Return who decides by the tables of a store: SQL first.

    Nothing of Spark, and no engine, is imported before it is needed.
    """
    last = last_planner_of(store)
    planner: SqlPlanner = import_module("spark_queue.delta.sql.sql_planner").of(store, last)
    return planner


def last_planner_of(store: Store) -> Planner:
    """Return who decides by the session of a store: Spark, or one who refuses."""
    is_alone = isinstance(store.session, PlainSession)
    name = "spark_queue.delta.alone" if is_alone else "spark_queue.delta.plans.planner"
    planner: Planner = import_module(name).of(store)
    return planner
