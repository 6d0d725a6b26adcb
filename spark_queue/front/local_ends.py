"""A front over a queue on this machine's disk, in a process without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from spark_queue.claim import Claim
from spark_queue.delta.commands import enqueue, recovery
from spark_queue.delta.commands.rows import check_rows
from spark_queue.delta.replica.request import EnqueueRules
from spark_queue.delta.store.snapshot import Snapshot
from spark_queue.delta.tables.schema import TRACE
from spark_queue.errors import SparkNeededError
from spark_queue.front.queue_ends import Inlet, Outlet, Told, Watched
from spark_queue.local.handles import store_of
from spark_queue.local.local_claim import LocalClaim
from spark_queue.local.local_queue import LocalQueue

#: What is full takes what fits, as of a queue with Spark; without it a limit is refused.
_RULES = EnqueueRules(on_full="partial")


class LocalInlet:
    """See :class:`~spark_queue.front.queue_ends.Inlet`.

    Parameters
    ----------
    into : LocalQueue
        The queue.
    """

    def __init__(self, into: LocalQueue) -> None:
        self._store = store_of(into)

    def misfits(self, items: Sequence[Any]) -> list[Exception | None]:
        """See :class:`~spark_queue.front.queue_ends.Inlet`: one by one if some do not fit."""
        if self._misfit(items) is None:
            return [None] * len(items)
        return [self._misfit([item]) for item in items]

    def enqueue(
        self, items: Sequence[Mapping[str, Any]], traces: Sequence[str | None]
    ) -> Iterable[Told]:
        """See :class:`~spark_queue.front.queue_ends.Inlet`."""
        frame = check_rows(self._store, list(items)).traced(traces if any(traces) else None)
        done = enqueue.entered(Snapshot(self._store), frame, _RULES)
        return enqueue.told(done)

    def _misfit(self, items: Sequence[Any]) -> Exception | None:
        try:
            check_rows(self._store, list(items))
        except SparkNeededError:
            raise
        except Exception as exc:  # noqa: BLE001 - an item's own code may raise anything
            return exc
        return None


class LocalOutlet(Watched):
    """See :class:`~spark_queue.front.queue_ends.Outlet`.

    Parameters
    ----------
    source : LocalQueue
        The queue, as one of its readers sees it.
    """

    def __init__(self, source: LocalQueue) -> None:
        super().__init__(store_of(source))
        self._source = source

    def recover(self) -> object:
        """See :class:`~spark_queue.front.queue_ends.Outlet`."""
        return recovery.recover(self.store)

    def claim(self, limit: int, lease: timedelta | None) -> Claim:
        """See :class:`~spark_queue.front.queue_ends.Outlet`."""
        return self._source.claim(limit, lease=lease)

    def rows(self, claim: Claim) -> Iterable[Mapping[str, Any]]:
        """See :class:`~spark_queue.front.queue_ends.Outlet`."""
        if not isinstance(claim, LocalClaim):
            return ()
        traces = claim.traces
        rows = claim.rows
        return [{**row, TRACE: traces.get(row["_seq"])} for row in rows] if traces else rows


def ends(into: LocalQueue, source: LocalQueue) -> tuple[Inlet, Outlet]:
    """Return where a front puts items into a queue, and takes them by one of its readers."""
    return LocalInlet(into), LocalOutlet(source)
