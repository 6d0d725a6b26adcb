"""Bad input of journaled queues and fronts: named by an error, and nothing is touched."""

from __future__ import annotations

import asyncio
import math
import queue as lines
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from spark_queue import (
    DurableQueue,
    FrontOptions,
    Limit,
    LocalQueue,
    QueueConfig,
    journaled_queue,
)
from spark_queue.errors import InvalidArgumentError, InvalidConfigError, ReaderNotFoundError
from spark_queue.journal import JournaledQueue, MemoryJournal, QueueOptions, ReaderHooks
from tests.unit.journal.conftest import Queue
from tests.unit.journal.stage import Stage

NO_NAME: tuple[Any, ...] = (
    5, 0, math.nan, True, None, b"r", ["r"], "\udcff", "a\nb", "\0", "r" * 10_000_000,
)  # fmt: skip
NO_COUNT: tuple[Any, ...] = (None, 0, -1, 1.5, math.nan, math.inf, True, "5", [1], 2**80)
NO_TIME: tuple[Any, ...] = (
    5, math.nan, True, "1s", timedelta(0), timedelta(-1), timedelta.max,
)  # fmt: skip
NO_READ: tuple[Any, ...] = ("x", None, 1.0, True, [1], object())


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("dedup_key", QueueConfig(dedup_key="data")),
        ("priority", QueueConfig(priority="1")),
        ("limits", QueueConfig(limits=(Limit(by="data", default=1),))),
    ],
)
def test_a_queue_with_keys_is_no_journal(tmp_path: Path, name: str, config: QueueConfig) -> None:
    """A journal is first in, first out, and says which setting is in the way."""
    plain = LocalQueue.create(tmp_path / "q", "data binary", config)
    with pytest.raises(InvalidArgumentError, match=f"has {name}: a journaled queue is first in"):
        journaled_queue(plain)


@pytest.mark.parametrize("name", NO_NAME, ids=lambda name: repr(name)[:12])
def test_what_is_no_name_makes_no_reader(stage: Stage, tmp_path: Path, name: Any) -> None:
    """One check of readers' names for journals in memory and on Delta, and for queues."""
    memory, plain = MemoryJournal[str](), LocalQueue.create(tmp_path / "q", "data binary")
    in_memory = stage.queue(memory)
    with journaled_queue(plain) as on_delta:
        calls: list[Callable[[], object]] = [
            lambda: in_memory.reader(name),
            lambda: asyncio.run(in_memory.aio.reader(name)),
            lambda: on_delta.reader(name),
        ]
        for call in calls:
            with pytest.raises(InvalidArgumentError, match="a reader has a name") as told:
                call()
            assert len(str(told.value)) < 500
        with pytest.raises((InvalidArgumentError, ReaderNotFoundError)):
            in_memory.drop_reader(name)
    with pytest.raises(InvalidArgumentError, match="a reader has a name"):
        plain.reader(name)
    assert in_memory.readers() == on_delta.readers() == list(plain.readers()) == [""]


def test_a_long_name_that_can_be_printed_is_one(queue: Queue) -> None:
    """Words of any script, with spaces, are a name."""
    for name in ("é" * 200, "日本 語/+", "a b"):
        assert queue.reader(name).name == name


@pytest.mark.parametrize("read", NO_READ)
def test_what_is_no_read_is_not_settled(stage: Stage, read: Any) -> None:
    """Every verb says what it takes, and the item that is open stays so."""
    queue = stage.queue()
    queue.put("a").result()
    reader = queue.reader()
    got = reader.get()
    for verb in (reader.ack, reader.nack, reader.release, reader.commit, reader.unget):
        with pytest.raises(InvalidArgumentError, match="read is"):
            verb(read)
    with pytest.raises(InvalidArgumentError, match="read is"):
        reader.replace(read, "b")
    for verbs in (reader.ack_many, reader.nack_many, reader.release_many):
        with pytest.raises(InvalidArgumentError, match="read is"):
            verbs([read])
        with pytest.raises(InvalidArgumentError, match="reads is 5"):
            verbs(5)  # type: ignore[arg-type]
    assert (reader.open_items, queue.items) == (1, 1)
    assert reader.ack(got)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda queue: queue.put_many(5), "items"),
        (lambda queue: queue.put("b", origin="\udcff"), "origin"),
        (lambda queue: queue.put("b", errors=True), "errors"),
        (lambda queue: queue.discard_expired("x"), "limit"),
        (lambda queue: queue.reader().discard_expired(-1), "limit is -1"),
        (lambda queue: queue.reader("r", 5), "config"),
        (lambda queue: queue.reader("r", hooks=5), "hooks"),
        (lambda queue: queue.drop_reader(math.nan), "name is nan"),
        (lambda _: JournaledQueue(5), "journal"),  # type: ignore[arg-type]
        (lambda _: JournaledQueue(MemoryJournal(), options=5), "options"),  # type: ignore[arg-type]
        (lambda _: JournaledQueue(MemoryJournal(), 5), "name"),  # type: ignore[arg-type]
        (lambda _: JournaledQueue(MemoryJournal(), clock=5), "clock"),  # type: ignore[arg-type]
        (lambda _: ReaderHooks(open_timeout=math.nan), "open_timeout"),
        (lambda _: ReaderHooks(on_error=5), "on_error"),  # type: ignore[arg-type]
    ],
)
def test_other_arguments_are_named(
    queue: Queue, call: Callable[[JournaledQueue[Any]], object], what: str
) -> None:
    """What is wrong is named, and the queue is as it was."""
    queue.put("a").result()
    with pytest.raises(InvalidArgumentError, match=what):
        call(queue)
    assert (queue.items, queue.readers()) == (1, [""])


@pytest.mark.parametrize(
    "name", ["max_group_items", "max_group_bytes", "max_pending", "max_item_size",
             "max_memory_items", "max_memory_bytes"]
)  # fmt: skip
@pytest.mark.parametrize("value", NO_COUNT[1:-1])
def test_numbers_of_a_journal_are_checked(name: str, value: Any) -> None:
    """A limit is a whole number of at least 1, or none."""
    with pytest.raises(InvalidConfigError, match=name):
        QueueOptions(**{name: value})


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "1", timedelta(-1), None])
def test_the_interval_of_a_journal_is_checked(value: Any) -> None:
    """An interval ends, so that what was put is durable some time."""
    with pytest.raises(InvalidConfigError, match="interval"):
        QueueOptions(interval=value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, no) for name in ("max_group", "max_pending", "prefetch") for no in NO_COUNT),
        *((name, no) for name in ("linger", "poll_every", "lease") for no in NO_TIME),
    ],
)
def test_options_of_a_front_are_checked(name: str, value: Any) -> None:
    """Each number is a whole one, and each time one that ends."""
    with pytest.raises(InvalidArgumentError, match=name):
        FrontOptions(**{name: value})


@pytest.mark.parametrize("delivery", NO_READ)
def test_a_front_goes_on_after_what_is_no_delivery(tmp_path: Path, delivery: Any) -> None:
    """A mistake of one caller does not end the thread that serves all."""
    plain = LocalQueue.create(tmp_path / "q", "n int", durability="process")
    with DurableQueue(plain) as front:
        for settle in (front.ack, front.release):
            with pytest.raises(InvalidArgumentError, match="delivery is"):
                settle(delivery)
        with pytest.raises(InvalidArgumentError, match="delivery is"):
            front.nack(delivery, "error")
        with pytest.raises(InvalidArgumentError, match="items is"):
            front.put_many(5)  # type: ignore[arg-type]
        with pytest.raises(lines.Empty):
            front.get(timeout=0)
        front.put({"n": 1}).result(30)
        front.ack(front.get(timeout=30)).result(30)


@pytest.mark.parametrize("what", ["options", "config", "hooks", "queues", "retention", "native"])
def test_arguments_of_a_journaled_queue_are_checked_first(tmp_path: Path, what: str) -> None:
    """What was refused has taken nothing over: a plain handle still writes."""
    plain = LocalQueue.create(tmp_path / "q", "data binary", durability="process")
    with pytest.raises(InvalidArgumentError, match=what):
        journaled_queue(plain, **{what: 5})  # type: ignore[arg-type]
    assert plain.enqueue({"data": b"x"}).inserted == 1


def test_a_front_is_over_a_queue(tmp_path: Path) -> None:
    """What is no queue, and options that are none, are named."""
    with pytest.raises(InvalidArgumentError, match="into is 5"):
        DurableQueue(5)  # type: ignore[arg-type]
    plain = LocalQueue.create(tmp_path / "q", "n int", durability="process")
    with pytest.raises(InvalidArgumentError, match="options is 5"):
        DurableQueue(plain, options=5)  # type: ignore[arg-type]
