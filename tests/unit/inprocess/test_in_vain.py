"""Texts of the errors of who waits in vain."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any

import pytest

from spark_queue.inprocess import BlockingQueue, DistinctQueue, FairQueue


def _taken(timeout: float) -> None:
    with DistinctQueue[int]().take(1, timeout):
        pass


async def _taken_by_a_coroutine(timeout: float) -> None:
    async with DistinctQueue[int]().aio.take(1, timeout):
        pass


#: What waits for something in a queue that stays empty, so many seconds at most.
WAITS: dict[str, Callable[[float], Any]] = {
    "blocking": lambda timeout: BlockingQueue[int]().get(timeout),
    "blocking, a coroutine": lambda timeout: asyncio.run(BlockingQueue[int]().aio.get(timeout)),
    "distinct": _taken,
    "distinct, a coroutine": lambda timeout: asyncio.run(_taken_by_a_coroutine(timeout)),
    "fair": lambda timeout: FairQueue[int](key=type).get(timeout=timeout),
    "fair, a coroutine": lambda timeout: asyncio.run(FairQueue[int](key=type).aio.get(timeout)),
}


@pytest.mark.parametrize("wait", WAITS)
def test_the_error_says_what_did_not_come_and_how_long_it_was_waited_for(wait: str) -> None:
    """With a time-out, and without a wait."""
    with pytest.raises(queue.Empty, match=r"no (item|element) came .* at most 0\.01 s"):
        WAITS[wait](0.01)
    with pytest.raises(queue.Empty, match=r"there is no (item|element) now"):
        WAITS[wait](0)


def test_a_wait_that_others_end_and_a_refusal_have_a_text() -> None:
    """An eviction has no time to name, and a predicate refuses an item that is there."""
    blocking = BlockingQueue[str]()
    timer = threading.Timer(0.01, blocking.evict_waiters)
    waiting = blocking.get_future()
    timer.start()
    with pytest.raises(queue.Empty, match=r"no item came before the end of the wait$"):
        waiting.result(10)
    with pytest.raises(queue.Empty, match="there is no item now"):
        blocking.poll()
    blocking.put("odd")
    with pytest.raises(queue.Empty, match="refused by the predicate: 'odd'"):
        blocking.poll_if(lambda _: False)
