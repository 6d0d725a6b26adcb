"""``process`` with a handler that is ``async def``: it is awaited, in one event loop."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import signal
import sys
import threading
from collections import defaultdict
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from spark_queue.errors import InvalidArgumentError, Reject
from spark_queue.local_queue import LocalQueue
from spark_queue.retry_policy import RetryPolicy
from spark_queue.testing import drain, fail_next
from tests.unit.local.conftest import Make

AT_ONCE = RetryPolicy(delay=timedelta(0))


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Twelve items in three groups; what fails is retried at once."""
    made = make("id long, grp string", group_key="grp", retry=AT_ONCE, max_attempts=2)
    made.enqueue([{"id": number, "grp": f"g{number % 3}"} for number in range(12)])
    return made


@pytest.fixture
def free(make: Make) -> LocalQueue:
    """Six items without a group; what fails once is dead."""
    made = make("id long", max_attempts=1)
    made.enqueue([{"id": number} for number in range(6)])
    return made


def _states(queue: LocalQueue) -> dict[int, str]:
    return {row["id"]: row["_state"] for row in queue.status().to_pylist()}


def test_its_result_error_and_reject_are_those_of_the_item(queue: LocalQueue, place: str) -> None:
    """It is awaited, and what comes of that is settled; the rows go to the output."""

    async def handle(item: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        if item["id"] == 0 and item["_attempts"] == 0:
            raise ValueError("the first time")
        if item["id"] == 1:
            raise Reject("never")
        return {"n": item["id"]}

    done = queue.process(handle, returns="n bigint", output=f"{place}/out", max_workers=3)

    assert (done.acked, done.failed, done.dead) == (11, 1, 1)
    assert queue.dead()["_error"].to_pylist() == ["Reject: never"]
    rows = DeltaTable(f"{place}/out").to_pyarrow_table()["n"].to_pylist()
    assert sorted(rows) == [0, *range(2, 12)]


def test_as_many_run_at_once_as_there_are_workers(free: LocalQueue) -> None:
    """All in one event loop, so that what they share need not be safe for threads."""
    running, most, loops = set[int](), list[int](), set[Any]()
    met = asyncio.Event()

    async def handle(item: dict[str, Any]) -> None:
        running.add(item["id"])
        most.append(len(running))
        loops.add((threading.current_thread().name, asyncio.get_running_loop()))
        if len(running) == 3:
            met.set()
        await asyncio.wait_for(met.wait(), 20)
        running.remove(item["id"])

    assert free.process(handle, max_workers=3).acked == 6
    assert max(most) == 3
    assert [name for name, _ in loops] == ["spark_queue_event_loop"]


def test_by_default_one_runs_after_another_in_the_order_of_service(free: LocalQueue) -> None:
    """As plain handlers do."""
    told: list[str] = []

    async def handle(item: dict[str, Any]) -> None:
        told.append(f"begin {item['id']}")
        await asyncio.sleep(0)
        told.append(f"end {item['id']}")

    free.process(handle)

    assert told == [f"{what} {number}" for number in range(6) for what in ("begin", "end")]


def test_a_group_is_worked_off_in_order_and_stops_at_a_failure(queue: LocalQueue) -> None:
    """Its next item begins when the one before has ended; behind a failure items go back."""
    order, at_work = defaultdict[str, list[int]](list), set[str]()

    async def handle(item: dict[str, Any]) -> None:
        assert item["grp"] not in at_work
        at_work.add(item["grp"])
        order[item["grp"]].append(item["id"])
        await asyncio.sleep(0)
        at_work.remove(item["grp"])
        if item["id"] == 3 and item["_attempts"] == 0:
            raise ValueError("once")

    done = queue.process(handle, max_workers=12)

    assert (done.acked, done.failed, done.released) == (12, 1, 2)
    assert order == {"g0": [0, 3, 3, 6, 9], "g1": [1, 4, 7, 10], "g2": [2, 5, 8, 11]}


def test_a_batch_is_a_table(free: LocalQueue) -> None:
    """A handler of batches is awaited, too; where it raises, all items of its table fail."""

    async def handle(table: pa.Table) -> pa.Table:
        await asyncio.sleep(0)
        if 4 in table["id"].to_pylist():
            raise ValueError("no")
        return table.select(["_seq", "id"])

    done = free.process(handle, per="batch", returns="id bigint", limit=2)

    assert (done.acked, done.dead) == (4, 2)


class _Callable:
    async def __call__(self, item: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        raise Reject(f"seen {item['id']}")


def _answering(item: dict[str, Any]) -> Coroutine[Any, Any, None]:
    return _Callable()(item)


@pytest.mark.parametrize(
    "handler", [_Callable(), _answering, functools.partial(_Callable.__call__, _Callable())]
)
@pytest.mark.parametrize("using", [None, "threads", "processes"])
def test_any_callable_whose_answer_is_to_be_awaited_is(
    free: LocalQueue, handler: Any, using: Any
) -> None:
    """An object, a part of a function, a function that returns a coroutine; also in children."""
    done = free.process(handler, using=using, max_workers=2)

    assert done.dead == 6
    assert sorted(free.dead()["_error"].to_pylist())[5] == "Reject: seen 5"


def test_an_item_over_its_time_is_cancelled_and_has_failed(free: LocalQueue) -> None:
    """Its task ends, with what it has to clean up, and its worker goes on."""
    cleaned: list[int] = []

    async def handle(item: dict[str, Any]) -> None:
        if item["id"] == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                cleaned.append(item["id"])

    done = free.process(handle, item_time_limit=timedelta(milliseconds=200))

    assert (done.acked, done.dead, cleaned) == (5, 1, [1])
    assert free.dead()["_error"].to_pylist() == ["it took longer than its item_time_limit, 0.2 s"]


def test_what_would_end_a_program_fails_its_item_only(free: LocalQueue) -> None:
    """``sys.exit`` and a cancelled task are failures of their item; the loop goes on."""

    async def handle(item: dict[str, Any]) -> None:
        if item["id"] == 1:
            sys.exit(3)
        if item["id"] == 2:
            raise asyncio.CancelledError

    done = free.process(handle)

    assert (done.acked, done.dead) == (4, 2)
    assert [error.split(":")[0] for error in free.dead()["_error"].to_pylist()] == [
        "SystemExit",
        "CancelledError",
    ]


def test_who_interrupts_a_handler_gives_the_claim_back(free: LocalQueue) -> None:
    """What is raised in a handler, but not by it, ends the work, and nobody is charged."""

    async def handle(item: dict[str, Any]) -> None:
        if item["id"] == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        free.process(handle)

    assert set(_states(free).values()) == {"ready"}


def test_a_signal_lets_each_task_end_the_item_that_it_is_at(free: LocalQueue) -> None:
    """Finished items are settled, and what was not begun goes back uncharged."""
    before, stop = signal.signal(signal.SIGINT, signal.default_int_handler), threading.Event()

    async def handle(item: dict[str, Any]) -> None:
        if item["id"] == 1:
            os.kill(os.getpid(), signal.SIGINT)
            while not stop.is_set():  # noqa: ASYNC110 - a signal sets it
                await asyncio.sleep(0)
            await asyncio.sleep(0.2)

    try:
        with pytest.raises(KeyboardInterrupt):
            free.process(handle, stop=stop)
    finally:
        signal.signal(signal.SIGINT, before)

    assert _states(free) == {0: "acked", 1: "acked"} | dict.fromkeys(range(2, 6), "ready")


def test_a_stop_ends_it_after_a_claim(free: LocalQueue) -> None:
    """No further claim is made."""
    stop = threading.Event()

    async def handle(_item: dict[str, Any]) -> None:
        stop.set()

    done = free.process(handle, limit=2, stop=stop)

    assert (done.acked, done.stopped) == (2, "stop")


def test_its_loop_lasts_for_all_claims_and_ends_with_the_call(free: LocalQueue) -> None:
    """A client may be kept from item to item; what is left over is cancelled at the end."""
    kept: dict[str, Any] = {}
    left: list[str] = []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.append("cancelled")

    async def handle(_item: dict[str, Any]) -> None:
        loop = kept.setdefault("loop", asyncio.get_running_loop())
        assert loop is asyncio.get_running_loop()
        if "lingering" not in kept:
            kept["lingering"] = asyncio.create_task(linger())
        await asyncio.sleep(0)

    done = free.process(handle, limit=2)

    assert (done.acked, done.claims, left) == (6, 3, ["cancelled"])
    assert kept["loop"].is_closed()
    names = {thread.name for thread in threading.enumerate()}
    assert "spark_queue_event_loop" not in names


def test_a_test_drains_a_queue_with_it(free: LocalQueue) -> None:
    """``drain`` awaits it and raises its error, and ``fail_next`` fails its items."""
    seen: list[int] = []

    async def handle(item: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        seen.append(item["id"])
        if item["id"] == 4:
            raise ValueError("the fourth")

    fail_next(free, id=2)
    done = drain(free, handle, limit=2)
    free.redrive({"id": 4})
    with pytest.raises(ValueError, match="the fourth"):
        drain(free, handle, raising=True)

    assert (done.acked, done.dead, seen) == (4, 2, [0, 1, 3, 4, 5, 4])


@pytest.mark.parametrize("workers", [0, -1])
def test_fewer_than_one_at_once_is_refused(free: LocalQueue, workers: int) -> None:
    """Before anything is claimed."""

    async def handle(_item: dict[str, Any]) -> None: ...

    with pytest.raises(InvalidArgumentError, match=f"max_workers is {workers}"):
        free.process(handle, max_workers=workers)
    assert free.counts()["ready"] == 6


def test_it_has_the_context_of_its_call(free: LocalQueue) -> None:
    """Each call has a context of its own: what one sets, no other sees."""
    mark: contextvars.ContextVar[int] = contextvars.ContextVar("mark", default=-1)
    seen: list[int] = []

    async def handle(item: dict[str, Any]) -> None:
        seen.append(mark.get())
        mark.set(item["id"])
        await asyncio.sleep(0)

    free.process(handle, max_workers=2)

    assert seen == [-1] * 6
