"""Limits of readers and of items: refusals, and what is dropped."""

from __future__ import annotations

import queue as stdlib
from datetime import timedelta

import pytest

from spark_queue.errors import InvalidConfigError, QueueFullError
from spark_queue.journal import QueueOptions
from spark_queue.reader_config import ReaderConfig
from tests.unit.journal.conftest import Journal, Queue, Reader
from tests.unit.journal.stage import KIB, Stage, drain, put_all, unread


def test_refuse_when_full(stage: Stage) -> None:
    """With one item allowed the second put is refused (KP-41)."""
    queue = stage.queue(max_items=1)
    put_all(queue, "a")
    with pytest.raises(stdlib.Full):
        queue.put("b")
    assert drain(queue.reader()) == ["a"]
    put_all(queue, "c")


def test_bytes_may_be_overshot_by_one_item(stage: Stage) -> None:
    """Items are accepted while there are fewer bytes than the limit (KP-42, LB-05)."""
    queue = stage.queue(max_bytes=510)
    put_all(queue, "a" * 256, "b" * 256)
    assert queue.bytes == 512
    with pytest.raises(QueueFullError):
        queue.put("c" * 256)


def test_open_items_count(stage: Stage) -> None:
    """An open item takes room (LB-03, decision 2)."""
    queue = stage.queue(max_items=1)
    put_all(queue, "a")
    read = queue.reader().get()
    with pytest.raises(QueueFullError):
        queue.put("b")
    queue.reader().ack(read)
    put_all(queue, "b")


def test_one_full_reader_refuses_for_all(journal: Journal, queue: Queue) -> None:
    """While one reader refuses, nothing is put, and nothing written (LB-02)."""
    big = queue.reader("big")
    small = queue.reader("small", ReaderConfig(max_items=1))
    put_all(queue, "a")
    with pytest.raises(QueueFullError) as caught:
        queue.put("b")
    assert (caught.value.item, caught.value.size) == ("b", 1)
    assert (big.items, small.items) == (1, 1)
    queue.sync()
    assert journal.store.last_id == 1


def test_what_expired_takes_no_room(stage: Stage) -> None:
    """A full reader lets its expired items go before it refuses (own)."""
    queue = stage.queue(max_items=1)
    queue.put("a", expires_at=stage.after(1))
    stage.advance(1)
    put_all(queue, "b")
    assert unread(queue.reader()) == ["b"]


@pytest.mark.parametrize("reads", ["default", "configured"])
def test_what_expired_takes_no_room_after_a_restart(stage: Stage, reads: str) -> None:
    """A full reader is found full of what has expired, and takes the first put."""
    age = timedelta(seconds=10)
    journal = stage.journal()
    queue = stage.queue(journal, max_items=2 if reads == "default" else None, max_age=age)
    put_all(queue, "a", "b")
    queue.close()
    stage.advance(60)
    again = stage.again(journal)
    if reads == "configured":
        again.reader(config=ReaderConfig(max_items=2, max_age=age))
    again.put("c")
    assert drain(again.reader()) == ["c"]


def test_a_full_reader_stays_full_over_a_restart(stage: Stage) -> None:
    """What has not expired takes its room, and what expires after the opening makes some."""
    journal = stage.journal()
    put_all(queue := stage.queue(journal, max_items=2, max_age=timedelta(seconds=10)), "a", "b")
    queue.close()
    again = stage.again(journal)
    with pytest.raises(QueueFullError):
        again.put("c")
    stage.advance(60)
    again.put("c")
    assert drain(again.reader()) == ["c"]


def test_too_large_an_item(stage: Stage) -> None:
    """An item may be as large as the limit, not larger (JQ-37, KP-02)."""
    queue = stage.queue(options=QueueOptions(durability="memory", max_item_size=128))
    put_all(queue, "x" * 127, "x" * 128)
    with pytest.raises(QueueFullError):
        queue.put("x" * 129)
    assert queue.items == 2


def test_drop_the_oldest(stage: Stage) -> None:
    """The put is accepted, the oldest goes and is counted (JQ-36)."""
    queue = stage.queue(max_items=1, full_policy="drop_oldest")
    reader = queue.reader()
    put_all(queue, "hi", "scoot over")
    stats = reader.stats()
    assert (stats.items, stats.put, stats.put_bytes, stats.discarded) == (1, 2, 12, 1)
    assert drain(reader) == ["scoot over"]


def test_drop_the_oldest_of_many(stage: Stage) -> None:
    """The newest three stay (JQ-38, KP-43)."""
    queue = stage.queue(max_items=3, full_policy="drop_oldest")
    put_all(queue, *"12345")
    assert unread(queue.reader()) == ["3", "4", "5"]


def test_drop_the_oldest_by_bytes(stage: Stage) -> None:
    """As many stay as fit (JQ-39)."""
    queue = stage.queue(max_bytes=3 * KIB, full_policy="drop_oldest")
    put_all(queue, *("x" * KIB for _ in range(5)))
    assert (queue.items, queue.reader().get().id) == (3, 3)


def test_readers_drop_by_themselves(queue: Queue) -> None:
    """A small reader drops what a big one keeps (JQ-34)."""
    big = queue.reader("big")
    small = queue.reader("small", ReaderConfig(max_bytes=KIB, full_policy="drop_oldest"))
    put_all(queue, *("x" * 512 for _ in range(5)))
    assert (big.items, small.items) == (5, 2)


def test_open_items_are_not_dropped(stage: Stage) -> None:
    """What is open stays, and the newest with it, even where both are too many (LB-04)."""
    queue = stage.queue(max_items=1, full_policy="drop_oldest")
    reader = queue.reader()
    put_all(queue, "a")
    read = reader.get()
    put_all(queue, "b")
    assert (reader.items, unread(reader)) == (2, ["b"])
    put_all(queue, "c")
    assert (reader.items, unread(reader)) == (2, ["c"])
    assert reader.ack(read)
    assert drain(reader) == ["c"]


def test_what_came_back_is_the_oldest(stage: Stage) -> None:
    """An item that came back is dropped first, by its place (decision 1)."""
    queue = stage.queue(max_items=2, full_policy="drop_oldest")
    reader = queue.reader()
    put_all(queue, "a", "b")
    reader.nack(reader.get())
    put_all(queue, "c")
    assert unread(reader) == ["b", "c"]


def test_limits_change_while_the_queue_runs(queue: Queue, reader: Reader) -> None:
    """A reader may get another configuration, which holds for what it has (KP-25)."""
    put_all(queue, *"12345")
    queue.reader(config=ReaderConfig(max_items=2, full_policy="drop_oldest"))
    assert unread(reader) == ["4", "5"]
    assert reader.config.max_items == 2


def test_a_reader_that_lags_loses_what_lies_far_behind(journal: Journal, queue: Queue) -> None:
    """Once all others are past them, only so many items are kept (own)."""
    fast, slow = queue.reader("fast"), queue.reader("slow", ReaderConfig(max_lag=2))
    put_all(queue, *"123456")
    queue.checkpoint()
    assert slow.items == 6
    fast.ack_many(fast.get_many(3))
    queue.checkpoint()
    assert slow.stats().lost == 3
    fast.ack_many(fast.get_many(3))
    queue.checkpoint()
    assert (slow.stats().lost, unread(slow)) == (4, ["5", "6"])
    assert [entry.id for entry in journal.store.entries] == [5, 6]


@pytest.mark.parametrize(
    "wrong",
    [
        {"durability": "comit"},
        {"max_pending": 0},
        {"interval": None},
        {"interval": -1},
        {"checkpoint_interval": "often"},
    ],
)
def test_options_are_checked(wrong: dict[str, object]) -> None:
    """A value out of its range is refused, by name."""
    with pytest.raises(InvalidConfigError, match=next(iter(wrong))):
        QueueOptions(**wrong)  # type: ignore[arg-type]


def test_what_lags_out_of_memory_is_lost_too(stage: Stage) -> None:
    """Items far behind are loaded, to be counted as lost (own)."""
    options = QueueOptions(durability="memory", max_memory_items=4)
    queue = stage.queue(options=options, max_lag=3)
    put_all(queue, *(str(item) for item in range(40)))
    queue.sync()
    queue.checkpoint()
    stats = queue.reader().stats()
    assert (stats.lost, stats.items, stats.head) == (37, 3, 37)
    assert unread(queue.reader()) == ["37", "38", "39"]
