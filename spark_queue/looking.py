"""Views of a queue: frames and frozen facts, by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from spark_queue import checks
from spark_queue.opened import Opened
from spark_queue.reader_config import ReaderConfig
from spark_queue.results import Lag, QueueStats
from spark_queue.sql.look import SHORT_STATUS, STATUS
from spark_queue.state.store import Store
from spark_queue.views.ends import AsOf

if TYPE_CHECKING:
    from spark_queue.report.finding import Checkup, Thresholds
    from spark_queue.views.views import QueueViews

#: What a table is to the caller: a frame of Spark, or a table of Arrow.
FrameT = TypeVar("FrameT")

#: What the columns of such a table are.
SchemaT = TypeVar("SchemaT")


class Looking(Opened, Generic[FrameT, SchemaT]):
    """The queries of a queue's reader: nothing here writes.

    Frames are a ``DataFrame`` of Spark, which is read when it is used and can be joined, filtered
    and written like any other; without Spark a ``pyarrow.Table``.
    """

    _views: QueueViews[FrameT, SchemaT]

    @property
    def schema(self) -> SchemaT:
        """The columns of an item: a ``StructType``, or without Spark a ``pyarrow.Schema``."""
        return self._views.schema(self._main)

    def status(self, as_of: AsOf = None, *, short: bool = False) -> FrameT:
        """Return one row an item: the user's columns, its keys, its state and its times.

        Parameters
        ----------
        as_of : int or datetime, optional
            A step of the status log, or an instant, to look back at; now by default.
        short : bool
            Only the user's columns, ``_seq``, ``_state``, ``_attempts``, ``_worker_id`` and
            ``_error``: where an item is, how often it was tried, who has it, and what failed.

        Returns
        -------
        DataFrame or pyarrow.Table
            In the order of ``_seq``. ``_state`` is ready, claimed, acked, dead, expired or
            cancelled.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step, or a time has no offset.
        SparkNeededError
            When there is no session, and only Spark reads the tables.
        """
        checks.require_flag("short", short)
        ends = self._ends(as_of)
        return self._views.status(self._store, ends, SHORT_STATUS if short else STATUS)

    def dead(self, as_of: AsOf = None) -> FrameT:
        """Return the dead letters, as :meth:`status` shows them, with ``_error``.

        ``_successor`` is the item as which a letter was redriven, null where it was not.
        """
        ends = self._ends(as_of)
        return self._views.dead(self._store, ends)

    def history(self, seq: int | None = None) -> FrameT:
        """Return every transition of an item, oldest first; or of all, with their ``_seq``."""
        if seq is not None:
            checks.require_seq("seq", seq)
        return self._views.history(self._store, seq)

    def stats(self, as_of: AsOf = None) -> QueueStats:
        """Count the items per state and per fair key; ``as_of`` as for :meth:`status`."""
        ends = self._ends(as_of)
        return self._views.stats(self._store, ends)

    def doctor(self, limits: Thresholds | None = None) -> Checkup:
        """List the queue's faults: since when, how bad, and the remedy.

        Parameters
        ----------
        limits : Thresholds, optional
            From where on something is worth a word.
        """
        from spark_queue.doctor.examine import examine  # noqa: PLC0415 - takes a while

        return examine(self._main, limits)


class ReaderFacts(Looking[FrameT, SchemaT]):
    """One reader of a queue."""

    @property
    def reader(self) -> str:
        """The reader's name; empty for the default reader."""
        return self._store.registered().name

    @property
    def number(self) -> int:
        """The reader's number, which stays when it is renamed."""
        return self._store.reader

    @property
    def limits(self) -> ReaderConfig:
        """The limits in force."""
        return self._store.limits()

    def lag(self) -> Lag:
        """Return how far the reader is behind, in items, bytes, time and steps.

        Raises
        ------
        SparkNeededError
            When there is no session, and only Spark counts the bytes of a column, or reads the
            logs.
        """
        return self._views.lag(self._store)


def store_of(seen: Opened) -> Store:
    """Return the logs behind a queue, for the library's other rooms."""
    return seen._store  # noqa: SLF001


def views_of(seen: Looking[FrameT, SchemaT]) -> QueueViews[FrameT, SchemaT]:
    """Return the engine of questions about a queue, for such rooms."""
    return seen._views  # noqa: SLF001


def main_store_of(seen: Opened) -> Store:
    """Return the logs behind a queue, of all its readers, for such rooms."""
    return seen._main  # noqa: SLF001
