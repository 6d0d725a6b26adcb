"""The bounded memory: what is kept, what is loaded, and that nobody is held up."""

from __future__ import annotations

import queue as stdlib
import threading
from collections.abc import Sequence
from datetime import timedelta

import pytest

from spark_queue.errors import FencedError
from spark_queue.journal import Entry, MemoryJournal, QueueOptions
from spark_queue.reader_config import ReaderConfig
from tests.unit.journal.conftest import Journal, Queue
from tests.unit.journal.stage import Gate, Stage, drain, failing, put_all, unread
from tests.unit.threads import until
from tests.unit.waiting.tickets.crew import Crew


def small(items: int | None = 10, size: int | None = None) -> QueueOptions:
    """Make options with little memory."""
    return QueueOptions(durability="memory", max_memory_items=items, max_memory_bytes=size)


def numbers(count: int, first: int = 0) -> list[str]:
    """Make items."""
    return [str(item) for item in range(first, first + count)]


def test_what_is_too_much_is_loaded_again(stage: Stage) -> None:
    """Ten of a hundred are kept, all are delivered, in order (KP-04, KP-34)."""
    queue = stage.queue(options=small())
    put_all(queue, *numbers(100))
    assert queue.stats().memory_items == 100
    queue.sync()
    assert queue.stats().memory_items == 10
    assert drain(queue.reader()) == numbers(100)
    stats = queue.stats()
    assert (stats.items, stats.memory_items, stats.memory_bytes) == (0, 0, 0)
    assert 0 < stats.loads <= 40


def test_memory_is_bounded_by_bytes(stage: Stage) -> None:
    """So many bytes are kept, whatever the number of items (KP-04)."""
    queue = stage.queue(options=small(None, 1000))
    put_all(queue, *("x" * 100 for _ in range(50)))
    queue.sync()
    assert queue.stats().memory_bytes == 1000
    assert len(drain(queue.reader())) == 50
    assert queue.stats().memory_bytes == 0


def test_what_waits_to_be_durable_takes_no_room_from_blocks(stage: Stage) -> None:
    """A reader that is behind gets whole blocks, however much is put meanwhile (own)."""
    journal = stage.filled(100, 0)
    queue = stage.again(journal, options=small(20))
    put_all(queue, *numbers(200))
    reader = queue.reader()
    assert [reader.get(timeout=10).id for _ in range(300)] == list(range(1, 301))
    assert queue.stats().loads <= 100 / 5


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_very_little_memory(stage: Stage, limit: int) -> None:
    """One item in memory will do, for readers apart from each other too."""
    queue = stage.queue(options=small(limit))
    one, two = queue.reader("one"), queue.reader("two")
    put_all(queue, *numbers(20))
    queue.sync()
    reads = [one.get(timeout=10) for _ in range(10)]
    assert [read.item for read in reads] == numbers(10)
    assert drain(two) == numbers(20)
    one.nack(reads[3])
    assert drain(one) == ["3", *numbers(10, 10)]
    assert queue.stats().memory_items == 0


def test_readers_far_apart_share_the_memory(stage: Stage) -> None:
    """What one needs next stays, although the other is far ahead."""
    queue = stage.queue(options=small(20))
    slow, fast = queue.reader("slow"), queue.reader("fast")
    put_all(queue, *numbers(300))
    queue.sync()
    fast.ack_many(fast.get_many(1))
    for item in range(1, 300):
        read = fast.get(timeout=10)
        assert read.item == str(item)
        fast.ack(read)
        if not item % 3:
            assert slow.get(timeout=10).item == str(item // 3 - 1)
    assert queue.stats().memory_items <= 20
    assert [read.id for read in slow.open_reads()] == list(range(1, 100))
    assert drain(slow) == numbers(201, 99)


def test_an_old_journal_is_loaded_in_blocks(stage: Stage) -> None:
    """At the open one block is read ahead, not everything (KC-05)."""
    journal = stage.filled(1000, 0)
    queue = stage.again(journal, options=small(100))
    until(lambda: queue.stats().memory_items == 50)
    assert queue.stats().loads == 1
    assert [read.id for read in queue.reader().get_many(20)] == list(range(1, 21))


def test_the_next_block_is_loaded_ahead(stage: Stage) -> None:
    """Before a block ends the next one is there: a reader seldom waits."""
    journal = stage.filled(1000, 0)
    queue = stage.again(journal, options=small(100))
    reader = queue.reader()
    for item in range(1, 1001):
        assert reader.get(timeout=10).id == item
        queue.sync()
    assert reader.stats().get_miss == 0
    assert queue.stats().loads <= 45


def test_a_load_holds_nobody_up(stage: Stage) -> None:
    """While a block is loaded, others put and get."""
    journal = stage.journal()
    queue = stage.queue(journal, options=small(10))
    behind, ahead = queue.reader("behind"), queue.reader("ahead")
    put_all(queue, *numbers(100))
    queue.sync()
    drain(ahead)
    behind.get_many(2)
    queue.sync()
    gate = Gate(journal, "load")
    crew = Crew(behind._state.waiters)
    while behind._state.poll() is not None:
        pass
    crew.waits(lambda: behind.get(timeout=0))
    assert gate.reached.wait(10)
    put_all(queue, "new")
    assert ahead.get(timeout=0).item == "new"
    gate.open()
    [read] = crew.outcomes()
    assert int(read.item) == read.id - 1


def test_what_is_not_durable_stays_in_memory(stage: Stage) -> None:
    """Items that no load could find are never evicted."""
    journal = stage.journal()
    queue = stage.queue(journal, options=small(1))
    gate = Gate(journal, "commit")
    put_all(queue, *numbers(20))
    with_commit = queue.put("last", durability="commit")
    assert gate.reached.wait(10)
    assert queue.stats().memory_items == 21
    assert drain(queue.reader()) == [*numbers(20), "last"]
    gate.open()
    assert with_commit.result(10) == 21
    assert queue.items == 0


def test_a_load_that_fails_fails_who_waits(stage: Stage) -> None:
    """The error of the load is that of the get; the next get tries again."""
    journal = stage.filled(3, 0).successor()
    failing(journal, "load", OSError("no disk"))
    queue = stage.queue(journal)
    reader = queue.reader()
    with pytest.raises(OSError, match="no disk"):
        reader.get(timeout=10)
    with pytest.raises(OSError, match="no disk"):
        reader.discard_expired()
    journal.before = lambda _: None
    assert reader.get(timeout=10).id == 1


def test_the_oldest_is_dropped_though_it_is_not_in_memory(stage: Stage) -> None:
    """A full reader drops what it has to load first."""
    journal = stage.filled(50, 0)
    queue = stage.again(journal, options=small(6))
    reader = queue.reader()
    queue.reader(config=ReaderConfig(max_items=5, full_policy="drop_oldest"))
    until(lambda: reader.items == 5)
    assert reader.stats().discarded == 45
    assert [reader.get(timeout=10).id for _ in range(5)] == [46, 47, 48, 49, 50]


def test_expired_items_are_loaded_to_be_discarded(stage: Stage) -> None:
    """A sweep goes through what is not in memory too."""
    queue = stage.queue(options=small(5))
    for item in numbers(40):
        queue.put(item, expires_at=stage.after(1))
    queue.sync()
    stage.advance(1)
    assert queue.discard_expired(30) == 30
    assert queue.discard_expired() == 10
    assert queue.items == 0


def test_flush_needs_no_load(stage: Stage) -> None:
    """What is not in memory is dropped by its id."""
    journal = stage.journal()
    queue = stage.queue(journal, options=small(5))
    put_all(queue, *numbers(40))
    queue.sync()
    before = queue.stats().loads
    assert queue.flush() == 40
    assert (queue.items, queue.bytes, queue.stats().memory_items) == (0, 0, 0)
    put_all(queue, "new")
    queue.checkpoint()
    assert queue.stats().loads == before
    assert unread(queue.reader()) == ["new"]
    assert [entry.id for entry in journal.store.entries] == [41]


def test_a_dropped_reader_frees_its_memory(queue: Queue) -> None:
    """What only it needed goes."""
    done, gone = queue.reader("done"), queue.reader("gone")
    put_all(queue, *numbers(10))
    drain(done)
    assert queue.stats().memory_items == 10
    queue.drop_reader("gone")
    assert gone.name == "gone"
    assert queue.stats().memory_items == 0


def test_a_reader_that_is_made_meanwhile_misses_nothing(journal: Journal, queue: Queue) -> None:
    """Items that are put and read by others while a reader is registered are its as well."""
    one = queue.reader("one")
    put_all(queue, "before")

    def meanwhile(call: str) -> None:
        if call == "add_reader":
            put_all(queue, "meanwhile")
            drain(one)

    journal.before = meanwhile
    two = queue.reader("two")
    put_all(queue, "after")
    assert (two.items, two.bytes) == (2, 14)
    assert drain(two) == ["meanwhile", "after"]
    assert drain(one) == ["after"]


def test_a_reader_that_is_made_after_items_were_read_misses_nothing(stage: Stage) -> None:
    """Items that others have read before the journal knows of the reader are its as well."""
    journal: MemoryJournal[str] = stage.journal()
    queue = stage.queue(journal)
    one = queue.reader("one")
    put_all(queue, "before")

    def meanwhile(call: str) -> None:
        if call == "settlements":
            journal.before = lambda _: None
            put_all(queue, "meanwhile")
            drain(one)

    journal.before = meanwhile
    assert drain(queue.reader("two")) == ["meanwhile"]


def test_a_load_that_finds_nothing_ends_a_get_without_patience(stage: Stage) -> None:
    """Where the journal has lost what it should have, there is nothing after all."""
    journal = stage.filled(3, 0).successor()
    gate = Gate(journal, "load")
    reader = stage.queue(journal).reader()
    journal.store.entries.clear()
    crew = Crew(reader._state.waiters)
    crew.waits(lambda: reader.get(timeout=0))
    gate.open()
    assert crew.kinds() == [stdlib.Empty]
    assert reader.head == 3


def test_a_load_from_a_journal_that_was_lost_ends_the_queue(stage: Stage) -> None:
    """Who waits hears who has it."""
    journal = stage.filled(3, 0).successor()
    gate = Gate(journal, "load")
    queue = stage.queue(journal)
    reader = queue.reader()
    crew = Crew(reader._state.waiters)
    crew.waits(reader.get)
    stage.again(journal)
    gate.open()
    assert crew.kinds() == [FencedError]
    with pytest.raises(FencedError):
        queue.put("a")


class Stingy(MemoryJournal[str]):
    """A journal that gives fewer items than it was asked for."""

    def load(self, first: int, limit: int) -> Sequence[Entry[str]]:
        """Return a part of what is there."""
        return super().load(first, limit)[: max(1, limit // 3)]


def test_a_short_block_is_not_the_end(stage: Stage) -> None:
    """Only where nothing comes back nothing follows."""
    filled = stage.filled(50, 0)
    del filled.store.entries[10:20]
    queue = stage.queue(Stingy(filled.store), options=small(12))
    reader = queue.reader()
    assert len(drain(reader)) == 40
    assert reader.head == 50


@pytest.mark.parametrize("limit", [1, 2, 8, 32])
def test_who_looks_after_a_load_comes_to_an_end(stage: Stage, limit: int) -> None:
    """What a reader needs next stays in memory, however little there is and wherever others are."""
    journal = stage.filled(300, 0, name="behind").successor()
    queue = stage.queue(journal)
    ahead = queue.reader("ahead", start=1)
    ahead.ack_many(ahead.get_many(200))
    queue.sync()
    small_queue = stage.again(journal, options=small(limit))
    ahead = small_queue.reader("ahead")
    assert ahead.get(timeout=10).id == 201
    behind = small_queue.reader("behind", ReaderConfig(max_age=timedelta(seconds=1)))
    stage.advance(2)
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(behind.discard_expired()), daemon=True)
    thread.start()
    thread.join(10)
    assert ended == [300]
