"""Verbs of workers and operators that every queue has."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from spark_queue import checks
from spark_queue.claim import Claim, make_claim
from spark_queue.columns.kinds import Field
from spark_queue.commands import admin, claims, dry_runs, recovery, undo_command, upgrade
from spark_queue.log import maintenance
from spark_queue.log.addresses import require_table
from spark_queue.log.delta.log import Log
from spark_queue.opened import Configured, Opened
from spark_queue.results import Affected, Maintained, Undone, Upgraded
from spark_queue.sql.where import Where, require_where
from spark_queue.state import step_waits
from spark_queue.state.request import Request
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.steps import known_first
from spark_queue.upkeep import maintain, purge_items

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class Maintaining(Opened):
    """A queue that is kept in order."""

    def purge(self, where: Where, *, dry_run: bool = False, now: bool = False) -> Affected:
        """Remove finished items that are meant, with their history.

        An item that a reader is not done with stays. So does one that was enqueued again
        (``redrive``, ``undo``) from an item that stays: by it that is known to be done.
        So do items that are ready or claimed: cancel them first. The answer counts all three
        (``Affected.stays``).

        Parameters, errors and the kind of answer are those of ``cancel``. It rewrites files, and on
        a shared store it may lose to other writers: then it raises and can be called again.

        The files that it replaces are off the disk at the first ``maintain`` that comes a week or
        more later; with ``now`` at once, with all others that were replaced. The state of a
        fair or a group key stays: its name may be the name of a person.

        Raises
        ------
        InvalidArgumentError
            With ``now``, where a reader is a stream, or a clone shares files: they may read what
            was replaced. So it is where only Spark reaches the tables.
        """
        require_where(where, dry_run=dry_run)
        checks.require_flag("now", now)
        if dry_run:
            return purge_items.foresee_purge(self._main, where)
        return purge_items.purge(self._main, where, now=now)

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
        """Keep the queue quick: log finished items, write a checkpoint, merge small files.

        Parameters
        ----------
        retention : timedelta, optional
            Also drop items that finished longer ago, a whole generation of them at a time, with
            their history. By default nothing is dropped. A queue that is distinct for ever, or
            for longer than this, needs its items and keeps them. An item finished when all readers
            were done with it: a reader that lags holds its items, up to its ``max_lag``.
            Rows that were refused before it go, too, where their log is read without Spark.
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
        An item is over when it expires, or loses its last lease (``max_losses``) as a dead letter,
        unless the output of its claim has it: then it is acked. For most queues once an hour is
        enough; steps go on, but wait on a local disk while files of a log are merged.
        """
        checks.optional(checks.require_duration, "retention", retention)
        checks.optional(require_table, "archive_to", archive_to)
        checks.require_flag("dry_run", dry_run)
        if dry_run:
            return maintain.maintainable(self._main, retention)
        return maintain.maintain(self._main, retention, archive_to)

    def add_columns(self, schema: StructType | str) -> list[str]:
        """Give the queue more columns; items that are there have null in them.

        From then on they are columns like all others: enqueued rows must have them, and claims
        have them. A stream of the items ends, and reads them when it is started again. Keys
        stay as they are.

        Parameters
        ----------
        schema : StructType or str
            The columns, as a schema or as DDL. What the queue has already is passed over.

        Returns
        -------
        list of str
            The names of the columns that it did not have.

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
        then on older releases refuse the queue; claimed items go on.

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
        """Forget this process's cache of the queue; claimed items stay claimed.

        Upkeep under way in this process is given two seconds to come to its end, for each log.
        """
        store = self._main
        # Of a log that this process never looked at nothing is under way.
        known = list(store.cache().positions)
        logs: list[Log[Any]] = [store.queue, *(store.of_reader(at).status for at in known)]
        for log in logs:
            directory = store.handle.place.directory_of(log)
            if directory is not None:
                maintenance.leave(directory)
        store.forget()

    def _columns_of(self, schema: StructType | str) -> tuple[Field, ...]:
        """Return the columns that a caller names."""
        raise NotImplementedError


#: What a claim gives its holder.
ClaimT = TypeVar("ClaimT", bound=Claim)


class Claimable(Configured, Generic[ClaimT]):
    """A queue whose items are leased."""

    _claim_type: type[ClaimT]

    def claim(
        self,
        limit: int = 1,
        *,
        lease: timedelta | None = None,
        worker_id: str | None = None,
        run: int = 1,
        claim_id: str | None = None,
        wait: timedelta = timedelta(0),
        max_bytes: int = checks.BYTES_PER_CLAIM,
    ) -> ClaimT:
        """Lease the next items, in fair order.

        Of a queue on this machine's disk, claims of processes that have ended are settled before:
        what they held comes back at once.

        Parameters
        ----------
        limit : int
            How many items at most; 1 by default.
        lease : timedelta, optional
            How long they are held; the queue's ``lease`` by default.
        worker_id : str, optional
            Who holds them, as ``status()`` shows it. By default, on this machine's disk, this
            process, so that others see when it ends; with a ``claim_id`` nobody, so that the items
            are held until the next process asks again.
        run : int
            How many consecutive items of one group may be leased together, to be worked off in
            order; 1 by default.
        claim_id : str, optional
            Makes the claim repeatable: claiming again with the same id gives the same claim, also
            after a crash between the commit and its answer. Of its items it has those that it still
            holds; the others it names (``over``).
        wait : timedelta
            How long to wait for items where there are none. On this machine's disk others wake
            this by what they write, and so does an item that becomes due; elsewhere the queue is
            looked at once a second.
        max_bytes : int
            How many bytes the rows of its items have at most, about; 256 MiB by default, and at
            least one item. A claim that is shorter for it leaves the others to the next. What Spark
            has to look for, in millions of items, is not counted: Spark reads it in parts.

        Returns
        -------
        Claim
            Perhaps an empty one. Items that are delayed, expired, paused, leased or held by their
            group are not in it. Without Spark it is a :class:`LocalClaim`.

        Raises
        ------
        InvalidArgumentError
            When ``limit``, ``run`` or ``max_bytes`` is below 1, ``lease`` is not above zero, or
            ``wait`` below it.
        """
        checks.require_claim(limit, lease, run, worker_id, claim_id, wait)
        checks.require_count("max_bytes", max_bytes)
        store = self._store

        def prepare() -> tuple[Snapshot, Request]:
            at = Snapshot(store)
            request = claims.request(at, limit, lease, worker_id, run, claim_id, max_bytes)
            _ = at.status
            return at, request

        def take() -> ClaimT:
            at, request = known_first(store, prepare)
            if recovery.recover_ended(at):
                at = Snapshot(store)
            return make_claim(at, request, self._claim_type)

        return step_waits.poll(store, take, wait)


class Operating(Configured):
    """A queue in the hands of an operator."""

    def cancel(self, where: Where, *, dry_run: bool = False) -> Affected:
        """End every ready or claimed item that is meant.

        Parameters
        ----------
        where : str, dict or pyarrow.compute.Expression
            Which items, by the columns of ``status()``. SQL says a condition:
            ``"tenant = 'a' AND _seq < 100"``. A dict says the value of each column, or several in
            a list: ``{"tenant": "a", "_seq": [1, 2]}``; ``None`` is null. A queue without Spark
            also takes an expression of Arrow, ``pc.field("_seq") < 100``, and of SQL what plainly
            means the same to Spark.
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
            When there is no session, and only Spark knows what the SQL means.
        """
        require_where(where, dry_run=dry_run)
        store = self._store
        return dry_runs.foresee_cancel(store, where) if dry_run else admin.cancel(store, where)

    def redrive(self, where: Where, *, dry_run: bool = False, again: bool = False) -> Affected:
        """Enqueue dead, expired or cancelled items again, as new items that name the old.

        They have the delay and the deadline of the old behind them. An item is redriven once: one
        that has a successor (``dead()``) is passed over. Whether the key of an item was taken
        since is decided as for any enqueue.

        A reader that was asked for by name makes them ready again instead, for itself alone. They
        keep their place, and start without failures and losses, and without the delay and the
        deadline that they were enqueued with.

        Parameters
        ----------
        where, dry_run
            As for :meth:`cancel`; the errors are the same.
        again : bool
            Redrive also items redriven before; for a reader it makes no difference.

        Returns
        -------
        Affected
            How many items it is about.
        """
        require_where(where, dry_run=dry_run, again=again)
        store = self._store
        if self._is_one_of_many:
            return dry_runs.foresee_redrive(store, where) if dry_run else admin.revive(store, where)
        return undo_command.redrive(store, where, again=again, dry_run=dry_run)

    def undo(self, step: int, *, dry_run: bool = False) -> Undone:
        """Take back what an operator did in a step of the status log, as far as that can be.

        Cancelled items come back as new ones that name the old, at the places that they had; a
        pause or a configuration is put back to its former value. It is a step of its own,
        and done twice it is done once.

        Parameters
        ----------
        step : int
            The step: ``cancel`` answers with it (:class:`Affected`), and so do ``pause``,
            ``resume`` and ``configure``.
        dry_run : bool
            Only tell what would come of it, and write nothing.

        Returns
        -------
        Undone
            What came back, and what did not: a key that was taken since keeps its item out.

        Raises
        ------
        InvalidArgumentError
            When the log has no such step.
        CannotUndoError
            When it was something that is not taken back; it says what, and why not.
        """
        checks.require_count("step", step)
        checks.require_flag("dry_run", dry_run)
        for_itself = self._is_one_of_many
        return undo_command.undo(self._store, step, for_itself=for_itself, dry_run=dry_run)
