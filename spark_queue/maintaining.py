"""Upkeep that every queue has: purge, maintain, new columns, new format."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from spark_queue import checks
from spark_queue.delta.commands import upgrade
from spark_queue.delta.input.kinds import Field
from spark_queue.delta.sql.where import Where, require_where
from spark_queue.delta.tables import chores
from spark_queue.delta.tables.addresses import require_table
from spark_queue.delta.tables.log import Log
from spark_queue.delta.upkeep import maintain, purging
from spark_queue.opened import Opened
from spark_queue.results import Affected, Maintained, Upgraded

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Maintaining(Opened):
    """A queue that is kept in order."""

    def purge(self, where: Where, *, dry_run: bool = False) -> Affected:
        """Remove finished items that are meant, with their history.

        An item that a reader is not done with stays. So does one that was enqueued again
        (``redrive``, ``undo``) from an item that stays: by it that is known to be done.

        Parameters, errors and the kind of answer are those of ``cancel``. It rewrites files, and on
        a shared store it may lose to other writers: then it raises and can be called again.
        """
        require_where(where, dry_run=dry_run)
        return (purging.foresee_purge if dry_run else purging.purge)(self._main, where)

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
            A Delta table (name, or path with a ``/``) that gets the items before they are dropped,
            each once. Without Spark it is a path on this machine's disk.
        dry_run : bool
            Only count what would expire, die of its last lease, or be dropped, and show the first.

        Raises
        ------
        SparkNeededError
            When there is no session, and only Spark writes to the archive. Nothing was dropped.

        Notes
        -----
        Over is what expired, and what lost its last lease (``max_losses``): that is a dead letter,
        unless the output of its claim has it, and then it is acked. For most queues once an hour is
        enough; steps may run beside it, and wait on a local disk while files of a log are merged.
        """
        checks.optional(checks.require_duration, "retention", retention)
        checks.optional(require_table, "archive_to", archive_to)
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
        SparkNeededError
            When there is no session, and only Spark keeps a type.
        """
        return upgrade.add_columns(self._main, self._columns_of(schema))

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

    def close(self) -> None:
        """Forget what this process remembers of the queue; what is claimed stays claimed.

        Upkeep under way in this process is given two seconds to come to its end, for each log.
        """
        store = self._main
        # Of a log that this process never looked at nothing is under way.
        known = list(store.cache().positions)
        logs: list[Log[Any]] = [store.queue, *(store.of_reader(at).status for at in known)]
        for log in logs:
            directory = store.handle.place.directory_of(log)
            if directory is not None:
                chores.leave(directory)
        store.forget()

    def _columns_of(self, schema: StructType | str) -> tuple[Field, ...]:
        """Return the columns that a caller names."""
        raise NotImplementedError
