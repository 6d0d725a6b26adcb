"""What can be seen of a queue: frames and frozen facts, now or at an earlier step."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_queue import checks
from spark_queue.delta.plans import snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.views import inspect
from spark_queue.delta.views.cut import cut_at
from spark_queue.delta.views.ends import AsOf
from spark_queue.doctor.examine import examine
from spark_queue.doctor.finding import Checkup
from spark_queue.doctor.thresholds import Thresholds
from spark_queue.opened import Opened
from spark_queue.report import reading
from spark_queue.report.model import HOUR, ItemReport, Report
from spark_queue.results import Explanation, QueueStats


class Looking(Opened):
    """What one of its readers sees of a queue: nothing here writes."""

    @property
    def schema(self) -> StructType:
        """The columns of an item."""
        return self._main.user_schema()

    def status(self, as_of: AsOf = None) -> DataFrame:
        """Return one row an item: the user's columns, its keys, its state and its times.

        Parameters
        ----------
        as_of : int or datetime, optional
            A step of the status log, or an instant, to look back at; now by default.

        Returns
        -------
        DataFrame
            ``_state`` is ready, claimed, acked, dead, expired or cancelled. The frame can be
            joined, filtered and written like any other; it is read when it is used.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step, or a time has no offset.
        """
        checks.require_as_of(as_of)
        cut = cut_at(self._store, as_of)
        return snapshot.status(cut.queue, cut.status)

    def dead(self, as_of: AsOf = None) -> DataFrame:
        """Return the dead letters, as :meth:`status` shows them, with ``_error``.

        ``_successor`` is the item as which a letter was redriven, null where it was not.
        """
        cut = cut_at(self._store, as_of)
        letters = snapshot.status(cut.queue, cut.status).where("_state = 'dead'")
        redriven = snapshot.successors(cut.queue)
        names = [f"`{name.replace('`', '``')}`" for name in (*letters.columns, "_successor")]
        return letters.join(redriven, "_seq", "left").select(*names)

    def stats(self, as_of: AsOf = None) -> QueueStats:
        """Count the items per state and per fair key; ``as_of`` as for :meth:`status`."""
        checks.require_as_of(as_of)
        return inspect.stats(self._store, cut_at(self._store, as_of))

    def doctor(self, limits: Thresholds | None = None) -> Checkup:
        """Say what is wrong with the queue, since when, how bad it is, and what mends it.

        Parameters
        ----------
        limits : Thresholds, optional
            From where on something is worth a word.
        """
        return examine(self._main, limits)

    def instant_of(self, step: int) -> datetime:
        """Return when a step of the status log was made.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step.
        """
        return datetime.fromisoformat(cut_at(self._store, step).head.at)

    def explain(self, seq: int) -> Explanation:
        """Say why an item is not running: by whom it is held, and until when."""
        checks.require_seq("seq", seq)
        return inspect.explain(self._store, seq)

    def report(self, as_of: AsOf = None, window: timedelta = HOUR) -> Report:
        """Say what whoever operates the queue asks: what is where, what fails, who waits for whom.

        On this machine's disk it is read without a job of Spark.

        Parameters
        ----------
        as_of : int or datetime, optional
            As for :meth:`status`; the errors are the same.
        window : timedelta
            How long before that instant counts as now, in rates, waits and failures; above zero.
        """
        return reading.read(self._store, as_of, window)

    def report_item(self, seq: int, as_of: AsOf = None) -> ItemReport:
        """Say what happened to an item, and what it waits for, to the end of the chain."""
        return reading.read_item(self._store, seq, as_of)

    def history(self, seq: int) -> DataFrame:
        """Return every transition of an item, oldest first."""
        checks.require_seq("seq", seq)
        return snapshot.history(self._store, seq)


def store_of(seen: Opened) -> Store:
    """Return the logs behind what is seen, for rooms of the library that step over it."""
    return seen._store  # noqa: SLF001


def main_store_of(seen: Opened) -> Store:
    """Return the logs behind a queue, whoever reads it, for such rooms."""
    return seen._main  # noqa: SLF001
