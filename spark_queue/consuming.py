"""The consuming side of a queue: claim items, or have them processed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict, overload

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from spark_queue import checks, streams
from spark_queue.claim import Claim
from spark_queue.delta.commands import checkpoint, claims, forwarding
from spark_queue.delta.commands.evidence import Output
from spark_queue.delta.input.ddl import parsed
from spark_queue.delta.replica.request import Request
from spark_queue.delta.store.store import Store
from spark_queue.errors import InvalidArgumentError
from spark_queue.operating import Operating
from spark_queue.processing import worker
from spark_queue.processing.worker import (
    AnyHandler,
    BatchHandler,
    ItemHandler,
    ProcessResult,
    TableT,
    Work,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _Options(TypedDict, total=False):
    """What handlers of items and of batches are given alike."""

    limit: int
    lease: timedelta | None
    returns: StructType | str | None
    output: str | None
    on_claim: Callable[[ProcessResult], None] | None


class ProcessOptions(_Options, total=False):
    """The options of :meth:`Consuming.process` for any kind of handler."""

    worker_id: str | None
    time_limit: timedelta | None
    stop: threading.Event | None


class StreamOptions(_Options, total=False):
    """The options of :meth:`Consuming.process_stream` for any kind of handler."""

    trigger: timedelta
    name: str | None


class Consuming(Operating):
    """A queue as one of its readers works it off."""

    @property
    def store(self) -> Store:
        """The logs behind the queue; for the library's own use."""
        return self._store

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
        checks.require_claim(limit, lease, run, worker_id, claim_id)
        request = _request(self._store, limit, lease, worker_id, run, claim_id)
        return self.claim_as(request)

    def claim_as(self, request: Request) -> Claim:
        """Lease items as a request says; for the library's own use."""
        store = self._store
        if checkpoint.is_due(store.status_head(), request.limit):
            checkpoint.checkpoint(store)
        claim = Claim(store, claims.claim(store, request))
        forwarding.forward(store)
        return claim

    @overload
    def process(
        self,
        handler: ItemHandler,
        *,
        per: Literal["item"] = "item",
        max_per_group: int | None = None,
        **options: Unpack[ProcessOptions],
    ) -> ProcessResult: ...

    @overload
    def process(
        self,
        handler: BatchHandler[TableT],
        *,
        per: Literal["batch"],
        **options: Unpack[ProcessOptions],
    ) -> ProcessResult: ...

    def process(
        self,
        handler: AnyHandler,
        *,
        per: Literal["item", "batch"] = "item",
        limit: int = 10_000,
        max_per_group: int | None = None,
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
            An item that ends its Python worker is charged a loss, up to ``max_losses``.
        per : "item" or "batch"
            What one call gets.
        limit : int
            How many items one claim takes at most. A claim costs about a second whatever its size,
            so large ones are fast.
        max_per_group : int, optional
            How many consecutive items of one group a claim may take, to be worked off one after
            another. By default all that come next, up to ``limit``; with ``per="batch"`` one, as a
            failed batch could not stop its groups.
        lease : timedelta, optional
            How long a claim holds; it is renewed while the handler runs.
        worker_id : str, optional
            Who holds the items; host and process id by default.
        returns : StructType or str, optional
            The columns of what the handler returns: a dict for an item, or a table with ``_seq``.
            An item whose result has other columns, or values of other types, has failed.
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
            Counts, and why it ended: where items are left that may not run, what they wait for.

        Raises
        ------
        InvalidArgumentError
            When the handler does not pickle, ``output`` is given without ``returns``, or
            ``max_per_group`` is above 1 for batches.
        InvalidConfigError
            When the driver lacks what Spark needs to run a handler: pandas, for example.
        UnsafeSessionError
            When the session runs tasks speculatively.
        """
        checks.require_work(handler, per, limit, max_per_group, lease, worker_id, output, on_claim)
        if time_limit is not None:
            checks.require_duration("time_limit", time_limit, least=timedelta(0))
        if stop is not None and not isinstance(stop, threading.Event):
            raise InvalidArgumentError(f"stop is {stop!r}: it must be a threading.Event")
        work = _work(
            self._store, handler, per, limit, max_per_group, lease, worker_id, returns, output
        )
        return worker.process(self, work, time_limit=time_limit, stop=stop, on_claim=on_claim)

    @overload
    def process_stream(
        self,
        handler: ItemHandler,
        checkpoint: str,
        *,
        per: Literal["item"] = "item",
        max_per_group: int | None = None,
        **options: Unpack[StreamOptions],
    ) -> StreamingQuery: ...

    @overload
    def process_stream(
        self,
        handler: BatchHandler[TableT],
        checkpoint: str,
        *,
        per: Literal["batch"],
        **options: Unpack[StreamOptions],
    ) -> StreamingQuery: ...

    def process_stream(
        self,
        handler: AnyHandler,
        checkpoint: str,
        *,
        trigger: timedelta = timedelta(seconds=10),
        name: str | None = None,
        per: Literal["item", "batch"] = "item",
        limit: int = 10_000,
        max_per_group: int | None = None,
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
        handler, per, limit, max_per_group, lease, returns, output, on_claim
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
        checks.require_work(handler, per, limit, max_per_group, lease, None, output, on_claim)
        checks.require_text("checkpoint", checkpoint)
        checks.require_duration("trigger", trigger)
        checks.require_string("name", name)
        work = _work(self._store, handler, per, limit, max_per_group, lease, None, returns, output)
        worker.require_safe(self, work)

        def process(spark: SparkSession, time_limit: timedelta) -> ProcessResult:
            queue = AsReader(self._store.in_session(spark))
            again = _work(
                queue.store, handler, per, limit, max_per_group, lease, None, returns, output
            )
            return worker.process(queue, again, time_limit=time_limit, stop=None, on_claim=on_claim)

        return streams.process_stream(
            self._store.spark, process, checkpoint, trigger=trigger, name=name
        )


class AsReader(Consuming):
    """A queue as one given reader works it off."""

    def __init__(self, store: Store) -> None:
        self._own_store = store

    @property
    def _store(self) -> Store:
        return self._own_store


def _work(
    store: Store,
    handler: AnyHandler,
    per: Literal["item", "batch"],
    limit: int,
    max_per_group: int | None,
    lease: timedelta | None,
    worker_id: str | None,
    returns: StructType | str | None,
    output: str | None,
) -> Work:
    if max_per_group is None:
        max_per_group = _all_of_a_group(store, per, limit)
    elif max_per_group > 1 and per == "batch":
        raise InvalidArgumentError(
            f"max_per_group is {max_per_group}: with per='batch' it must be 1"
        )
    request = _request(store, limit, lease, worker_id or worker.worker_id(), max_per_group, None)
    return Work(
        handler=handler,
        per=per,
        request=request,
        returns=None if returns is None else parsed(returns, "returns"),
        output=None if output is None else Output(store.spark, output),
    )


def _all_of_a_group(store: Store, per: Literal["item", "batch"], limit: int) -> int:
    """Return how many items of a group a claim takes where nobody says: all, if in order."""
    grouped = store.settings(store.status_head()).config.group_key is not None
    return limit if grouped and per == "item" else 1


def _request(
    store: Store,
    limit: int,
    lease: timedelta | None,
    worker_id: str,
    run: int,
    claim_id: str | None,
) -> Request:
    """Check what a claim asks for."""
    facts = store.registered()
    if facts.streams:
        raise InvalidArgumentError(
            f"reader {facts.name!r} is read as a stream: claim with another reader"
        )
    held_for = store.settings(store.status_head()).config.lease if lease is None else lease
    return Request(
        limit=limit,
        lease=held_for,
        worker_id=worker_id,
        run=run,
        claim_id=claim_id or claims.new_claim_id(),
        repeatable=claim_id is not None,
    )
