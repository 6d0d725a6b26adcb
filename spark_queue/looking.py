"""Views of a queue: frames and frozen facts, by step."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from spark_queue import checks
from spark_queue.delta.plans import snapshot
from spark_queue.delta.store import by_spark
from spark_queue.delta.store.store import Store
from spark_queue.delta.views import spark_views
from spark_queue.delta.views.ends import AsOf
from spark_queue.delta.views.spark_views import cut_at
from spark_queue.doctor.examine import examine
from spark_queue.doctor.finding import Checkup, Thresholds
from spark_queue.opened import Opened
from spark_queue.results import QueueStats


class Looking(Opened):
    """What one of its readers sees of a queue: nothing here writes."""

    @property
    def schema(self) -> StructType:
        """The columns of an item."""
        return by_spark.user_schema(self._main)

    def status(self, as_of: AsOf = None) -> DataFrame:
        """Return one row an item: the user's columns, its keys, its state and its times.

        Parameters
        ----------
        as_of : int or datetime, optional
            A step of the status log, or an instant, to look back at; now by default.

        Returns
        -------
        DataFrame
            In the order of ``_seq``. ``_state`` is ready, claimed, acked, dead, expired or
            cancelled. The frame can be joined, filtered and written like any other; it is read
            when it is used.

        Raises
        ------
        InvalidArgumentError
            When the queue has no such step, or a time has no offset.
        """
        checks.require_as_of(as_of)
        cut = cut_at(self._store, as_of)
        return snapshot.status(cut.queue, cut.status).orderBy("_seq")

    def dead(self, as_of: AsOf = None) -> DataFrame:
        """Return the dead letters, as :meth:`status` shows them, with ``_error``.

        ``_successor`` is the item as which a letter was redriven, null where it was not.
        """
        checks.require_as_of(as_of)
        cut = cut_at(self._store, as_of)
        letters = snapshot.status(cut.queue, cut.status).where("_state = 'dead'")
        redriven = snapshot.successors(cut.queue)
        names = [f"`{name.replace('`', '``')}`" for name in (*letters.columns, "_successor")]
        return letters.join(redriven, "_seq", "left").select(*names).orderBy("_seq")

    def stats(self, as_of: AsOf = None) -> QueueStats:
        """Count the items per state and per fair key; ``as_of`` as for :meth:`status`."""
        checks.require_as_of(as_of)
        return spark_views.stats(self._store, cut_at(self._store, as_of))

    def doctor(self, limits: Thresholds | None = None) -> Checkup:
        """Say what is wrong with the queue, since when, how bad it is, and what mends it.

        Parameters
        ----------
        limits : Thresholds, optional
            From where on something is worth a word.
        """
        return examine(self._main, limits)

    def history(self, seq: int) -> DataFrame:
        """Return every transition of an item, oldest first."""
        checks.require_seq("seq", seq)
        return snapshot.history(self._store, seq)


def store_of(seen: Opened) -> Store:
    """Return the logs behind what is seen, for rooms of the library that step over it."""
    return seen._store  # noqa: SLF001


def main_store_of(seen: Opened) -> Store:
    """Return the logs behind a queue, of all its readers, for such rooms."""
    return seen._main  # noqa: SLF001
