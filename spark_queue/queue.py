"""Durable queue on two Delta tables, with Spark and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, overload

from spark_queue import checks, commands, sql, state, tracing, upkeep
from spark_queue.columns import arrow
from spark_queue.errors import QueueNotFoundError
from spark_queue.log import maintenance
from spark_queue.log.addresses import require_table
from spark_queue.log.delta.log import Log
from spark_queue.log_errors import FileAccessError, FileGoneError
from spark_queue.operating import ReaderRegistry, ReaderT
from spark_queue.queue_views import FrameT, SchemaT
from spark_queue.state import existence
from spark_queue.state.store import Store
from spark_queue.tracing import Trace, Traces
from spark_queue.working import ClaimT, Working

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType
    from typing_extensions import Self

    from spark_queue.columns.arrow.rows import ArrowStream
    from spark_queue.columns.kinds import Field
    from spark_queue.commands.batches import SourceBatch
    from spark_queue.commands.rows import Enqueued
    from spark_queue.config import OnDuplicate
    from spark_queue.results import Affected, EnqueueResult, Maintained, Upgraded
    from spark_queue.sql.where import Where
    from spark_queue.state.request import EnqueueRules, OnFull, OnMismatch

#: Rows to enqueue: a frame; without Spark also one or many dictionaries.
Rows: TypeAlias = (
    "DataFrame | pd.DataFrame | pa.Table | ArrowStream | Mapping[str, Any] "
    "| Sequence[Mapping[str, Any]]"
)

#: A batch that is enqueued once: its source, and its number there.
Batch: TypeAlias = "tuple[str, int]"

#: Columns by which rows enter; Spark also takes expressions.
Order: TypeAlias = "str | Column | Sequence[str | Column] | None"


class EnqueueCall(NamedTuple):
    """Rows to enqueue, and how."""

    rows: object
    order_by: Order
    rules: EnqueueRules
    trace: Traces
    batch: SourceBatch | None


class Queue(
    Working[FrameT, SchemaT, ClaimT],
    ReaderRegistry[ReaderT],
    Generic[FrameT, SchemaT, ClaimT, ReaderT],
):
    """A queue on two Delta tables: distinct, fair by key, serial per group, as configured.

    Every operation is one step, one commit: it is there as a whole or not at all, and the order of
    steps is the order of events.
    """

    def enqueue(
        self,
        rows: Rows,
        order_by: Order = None,
        *,
        on_duplicate: OnDuplicate | None = None,
        debounce: timedelta | None = None,
        at_most: timedelta | None = None,
        on_full: OnFull = "raise",
        trace: Trace | Sequence[Trace | None] | None = None,
        batch: Batch | None = None,
        on_mismatch: OnMismatch = "warn",
    ) -> EnqueueResult[FrameT]:
        """Add rows, all in one step.

        Parameters
        ----------
        rows : DataFrame, pandas.DataFrame, pyarrow.Table, dict or list of dict
            Or any other frame that gives itself as Arrow (``__arrow_c_stream__``), as those of
            polars, DuckDB, daft and DataFusion do. It has the queue's columns, of its types or of
            such as have no value that those have not (an ``int`` for a ``bigint``). A ``DataFrame``
            needs a session, dictionaries a queue without one. Four columns more may come with them:
            ``available_at`` (timestamp: not claimed before), ``expires_at`` (timestamp: not claimed
            from then on), ``cost`` (a number above 0, 1 by default: how much of its key's turn the
            item takes) and ``max_attempts`` (a whole number: the item is dead after so many
            failures, and the queue's own setting does not count).
        order_by : str, Column or list of them, optional
            The order in which rows enter; their own by default. Without Spark: names of columns.
        on_duplicate : "skip", "raise" or "replace", optional
            What to do with rows whose key is taken; by default what the queue is configured for.
            Refuse them and say so, or refuse all, or take them: of a key the newest row runs. It
            replaces the item that waits, and follows one that has begun, which is not touched.
            Where ``dedup_scope`` is more than live, one that has begun or ended refuses the row.
        debounce, at_most : timedelta, optional
            With "replace", how long a row waits for one that replaces it, and how long after the
            first of them the last one waits at most. One that has a time of its own keeps to it.
        on_full : "raise" or "partial"
            Where a reader has no room: refuse all, or take what fits, in order, and say so.
        trace : str, mapping or sequence of them, optional
            The trace that the items belong to, as W3C writes it: a ``traceparent``, which a space
            and a ``tracestate`` may follow, or headers of these names; or one for each row, of
            rows that are not Spark's. By default it is the trace of the active OpenTelemetry
            span, if any; an empty text is none. Handlers go on with it.
        batch : tuple of str and int, optional
            The source of the rows and the number of this batch of it, as in ``("nightly", 17)``.
            Numbers of a source grow. A batch that was enqueued, or comes before one that was,
            writes nothing, and the answer says that it is repeated: so a call may be repeated.
        on_mismatch : "warn" or "raise"
            What to do where the last batch of a source comes again with another number of rows:
            log a warning, or raise. So a counter that begins again is noticed.

        Returns
        -------
        EnqueueResult
            Counts, and an outcome for each row; of a batch that is repeated, those of the first
            time, where it is the last one of its source. The step is 0 where there were no rows.

        Raises
        ------
        SchemaMismatchError
            When a column is missing, unknown or of another type, or a cost or a limit is out of
            bounds.
        DuplicateItemError
            With ``on_duplicate="raise"``, when a key is taken. Nothing was written.
        ReaderFullError
            With ``on_full="raise"``, when a reader has no room. Nothing was written.
        BatchForgottenError
            When a batch is not new, and its source was silent for longer than
            ``forget_sources_after``.
        BatchMismatchError
            With ``on_mismatch="raise"``, when the last batch comes again with more rows, or fewer.
        FormatVersionError
            When an older release made the queue, and its keys had a text that is not safe.
        SparkNeededError
            When there is no session, and more rows would be read than this process has memory for.

        Notes
        -----
        The rows are evaluated once, so a source that changes cannot put a row half in. Duplicates
        are detected inside the commit, against concurrent enqueues too.
        """
        from spark_queue.results import EnqueueResult  # noqa: PLC0415 - takes a while

        rules = state.request.EnqueueRules(
            on_duplicate=on_duplicate,
            on_full=on_full,
            on_mismatch=on_mismatch,
            debounce=debounce,
            at_most=at_most,
        )
        main, views = self._main, self._views
        traces, marked = tracing.stored_traces(trace), commands.batches.read_batch(batch)
        given = arrow.rows.table_of_stream(rows)
        done = self._enter(EnqueueCall(given, order_by, rules, traces, marked))
        return EnqueueResult(
            step=done.step,
            inserted=done.inserted,
            duplicates=done.duplicates,
            refused=done.refused,
            busy=done.busy,
            repeated=done.repeated,
            read_told=lambda: commands.rows.outcome_of_rows(done),
            read_outcomes=lambda: views.read_outcomes(main, done),
        )

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
        sql.where.require_where(where, dry_run=dry_run)
        checks.require_flag("now", now)
        if dry_run:
            return upkeep.purge_items.foresee_purge(self._main, where)
        return upkeep.purge_items.purge(self._main, where, now=now)

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
            return upkeep.maintain.maintainable(self._main, retention)
        return upkeep.maintain.maintain(self._main, retention, archive_to)

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
        return commands.upgrade.add_columns(self._main, self._columns_of(schema))

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
        return commands.upgrade.upgrade(self._main, dry_run=dry_run)

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

    def clone(self, path: str | Path) -> Self:
        """Make a queue with all that this one has, to try workers and settings on it.

        It has the items, states, places and settings as of one instant. From then on the two
        are independent: changes of one are not seen by the other.

        Parameters
        ----------
        path : str or Path
            As for ``create``; of the same store as this one.

        Returns
        -------
        Queue
            The clone. Items in flight are ready there, uncharged: their holders hold them here. No
            front holds the clone, and its readers send nothing on (``expire_to``, ``punt_to``,
            ``punt_many_to``): that would reach the queues that the original's go to.

        Raises
        ------
        QueueExistsError
            When there is something in its place.
        InvalidArgumentError
            When it would be inside of this one, or on another store.
        StepLostError
            When other drivers enqueue all the time. Nothing was made; try again later.

        Notes
        -----
        On this machine's disk the files of the rows are shared by hard links, or copied to another
        file system. Elsewhere the tables are shallow clones of Delta's: they read the files of this
        queue, and what a VACUUM of its tables removes is missing in the clone. Be done with that
        before.

        On a shared store other drivers go on. The clone has versions of the logs between which
        there was no enqueue. If it fails, its tables are removed; by path
        their files stay, and are named by a warning, as only that store's tools delete them.
        """
        return type(self)(upkeep.clones.clone(self._main, self._place_of(path)))

    def _enter(self, call: EnqueueCall) -> Enqueued:
        """Check rows, and enqueue them."""
        raise NotImplementedError

    def _columns_of(self, schema: StructType | str) -> tuple[Field, ...]:
        """Return the columns that a caller names."""
        raise NotImplementedError

    def _place_of(self, path: str | Path) -> str:
        """Return the place of a queue that a caller names."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def drop_queue(store: Store, *, dry_run: bool) -> Affected | None:
    """Remove a queue, or count what would go; see :meth:`DeltaQueue.drop`."""
    checks.require_flag("dry_run", dry_run)
    try:
        if not dry_run and commands.create_drop.finish_drop(store):
            return None
        existence.require_exists(store)
        if dry_run:
            return commands.dry_runs.foresee_drop(store)
        commands.create_drop.drop(store)
    except (FileGoneError, FileAccessError) as exc:
        # Another drop removes the files that this one looks at.
        if commands.create_drop.is_dropped(store, exc.file):
            raise QueueNotFoundError(store.name) from exc
        raise
    return None
