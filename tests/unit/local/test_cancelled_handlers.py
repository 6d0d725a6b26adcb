"""A cancel that reaches the handler of its item, at the next renewal of the lease."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_queue import CurrentItem, current_item
from spark_queue.local_queue import LocalQueue
from spark_queue.testing import lose_lease
from tests.unit.local.conftest import Make

#: A third of it is what a test waits for; on the clock of the queue it never ends.
LEASE = timedelta(seconds=0.3)


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Four items in two groups."""
    made = make("id long, grp string", group_key="grp", max_attempts=1)
    made.enqueue([{"id": number, "grp": f"g{number % 2}"} for number in range(4)])
    return made


def _states(queue: LocalQueue) -> list[str]:
    return [row["_state"] for row in queue.status().to_pylist()]


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_plain_handler_sees_that_its_item_is_cancelled(queue: LocalQueue, place: str) -> None:
    """It may go on or end: what it returns or raises is not written, and its group goes on."""
    ends = {0: "returns", 1: "raises"}

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        current = current_item()
        assert current.seq == item["_seq"]
        assert not current.cancelled
        if item["id"] in ends:
            queue.cancel({"id": item["id"]})
            until(lambda: current.cancelled)
        if ends.get(item["id"]) == "raises":
            raise ValueError("too late")
        return {"n": item["id"]}

    out = f"{place}/out"
    done = queue.process(handle, lease=LEASE, returns="n bigint", output=out)

    assert (done.acked, done.failed, done.dead, done.released) == (2, 0, 0, 0)
    assert _states(queue) == ["cancelled", "cancelled", "acked", "acked"]
    assert sorted(DeltaTable(out).to_pyarrow_table()["n"].to_pylist()) == [2, 3]
    explained = queue.explain(1)
    assert (explained.reason, explained.detail.split()[0]) == ("finished", "cancelled")


def test_the_task_of_a_cancelled_item_is_cancelled(queue: LocalQueue) -> None:
    """It gets ``asyncio.CancelledError`` where it waits, and has the time to clean up."""
    told: list[object] = []

    async def handle(item: dict[str, Any]) -> None:
        if item["id"] != 1:
            return
        queue.cancel({"id": 1})
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as exc:
            told.append(type(exc))
            raise
        finally:
            await asyncio.sleep(0)
            told.append(current_item().cancelled)

    done = queue.process(handle, lease=LEASE, max_workers=2)

    assert told == [asyncio.CancelledError, True]
    assert (done.acked, done.failed, done.dead) == (3, 0, 0)
    assert _states(queue) == ["acked", "cancelled", "acked", "acked"]


def test_the_child_of_a_cancelled_item_is_killed(queue: LocalQueue, tmp_path: Path) -> None:
    """Another goes on behind the item, which is charged nothing."""
    begun = tmp_path / "begun"

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 1:
            begun.touch()
            time.sleep(60)

    def cancel() -> None:
        until(begun.exists)
        queue.cancel({"id": 1})

    operator = threading.Thread(target=cancel)
    operator.start()
    done = queue.process(handle, lease=LEASE, using="processes")
    operator.join()

    assert (done.acked, done.failed, done.dead) == (3, 0, 0)
    assert _states(queue) == ["acked", "cancelled", "acked", "acked"]


@pytest.mark.parametrize("using", ["threads", "processes"])
def test_an_item_that_was_cancelled_before_its_turn_does_not_run(
    queue: LocalQueue, tmp_path: Path, using: Any
) -> None:
    """The handler does not see it, where a renewal came between."""
    ran = tmp_path / "ran"
    ran.touch()

    def cancel() -> None:
        until(lambda: ran.read_text() == "0")
        queue.cancel({"id": [0, 2]})

    def handle(item: dict[str, Any]) -> None:
        with ran.open("a") as file:
            file.write(str(item["id"]))
        if item["id"] == 0:
            until(lambda: current_item().cancelled)

    operator = threading.Thread(target=cancel)
    operator.start()
    queue.process(handle, lease=LEASE, using=using)
    operator.join()

    assert ran.read_text() == "013"
    assert _states(queue) == ["cancelled", "acked", "cancelled", "acked"]


def test_who_lost_the_lease_hears_the_same(queue: LocalQueue) -> None:
    """An item of which another is the holder is no longer this worker's either."""
    attempts: list[int] = []

    async def handle(item: dict[str, Any]) -> None:
        if item["id"] == 0:
            attempts.append(item["_lease"])
            if len(attempts) == 1:
                lose_lease(queue, id=0)
                await asyncio.Event().wait()

    done = queue.process(handle, lease=LEASE)

    assert len(set(attempts)) == 2
    assert done.acked == 4
    assert _states(queue) == ["acked"] * 4


def test_outside_a_handler_no_item_is_cancelled() -> None:
    """So a handler can be called without a queue."""
    found = current_item()

    assert isinstance(found, CurrentItem)
    assert (found.seq, found.cancelled) == (None, False)
    assert repr(found) == "CurrentItem(seq=None, cancelled=False)"


def test_a_batch_is_no_item(queue: LocalQueue) -> None:
    """A handler of tables sees an item without a number."""
    seen: list[object] = []

    def handle(_table: pa.Table) -> None:
        seen.append(current_item().seq)

    queue.process(handle, per="batch", limit=2)

    assert set(seen) == {None}


def test_each_handler_sees_its_own_item(queue: LocalQueue) -> None:
    """Also at the same time, in tasks that it starts, and in ``asyncio.to_thread``."""
    seen: dict[int, list[int | None]] = {}

    async def look() -> int | None:
        await asyncio.sleep(0)
        return current_item().seq

    async def handle(item: dict[str, Any]) -> None:
        helped = await asyncio.to_thread(lambda: current_item().seq)
        seen[item["_seq"]] = [*await asyncio.gather(look(), look()), helped]

    queue.process(handle, max_workers=4)

    assert seen == {seq: [seq] * 3 for seq in range(1, 5)}
