"""The durable queue on two Delta tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from spark_queue import streams, worker
from spark_queue.claim import Claim
from spark_queue.clock import Clock, SystemClock
from spark_queue.config import QueueConfig
from spark_queue.delta import admin, checkpoint, claims, enqueue
from spark_queue.delta.address import QueueAddress
from spark_queue.delta.choosing import Request
from spark_queue.delta.enqueue import Enqueued, OnDuplicate
from spark_queue.delta.evidence import Output
from spark_queue.delta.inputs import OrderBy
from spark_queue.delta.store import Listener, Store
from spark_queue.errors import InvalidArgumentError
from spark_queue.operating import Operating
from spark_queue.results import EnqueueResult
from spark_queue.worker import BatchHandler, ItemHandler, ProcessResult, Work


class DeltaQueue(Operating):
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

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def create(
        cls,
        spark: SparkSession,
        name_or_path: str,
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
        name_or_path : str
            A table name (``catalog.schema.files`` makes ``files_queue`` and ``files_status``), or
            a path, which is whatever contains a ``/``.
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
            When a key of the configuration is no expression over the columns.
        SchemaMismatchError
            When a column has a name that belongs to the queue.
        """
        store = Store(spark, QueueAddress(name_or_path), clock or SystemClock(), listener)
        admin.create(store, _parsed(schema), config or QueueConfig())
        return cls(store)

    @classmethod
    def open(
        cls,
        spark: SparkSession,
        name_or_path: str,
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
        """
        store = Store(spark, QueueAddress(name_or_path), clock or SystemClock(), listener)
        store.require_exists()
        store.settings(store.status_head())
        return cls(store)

    @classmethod
    def exists(cls, spark: SparkSession, name_or_path: str) -> bool:
        """Tell whether there is a queue of this name or path."""
        return Store(spark, QueueAddress(name_or_path), SystemClock()).exists()

    @classmethod
    def drop(cls, spark: SparkSession, name_or_path: str) -> None:
        """Remove a queue and everything in it.

        Raises
        ------
        QueueNotFoundError
            When there is no such queue.
        WriterLockedError
            When another process writes to it.
        """
        store = Store(spark, QueueAddress(name_or_path), SystemClock())
        store.require_exists()
        admin.drop(store)

    @property
    def store(self) -> Store:
        """The logs behind the queue; for the library's own use."""
        return self._store

    def enqueue(
        self,
        df: DataFrame,
        order_by: OrderBy = None,
        *,
        on_duplicate: OnDuplicate = "skip",
    ) -> EnqueueResult:
        """Add the rows of a frame, all in one step.

        Parameters
        ----------
        df : DataFrame
            The queue's columns. Three more may come with them: ``available_at`` (timestamp: not
            claimed before), ``expires_at`` (timestamp: not claimed from then on) and ``cost``
            (a number above 0, 1 by default: how much of its key's turn the item takes).
        order_by : str, Column or list of them, optional
            The order in which rows enter; the frame's own order by default.
        on_duplicate : "skip" or "raise"
            What to do with rows whose key is taken: refuse them and say so, or refuse the frame.

        Returns
        -------
        EnqueueResult
            Counts, and an outcome for each row.

        Raises
        ------
        SchemaMismatchError
            When a column is missing, unknown or of another type, or a cost is not above 0.
        DuplicateItemError
            With ``on_duplicate="raise"``, when a key is taken. Nothing was written.

        Notes
        -----
        The frame is evaluated once, so a source that changes meanwhile cannot put a row half in.
        Duplicates inside the frame, against the queue, and against frames that other threads or
        drivers enqueue at the same time are all decided in the step itself.
        """
        done = enqueue.enqueue(self._store, df, order_by=order_by, on_duplicate=on_duplicate)
        return self._result(done)

    def claim(
        self,
        limit: int,
        *,
        lease: timedelta | None = None,
        worker_id: str = "",
        run: int = 1,
        claim_id: str | None = None,
    ) -> Claim:
        """Lease the next items, in fair order.

        Parameters
        ----------
        limit : int
            How many items at most.
        lease : timedelta, optional
            How long they are held; the queue's ``lease`` by default.
        worker_id : str
            Who holds them, as :meth:`status` shows it.
        run : int
            How many consecutive items of one group may be leased together, to be worked off in
            order; 1 by default.
        claim_id : str, optional
            Makes the claim repeatable: claiming again with the same id gives the same items, also
            after a crash between the commit and its answer.

        Returns
        -------
        Claim
            Perhaps an empty one. Items that are delayed, expired, paused, leased or held by their
            group are not in it.

        Raises
        ------
        InvalidArgumentError
            When ``limit`` or ``run`` is below 1 or ``lease`` is not above zero.
        """
        request = self._request(limit, lease, worker_id, run, claim_id)
        return self.claim_as(request)

    def claim_as(self, request: Request) -> Claim:
        """Lease items as a request says; for the library's own use."""
        if checkpoint.is_due(self._store.status_head(), request.limit):
            checkpoint.checkpoint(self._store)
        return Claim(self._store, claims.claim(self._store, request))

    def process(
        self,
        handler: ItemHandler | BatchHandler,
        *,
        per: Literal["item", "batch"] = "item",
        limit: int = 10_000,
        run: int = 1,
        lease: timedelta | None = None,
        worker_id: str | None = None,
        returns: StructType | str | None = None,
        output: str | None = None,
        time_limit: timedelta | None = None,
        stop: threading.Event | None = None,
        on_claim: Callable[[ProcessResult], None] | None = None,
    ) -> ProcessResult:
        """Claim items, run a handler for them on the executors, settle them, and so on.

        Parameters
        ----------
        handler : callable
            Runs on executors, and must pickle. With ``per="item"`` it gets one item as a dict (the
            user's columns, ``_seq``, ``_lease``, ``_attempts``); with ``per="batch"`` a
            ``pyarrow.Table`` of them. What it raises fails the item, or all items of the batch;
            ``raise Reject(...)`` sends it to the dead letters at once. It runs once for a lease.
        per : "item" or "batch"
            What one call gets.
        limit : int
            How many items one claim takes at most. A claim costs about a second whatever its size,
            so large ones are fast.
        run : int
            How many consecutive items of one group a claim may take.
        lease : timedelta, optional
            How long a claim holds; it is renewed while the handler runs.
        worker_id : str, optional
            Who holds the items; host and process id by default.
        returns : StructType or str, optional
            The columns of what the handler returns: a dict for an item, or a table with ``_seq``.
        output : str, optional
            A Delta table (name, or path with a ``/``) that gets the returned rows, with ``_seq``
            and ``_claim_id``. Each item's row is there exactly once, through any crash.
        time_limit : timedelta, optional
            No further claim after this long.
        stop : threading.Event, optional
            No further claim once it is set. On the main thread, SIGTERM and SIGINT also release
            what is being worked on; then SIGTERM ends the program with code 143 (``SystemExit``),
            unless it has a handler of its own.
        on_claim : callable, optional
            Called after each settled claim with the result so far, on a thread of the queue's own.

        Returns
        -------
        ProcessResult
            Counts, and why it ended.

        Raises
        ------
        InvalidArgumentError
            When the handler does not pickle, ``output`` is given without ``returns``, or ``run``
            is above 1 for batches, of which a failed one could not stop its groups.
        UnsafeSessionError
            When the session runs tasks speculatively.
        """
        work = self._work(handler, per, limit, run, lease, worker_id, returns, output)
        return worker.process(self, work, time_limit=time_limit, stop=stop, on_claim=on_claim)

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
            an older copy of it: the batches that it counts anew would be taken for enqueued ones.
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
            When the frame is no stream, or no checkpoint is named.

        Notes
        -----
        Exactly once: the step of a batch says which batch of which query it is. A batch that comes
        again after a crash is found there and written no second time. Several streams may fill one
        queue, each with its own checkpoint.
        """
        return streams.enqueue_stream(
            self._store, df, checkpoint, order_by=order_by, trigger=trigger, name=name
        )

    def process_stream(
        self,
        handler: ItemHandler | BatchHandler,
        checkpoint: str,
        *,
        trigger: timedelta = timedelta(seconds=10),
        name: str | None = None,
        per: Literal["item", "batch"] = "item",
        limit: int = 10_000,
        run: int = 1,
        lease: timedelta | None = None,
        returns: StructType | str | None = None,
        output: str | None = None,
        on_claim: Callable[[ProcessResult], None] | None = None,
    ) -> StreamingQuery:
        """Start a query whose every micro-batch claims, processes and settles.

        A heartbeat sets it off: a micro-batch works the queue off, and stops claiming when a
        trigger's time is over, so that its progress is seen.

        Parameters
        ----------
        checkpoint : str
            A directory that is this query's own. It holds the heartbeat only: what was worked on
            and what came of it is in the queue.
        trigger : timedelta
            How often to look for items, and how long a micro-batch goes on claiming.
        name : str, optional
            The query's name in Spark's own displays.
        handler, per, limit, run, lease, returns, output, on_claim
            As for :meth:`process`.

        Returns
        -------
        StreamingQuery
            A query like any other. Stopped in the middle of a claim, it gives the claim back, or
            its lease runs out.

        Raises
        ------
        InvalidArgumentError, UnsafeSessionError
            As for :meth:`process`; or when no checkpoint is named or ``trigger`` is not above zero.
        """
        work = self._work(handler, per, limit, run, lease, None, returns, output)
        worker.require_safe(self, work)

        def process(spark: SparkSession, time_limit: timedelta) -> ProcessResult:
            queue = DeltaQueue(streams.in_session(self._store, spark))
            again = queue._work(handler, per, limit, run, lease, None, returns, output)
            return worker.process(queue, again, time_limit=time_limit, stop=None, on_claim=on_claim)

        return streams.process_stream(
            self._store.spark, process, checkpoint, trigger=trigger, name=name
        )

    def close(self) -> None:
        """Let another process write, where the queue is on a local disk.

        Settle or release what is claimed first: to the next writer it belongs to a process that has
        ended.
        """
        self._store.forget()

    def _result(self, done: Enqueued) -> EnqueueResult:
        return EnqueueResult(
            step=done.step,
            inserted=done.inserted,
            duplicates=done.duplicates,
            outcomes=enqueue.outcomes(self._store, done.step),
        )

    def _work(
        self,
        handler: ItemHandler | BatchHandler,
        per: Literal["item", "batch"],
        limit: int,
        run: int,
        lease: timedelta | None,
        worker_id: str | None,
        returns: StructType | str | None,
        output: str | None,
    ) -> Work:
        return Work(
            handler=handler,
            per=per,
            request=self._request(limit, lease, worker_id or worker.worker_id(), run, None),
            returns=None if returns is None else _parsed(returns),
            output=None if output is None else Output(self._store.spark, output),
        )

    def _request(
        self,
        limit: int,
        lease: timedelta | None,
        worker_id: str,
        run: int,
        claim_id: str | None,
    ) -> Request:
        for name, value in (("limit", limit), ("run", run)):
            if value < 1:
                raise InvalidArgumentError(f"{name} is {value!r}: it must be at least 1")
        held_for = self.config.lease if lease is None else lease
        if held_for <= timedelta(0):
            raise InvalidArgumentError(f"lease is {held_for}: it must be above zero")
        return Request(
            limit=limit,
            lease=held_for,
            worker_id=worker_id,
            run=run,
            claim_id=claim_id or claims.new_claim_id(),
            repeatable=claim_id is not None,
        )

    def __repr__(self) -> str:
        return f"DeltaQueue({self.name!r})"


def _parsed(schema: StructType | str) -> StructType:
    if isinstance(schema, StructType):
        return schema
    try:
        parsed = StructType.fromDDL(schema)
    except Exception as exc:
        raise InvalidArgumentError(f"schema is {schema!r}, which is no DDL: {exc}") from exc
    if not isinstance(parsed, StructType):
        raise InvalidArgumentError(f"schema is {schema!r}: name the columns, as in 'path string'")
    return parsed
