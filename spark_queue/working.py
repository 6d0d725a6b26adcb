"""Work on the items of a queue: claims, and handlers over them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Generic, Literal, Protocol, TypeVar, cast, overload

from spark_queue import checks, commands, state
from spark_queue.claim import Claim, make_claim
from spark_queue.operating import Operating
from spark_queue.queue_views import FrameT, Looking, SchemaT
from spark_queue.state.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType
    from typing_extensions import Unpack

    from spark_queue.processing.crew import Using
    from spark_queue.processing.handler_types import AnyHandler, BatchHandler, ItemHandler, TableT
    from spark_queue.processing.loop import Asked, ProcessOptions, ProcessResult
    from spark_queue.state.request import Request
    from spark_queue.state.snapshot import Snapshot


#: What a claim gives its holder.
ClaimT = TypeVar("ClaimT", bound=Claim)


class Runner(Protocol):
    """Module that runs handlers over claims."""

    def check(self, asked: Asked) -> None:
        """Raise where an option is none here, on any queue."""

    def process(self, store: Store, asked: Asked) -> ProcessResult:
        """Claim, run and settle until the queue is empty, the time is up, or someone stops it."""


class Working(Looking[FrameT, SchemaT], Operating, Generic[FrameT, SchemaT, ClaimT]):
    """The work of a reader on a queue, and an operator for it."""

    _claim_type: type[ClaimT]

    _runner: str
    """The module of :class:`Runner`; it is imported when it is needed, as that takes a while."""

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
            at = state.snapshot.Snapshot(store)
            request = commands.claims.request(at, limit, lease, worker_id, run, claim_id, max_bytes)
            _ = at.status
            return at, request

        def take() -> ClaimT:
            at, request = state.steps.known_first(store, prepare)
            if commands.recovery.recover_ended(at):
                at = state.snapshot.Snapshot(store)
            return make_claim(at, request, self._claim_type)

        return state.step_waits.poll(store, take, wait)

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
        limit: checks.ItemsPerClaim = "auto",
        max_per_group: int | None = None,
        max_bytes: int | None = None,
        lease: timedelta | None = None,
        worker_id: str | None = None,
        returns: StructType | pa.Schema | str | None = None,
        output: str | None = None,
        max_workers: int = 1,
        using: Using | None = None,
        item_time_limit: timedelta | None = None,
        time_limit: timedelta | None = None,
        stop: threading.Event | None = None,
        on_claim: Callable[[ProcessResult], None] | None = None,
        forever: bool = False,
    ) -> ProcessResult:
        """Claim items, run a handler for them, settle them, and so on.

        With Spark a handler runs on the executors, and must pickle. Without it the handler runs in
        threads of this process, or in children of it.

        Parameters
        ----------
        handler : callable
            With ``per="item"`` it gets one item as a dict (the user's columns, ``_seq``,
            ``_lease``, ``_attempts``); with ``per="batch"`` a ``pyarrow.Table`` of them. What it
            raises fails the item, or all items of the batch; ``raise Reject(...)`` sends it to the
            dead letters at once. It runs once for a lease. An item that ends its Python worker, or
            its child, is charged a loss, up to ``max_losses``.
            Without Spark it may be ``async def``: it is awaited in one event loop, in a thread of
            its own, ``max_workers`` items at the same time.
        per : "item" or "batch"
            What one call gets.
        limit : int or "auto"
            How many items one claim takes at most. With ``"auto"``, the default, it takes as many
            as the handler works off in a 20th of the lease: few at first, then as the claims of
            this process before it taught. Items that are not begun in that time go back, uncharged.
            While other workers hold claims, it takes a share of what waits.
        max_per_group : int, optional
            How many consecutive items of one group a claim takes at most, to be worked off one
            after another; up to there, about as many as the claims before it could finish. By
            default up to ``limit``; with ``per="batch"`` one, as a failed batch could not stop its
            groups.
        max_bytes : int, optional
            How many bytes the rows of a claim have at most, as for :meth:`claim`; 16 MiB by default
            where ``limit`` is ``"auto"``.
        lease : timedelta, optional
            How long a claim holds; it is renewed while the handler runs.
        worker_id : str, optional
            Who holds the items; by default this process, so that others see when it ends.
        returns : StructType, pyarrow.Schema or str, optional
            The columns of what the handler returns, as DDL or as the queue's own ``schema`` is: a
            dict for an item, or a table with ``_seq``. An item whose result has other columns, or
            values of other types, has failed.
        output : str, optional
            A Delta table (name, or path with a ``/``) that gets the returned rows, with ``_seq``
            and ``_claim_id``; made where there is none. Each item's row is there exactly once,
            through any crash. Without Spark a path of this machine's disk, or of an object store
            that the queue is on.
        max_workers : int
            Without Spark, how many items, or tables, are worked on at the same time; of a handler
            that is ``async def``, how many are awaited. A group is always in the hands of one
            worker, in order. With Spark the session says so.
        using : "threads" or "processes", optional
            Without Spark, what the workers are; threads by default. A thread shares the memory of
            this process, and its death: an item that ends the process is charged a loss by the next
            claim. Processes are children that begin as copies of this one, new for each claim:
            nothing need pickle, what they change in memory is gone with them, and an item that ends
            one is charged a loss at once, while the others go on.
        item_time_limit : timedelta, optional
            How long an item may take; one that takes longer has failed. A child, and with Spark the
            worker, is killed; the task of an ``async def`` is cancelled. A thread cannot be ended:
            it counts as busy until it returns, and its result then is lost. An item of a group
            holds that up until its thread returns, or its lease ends.
        time_limit : timedelta, optional
            No further claim after this long.
        stop : threading.Event, optional
            No further claim once it is set. On the main thread SIGTERM and SIGINT also end the
            work: with Spark it is given back; without, children are killed, threads finish their
            item, finished items are settled, and the rest goes back uncharged. Then SIGTERM ends
            the program with code 143 (``SystemExit``), unless it has a handler of its own.
        on_claim : callable, optional
            Called after each settled claim with the result so far, on a thread of the queue's own.
        forever : bool
            Whether to wait for more where nothing may run now, instead of ending: until
            ``time_limit``, ``stop`` or a signal.

        Returns
        -------
        ProcessResult
            Counts, and why it ended: where items are left that may not run, what they wait for.

        Raises
        ------
        InvalidArgumentError
            When an option is out of its range, the handler does not pickle, ``output`` is given
            without ``returns``, ``max_per_group`` is above 1 for batches, ``item_time_limit`` is
            given for them; or with Spark ``max_workers`` or ``using`` is given, or the handler is
            ``async def``.
        InvalidConfigError
            When the driver lacks what Spark needs to run a handler: pandas, for example.
        OutputRefusedError
            When the output refuses rows, and no single row explains it. The claim is given back.
        SchemaMismatchError
            When the output is there, and ``returns`` does not fit its columns. Nothing was claimed.
        SparkNeededError
            When there is no session, and only Spark writes to the output: it is in a catalog or on
            a shared store, is partitioned, or has CHECK constraints or other features of Delta's.
            Nothing was claimed.
        UnsafeSessionError
            When the session runs tasks speculatively.
        """
        runner = cast("Runner", import_module(self._runner))
        from spark_queue.processing.loop import Asked  # noqa: PLC0415 - takes a while

        asked = Asked(
            handler=handler,
            per=per,
            limit=limit,
            max_per_group=max_per_group,
            lease=lease,
            worker_id=worker_id,
            returns=returns,
            output=output,
            max_workers=max_workers,
            using=using,
            item_time_limit=item_time_limit,
            max_bytes=max_bytes,
            time_limit=time_limit,
            stop=stop,
            on_claim=on_claim,
            forever=forever,
        )
        asked.check()
        runner.check(asked)
        around = self._store.handle.around
        if around is not None:
            asked = replace(asked, handler=around(handler))
        return runner.process(self._store, asked)
