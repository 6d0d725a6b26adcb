"""Claims and workers of a queue without Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NoReturn, overload

import pyarrow as pa

from spark_queue import checks
from spark_queue.claim import Claim
from spark_queue.delta.arrow import claim_items
from spark_queue.delta.replica.request import GrantedClaim
from spark_queue.delta.store.store import Store
from spark_queue.delta.tables.schema import TRACE
from spark_queue.delta.views import arrow_views
from spark_queue.delta.views.ends import AsOf
from spark_queue.errors import SparkNeededError
from spark_queue.operating import Claimable, Operating
from spark_queue.results import QueueStats

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from spark_queue.doctor.finding import Checkup, Thresholds
    from spark_queue.processing.calling import AnyHandler, BatchHandler, ItemHandler, TableT
    from spark_queue.processing.crew import Using
    from spark_queue.processing.local_processing import LocalOptions
    from spark_queue.processing.loop import ProcessResult


class LocalClaim(Claim):
    """Items that this holder, and nobody else, may work on until its lease ends.

    As a context manager, and in all that settles, it is a :class:`~spark_queue.Claim`; only its
    items are rows of this process.
    """

    def __init__(self, store: Store, granted: GrantedClaim) -> None:
        super().__init__(store, granted)
        self._table: pa.Table | None = None
        self._traces: Mapping[int, str] = {}

    @property
    def table(self) -> pa.Table:
        """The claimed items: the user's columns, ``_seq``, ``_lease`` and ``_attempts``.

        They are in the order of service, read once, when they are first asked for.
        """
        if self._table is None:
            self._table = self._read()
        return self._table

    @property
    def traces(self) -> Mapping[int, str]:
        """The traces that items belong to, by ``_seq``, as :attr:`Claim.traces`."""
        _ = self.table  # They are read together.
        return self._traces

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The same, each as a dictionary."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def _read(self) -> pa.Table:
        grant = claim_items.grant_of(self._store, self.lease)
        found = claim_items.items_of(self._store, grant)
        if found is None or found.num_rows < self.count:
            why = "they were purged, or lie in files that only Spark reads"
            raise SparkNeededError(f"to read the items of claim {self.id!r}", why)
        if TRACE in found.column_names:
            named = zip(found["_seq"].to_pylist(), found[TRACE].to_pylist(), strict=True)
            self._traces = {seq: trace for seq, trace in named if trace is not None}
        return claim_items.in_order(found, grant)

    @staticmethod
    def _by_spark(module: str) -> NoReturn:
        del module
        why = "here its items are rows, and settle_each says what became of some"
        raise SparkNeededError("a frame of a claim", why)


class Operated(Operating, Claimable[LocalClaim]):
    """A queue in the hands of an operator."""

    _claim_type = LocalClaim

    def stats(self, as_of: AsOf = None) -> QueueStats:
        """Count the items per state and per fair key; ``as_of`` as for ``status``."""
        return arrow_views.stats(self._store, self._ends(as_of))

    def doctor(self, limits: Thresholds | None = None) -> Checkup:
        """Say what is wrong with the queue, since when, how bad it is, and what mends it.

        Parameters
        ----------
        limits : Thresholds, optional
            From where on something is worth a word.
        """
        from spark_queue.doctor.examine import examine  # noqa: PLC0415 - takes a while

        return examine(self._main, limits)


class Worked(Operated):
    """A queue in the hands of a worker, and of an operator."""

    @overload
    def process(
        self,
        handler: ItemHandler,
        *,
        per: Literal["item"] = "item",
        max_per_group: int | None = None,
        **options: Unpack[LocalOptions],
    ) -> ProcessResult: ...

    @overload
    def process(
        self,
        handler: BatchHandler[TableT],
        *,
        per: Literal["batch"],
        **options: Unpack[LocalOptions],
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
        returns: str | pa.Schema | None = None,
        output: str | None = None,
        max_workers: int = 1,
        using: Using = "threads",
        time_limit: timedelta | None = None,
        stop: threading.Event | None = None,
        on_claim: Callable[[ProcessResult], None] | None = None,
        forever: bool = False,
    ) -> ProcessResult:
        """Claim items, run a handler for them in this process, settle them, and so on.

        Parameters
        ----------
        handler : callable
            With ``per="item"`` it gets one item as a dict (the user's columns, ``_seq``,
            ``_lease``, ``_attempts``); with ``per="batch"`` a ``pyarrow.Table`` of them. What it
            raises fails the item, or all items of the batch; ``raise Reject(...)`` sends it to the
            dead letters at once. It runs once for a lease.
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
        returns : str or pyarrow.Schema, optional
            The columns of what the handler returns, as DDL or as Arrow has them: a dict for an
            item, or a table with ``_seq``. An item whose result has other columns, or values of
            other types, has failed.
        output : str, optional
            The path of a Delta table that gets the returned rows, with ``_seq`` and ``_claim_id``;
            made where there is none. Each item's row is there exactly once, through any crash.
        max_workers : int
            How many items, or tables, are worked on at the same time. A group is always in the
            hands of one worker, in order.
        using : "threads" or "processes"
            What the workers are. A thread shares the memory of this process, and its death: an item
            that ends the process is charged a loss by the next claim. Processes are children
            that begin as copies of this one, new for each claim: nothing need pickle, what they
            change in memory is gone with them, and an item that ends one is charged a loss at once,
            up to ``max_losses``, while the others go on.
        time_limit : timedelta, optional
            No further claim after this long.
        stop : threading.Event, optional
            No further claim once it is set. On the main thread SIGTERM and SIGINT also end what is
            being worked on: children are killed, threads finish the item that they are at, what is
            done is settled, and the rest goes back uncharged. Then SIGTERM ends the program with
            code 143 (``SystemExit``), unless it has a handler of its own.
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
            When an option is out of its range, ``output`` is given without ``returns``, or
            ``max_per_group`` is above 1 for batches.
        SchemaMismatchError
            When the output is there, and has not the columns of ``returns``.
        SparkNeededError
            When only Spark writes to the output: it is in a catalog or on a shared store, is
            partitioned, or has CHECK constraints or other features of Delta's. Nothing was claimed.
        """
        from spark_queue.processing import local_processing  # noqa: PLC0415 - takes a while

        asked = local_processing.LocalAsked(
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
        )
        asked.check(on_claim)
        checks.require_end(time_limit, stop)
        checks.require_flag("forever", forever)
        if self._store.handle.around is not None:
            asked = replace(asked, handler=self._store.handle.around(handler))
        return local_processing.process(
            self._store,
            asked,
            time_limit=time_limit,
            stop=stop,
            on_claim=on_claim,
            forever=forever,
        )
