"""Planner of a session: its engines, and decisions that only it can make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import pyarrow as pa

from spark_queue.reader_config import ReaderConfig
from spark_queue.sql.decisions import Frame, GivenRows, Leaving, LogPosition
from spark_queue.sql.look import QueueLook
from spark_queue.sql.sql_engines import SqlEngine
from spark_queue.state.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Planner(Protocol):
    """Planner that has a session's engines; see :class:`SqlPlanner`.

    Attributes
    ----------
    look : type of QueueLook
        The engine of questions about items.
    """

    look: ClassVar[type[QueueLook[Any]]]

    def frame(self, given: GivenRows) -> Frame:
        """Check a frame, compute its keys, and evaluate it.

        Raises
        ------
        SchemaMismatchError
            When it does not fit the queue; it names the column.
        """

    def outcomes(self, step: int, logged: pa.Table | None) -> DataFrame:
        """Return what became of each row of an enqueue; ``logged`` where its rows are at hand."""

    def engines(self, what: str) -> Iterator[SqlEngine]:
        """Return the session's engines of SQL, the one for fewer rows first.

        Raises
        ------
        SparkNeededError
            When there is none; it names the use.
        """

    def leaving(
        self, at: Snapshot, reader_config: ReaderConfig, target: str, since: LogPosition
    ) -> Leaving | None:
        """Return the items that ended from there on and go to a target; ``None`` for no item."""
