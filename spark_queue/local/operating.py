"""What an operator does to a queue without Spark: count, cancel, redrive, purge, keep in order."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, overload

from spark_queue import checks
from spark_queue.delta.arrow.where import Where, require_where
from spark_queue.delta.commands import admin, foreseeing, more_columns, redriving, undoing, upgrade
from spark_queue.delta.input.plain.ddl import parsed
from spark_queue.delta.tables import tidying
from spark_queue.delta.tables.log import Log
from spark_queue.delta.upkeep import by_columns
from spark_queue.delta.views.ends import AsOf
from spark_queue.local import counting
from spark_queue.opened import Configured
from spark_queue.results import Affected, Maintained, QueueStats, Undone, Upgraded

if TYPE_CHECKING:
    from spark_queue.doctor.finding import Checkup
    from spark_queue.doctor.thresholds import Thresholds


class Operated(Configured):
    """A queue in the hands of an operator."""

    def stats(self, as_of: AsOf = None) -> QueueStats:
        """Count the items per state and per fair key; ``as_of`` as for ``status``."""
        return counting.stats(self._store, self._ends(as_of))

    def doctor(self, limits: Thresholds | None = None) -> Checkup:
        """Say what is wrong with the queue, since when, how bad it is, and what mends it.

        Parameters
        ----------
        limits : Thresholds, optional
            From where on something is worth a word.
        """
        from spark_queue.doctor.examine import examine  # noqa: PLC0415 - takes a while

        return examine(self._main, limits)

    def cancel(self, where: Where, *, dry_run: bool = False) -> Affected:
        """End every ready or claimed item that is meant.

        Parameters
        ----------
        where : dict, pyarrow.compute.Expression or str
            Which items, by the columns of a row of the queue: the user's, ``_seq``, ``_fair_key``
            and the like. A dict says the value of each column, or several in a list:
            ``{"tenant": "a", "_seq": [1, 2]}``; ``None`` is null. An expression says more:
            ``pc.field("_seq") < 100``; and so does SQL, ``"tenant = 'a' AND _seq < 100"``, where
            it is plain that Spark would find the same.
        dry_run : bool
            Only count, by state, and show the first.

        Returns
        -------
        Affected
            How many items it is about: a number, which knows the step (:meth:`undo`). A holder of
            such an item gets ``LeaseLostError``.

        Raises
        ------
        InvalidArgumentError
            When no column is named, or there is none of the name, or none with such a value.
        SparkNeededError
            When it is SQL of which only Spark knows what it means.
        """
        _require(where, dry_run=dry_run)
        store = self._store
        return foreseeing.cancelled(store, where) if dry_run else admin.cancel(store, where)

    def redrive(self, where: Where, *, dry_run: bool = False, again: bool = False) -> Affected:
        """Enqueue dead, expired or cancelled items again, as new items that name the old.

        An item is redriven once: one that was before is passed over. Whether the key of an item was
        taken meanwhile is decided as for any enqueue. A reader that was asked for by name makes
        them ready again instead, for itself alone: they keep their place.

        Parameters
        ----------
        where, dry_run
            As for :meth:`cancel`; the errors are the same.
        again : bool
            Redrive also what was redriven before.

        Returns
        -------
        Affected
            How many items it is about.
        """
        _require(where, dry_run=dry_run, again=again)
        store = self._store
        if self._is_one_of_many:
            return foreseeing.revived(store, where) if dry_run else admin.revive(store, where)
        if dry_run:
            return foreseeing.redriven(store, where, again=again)
        return redriving.redrive(store, where, again=again)

    def undo(self, step: int) -> Undone:
        """Take back what an operator did in a step of the status log, as far as that can be.

        What comes of it, and the errors, are those of :meth:`DeltaQueue.undo`; the step is what
        ``cancel`` (:class:`Affected`), ``pause``, ``resume`` and ``configure`` answer with.
        """
        checks.require_count("step", step)
        return undoing.undo(self._store, step, for_itself=self._is_one_of_many)

    def purge(self, where: Where, *, dry_run: bool = False) -> Affected:
        """Remove finished items that are meant, with their history; as :meth:`cancel`.

        An item that a reader is not done with stays, and so does one that was enqueued again
        (:meth:`redrive`, :meth:`undo`) from an item that stays: by it that is known to be done.
        """
        _require(where, dry_run=dry_run)
        if dry_run:
            return by_columns.purgeable(self._main, where)
        return by_columns.purge(self._main, where)

    @overload
    def maintain(
        self, *, retention: timedelta | None = None, dry_run: Literal[False] = False
    ) -> Maintained: ...

    @overload
    def maintain(
        self, *, retention: timedelta | None = None, dry_run: Literal[True]
    ) -> Affected: ...

    def maintain(
        self, *, retention: timedelta | None = None, dry_run: bool = False
    ) -> Maintained | Affected:
        """Keep the queue quick: log what is over, write a checkpoint, merge and remove files.

        Small files are merged, and logs summed up, beside the steps of any process that goes on;
        this does it at once, and removes what was replaced a week ago, or left behind by those
        who were killed.

        Parameters
        ----------
        retention : timedelta, optional
            Also drop items that finished longer ago, as :meth:`DeltaQueue.maintain` does. By
            default nothing is dropped.
        dry_run : bool
            Only count what would expire, die of its last lease, or be dropped, and show the first.

        Notes
        -----
        Over is what expired, and what lost its last lease (``max_losses``); save where the claim
        names an output that cannot be asked here.
        """
        checks.require_upkeep(retention, None)
        checks.require_flag("dry_run", dry_run)
        if dry_run:
            return by_columns.maintainable(self._main, retention)
        return by_columns.maintain(self._main, retention)

    def add_columns(self, schema: str) -> list[str]:
        """Give the queue more columns, as :meth:`DeltaQueue.add_columns` does.

        Raises
        ------
        SchemaMismatchError, FencedError
            As there.
        SparkNeededError
            When only Spark keeps a type.
        """
        return more_columns.add_columns(self._main, parsed(schema))

    def upgrade(self, *, dry_run: bool = False) -> Upgraded:
        """Bring the queue to the format of this release, as :meth:`DeltaQueue.upgrade` does."""
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
                tidying.leave(directory)
        store.forget()


def _require(where: object, **flags: object) -> None:
    require_where(where)
    for name, value in flags.items():
        checks.require_flag(name, value)
