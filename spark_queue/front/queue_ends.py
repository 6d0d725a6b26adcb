"""Needs of a front of its queue, with Spark or without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import Any, Protocol

from spark_queue.claim import Claim, LocalClaim
from spark_queue.clock import Clock
from spark_queue.commands import enqueue, recovery, settle
from spark_queue.commands.rows import check_rows, outcome_of_rows
from spark_queue.errors import InvalidArgumentError, SparkNeededError
from spark_queue.flow import is_paced
from spark_queue.local_queue import LocalQueue, LocalVerbs
from spark_queue.log.schema import TRACE
from spark_queue.overriding import override
from spark_queue.queue_views import store_of
from spark_queue.state import step_waits
from spark_queue.state.request import EnqueueRules
from spark_queue.state.settle_decision import Every
from spark_queue.state.snapshot import Snapshot
from spark_queue.state.step_waits import Look
from spark_queue.state.store import Store
from spark_queue.wording import shorten

#: Seq, outcome and holder of the key of a row that was put.
Told = tuple[int, str, int | None, str | None]


def require_open(what: str, queue: object) -> None:
    """Raise where a front is to be made of the place of a queue.

    Raises
    ------
    InvalidArgumentError
        It says how the queue is opened.
    """
    if isinstance(queue, str | PathLike):
        raise InvalidArgumentError(
            f"{what} is {shorten(queue)}, and must be an open queue: spark_queue.open(path) opens "
            "it without Spark, and DeltaQueue.open(spark, path), which needs "
            "pip install 'spark-queue[spark]', with it"
        )


class Inlet(Protocol):
    """Where a front puts items."""

    def misfits(self, items: Sequence[Any]) -> list[Exception | None]:
        """Return for each item why the queue cannot hold it; ``None`` where it can."""

    def enqueue(
        self,
        items: Sequence[Mapping[str, Any]],
        traces: Sequence[str | None],
        rules: EnqueueRules,
    ) -> Iterable[Told]:
        """Add items, in order, in one step, each in its trace; return what became of each."""


class Outlet(ABC):
    """Where a front takes items, and says what became of them.

    Parameters
    ----------
    store : Store
        The queue, as one of its readers sees it.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = store.name
        self.clock: Clock = store.clock

    @abstractmethod
    def claim(self, limit: int, lease: timedelta | None) -> Claim:
        """Lease the next items in the name of this process."""

    @abstractmethod
    def rows(self, claim: Claim) -> Iterable[Mapping[str, Any]]:
        """Return the items of a claim, in the order of service.

        Each has the user's columns, ``_seq``, ``_lease`` and ``_attempts``.
        """

    def release_unbegun(self, claim: Claim) -> object:
        """Release the items of a claim of which none has begun."""
        return settle.settle(self.store, claim.lease, Every("release", is_begun=False))

    def recover(self) -> object:
        """Settle the claims of processes that have ended."""
        return recovery.recover(self.store)

    def look(self) -> Look:
        """Begin to look at the queue."""
        return step_waits.look_at(self.store)

    # rule again: calls at a rate
    def is_paced(self) -> bool:
        """Whether a claim of the queue counts as a start."""
        known = self.store.position()
        head = known.status.head or self.store.status_head()
        return is_paced(self.store.settings(head, known).config)

    def rest(self, most: float) -> float:
        """Return the seconds, so many at most, until time alone may bring an item."""
        return step_waits.rest(self.store, most)


class LocalInlet(Inlet):
    """Inlet of a queue that was opened without Spark.

    Parameters
    ----------
    into : LocalQueue
        The queue.
    """

    def __init__(self, into: LocalQueue) -> None:
        self._store = store_of(into)

    @override
    def misfits(self, items: Sequence[Any]) -> list[Exception | None]:
        if self._misfit(items) is None:
            return [None] * len(items)
        return [self._misfit([item]) for item in items]

    @override
    def enqueue(
        self,
        items: Sequence[Mapping[str, Any]],
        traces: Sequence[str | None],
        rules: EnqueueRules,
    ) -> Iterable[Told]:
        frame = check_rows(self._store, list(items)).with_trace(traces if any(traces) else None)
        done = enqueue.commit(Snapshot(self._store), frame, rules)
        return outcome_of_rows(done)

    def _misfit(self, items: Sequence[Any]) -> Exception | None:
        try:
            check_rows(self._store, list(items))
        except SparkNeededError:
            raise
        except Exception as exc:  # noqa: BLE001 - an item's own code may raise anything
            return exc
        return None


class LocalOutlet(Outlet):
    """Outlet of a queue that was opened without Spark.

    Parameters
    ----------
    source : LocalVerbs
        The queue, as one of its readers sees it.
    """

    def __init__(self, source: LocalVerbs) -> None:
        super().__init__(store_of(source))
        self._source = source

    @override
    def claim(self, limit: int, lease: timedelta | None) -> Claim:
        return self._source.claim(limit, lease=lease)

    @override
    def rows(self, claim: Claim) -> Iterable[Mapping[str, Any]]:
        if not isinstance(claim, LocalClaim):
            return ()
        traces = claim.traces
        rows = claim.rows
        return [{**row, TRACE: traces.get(row["_seq"])} for row in rows] if traces else rows
