"""The producer of a front, over a queue in memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.types import LongType, StringType, StructType

from spark_queue.errors import SchemaMismatchError
from spark_queue.front.producer import Batcher, Producer, Put, PutResult
from spark_queue.front.spark_ends import SparkInlet
from spark_queue.log.schema import QUEUE_COLUMNS
from spark_queue.memory.singular.requests import Promise

SCHEMA = StructType().add("id", LongType()).add("name", StringType())


class FakeQueue:
    """Takes frames as they are, and answers in any order, as a cluster may."""

    schema = SCHEMA
    _main = SimpleNamespace(columns=lambda: QUEUE_COLUMNS.json)

    def __init__(self) -> None:
        self.tables: list[Any] = []
        self.fault: Callable[[], object] = lambda: None

    def enqueue(self, table: Any, *, on_full: str) -> Any:
        """Take a frame in."""
        assert on_full == "partial"
        self.fault()
        self.tables.append(table)
        rows = [(seq, "inserted", None, None) for seq in range(1, table.num_rows + 1)]
        outcomes = SimpleNamespace(collect=lambda: rows[::-1])
        frame = SimpleNamespace(select=lambda *_: outcomes)
        # Every other group is told here, the others by Spark.
        told = rows[::-1] if len(self.tables) % 2 else []
        return SimpleNamespace(read_told=lambda: told, outcomes=frame)


class Door:
    """A producer that works on the thread of the test."""

    def __init__(self) -> None:
        self.queue = FakeQueue()
        self.line: Batcher[Put] = Batcher(10, 10, timedelta(milliseconds=1))
        self.written = 0
        inlet = SparkInlet(cast("Any", self.queue))
        self._producer = Producer(inlet, self.line, on_written=self._count)

    def _count(self) -> None:
        self.written += 1

    def put(self, *items: Any) -> list[Put]:
        """Put items that are written together."""
        puts = [Put.of(item, Promise(self.line.context)) for item in items]
        for put in puts:
            self.line.add(put)
        self.line.close()
        self._producer.run()
        return puts


def test_everyone_gets_an_own_answer() -> None:
    """A group is one enqueue, and each put hears of its item, in whatever order they are told."""
    door = Door()
    puts = door.put({"id": 1, "name": "a"}, {"id": 2, "name": "b"})

    assert [put.future.result(0) for put in puts] == [
        PutResult(1, "inserted"),
        PutResult(2, "inserted"),
    ]
    assert [table.to_pylist() for table in door.queue.tables] == [
        [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
    ]
    assert door.written == 1


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"id": "x", "name": "a"}, "'id'"),
        ({"id": 1}, "'name': is missing"),
        ({"id": 1, "name": "a", "cost": 0.0}, "'cost'"),
        ({"id": 1, "name": "a", "cost": float("inf")}, "'cost'"),
        ({"id": 1, "name": "a", "cost": -1.0}, "'cost'"),
    ],
)
def test_an_item_that_does_not_fit_fails_alone(bad: dict[str, Any], why: str) -> None:
    """Its neighbours are written, and it is told what is wrong."""
    door = Door()
    good, refused = door.put({"id": 1, "name": "a"}, bad)

    assert good.future.result(0).seq == 1
    with pytest.raises(SchemaMismatchError, match=why):
        refused.future.result(0)


def test_a_group_that_cannot_be_written_is_told_so() -> None:
    """All who wait for the group hear of the error; nobody else is told that it was written."""
    door = Door()

    def fail() -> None:
        raise OSError("the disk is full")

    door.queue.fault = fail
    puts = door.put({"id": 1, "name": "a"}, {"id": 2, "name": "b"})

    assert [str(put.future.exception(0)) for put in puts] == ["the disk is full"] * 2
    assert door.written == 0
