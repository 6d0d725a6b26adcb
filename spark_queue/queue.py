"""Durable queue on two Delta tables, with Spark and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias

from spark_queue import tracing
from spark_queue.commands import enqueue
from spark_queue.commands.batches import SourceBatch, read_batch
from spark_queue.commands.enqueue import Enqueued
from spark_queue.looking import FrameT, SchemaT
from spark_queue.opened import ReaderRegistry, ReaderT
from spark_queue.operating import ClaimT, Maintaining
from spark_queue.results import EnqueueResult
from spark_queue.state.request import EnqueueRules, OnDuplicate, OnFull, OnMismatch
from spark_queue.tracing import Trace, Traces
from spark_queue.upkeep import clones
from spark_queue.working import Working

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from typing_extensions import Self

#: Rows to enqueue: a frame; without Spark also one or many dictionaries.
Rows: TypeAlias = (
    "DataFrame | pd.DataFrame | pa.Table | Mapping[str, Any] | Sequence[Mapping[str, Any]]"
)

#: A batch that is enqueued once: its source, and its number there.
Batch: TypeAlias = "tuple[str, int]"

#: Columns by which rows enter; Spark also takes expressions.
Order: TypeAlias = "str | Column | Sequence[str | Column] | None"


class Queue(
    Working[FrameT, SchemaT, ClaimT],
    Maintaining,
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
        on_duplicate: OnDuplicate = "skip",
        on_full: OnFull = "raise",
        trace: Trace | Sequence[Trace | None] | None = None,
        batch: Batch | None = None,
        on_mismatch: OnMismatch = "warn",
    ) -> EnqueueResult[FrameT]:
        """Add rows, all in one step.

        Parameters
        ----------
        rows : DataFrame, pandas.DataFrame, pyarrow.Table, dict or list of dict
            The queue's columns, of its types or of such as have no value that those have not (an
            ``int`` for a ``bigint``). A ``DataFrame`` needs a session, dictionaries a queue without
            one. Four columns more may come with them: ``available_at`` (timestamp:
            not claimed before), ``expires_at`` (timestamp: not claimed from then on), ``cost`` (a
            number above 0, 1 by default: how much of its key's turn the item takes) and
            ``max_attempts`` (a whole number: the item is dead after so many failures, and the
            queue's own setting does not count).
        order_by : str, Column or list of them, optional
            The order in which rows enter; their own order by default. Without Spark it has names
            of columns alone.
        on_duplicate : "skip" or "raise"
            What to do with rows whose key is taken: refuse them and say so, or refuse all.
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
        rules = EnqueueRules(on_duplicate=on_duplicate, on_full=on_full, on_mismatch=on_mismatch)
        main, views = self._main, self._views
        traces, marked = tracing.stored_traces(trace), read_batch(batch)
        done = self._enter(rows, order_by, rules, traces, marked)
        return EnqueueResult(
            step=done.step,
            inserted=done.inserted,
            duplicates=done.duplicates,
            refused=done.refused,
            repeated=done.repeated,
            read_told=lambda: enqueue.outcome_of_rows(done),
            read_outcomes=lambda: views.read_outcomes(main, done),
        )

    def clone(self, path: str | Path) -> Self:
        """Make a queue with all that this one has, to try workers, weights and limits on it.

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
        return type(self)(clones.clone(self._main, self._place_of(path)))

    def _enter(
        self,
        rows: object,
        order_by: Order,
        rules: EnqueueRules,
        trace: Traces,
        batch: SourceBatch | None,
    ) -> Enqueued:
        """Check rows, and enqueue them."""
        raise NotImplementedError

    def _place_of(self, path: str | Path) -> str:
        """Return the place of a queue that a caller names."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"
