"""What a reader sends to another queue, while others do so at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from spark_queue.delta.commands import forwarding
from spark_queue.local_queue import LocalQueue
from spark_queue.reader_config import ReaderConfig
from tests.unit.local.conftest import Make


@pytest.fixture
def late(make: Make) -> LocalQueue:
    """Return a queue whose reader sends what fails to another one, which is returned."""
    queue = make()
    target = LocalQueue.create(f"{queue.name}-late", "id string", durability="process")
    queue.reader("r", config=ReaderConfig(punt_to=target.name))
    return target


def test_of_two_that_send_at_once_each_item_is_sent_by_one(
    late: LocalQueue, again: Callable[[], LocalQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who looked later, and is overtaken by who looked before, sends only what is left."""
    queue = again()
    queue.enqueue([{"id": "x"}, {"id": "a"}, {"id": "b"}])
    queue.open_reader("r").claim(1).nack("no")
    first, second = (again().open_reader("r").claim(1) for _ in range(2))
    real, has_looked = forwarding._leaving, [threading.Event(), threading.Event()]
    others: list[threading.Thread] = []

    def look(*args: Any) -> Any:
        rows = real(*args)
        if threading.current_thread() in others:
            has_looked[0].set()
            assert has_looked[1].wait(30)
        elif not has_looked[1].is_set():
            has_looked[1].set()
            others[0].join(30)
        return rows

    monkeypatch.setattr(forwarding, "_leaving", look)
    others.append(threading.Thread(target=first.nack, args=("no",)))
    others[0].start()
    assert has_looked[0].wait(30)
    second.nack("no")

    assert sorted(row["id"] for row in late.status().to_pylist()) == ["a", "b", "x"]


def test_a_claim_looks_for_what_ended_since_the_last_one(
    late: LocalQueue, again: Callable[[], LocalQueue], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nothing is sent, no claim looks through all that ended before."""
    queue = again()
    reader = queue.open_reader("r")
    queue.enqueue([{"id": str(n)} for n in range(10)])
    real, looked = forwarding._leaving, list[int]()

    def look(at: Any, limits: Any, target: str, since: int) -> Any:
        looked.append(at.status.step - since)
        return real(at, limits, target, since)

    monkeypatch.setattr(forwarding, "_leaving", look)
    for _ in range(10):
        reader.claim(1).ack()

    assert looked[1:] == [2] * 9
    assert late.stats().ready == 0
