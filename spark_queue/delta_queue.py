"""The durable queue on two Delta tables."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from spark_queue import checks, streams
from spark_queue.claim import Claim
from spark_queue.clock import Clock
from spark_queue.columns.columns import (
    OrderBy,
    of_spark,
    parse_columns,
    require_keys,
    require_order,
    require_user_schema,
)
from spark_queue.columns.kinds import Field
from spark_queue.commands import create_drop, enqueue, readers
from spark_queue.commands.readers import Start
from spark_queue.commands.rows import Enqueued
from spark_queue.config import QueueConfig, require_config
from spark_queue.log.addresses import QueueAddress
from spark_queue.log.log_columns import fields_of
from spark_queue.log.object_tables import ObjectTables, StorageOptions
from spark_queue.log.step_events import Listener
from spark_queue.queue import EnqueueCall, Queue, drop_queue
from spark_queue.reader import Reader, SparkVerbs
from spark_queue.reader_config import require_reader
from spark_queue.results import Affected
from spark_queue.spark.frames import require_frame
from spark_queue.state import existence
from spark_queue.state.store import Store


class DeltaQueue(SparkVerbs, Queue[DataFrame, StructType, Claim, Reader]):
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
        storage: StorageOptions | None = None,
        exist_ok: bool = False,
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
            Keys, bounds and retries. Default: one line, first in, first out.
        clock : Clock, optional
            Asked once an operation; the system's by default.
        listener : callable, optional
            Called with :class:`StepFacts` after every step, on the thread that made it.
        storage : mapping, obstore.store.ObjectStore or fsspec.AbstractFileSystem, optional
            Options of ``obstore.store.from_url``, a store of a whole bucket, or a file system, for
            a queue on an object store that processes without Spark share: its commits are
            conditional PUTs. The tasks that write its files get them, too. By default Delta
            commits, as anywhere else.
        exist_ok : bool
            Open a queue that is there, if it has the same columns, keys and ``dedup_scope``. Its
            live settings stay as they are. Of several processes that call this at once one makes
            the queue, and all get it.

        Raises
        ------
        QueueExistsError
            When there is a queue, or any table in its place; with ``exist_ok``, when that is no
            queue, or one with other columns, keys or ``dedup_scope``. Nothing was written.
        InvalidConfigError
            When a key of the configuration is no expression over the columns, or may be another
            text in another session.
        SchemaMismatchError
            When a column has a name that belongs to the queue, or one with a dot or a backtick.
        SetupError
            When the session is of a version of Spark that the library does not run on, or the
            object store does not refuse a second object of a name.
        """
        columns, settings = parse_columns(schema), require_config(config)
        require_user_schema(columns)
        checks.require_flag("exist_ok", exist_ok)
        store, fields = _store(spark, path, storage, clock, listener), fields_of(columns.json())
        if not exist_ok or not create_drop.is_made(store, fields, settings):
            require_keys(spark, columns, settings)
            create_drop.create(store, fields, settings, exist_ok=exist_ok)
        return cls(store)

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        path: str,
        *,
        clock: Clock | None = None,
        listener: Listener | None = None,
        storage: StorageOptions | None = None,
    ) -> DeltaQueue:
        """Open a queue that exists; parameters as for :meth:`create`.

        Raises
        ------
        QueueNotFoundError
            When there is no queue, or something else in its place.
        FormatVersionError
            When a newer release wrote it.
        SetupError
            When the session is of a version of Spark that the library does not run on.
        """
        store = _store(spark, path, storage, clock, listener)
        store.settings(existence.require_exists(store))
        return cls(store)

    @classmethod
    def exists(
        cls, spark: SparkSession, path: str, *, storage: StorageOptions | None = None
    ) -> bool:
        """Whether there is a queue of this name or path."""
        return existence.exists(_store(spark, path, storage))

    @classmethod
    def drop(
        cls,
        spark: SparkSession,
        path: str,
        *,
        dry_run: bool = False,
        storage: StorageOptions | None = None,
    ) -> Affected | None:
        """Remove a queue and everything in it.

        Parameters
        ----------
        spark, path, storage
            As for :meth:`open`. On an object store no other process may work with it any more.
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
        return drop_queue(_store(spark, path, storage), dry_run=dry_run)

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

    def _enter(self, call: EnqueueCall) -> Enqueued:
        require_order(call.order_by)
        require_frame(call.rows)
        rows, order_by, rules, trace, batch = call
        order = cast("OrderBy", order_by)
        return enqueue.enqueue(
            self._main, rows, order_by=order, rules=rules, batch=batch, trace=trace
        )

    def _place_of(self, path: str | Path) -> str:
        checks.require_text("path", path)
        return cast("str", path)


def _store(
    spark: SparkSession,
    path: str,
    storage: StorageOptions | None,
    clock: Clock | None = None,
    listener: Listener | None = None,
) -> Store:
    tables = None if storage is None else ObjectTables(storage)
    return Store.of(spark, QueueAddress(path), clock, listener, tables)
