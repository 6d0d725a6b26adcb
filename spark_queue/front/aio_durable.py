"""Coroutines' front of a durable queue."""

from __future__ import annotations

import asyncio
import queue
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from spark_queue import checks
from spark_queue.config import OnDuplicate
from spark_queue.errors import RetryAfter
from spark_queue.front.consumer import Consumer, Delivery
from spark_queue.front.producer import PutResult
from spark_queue.memory.waiting.aio import outcome
from spark_queue.memory.waiting.processes import Owner
from spark_queue.memory.waiting.timer import Timeout, seconds
from spark_queue.queue import Batch, Rows
from spark_queue.results import EnqueueResult
from spark_queue.saying import Said, defer_of, nack_of, said_of
from spark_queue.wording import text_of

if TYPE_CHECKING:
    from typing_extensions import Self

#: Seconds between two looks for room: it is there after the next group is written.
_LOOK = 0.01


class DurableVerbs(Protocol):
    """The verbs of :class:`DurableQueue` that its coroutines' front calls."""

    def put(
        self,
        item: Mapping[str, Any],
        timeout: Timeout = None,
        *,
        on_duplicate: OnDuplicate | None = None,
    ) -> Future[PutResult]:
        """Add an item; wait only where too many wait to be written."""

    def enqueue(self, rows: Rows, *, batch: Batch | None = None) -> EnqueueResult[Any]:
        """Add rows in a step of their own."""

    def sync(self) -> None:
        """Return when everything that was put and settled before is durable."""

    def close(self) -> None:
        """Write waiting puts and outcomes, give unsettled items back, and end."""


@contextmanager
def settle_by_end(
    settle: Callable[[Delivery, Said], object], delivery: Delivery
) -> Iterator[Delivery]:
    """Settle an item by how a scope ends, as :meth:`DurableQueue.receive` does."""
    try:
        yield delivery
    except RetryAfter as exc:
        settle(delivery, said_of(exc))
        raise
    except Exception as exc:
        settle(delivery, Said("nack", text_of(exc)))
        raise
    except BaseException:
        settle(delivery, Said("release"))
        raise
    settle(delivery, Said("ack"))


class AioDurableQueue:
    """The coroutines' front of a :class:`DurableQueue`: the same items, threads and verbs.

    A verb returns when what it did is durable, and raises what its future would have.
    """

    def __init__(self, durable: DurableVerbs, consumer: Consumer, owner: Owner) -> None:
        self._queue = durable
        self._owner = owner
        self._consumer = consumer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def put(
        self,
        item: Mapping[str, Any],
        timeout: Timeout = None,
        *,
        on_duplicate: OnDuplicate | None = None,
    ) -> PutResult:
        """Add an item as :meth:`DurableQueue.put` does; a wait for room can be cancelled."""
        return await outcome(await self._add(item, timeout, on_duplicate))

    async def put_many(
        self, items: Sequence[Mapping[str, Any]], timeout: Timeout = None
    ) -> tuple[int, list[Future[PutResult]]]:
        """Add items as :meth:`DurableQueue.put_many` does; the futures are done."""
        checks.require_several("items", items)
        seconds("timeout", timeout)
        futures: list[Future[PutResult]] = []
        with suppress(queue.Full):
            for item in items:
                futures.append(await self._add(item, timeout))  # noqa: PERF401 - as far as it came
        for future in futures:
            # Each of them tells by itself.
            with suppress(Exception):
                await outcome(future)
        return len(futures), futures

    async def enqueue(self, rows: Rows, *, batch: Batch | None = None) -> EnqueueResult[Any]:
        """Add rows as :meth:`DurableQueue.enqueue` does."""
        return await asyncio.to_thread(self._queue.enqueue, rows, batch=batch)

    async def get(self, timeout: Timeout = None) -> Delivery:
        """Take the next item; a cancelled wait takes nothing."""
        self._owner.require()
        return await self._consumer.get_async(timeout)

    @asynccontextmanager
    async def receive(self, timeout: Timeout = None) -> AsyncIterator[Delivery]:
        """Take the next item for a scope as :meth:`DurableQueue.receive` does.

        A cancel releases the item. The outcome is on its way when the scope ends; it is durable
        when :meth:`sync` returns.
        """
        with settle_by_end(self._settle, await self.get(timeout)) as delivery:
            yield delivery

    async def ack(self, delivery: Delivery) -> None:
        """Say that an item is done; return when that is durable."""
        await outcome(self._settle(delivery, Said("ack")))

    async def nack(
        self,
        delivery: Delivery,
        error: str,
        *,
        after: float | timedelta | None = None,
        pause: bool | str = False,
    ) -> None:
        """Say that an item failed; return when that is durable."""
        await outcome(self._settle(delivery, nack_of(error, after, pause=pause)))

    async def defer(
        self,
        delivery: Delivery,
        after: float | timedelta,
        error: str | None = None,
        *,
        pause: bool | str = False,
    ) -> None:
        """Have an item wait, uncharged; return when that is durable."""
        await outcome(self._settle(delivery, defer_of(after, error, pause=pause)))

    async def release(self, delivery: Delivery) -> None:
        """Give an item back to its place, uncharged; return when that is durable."""
        await outcome(self._settle(delivery, Said("release")))

    async def dead(self, delivery: Delivery, error: str) -> None:
        """Send an item to the dead letters; return when that is durable."""
        await outcome(self._settle(delivery, Said("dead", text_of(error))))

    async def sync(self) -> None:
        """Wait as :meth:`DurableQueue.sync` does."""
        await asyncio.to_thread(self._queue.sync)

    async def close(self) -> None:
        """Close the queue as :meth:`DurableQueue.close` does."""
        await asyncio.to_thread(self._queue.close)

    def _settle(self, delivery: Delivery, said: Said) -> Future[None]:
        self._owner.require()
        return self._consumer.settle(delivery, said)

    async def _add(
        self,
        item: Mapping[str, Any],
        timeout: Timeout,
        on_duplicate: OnDuplicate | None = None,
    ) -> Future[PutResult]:
        """Return the future of an item once there was room for it."""
        patience = seconds("timeout", timeout)
        end = float("inf") if patience is None else time.monotonic() + patience
        while True:
            try:
                return self._queue.put(item, timeout=0, on_duplicate=on_duplicate)
            except queue.Full:
                if time.monotonic() >= end:
                    raise
            await asyncio.sleep(_LOOK)
