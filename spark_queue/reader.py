"""A queue as one of its readers works it off."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict, overload

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from spark_queue import checks, streams
from spark_queue.claim import Claim
from spark_queue.delta.commands import readers
from spark_queue.delta.commands.evidence import Output
from spark_queue.delta.input.ddl import parse_columns
from spark_queue.delta.plans import snapshot
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.address import require_table
from spark_queue.delta.views import spark_views
from spark_queue.errors import InvalidArgumentError
from spark_queue.looking import Looking
from spark_queue.opened import ReaderFacts
from spark_queue.operating import Claimable, Operating
from spark_queue.processing import worker
from spark_queue.processing.calling import AnyHandler, BatchHandler, ItemHandler, TableT
from spark_queue.processing.loop import ProcessResult, Terms
from spark_queue.processing.worker import Work
from spark_queue.results import Lag

if TYPE_CHECKING:
    from typing_extensions import Unpack


class _AnyOptions(TypedDict, total=False):
    """What any handler is given, however it is run."""

    limit: int
    lease: timedelta | None
    returns: StructType | str | None
    output: str | None


class _Options(_AnyOptions, total=False):
    """What handlers of items and of batches are given alike."""

    on_claim: Callable[[ProcessResult], None] | None


class ProcessOptions(_Options, total=False):
    """The options of :meth:`Reader.process` for any kind of handler."""

    worker_id: str | None
    time_limit: timedelta | None
    stop: threading.Event | None
    forever: bool


class StreamOptions(_Options, total=False):
    """The options of :meth:`Reader.process_stream` for any kind of handler."""

    trigger: timedelta
    name: str | None


class HandlerOptions(_AnyOptions, total=False):
    """How a handler of any kind is to be run: fields of :class:`Asked`."""

    per: Literal["item", "batch"]
    max_per_group: int | None


@dataclass(frozen=True, slots=True)
class Asked(Terms):
    """A handler, and how it is to be run, on any queue."""

    returns: StructType | str | None = None
    output: str | None = None

    def check(self, on_claim: object) -> None:
        """Raise where an option is none, on any queue."""
        self.check_terms(on_claim)
        checks.optional(require_table, "output", self.output)

    def of(self, store: Store) -> Work:
        """Return the work that this is for the items of a queue."""
        return Work(
            handler=self.handler,
            per=self.per,
            request=self.request(store),
            returns=None if self.returns is None else parse_columns(self.returns, "returns"),
            output=None if self.output is None else Output(store.spark, self.output),
        )


class Working(Looking, Operating, Claimable[Claim]):
    """What a reader does with a queue, and an operator for it."""

    _claim_type = Claim

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
        limit: int = checks.PER_CLAIM,
        max_per_group: int | None = None,
        lease: timedelta | None = None,
        worker_id: str | None = None,
        returns: StructType | str | None = None,
        output: str | None = None,
        time_limit: timedelta | None = None,
        stop: threading.Event | None = None,
        on_claim: Callable[[ProcessResult], None] | None = None,
        forever: bool = False,
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
            How many items one claim takes at most; large claims suit short work, small ones long.
        max_per_group : int, optional
            How many consecutive items of one group a claim takes at most, to be worked off one
            after another; up to there, about as many as the claims before it could finish. By
            default up to ``limit``; with ``per="batch"`` one, as a failed batch could not stop its
            groups.
        lease : timedelta, optional
            How long a claim holds; it is renewed while the handler runs.
        worker_id : str, optional
            Who holds the items; by default this process, so that others see when it ends.
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
            When the handler does not pickle, ``output`` is given without ``returns``, or
            ``max_per_group`` is above 1 for batches.
        InvalidConfigError
            When the driver lacks what Spark needs to run a handler: pandas, for example.
        OutputRefusedError
            When the output refuses rows, and no single row explains it. The claim is given back.
        SchemaMismatchError
            When the output is there, and ``returns`` does not fit its columns. Nothing was claimed.
        UnsafeSessionError
            When the session runs tasks speculatively.
        """
        asked = Asked(handler, per, limit, max_per_group, lease, worker_id, returns, output)
        asked.check(on_claim)
        checks.require_end(time_limit, stop)
        checks.require_flag("forever", forever)
        store, work = self._store, asked.of(self._store)
        return worker.process(
            store, work, time_limit=time_limit, stop=stop, on_claim=on_claim, forever=forever
        )

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
        on_claim: Callable[[ProcessResult], None] | None = None,
        **options: Unpack[HandlerOptions],
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
        handler, on_claim
            As for :meth:`process`. Over Spark Connect the query runs on the server: there the
            handler is called, and ``on_claim`` is refused.
        **options
            Its per, limit, max_per_group, lease, returns and output.

        Returns
        -------
        StreamingQuery
            Stopped in the middle of a claim, it gives the claim back, or its lease runs out.

        Raises
        ------
        InvalidArgumentError, UnsafeSessionError
            As for :meth:`process`; or when no checkpoint is named, ``trigger`` is not above zero,
            or ``on_claim`` is given over Spark Connect.
        """
        asked = Asked(handler, **options)
        asked.check(on_claim)
        streams.require_query(checkpoint, trigger, name)
        streams.require_called(self._store.spark, on_claim)
        worker.require_safe(self._store, asked.of(self._store))

        def process(spark: SparkSession, time_limit: timedelta) -> ProcessResult:
            store = self._store.in_session(spark)
            work = asked.of(store)
            return worker.process(store, work, time_limit=time_limit, stop=None, on_claim=on_claim)

        return streams.process_stream(
            self._store.spark, process, checkpoint, trigger=trigger, name=name
        )


class Reader(Working, ReaderFacts):
    """A queue as one of its readers sees it; made by :meth:`DeltaQueue.reader`.

    What it claims, settles, pauses and configures is its own; the items are shared.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store, store)

    def lag(self) -> Lag:
        """Return how far the reader is behind, in items, bytes, time and steps."""
        return spark_views.lag(self._store)

    def advance(self, step: int) -> None:
        """Say that a stream of this reader is done with all items up to a step (``_step``).

        Raises
        ------
        InvalidArgumentError
            When the reader claims, or the item log has no such step.
        """
        checks.require_seq("step", step)
        self._require_streams()
        readers.advance(self._store, step)

    def stream(self) -> DataFrame:
        """Return the items as a stream (:meth:`DeltaQueue.read_stream`)."""
        self._require_streams()
        return snapshot.stream(self._store)

    def _require_streams(self) -> None:
        if not self._store.registered().streams:
            raise InvalidArgumentError(
                f"reader {self.reader!r} claims its items: use one that read_stream has made"
            )

    def __repr__(self) -> str:
        return f"Reader({self.name!r}, {self.reader!r})"
