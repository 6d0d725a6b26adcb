"""The durable queue on two Delta tables."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from spark_queue import checks, streams, tracing
from spark_queue.clock import Clock
from spark_queue.config import QueueConfig, require_config
from spark_queue.delta.commands import enqueue, making, readers
from spark_queue.delta.commands.readers import Start
from spark_queue.delta.input.columns import (
    OrderBy,
    of_spark,
    require_keys,
    require_order,
    require_user_schema,
)
from spark_queue.delta.input.ddl import parse_columns
from spark_queue.delta.input.kinds import Field
from spark_queue.delta.plans.frames import require_frame
from spark_queue.delta.replica.request import EnqueueRules, OnDuplicate, OnFull
from spark_queue.delta.store import existence
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.address import QueueAddress
from spark_queue.delta.tables.facts import Listener
from spark_queue.delta.tables.schema import fields_of
from spark_queue.delta.upkeep import clones
from spark_queue.maintaining import Maintaining
from spark_queue.opened import ReaderRegistry, drop_queue
from spark_queue.reader import Reader, Working
from spark_queue.reader_config import require_reader
from spark_queue.results import Affected, EnqueueResult
from spark_queue.tracing import Trace

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


class Registering(Working, Maintaining, ReaderRegistry[Reader]):
    """A queue for which readers may be registered."""

    def read_stream(self, reader: str, *, start: Start = "tail") -> DataFrame:
        """Return the items as a plain stream, for a query with a checkpoint of its own.

        The reader is registered, so that its items are kept: say with :meth:`Reader.advance`, from
        ``foreachBatch`` or from time to time, up to which step the query is done.

        Parameters
        ----------
        reader : str
            Its name. A reader either claims or streams.
        start
            As for :meth:`reader`.

        Returns
        -------
        DataFrame
            A stream with the user's columns, ``_seq`` and ``_step``, each item once.
        """
        require_reader(reader, start)
        self._reader = None
        return Reader(readers.register(self._main, reader, None, start, streams=True)).stream()

    def _columns_of(self, schema: StructType | str) -> tuple[Field, ...]:
        return of_spark(parse_columns(schema))

    def _make_reader(self, reader: Store) -> Reader:
        return Reader(reader)


class DeltaQueue(Registering):
    """A queue on two Delta tables: distinct, fair by key, serial per group, as configured.

    Make one with :meth:`create` or :meth:`open`. A handle is cheap, may be used by several
    threads, and belongs to the session it was opened with, which stays the caller's.

    Every operation is one step, one commit: it is there as a whole or not at all, and the order of
    steps is the order of events. See ``docs/guarantees.md`` for what holds and where it ends.

    Examples
    --------
    >>> queue = DeltaQueue.create(spark, "/data/files", "path string, tenant string",
    ...     QueueConfig(dedup_key="path", fair_key="tenant"))      # doctest: +SKIP
    >>> queue.enqueue(files).inserted                              # doctest: +SKIP
    1200
    >>> with queue.claim(100) as claim:                            # doctest: +SKIP
    ...     claim.items.write.saveAsTable("batch")
    """

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        path: str,
        schema: StructType | str,
        config: QueueConfig | None = None,
        *,
        clock: Clock | None = None,
        listener: Listener | None = None,
    ) -> DeltaQueue:
        """Make a new queue.

        Parameters
        ----------
        spark : SparkSession
            The caller's session, with Delta.
        path : str
            A table name (``catalog.schema.files`` makes ``files_queue`` and ``files_status``), or
            a path, which contains a ``/``; a relative one is taken from the working
            directory.
        schema : StructType or str
            The columns of an item, as a schema or as DDL.
        config : QueueConfig, optional
            Keys, limits and retries. Default: one line, first in, first out.
        clock : Clock, optional
            Asked once an operation; the system's by default.
        listener : callable, optional
            Called with :class:`StepFacts` after every step, on the thread that made it.

        Raises
        ------
        QueueExistsError
            When there is a queue, or any table in its place.
        InvalidConfigError
            When a key of the configuration is no expression over the columns, or may be another
            text in another session.
        SchemaMismatchError
            When a column has a name that belongs to the queue, or one with a dot or a backtick.
        SetupError
            When the session is of a version of Spark that the library does not run on.
        """
        columns, settings = parse_columns(schema), require_config(config)
        require_user_schema(columns)
        store = Store.of(spark, QueueAddress(path), clock, listener)
        require_keys(spark, columns, settings)
        making.create(store, fields_of(columns.json()), settings)
        return cls(store)

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        path: str,
        *,
        clock: Clock | None = None,
        listener: Listener | None = None,
    ) -> DeltaQueue:
        """Open a queue that exists; parameters as for :meth:`create`.

        Raises
        ------
        QueueNotFoundError
            When there is no queue, or what is there is not one.
        FormatVersionError
            When a newer release wrote it.
        SetupError
            When the session is of a version of Spark that the library does not run on.
        """
        store = Store.of(spark, QueueAddress(path), clock, listener)
        store.settings(existence.require_exists(store))
        return cls(store)

    @classmethod
    def exists(cls, spark: SparkSession, path: str) -> bool:
        """Tell whether there is a queue of this name or path."""
        return existence.exists(Store.of(spark, QueueAddress(path)))

    @classmethod
    def drop(cls, spark: SparkSession, path: str, *, dry_run: bool = False) -> Affected | None:
        """Remove a queue and everything in it.

        Parameters
        ----------
        spark, path
            As for :meth:`open`.
        dry_run : bool
            Only count its items, by state, and show the first: what is returned then.

        Raises
        ------
        QueueNotFoundError
            When there is no such queue.
        WriterLockedError
            When another process writes to it all the time that this waits.
        FencedError
            When a front holds it.
        FormatVersionError
            When a newer release wrote it: which tables it has is not known here.
        """
        return drop_queue(Store.of(spark, QueueAddress(path)), dry_run=dry_run)

    def enqueue(
        self,
        rows: DataFrame | pd.DataFrame | pa.Table,
        order_by: OrderBy = None,
        *,
        on_duplicate: OnDuplicate = "skip",
        on_full: OnFull = "raise",
        trace: Trace | Sequence[Trace | None] | None = None,
    ) -> EnqueueResult:
        """Add the rows of a frame, all in one step.

        Parameters
        ----------
        rows : DataFrame, pandas.DataFrame or pyarrow.Table
            The queue's columns; a frame of pandas or Arrow is cast to their types. Four more may
            come with them: ``available_at`` (timestamp: not claimed before), ``expires_at``
            (timestamp: not claimed from then on), ``cost`` (a number above 0, 1 by default: how
            much of its key's turn the item takes) and ``max_attempts`` (a whole number: the item
            is dead after so many failures, and the queue's own setting does not count).
        order_by : str, Column or list of them, optional
            The order in which rows enter; the frame's own order by default.
        on_duplicate : "skip" or "raise"
            What to do with rows whose key is taken: refuse them and say so, or refuse the frame.
        on_full : "raise" or "partial"
            Where a reader has no room: refuse the frame, or take what fits, in order, and say so.
        trace : str, mapping or sequence of them, optional
            The trace that the items belong to, as W3C writes it: a ``traceparent``, which a space
            and a ``tracestate`` may follow, or headers of these names; or one for each row, of
            rows that are not Spark's. By default it is that of the span of OpenTelemetry that is
            active, if one is; an empty text is none. Handlers go on with it.

        Returns
        -------
        EnqueueResult
            Counts, and an outcome for each row.

        Raises
        ------
        SchemaMismatchError
            When a column is missing, unknown or of another type, or a cost or a limit is out of
            bounds.
        DuplicateItemError
            With ``on_duplicate="raise"``, when a key is taken. Nothing was written.
        ReaderFullError
            With ``on_full="raise"``, when a reader has no room. Nothing was written.
        FormatVersionError
            When an older release made the queue, and its keys had a text that is not safe.

        Notes
        -----
        The frame is evaluated once, so a source that changes meanwhile cannot put a row half in.
        Its duplicates, also of what others enqueue meanwhile, are decided in the step itself.
        """
        rules = EnqueueRules(on_duplicate=on_duplicate, on_full=on_full)
        require_order(order_by)
        require_frame(rows)
        main, traces = self._main, tracing.stored_traces(trace)
        done = enqueue.enqueue(main, rows, order_by=order_by, rules=rules, trace=traces)
        return EnqueueResult(
            step=done.step,
            inserted=done.inserted,
            duplicates=done.duplicates,
            refused=done.refused,
            told=enqueue.told(done),
            read_outcomes=lambda: enqueue.outcomes(main, done),
        )

    def enqueue_stream(
        self,
        df: DataFrame,
        checkpoint: str,
        *,
        order_by: OrderBy = None,
        trigger: timedelta | None = None,
        name: str | None = None,
    ) -> StreamingQuery:
        """Start a query that adds the rows of a stream, each micro-batch in one step.

        Parameters
        ----------
        df : DataFrame
            A stream with the columns that :meth:`enqueue` takes.
        checkpoint : str
            A directory that is this query's own. Started again with it, the query goes on where it
            was; with another one it is a new query, which reads from the beginning. Never put back
            an older copy of it: the batches that it counts again would be taken for enqueued ones.
            One that another queue was filled with is refused.
        order_by
            As for :meth:`enqueue`, within a micro-batch.
        trigger : timedelta, optional
            How often to look for rows; by default all that is there is read, and the query ends.
        name : str, optional
            The query's name in Spark's own displays.

        Returns
        -------
        StreamingQuery
            A query like any other, with progress and metrics.

        Raises
        ------
        SchemaMismatchError
            As for :meth:`enqueue`, before the query starts.
        InvalidArgumentError
            When the frame is no stream, no checkpoint is named, or it is another queue's.

        Notes
        -----
        Exactly once: the step of a batch says which batch of which query it is. A batch that comes
        again after a crash is found there and written no second time. Several streams may fill one
        queue, each with its own checkpoint.
        """
        require_order(order_by)
        return streams.enqueue_stream(
            self._main, df, checkpoint, order_by=order_by, trigger=trigger, name=name
        )

    def clone(self, path: str) -> DeltaQueue:
        """Make a queue with all that this one has, to try workers, weights and limits on it.

        It has the items, states, places and settings as of one instant. From then on the two know
        nothing of each other: what is done to one is not seen by the other.

        Parameters
        ----------
        path : str
            As for :meth:`create`; of the same store as this one.

        Returns
        -------
        DeltaQueue
            The clone. What was in flight is ready there, uncharged: its holder holds it here. No
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
        On this machine's disk the files of the rows are shared by hard links. Elsewhere the tables
        are shallow clones of Delta's: they read the files of this queue, and what a VACUUM of its
        tables removes is missing in the clone. Be done with that before.

        On a shared store other drivers go on meanwhile. The clone is of versions of the logs
        between which nobody else has enqueued. Of one that fails the tables are removed; by path
        their files stay, and are named by a warning, as only that store's tools delete them.
        """
        checks.require_text("path", path)
        return DeltaQueue(clones.clone(self._main, path))

    def __repr__(self) -> str:
        return f"DeltaQueue({self.name!r})"
