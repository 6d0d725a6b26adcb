"""A queue as one of its readers works it off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypedDict, overload

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from spark_queue import checks, streams
from spark_queue.checks import ItemsPerClaim
from spark_queue.claim import Claim
from spark_queue.commands import readers
from spark_queue.errors import InvalidArgumentError
from spark_queue.processing import worker
from spark_queue.processing.handler_types import AnyHandler, BatchHandler, ItemHandler, TableT
from spark_queue.processing.loop import Asked, ProcessResult
from spark_queue.queue_views import ReaderFacts
from spark_queue.spark import frames
from spark_queue.views import items
from spark_queue.working import Working

if TYPE_CHECKING:
    from typing_extensions import Unpack


class HandlerOptions(TypedDict, total=False):
    """How a handler of any kind is to be run by :meth:`Reader.process_stream`."""

    per: Literal["item", "batch"]
    limit: ItemsPerClaim
    max_per_group: int | None
    lease: timedelta | None
    returns: StructType | str | None
    output: str | None


class StreamOptions(TypedDict, total=False):
    """The options of :meth:`Reader.process_stream` for any kind of handler."""

    limit: ItemsPerClaim
    lease: timedelta | None
    returns: StructType | str | None
    output: str | None
    on_claim: Callable[[ProcessResult], None] | None
    trigger: timedelta | None
    name: str | None


class SparkVerbs(Working[DataFrame, StructType, Claim]):
    """What a reader does with a queue in a session, and an operator for it."""

    _claim_type = Claim
    _runner = "spark_queue.processing.worker"
    _views = items.SPARK_VIEWS

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
        trigger: timedelta | None = timedelta(seconds=10),
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
        trigger : timedelta, optional
            How often to look for items, and how long a micro-batch goes on claiming. With ``None``
            the query works off what may run, in one micro-batch (``availableNow``), and ends.
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
        asked = Asked(handler, on_claim=on_claim, **options)
        asked.check()
        streams.require_query(checkpoint, trigger, name)
        streams.require_called(self._store.spark, on_claim)
        worker.hands_for(self._store, asked)

        def process(spark: SparkSession, time_limit: timedelta | None) -> ProcessResult:
            limited = replace(asked, time_limit=time_limit)
            return worker.process(self._store.in_session(spark), limited)

        return streams.process_stream(
            self._store.spark, process, checkpoint, trigger=trigger, name=name
        )


class Reader(SparkVerbs, ReaderFacts[DataFrame, StructType]):
    """A queue as one of its readers sees it; made by :meth:`DeltaQueue.reader`.

    Its claims, its settings and its pause are its own; the items are shared.
    """

    def advance(self, step: int) -> None:
        """Say that a stream of this reader is done with all items up to a step (``_step``).

        Raises
        ------
        InvalidArgumentError
            When the reader claims, or the item log has no such step.
        OldCheckpointError
            When the reader is done with a later step: its stream goes on behind an older
            checkpoint, and what lies between may be gone from the queue.
        """
        checks.require_seq("step", step)
        self._require_streams()
        readers.advance(self._store, step)

    def stream(self) -> DataFrame:
        """Return the items as a stream (:meth:`DeltaQueue.read_stream`)."""
        self._require_streams()
        return frames.stream(self._store)

    def _require_streams(self) -> None:
        if not self._store.registered().streams:
            raise InvalidArgumentError(
                f"reader {self.reader!r} claims its items: use one that read_stream has made"
            )
