"""Every queue in memory as two ends, so that one measurement fits all of them."""

from __future__ import annotations

import operator
import queue
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from spark_queue.config import QueueConfig
from spark_queue.inprocess import BlockingQueue, DistinctQueue, FairQueue
from spark_queue.rules.rule_model import Ack, NewItem
from spark_queue.rules.scheduler import Scheduler


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a queue, whatever they are called."""

    put: Callable[[Any], object]
    get: Callable[[], Any]
    take: Callable[[int], AbstractContextManager[Any]] | None = None
    """Where items are taken in a scope: makes it. It spares the loops below a call by ``get``."""


def standard(limit: int | None = None) -> Ends:
    """Make the standard library's queue, which the others are held against."""
    line: queue.Queue[Any] = queue.Queue(limit or 0)
    return Ends(line.put, line.get)


def fair(limit: int | None = None) -> Ends:
    """Make a fair queue whose key is the first part of an item."""
    line: FairQueue[Any] = FairQueue(operator.itemgetter(0), limit)
    return Ends(line.put, line.get)


def blocking(limit: int | None = None) -> Ends:
    """Make a blocking queue."""
    line: BlockingQueue[Any] = BlockingQueue(limit)
    return Ends(line.put, line.get)


def distinct() -> Ends:
    """Make a distinct queue; an item is taken, and done with the end of its scope."""
    line: DistinctQueue[Any] = DistinctQueue()

    def get() -> Any:
        with line.take(1) as taken:
            return taken[0]

    return Ends(line.add, get, line.take)


def scheduler() -> Ends:
    """Make a scheduler; an item is admitted, claimed and acknowledged."""
    rules = Scheduler(QueueConfig(fair_key="key"), keep_finished=False)

    def put(item: Any) -> None:
        rules.admit([NewItem(payload=item, fair_key=item[0])], 0.0)

    def get() -> Any:
        grant = rules.claim(0.0, 1)
        (item,) = grant.items
        rules.settle(grant.lease, {item.seq: Ack()}, 0.0)
        return item.payload

    return Ends(put, get)


def items(count: int, keys: int) -> list[tuple[int, int]]:
    """Make items that all differ, over so many keys in turn."""
    return [(number % keys, number) for number in range(count)]


def fill(ends: Ends, work: list[Any]) -> None:
    """Put all items."""
    put = ends.put
    for item in work:
        put(item)


def drain(ends: Ends, count: int) -> None:
    """Get so many items."""
    get, take = ends.get, ends.take
    if take is None:
        for _ in range(count):
            get()
        return
    for _ in range(count):
        with take(1):
            pass


def fill_and_drain(ends: Ends, work: list[Any]) -> None:
    """Put all items, then get as many."""
    fill(ends, work)
    drain(ends, len(work))


def put_then_get(ends: Ends, work: list[Any]) -> None:
    """Put each item into the empty queue and get it at once."""
    put, get, take = ends.put, ends.get, ends.take
    if take is None:
        for item in work:
            put(item)
            get()
        return
    for item in work:
        put(item)
        with take(1):
            pass


def churn(ends: Ends, count: int) -> None:
    """Get an item and put it again, so often; the queue stays as deep as it is."""
    put, get = ends.put, ends.get
    for _ in range(count):
        put(get())
