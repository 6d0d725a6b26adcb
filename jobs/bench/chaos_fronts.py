"""Fronts over a queue, for drivers that are killed: with Spark, natively, and without."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, Protocol

#: Groups of the items of a queue that has some.
GROUPS = 6


class Front(Protocol):
    """What the people of a child use."""

    def put(self, item: str) -> Future[Any]:
        """Put an item; the future says when it is durable."""
        ...

    def get(self, timeout: float) -> tuple[str, Any]:
        """Take an item, and a token for it."""
        ...

    def ack(self, token: Any) -> Future[Any]:
        """Settle an item; the future says when that is durable."""
        ...

    def close(self) -> None:
        """End."""
        ...


class Journaled:
    """A front of the journaled queue."""

    native = False

    def __init__(self, spark: Any, place: str) -> None:
        from spark_queue.journal import QueueOptions  # noqa: PLC0415 - after the fork

        options = QueueOptions(interval=0.2, max_memory_items=200, max_pending=2_000)
        self._queue = self.opened(spark, f"{place}/queue", options)
        self._reader = self._queue.reader("reader")
        self._acks: queue.Queue[Future[None]] = queue.Queue()
        threading.Thread(target=self._sync, daemon=True).start()

    def opened(self, spark: Any, path: str, options: Any) -> Any:
        """Open the front."""
        from spark_queue.front.journaled import journaled_queue  # noqa: PLC0415

        return journaled_queue(spark, path, "item string", options=options, native=self.native)

    def put(self, item: str) -> Future[Any]:
        """Put an item."""
        future: Future[Any] = self._queue.put(item)
        return future

    def get(self, timeout: float) -> tuple[str, Any]:
        """Take an item."""
        read = self._reader.get(timeout=timeout)
        return str(read.item), read

    def ack(self, token: Any) -> Future[Any]:
        """Settle an item, and have that told when it is durable."""
        self._reader.ack(token)
        future: Future[None] = Future()
        self._acks.put(future)
        return future

    def close(self) -> None:
        """End."""
        self._queue.close()

    def _sync(self) -> None:
        """Tell acks when they are durable, many at a time."""
        while True:
            futures = [self._acks.get()]
            while not self._acks.empty():
                futures.append(self._acks.get_nowait())
            self._queue.sync()
            for future in futures:
                future.set_result(None)


class Native(Journaled):
    """The same, whose steps are written without Spark."""

    native = True


class JournaledAlone(Journaled):
    """The same without Spark."""

    def opened(self, spark: Any, path: str, options: Any) -> Any:
        """Open the front."""
        from spark_queue.front.journaled import journaled_queue  # noqa: PLC0415

        del spark
        return journaled_queue(_alone(path, "item string", {}), options=options)


class Durable:
    """A front of a queue that is distinct, and serial for each group."""

    def __init__(self, spark: Any, place: str) -> None:
        from spark_queue.front.durable import DurableQueue, FrontOptions  # noqa: PLC0415

        made = self.opened(spark, f"{place}/queue")
        often = FrontOptions(poll_every=timedelta(milliseconds=100), max_pending=2_000)
        self._queue = DurableQueue(made, options=often)

    def opened(self, spark: Any, path: str) -> Any:
        """Open the queue, or make it."""
        from spark_queue import DeltaQueue, QueueConfig  # noqa: PLC0415 - after the fork

        if DeltaQueue.exists(spark, path):
            return DeltaQueue.open(spark, path)
        return DeltaQueue.create(spark, path, _GROUPED, QueueConfig(**_DISTINCT))

    def put(self, item: str) -> Future[Any]:
        """Put an item."""
        return self._queue.put({"item": item, "grp": group_of(item)})

    def get(self, timeout: float) -> tuple[str, Any]:
        """Take an item."""
        delivery = self._queue.get(timeout)
        return str(delivery.item["item"]), delivery

    def ack(self, token: Any) -> Future[Any]:
        """Settle an item."""
        return self._queue.ack(token)

    def close(self) -> None:
        """End."""
        self._queue.close()


class DurableAlone(Durable):
    """The same without Spark."""

    def opened(self, spark: Any, path: str) -> Any:
        """Open the queue, or make it."""
        del spark
        return _alone(path, _GROUPED, _DISTINCT)


#: The columns of an item that has a group, and the queue of such items.
_GROUPED = "item string, grp string"
_DISTINCT: dict[str, Any] = {"dedup_key": "item", "group_key": "grp", "max_losses": None}


def _alone(path: str, schema: str, config: dict[str, Any]) -> Any:
    """Open a queue without Spark, or make it."""
    from spark_queue import LocalQueue, QueueConfig, QueueNotFoundError  # noqa: PLC0415

    try:
        return LocalQueue.open(path)
    except QueueNotFoundError:
        return LocalQueue.create(path, schema, QueueConfig(**config))


KINDS: dict[str, Callable[[Any, str], Front]] = {
    "journaled": Journaled,
    "native": Native,
    "durable": Durable,
    "journaled-alone": JournaledAlone,
    "durable-alone": DurableAlone,
}


def group_of(item: str) -> str:
    """Return the group of an item: one for each producer and a few more."""
    producer, number = item.rsplit("/", 1)
    return f"{producer}/{int(number) % GROUPS}"
