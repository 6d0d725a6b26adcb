"""The durable queue on two Delta tables."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from spark_queue import worker
from spark_queue.claim import Claim
from spark_queue.clock import Clock, SystemClock
from spark_queue.config import QueueConfig
from spark_queue.delta import admin, checkpoint, claims, enqueue, inspect, maintain, views
from spark_queue.delta.address import QueueAddress
from spark_queue.delta.choosing import Request
from spark_queue.delta.cut import AsOf, cut_at
from spark_queue.delta.enqueue import Enqueued, OnDuplicate
from spark_queue.delta.evidence import Output
from spark_queue.delta.inputs import OrderBy
from spark_queue.delta.store import Listener, Store
from spark_queue.errors import InvalidArgumentError
from spark_queue.results import EnqueueResult, Explanation, Maintained, QueueStats
from spark_queue.worker import BatchHandler, ItemHandler, ProcessResult, Work


class DeltaQueue:
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

    @property
    def name(self) -> str:
        """The queue's name or path."""
        return self._store.name

    @property
    def config(self) -> QueueConfig:
        """The configuration in force."""
        return self._store.settings(self._store.status_head()).config

    @property
    def schema(self) -> StructType:
        """The columns of an item."""
        return self._store.user_schema()

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
        work = Work(
            handler=handler,
            per=per,
            request=self._request(limit, lease, worker_id or worker.worker_id(), run, None),
            returns=None if returns is None else _parsed(returns),
            output=None if output is None else Output(self._store.spark, output),
        )
        return worker.process(self, work, time_limit=time_limit, stop=stop, on_claim=on_claim)

    def cancel(self, where: str, *, dry_run: bool = False) -> int:
        """End every ready or claimed item for which a SQL predicate is true.

        Parameters
        ----------
        where : str
            A predicate over the columns of :meth:`status`, such as ``tenant = 'a' AND _seq < 100``.
        dry_run : bool
            Only count.

        Returns
        -------
        int
            How many items it is about. A holder of such an item gets ``LeaseLostError``.
        """
        if dry_run:
            return admin.matching(self._store, where, ("ready", "claimed")).count()
        return admin.cancel(self._store, where)[1]

    def redrive(self, where: str, *, dry_run: bool = False) -> int:
        """Enqueue dead, expired or cancelled items again, as new items that name the old.

        Parameters and the kind of answer are those of :meth:`cancel`. Whether the key of an item
        was taken meanwhile is decided as for any enqueue.
        """
        frame = admin.redrivable(self._store, where)
        if dry_run:
            return frame.count()
        return enqueue.enqueue(
            self._store, frame, order_by=None, on_duplicate="skip", redriven=True
        ).inserted

    def configure(self, **settings: Any) -> int:
        """Change live settings (see ``LIVE_SETTINGS``) from the next step on.

        Returns
        -------
        int
            The step from which they are in force: a claim after it sees them.

        Raises
        ------
        InvalidConfigError
            When a setting is unknown, fixed at creation, or out of its range.
        """
        self.config.changed(**settings)
        return admin.configure(
            self._store,
            lambda old, at: old.reconfigured(old.config.changed(**settings), at.pointers),
        )

    def pause(self) -> int:
        """Stop giving out items; what is claimed goes on. Returns the step it is in force from."""
        return admin.configure(self._store, lambda old, _: replace(old, paused=True), "pause")

    def resume(self) -> int:
        """Give out items again. Returns the step it is in force from."""
        return admin.configure(self._store, lambda old, _: replace(old, paused=False), "resume")

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
            When the queue has no such step.
        """
        cut = cut_at(self._store, as_of)
        return views.status(cut.queue, cut.status)

    def dead(self) -> DataFrame:
        """Return the dead letters, as :meth:`status` shows them, with ``_error``."""
        return self.status().where("_state = 'dead'")

    def stats(self, as_of: AsOf = None) -> QueueStats:
        """Count the items per state and per fair key; ``as_of`` as for :meth:`status`."""
        return inspect.stats(self._store, cut_at(self._store, as_of))

    def explain(self, seq: int) -> Explanation:
        """Say why an item is not running: by whom it is held, and until when."""
        return inspect.explain(self._store, seq)

    def maintain(self, *, retention: timedelta | None = None) -> Maintained:
        """Keep the queue quick: log what expired, write a checkpoint, merge small files.

        Parameters
        ----------
        retention : timedelta, optional
            Also drop items that finished longer ago, a whole generation of them at a time, with
            their history. By default nothing is dropped. A queue that is distinct for ever, or
            for longer than this, needs its items and keeps them.

        Notes
        -----
        It may run beside enqueues, claims and settles, and none of them waits for longer than a
        step. Once an hour is often enough for most queues.
        """
        if retention is not None and retention <= timedelta(0):
            raise InvalidArgumentError(f"retention is {retention}: it must be above zero")
        return maintain.maintain(self._store, retention)

    def purge(self, where: str, *, dry_run: bool = False) -> int:
        """Remove finished items for which a SQL predicate is true, with their history.

        Parameters and the kind of answer are those of :meth:`cancel`. It rewrites files, and on
        a shared store it may lose to other writers: then it raises and can be called again.
        """
        if dry_run:
            return admin.finished(self._store, where).count()
        return maintain.purge(self._store, where)

    def history(self, seq: int) -> DataFrame:
        """Return every transition of an item, oldest first."""
        return views.history(self._store, seq)

    def close(self) -> None:
        """Let another process write, where the queue is on a local disk."""
        self._store.forget()

    def _result(self, done: Enqueued) -> EnqueueResult:
        return EnqueueResult(
            step=done.step,
            inserted=done.inserted,
            duplicates=done.duplicates,
            outcomes=enqueue.outcomes(self._store, done.step),
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
