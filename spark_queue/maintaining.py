"""A queue that is kept in order: what is over goes, and the format is that of this release."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, overload

from pyspark.sql.types import StructType

from spark_queue import checks
from spark_queue.delta.commands import more_columns, upgrade
from spark_queue.delta.input.columns import of_spark
from spark_queue.delta.input.ddl import parsed
from spark_queue.delta.upkeep import maintain
from spark_queue.reader import Working
from spark_queue.results import Affected, Maintained, Upgraded


class Maintaining(Working):
    """A queue in the hands of whoever keeps it in order."""

    def purge(self, where: str, *, dry_run: bool = False) -> Affected:
        """Remove finished items for which a SQL predicate is true, with their history.

        An item that a reader is not done with stays. So does one that was enqueued again
        (:meth:`redrive`, :meth:`undo`) from an item that stays: by it that is known to be done.

        Parameters and the kind of answer are those of :meth:`cancel`. It rewrites files, and on
        a shared store it may lose to other writers: then it raises and can be called again.
        """
        checks.require_change(where, dry_run=dry_run)
        if dry_run:
            return maintain.purgeable(self._main, where)
        return maintain.purge(self._main, where)

    @overload
    def maintain(
        self,
        *,
        retention: timedelta | None = None,
        archive_to: str | None = None,
        dry_run: Literal[False] = False,
    ) -> Maintained: ...

    @overload
    def maintain(
        self,
        *,
        retention: timedelta | None = None,
        archive_to: str | None = None,
        dry_run: Literal[True],
    ) -> Affected: ...

    def maintain(
        self,
        *,
        retention: timedelta | None = None,
        archive_to: str | None = None,
        dry_run: bool = False,
    ) -> Maintained | Affected:
        """Keep the queue quick: log what is over, write a checkpoint, merge small files.

        Parameters
        ----------
        retention : timedelta, optional
            Also drop items that finished longer ago, a whole generation of them at a time, with
            their history. By default nothing is dropped. A queue that is distinct for ever, or
            for longer than this, needs its items and keeps them. An item finished when all readers
            were done with it: one that lags holds its items, unless its ``max_lag`` says how far.
        archive_to : str, optional
            A Delta table (name, or path with a ``/``) that gets the items before they are dropped.
        dry_run : bool
            Only count what would expire, die of its last lease, or be dropped, and show the first.

        Notes
        -----
        Over is what expired, and what lost its last lease (``max_losses``): that is a dead letter,
        unless the output of its claim has it, and then it is acked. For most queues once an hour is
        enough; steps may run beside it, and wait on a local disk while files of a log are merged.
        """
        checks.require_upkeep(retention, archive_to)
        checks.require_flag("dry_run", dry_run)
        if dry_run:
            return maintain.maintainable(self._main, retention)
        return maintain.maintain(self._main, retention, archive_to)

    def add_columns(self, schema: StructType | str) -> list[str]:
        """Give the queue more columns; items that are there have null in them.

        From then on they are columns like all others: what is enqueued has to have them, and
        claims have them. A stream of the items ends, and reads them when it is started again. Keys
        stay as they are.

        Parameters
        ----------
        schema : StructType or str
            The columns, as a schema or as DDL. What the queue has already is passed over.

        Returns
        -------
        list of str
            The names of those that it did not have.

        Raises
        ------
        SchemaMismatchError
            When a column has a name that belongs to the queue, or is there with another type.
        FencedError
            When a front holds the queue.
        """
        return more_columns.add_columns(self._main, of_spark(parsed(schema)))

    def upgrade(self, *, dry_run: bool = False) -> Upgraded:
        """Bring a queue that an older release has made to the format of this one.

        It is a step, and may be repeated: of a queue that has the format nothing is written. From
        then on older releases refuse the queue; what is claimed goes on.

        Parameters
        ----------
        dry_run : bool
            Only say from which format to which it would go; the errors are the same.

        Raises
        ------
        FormatVersionError
            When a key had a text that is not safe: such a queue can only be worked off.
        FencedError
            When a front holds the queue.
        """
        checks.require_flag("dry_run", dry_run)
        return upgrade.upgrade(self._main, dry_run=dry_run)
