"""Rows and facts that a planner answers with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from spark_queue.log.heads import StatusHead
from spark_queue.log.schema import ITEM
from spark_queue.log.settings import Settings
from spark_queue.tracing import Traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from spark_queue.columns.columns import OrderBy

#: Why a process without Spark cannot go on.
TOO_MUCH = "the queue has more open items, or a longer history, than a process keeps in memory"

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
    """When the first lease in flight ends; none that is over where a claim would do nothing."""
    delayed: int = 0
    """Items that wait for a time of their own."""
    paused: int = 0
    """Items of paused keys."""
    follows: int = 0
    """Items that wait until one of their key is over that has begun."""
    due: datetime | None = None
    """When the first of these may run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a step of a status log has written, by kind and state, and how often."""

    rows: Mapping[tuple[str, str | None], int]
    dropped: int = 0
    """Cancelled items that a limit dropped,"""
    replaced: int = 0
    """and those that others of their key had replaced."""

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


@dataclass(frozen=True, slots=True)
class GivenRows:
    """Rows to enqueue, not yet checked.

    Attributes
    ----------
    df : DataFrame, pyarrow.Table, pandas.DataFrame or list of dict
        The rows.
    order_by : str, Column or list of them, optional
        The order in which they enter.
    extra : sequence of str
        Columns of the log that they have as well.
    trace : str or sequence of str, optional
        The trace that they belong to; or one for each, of a table that is in this process.
    is_decidable : bool
        Whether they are such as can be decided in this process.
    """

    df: object
    settings: Settings
    order_by: OrderBy = None
    extra: Sequence[str] = ()
    trace: Traces = None
    is_decidable: bool = False


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
