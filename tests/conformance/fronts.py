"""The durable front as an engine of the conformance suite: single items, in and out."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from datetime import timedelta

from pyspark.sql import SparkSession

from spark_queue.config import QueueConfig
from spark_queue.errors import LeaseLostError
from spark_queue.front.consumer import Delivery
from spark_queue.front.durable import DurableQueue, FrontOptions
from tests.conformance.engines import (
    EVERYTHING,
    Capability,
    DeltaEngine,
    QueueEngine,
    Row,
)
from tests.conformance.local import LocalEngine

#: A front claims one by one, so that what is next is chosen when it is asked for.
_ON_DEMAND = FrontOptions(prefetch=1, poll_every=timedelta(seconds=5))


class FrontVerbs(QueueEngine):
    """Verbs of an engine by a front; what an operator does is done to its queue."""

    front: DurableQueue

    def enqueue(self, rows: Sequence[Row]) -> list[str | None]:
        """Put rows one by one."""
        futures = [self.front.put(self._item(row)) for row in rows]
        results = [future.result() for future in futures]
        self.ids |= {result.seq: row.id for result, row in zip(results, rows, strict=True)}
        return [
            None if result.duplicate_of is None else self.ids[result.duplicate_of]
            for result in results
        ]

    def _item(self, row: Row) -> dict[str, object]:
        times = ("available_at", "expires_at")
        given = self.values(row).items()
        return {name: value for name, value in given if value is not None or name not in times}

    def claim(self, limit: int, *, run: int = 1, lease: float | None = None) -> FrontHeld:
        """Take so many items, one by one, or what there is."""
        assert run == 1
        assert lease is None
        taken: list[Delivery] = []
        try:
            while len(taken) < limit:
                taken.append(self.front.get(timeout=0))
        except queue.Empty:
            pass
        return FrontHeld(self, taken)


class FrontEngine(FrontVerbs, DeltaEngine):
    """A front of a queue with Spark."""

    # One claim for each item: what is shown by a few scenarios is enough for that price.
    capabilities: frozenset[Capability] = frozenset({"limits", "retries"})

    def __init__(self, spark: SparkSession, path: str, config: QueueConfig) -> None:
        super().__init__(spark, path, config)
        self.front = DurableQueue(self.queue, options=_ON_DEMAND)


class LocalFrontEngine(FrontVerbs, LocalEngine):
    """A front of a queue without Spark: it plays all that a front has a verb for."""

    capabilities: frozenset[Capability] = EVERYTHING - {
        "columns",
        "disk",
        "leases",
        "replacing",
        "runs",
        "views",
    }

    def __init__(self, path: str, config: QueueConfig) -> None:
        super().__init__(path, config)
        self.front = DurableQueue(self.queue, options=_ON_DEMAND)


class FrontHeld:
    """Deliveries of a front."""

    def __init__(self, engine: FrontVerbs, taken: Sequence[Delivery]) -> None:
        self._engine = engine
        self._left = {engine.ids[delivery.seq]: delivery for delivery in taken}
        self.ids = list(self._left)

    def settle(
        self,
        verb: str,
        ids: Iterable[str] | None = None,
        error: str | None = None,
        after: float | None = None,
        *,
        pause: bool = False,
    ) -> None:
        """Settle items, all that are left by default."""
        front = self._engine.front
        told = list(self._left) if ids is None else list(ids)
        deliveries = [self._left.pop(name) for name in told]
        why = error or "failed"
        calls: dict[str, Callable[[Delivery], Future[None]]] = {
            "ack": front.ack,
            "release": front.release,
            "nack": lambda delivery: front.nack(delivery, why, after=after),
            "defer": lambda delivery: front.defer(delivery, after or 0.0, why, pause=pause),
            "dead": lambda delivery: front.dead(delivery, why),
        }
        futures = [calls[verb](delivery) for delivery in deliveries]
        wait(futures)
        lost = [
            delivery.seq
            for delivery, future in zip(deliveries, futures, strict=True)
            if isinstance(future.exception(), LeaseLostError)
        ]
        if lost:
            raise LeaseLostError(lost)

    def renew(self, seconds: float) -> None:
        """Do nothing: a front renews by itself."""
