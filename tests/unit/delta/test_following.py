from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import spark_queue
from spark_queue import LocalQueue
from spark_queue.delta.store import memory


@contextmanager
def another_process() -> Iterator[None]:
    """Know nothing of any queue, and forget again what was learnt."""
    mine = dict(memory._caches)
    memory._caches.clear()
    yield
    memory._caches.clear()
    memory._caches.update(mine)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of a queue of which this process knows the state."""
    queue = LocalQueue.create(tmp_path / "queue", "k string", durability="process")
    queue.enqueue({"k": "first"})
    queue.claim().ack()
    return tmp_path / "queue"


def enter_and(path: Path, *, ack: bool) -> None:
    """Enqueue and claim an item, as another process."""
    with another_process():
        queue = spark_queue.open(path, durability="process")
        queue.enqueue({"k": "second"})
        claim = queue.claim(worker_id="another")
        if ack:
            claim.ack()


@pytest.mark.parametrize("ack", [False, True])
def test_what_others_have_entered_and_taken_is_not_ready(path: Path, *, ack: bool) -> None:
    """An item that came and was taken since this process last looked is not taken once more."""
    enter_and(path, ack=ack)
    assert spark_queue.open(path).claim().count == 0
