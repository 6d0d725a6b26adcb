"""The journaled queue for coroutines."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from spark_queue.errors import InvalidArgumentError, QueueFullError
from spark_queue.journal import JournaledQueue, MemoryJournal, QueueOptions
from spark_queue.reader_config import ReaderConfig
from tests.unit.journal.stage import Gate, Stage, drain


async def test_put_and_get() -> None:
    """Coroutines wait for durability, and for items."""
    queue: JournaledQueue[str] = JournaledQueue(MemoryJournal())
    reader = await queue.aio.reader("r")
    taker = asyncio.create_task(reader.aio.get())
    await asyncio.sleep(0)
    assert await queue.aio.put("a") == 1
    assert (await taker).item == "a"
    await queue.aio.put("b")
    assert (await reader.aio.get(peek=True)).item == "b"
    await queue.aio.sync()
    await queue.aio.checkpoint()
    await queue.aio.reader("other")
    await queue.aio.drop_reader("other")
    assert queue.readers() == ["r"]
    await queue.aio.close()


async def test_waiting_for_room(stage: Stage) -> None:
    """A coroutine waits for room without blocking its loop; a cancelled one puts nothing."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions(durability="memory", max_pending=1))
    gate = Gate(journal, "commit")
    await queue.aio.put("1")
    with pytest.raises(QueueFullError):
        await queue.aio.put("no room", timeout=0)
    waits = asyncio.create_task(queue.aio.put("2"))
    cancelled = asyncio.create_task(queue.aio.put("3"))
    await asyncio.sleep(0)
    assert len(queue._state.puts.producers.tickets) == 2
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    gate.open()
    assert await waits == 2
    assert drain(queue.reader()) == ["1", "2"]


async def test_several_items_and_scopes() -> None:
    """Coroutines put and get several at once, and open one in a scope that settles it."""
    queue: JournaledQueue[str] = JournaledQueue(MemoryJournal())
    assert await queue.aio.put_many(["a", "b", "c"]) == (3, [1, 2, 3])
    reader = queue.reader()
    assert [read.item for read in await reader.aio.get_many(2)] == ["a", "b"]
    assert await reader.aio.get_many(1, timeout=1) != []
    assert await reader.aio.get_many(1) == []
    for read in reader.open_reads()[2:]:
        reader.release(read)
    with pytest.raises(ValueError, match="broken"):
        async with reader.aio.open_one():
            raise ValueError("broken")
    async with reader.aio.open_one(timeout=1) as item:
        assert item == "c"
    assert [read.item for read in reader.open_reads()] == ["a", "b"]
    await queue.aio.close()


async def test_of_several_what_has_no_room_is_not_put() -> None:
    """It is told how many were accepted, as threads are."""
    queue: JournaledQueue[str] = JournaledQueue(MemoryJournal(), config=ReaderConfig(max_items=2))
    assert await queue.aio.put_many(["a", "b", "c"]) == (2, [1, 2])


async def test_peek_is_yes_or_no() -> None:
    """Anything else is named, by threads and coroutines."""
    reader = JournaledQueue[str](MemoryJournal()).reader()
    with pytest.raises(InvalidArgumentError, match="peek is array"):
        reader.get(0, peek=np.array([1, 2]))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="peek is array"):
        await reader.aio.get(0, peek=np.array([1, 2]))  # type: ignore[arg-type]
