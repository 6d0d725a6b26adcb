"""Queues that can be waited for, each used in the same words: by threads and by coroutines."""

from __future__ import annotations

import queue as stdlib
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from spark_queue.errors import QueueShutDownError
from spark_queue.inprocess import BlockingQueue, DistinctQueue, FairQueue
from spark_queue.journal import JournaledQueue, MemoryJournal, QueueOptions
from spark_queue.memory.waiting.timer import ManualTimer


@dataclass
class Waited:
    """A queue of texts without a limit, on a standing clock; who takes an item is done with it."""

    timer: ManualTimer
    line: Any
    """Those who wait, in their order."""
    put: Callable[[str], object]
    get: Callable[[Any], str]
    aio_get: Callable[[Any], Coroutine[Any, Any, str]]
    close: Callable[[], object]
    ended: type[Exception] = QueueShutDownError
    """What a wait ends with at the close."""
    vain: tuple[str, str] = (r"no (item|element) came .* at most 5 s", "there is no .* now")
    """What is said after five seconds in vain, and where nothing is and nobody waits."""
    sleep: str = "spark_queue.memory.waiting.tickets.ThreadTicket.wait"
    """What a thread that waits is in."""
    held: Callable[[], int] = field(default=lambda: 0)
    """How many items are with a taker who is not done."""

    @property
    def waiter_count(self) -> int:
        """How many wait."""
        return len(getattr(self.line, "tickets", self.line))

    def left(self) -> list[str]:
        """Take everything that is there; nobody holds anything."""
        assert (self.held(), self.waiter_count) == (0, 0)
        items: list[str] = []
        with suppress(stdlib.Empty):
            while True:
                items.append(self.get(0))
        return items


def blocking() -> Waited:
    """Make a blocking queue, at which threads wait for futures."""
    timer = ManualTimer()
    made: BlockingQueue[str] = BlockingQueue(timer=timer)
    future = "spark_queue.memory.waiting.waiters.LineFuture.result"
    return Waited(
        *(timer, made._waiters, made.put, made.get, made.aio.get, made.close),
        ended=stdlib.Empty,
        sleep=future,
    )


def fair() -> Waited:
    """Make a fair queue, of which each item has a key of its own and is to be done."""
    timer = ManualTimer()
    made: FairQueue[str] = FairQueue(str, None, timer=timer)

    def done(item: str) -> str:
        made.task_done()
        return item

    async def aio_get(timeout: Any) -> str:
        return done(await made.aio.get(timeout=timeout))

    return Waited(
        *(timer, made._state.takers, made.put),
        lambda timeout: done(made.get(timeout=timeout)),
        *(aio_get, made.shutdown),
        held=lambda: made.unfinished_tasks - made.qsize(),
    )


def distinct(most: int = 1) -> Waited:
    """Make a distinct queue, of which one element is taken at a time."""
    timer = ManualTimer()
    made: DistinctQueue[str] = DistinctQueue(timer=timer)

    def get(timeout: Any) -> str:
        with made.take(most, timeout) as items:
            return _first(items)

    async def aio_get(timeout: Any) -> str:
        async with made.aio.take(most, timeout) as items:
            return _first(items)

    def _first(items: Any) -> str:
        for later in items[1:]:
            items.release(later)
        return str(items[0])

    def held() -> int:
        assert all(made.facts(item).failures == 0 for item in made.queued)
        return len(made.in_progress)

    put: Callable[[str], object] = made.add if most == 1 else lambda item: made.add_all([item])
    return Waited(timer, made._state.takers, put, get, aio_get, made.shutdown, held=held)


def distinct_by_several() -> Waited:
    """Make a distinct queue that is filled and emptied by several elements at once."""
    return distinct(2)


def journaled() -> Waited:
    """Make a journaled queue with one reader, over a journal in memory."""
    timer = ManualTimer()
    options = QueueOptions(durability="memory")
    made: JournaledQueue[str] = JournaledQueue(MemoryJournal(), options=options, timer=timer)
    reader = made.reader()

    def acked(read: Any) -> str:
        assert reader.ack(read)
        return str(read.item)

    async def aio_get(timeout: Any) -> str:
        return acked(await reader.aio.get(timeout))

    return Waited(
        *(timer, reader._state.waiters, made.put),
        lambda timeout: acked(reader.get(timeout)),
        *(aio_get, lambda: made.close(drain=False)),
        vain=("had no item in time", "had no item in time"),
        held=lambda: reader.open_items,
    )
