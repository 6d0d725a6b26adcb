"""Planner of a session: its engines, and decisions that only it can make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from spark_queue.errors import SparkNeededError
from spark_queue.reader_config import ReaderConfig
from spark_queue.sql import database
from spark_queue.sql.arrow_look import ArrowLook
from spark_queue.sql.decisions import Frame, GivenRows, Leaving, LogPosition
from spark_queue.sql.look import QueueLook
from spark_queue.sql.sql_engines import SqlEngine
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Why a process without Spark cannot go on.
TOO_MUCH = "the queue has more open items, or a longer history, than a process keeps in memory"


@dataclass(frozen=True, slots=True)
class Planner:
    """Planner that has a session's engines; see :class:`SqlPlanner`. Without Spark it refuses.

    Attributes
    ----------
    look : type of QueueLook
        The engine of questions about items.
    """

    store: Store
    look: ClassVar[type[QueueLook[Any]]] = ArrowLook

    def frame(self, given: GivenRows) -> Frame:
        """Check a frame, compute its keys, and evaluate it.

        Raises
        ------
        SchemaMismatchError
            When it does not fit the queue; it names the column.
        """
        del given
        raise SparkNeededError(f"to enqueue into {self.store.name!r}", TOO_MUCH)

    def outcomes(self, step: int, logged: pa.Table | None) -> DataFrame:
        """Return what became of each row of an enqueue; ``logged`` where its rows are at hand."""
        del logged
        raise SparkNeededError(f"to read what step {step} did", "it is asked for as a frame")

    def engines(self, what: str) -> Iterator[SqlEngine]:
        """Return the session's engines of SQL, the one for fewer rows first.

        Raises
        ------
        SparkNeededError
            When there is none; it names the use.
        """
        why = f"it would read more than {database.most_rows():,} rows of the logs, which is what"
        raise SparkNeededError(
            what, f"{why} {database.MEMORY}={database.memory_setting()} has room for"
        )

    def leaving(
        self, at: Snapshot, reader_config: ReaderConfig, target: str, since: LogPosition
    ) -> Leaving | None:
        """Return the items that ended from there on and go to a target; ``None`` for no item."""
        del at, reader_config, since
        raise SparkNeededError(f"to send items to {target!r}", "their keys are compared by tables")


def of(store: Store) -> Planner:
    """Return who decides for a store that has no session of Spark."""
    return Planner(store)
