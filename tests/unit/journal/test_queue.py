"""The journaled queue: what is put, got and settled; its readers; its names."""

from __future__ import annotations

import logging
import queue as stdlib
from datetime import timedelta

import pytest

from spark_queue.errors import InvalidArgumentError, QueueShutDownError, ReaderNotFoundError
from spark_queue.journal import JournaledQueue, MemoryJournal, ReaderHooks
from spark_queue.reader_config import ReaderConfig
from tests.unit.journal.conftest import Fill, Journal, Queue, Reader
from tests.unit.journal.stage import KIB, Stage, drain, got, put_all, unread
from tests.unit.waiting.tickets.crew import Crew


def test_a_new_queue_has_a_default_reader_at_the_start(journal: Journal, queue: Queue) -> None:
    """A journal that is new gets its default reader, at head 0 (JQ-01, JN-14, JR-01, JN-18)."""
    assert queue.readers() == [""]
    [offset] = journal.store.recover().readers
    assert (offset.name, offset.head) == ("", 0)
    assert put_all(queue, "a") == [1]


def test_names(stage: Stage) -> None:
    """A name has letters, digits, colon, underscore and hyphen only (JQ-02, KC-02)."""
    assert stage.queue(name="this_is-okay").name == "this_is-okay"
    for name in ["evil^queue", "evilqueue ", "evil.queue", ""]:
        with pytest.raises(InvalidArgumentError, match="letters, digits"):
            stage.queue(name=name)


def test_the_default_reader_is_gone_when_there_are_named_ones(queue: Queue) -> None:
    """With a named reader there, asking for the default one is an error (JQ-03, JN-05)."""
    queue.reader()
    queue.reader("client1")
    with pytest.raises(ReaderNotFoundError, match="default reader"):
        queue.reader()
    assert queue.readers() == ["client1"]


def test_the_default_reader_comes_back_after_the_last_is_dropped(stage: Stage) -> None:
    """Readers are dropped for good, and the default one can be made again (JQ-04, K3-03)."""
    journal = stage.journal()
    queue = stage.queue(journal)
    queue.reader("client1")
    queue.reader("client2")
    queue.drop_reader("client2")
    assert [offset.name for offset in journal.store.recover().readers] == ["client1"]
    queue.drop_reader("client1")
    assert journal.store.recover().readers == []
    put_all(queue, "nobody reads this")
    reader = queue.reader()
    put_all(queue, "a")
    assert unread(reader) == ["a"]
    with pytest.raises(ReaderNotFoundError):
        queue.drop_reader("client1")


def test_what_the_last_reader_had_is_lost_with_it(queue: Queue) -> None:
    """Dropping the last reader loses its items; whoever comes next starts at the tail (LB-19)."""
    put_all(queue, "a", "b")
    queue.drop_reader("")
    assert queue.items == 0
    assert queue.reader("client1").items == 0


def test_a_dropped_reader_ends_its_waits(queue: Queue) -> None:
    """Who uses a dropped reader hears that it is gone (KC-12, KH-10)."""
    kept, gone = queue.reader("kept"), queue.reader("gone")
    put_all(queue, "a")
    read = gone.get()
    queue.drop_reader("gone")
    with pytest.raises(ReaderNotFoundError):
        gone.get(timeout=0)
    assert not gone.ack(read)
    assert not gone.nack(read)
    put_all(queue, "b")
    assert unread(kept) == ["a", "b"]
    assert queue.readers() == ["kept"]


def test_the_first_named_reader_takes_the_default_over(journal: Journal, queue: Queue) -> None:
    """Position and unread items stay, what was open is unread again (JN-15, KC-11)."""
    put_all(queue, "a", "b", "c")
    default = queue.reader()
    default.ack(default.get())
    lost = default.get()
    hello = queue.reader("hello", ReaderConfig(max_items=7))
    assert not hello.ack(lost)
    assert unread(hello) == ["b", "c"]
    queue.sync()
    [offset] = journal.store.recover().readers
    assert (offset.name, offset.head, offset.config.max_items) == ("hello", 1, 7)


def test_the_default_reader_keeps_its_limits_when_it_is_named(queue: Queue) -> None:
    """A first named reader without a configuration of its own has that of the default one."""
    queue.reader(config=ReaderConfig(max_items=7))
    assert queue.reader("hello").config.max_items == 7
    assert queue.reader("other").config.max_items is None


def test_further_readers_start_at_the_tail(queue: Queue) -> None:
    """A later reader sees later items only (K3-01, KC-10)."""
    client1 = queue.reader("client1")
    put_all(queue, "job1")
    client2 = queue.reader("client2")
    put_all(queue, "job2")
    assert (drain(client1), drain(client2)) == (["job1", "job2"], ["job2"])


def test_readers_that_were_there_get_everything(queue: Queue) -> None:
    """Each reader gets each item, from one copy (K3-02)."""
    clients = [queue.reader("client1"), queue.reader("client2")]
    put_all(queue, "job1", "job2")
    assert queue.stats().memory_items == 2
    assert queue.items == 4
    assert [drain(client) for client in clients] == [["job1", "job2"]] * 2
    assert queue.stats().memory_items == 0


@pytest.mark.parametrize(
    ("start", "items"), [("tail", ["3"]), ("beginning", ["1", "2", "3"]), (2, ["2", "3"])]
)
def test_where_a_reader_starts(stage: Stage, start: str, items: list[str]) -> None:
    """A new reader starts at the tail, at the beginning, or at an id (own)."""
    queue = stage.queue()
    queue.reader("first")
    put_all(queue, "1", "2")
    reader = queue.reader("second", start=start)  # type: ignore[arg-type]
    put_all(queue, "3")
    assert (reader.items, reader.bytes) == (len(items), len(items))
    assert drain(reader) == items


@pytest.mark.parametrize("start", ["tail", "beginning", 1])
def test_the_first_reader_goes_on_where_the_default_was(queue: Queue, start: str) -> None:
    """A first named reader takes over, wherever others would start (own)."""
    put_all(queue, "1", "2")
    default = queue.reader()
    default.ack(default.get())
    assert drain(queue.reader("first", start=start)) == ["2"]  # type: ignore[arg-type]
    assert queue.readers() == ["first"]


def test_without_offsets_a_journal_is_read_from_its_tail(stage: Stage, fill: Fill) -> None:
    """Existing items are not delivered to a default reader that is new (JQ-05)."""
    queue = stage.queue(fill(8, None))
    assert (queue.items, queue.bytes) == (0, 0)


def test_items_and_bytes_of_an_old_journal(stage: Stage, fill: Fill) -> None:
    """Five of eight items are unread; the first has id 4 (JQ-06)."""
    queue = stage.queue(fill(8, 3))
    assert (queue.items, queue.bytes) == (5, 5 * KIB)
    assert queue.reader().get(timeout=0).id == 4


@pytest.mark.parametrize("head", range(9))
def test_an_old_journal_is_read_from_its_head(stage: Stage, fill: Fill, head: int) -> None:
    """What is behind the head is unread, to the last (JQ-07, JQ-08)."""
    queue = stage.queue(fill(8, head))
    assert queue.items == 8 - head
    assert [int(item[0]) for item in drain(queue.reader())] == list(range(head + 1, 9))
    assert got(queue.reader().get_nowait) is None


def test_hits_and_misses(queue: Queue, reader: Reader) -> None:
    """A get that finds nothing is a miss, one that finds an item a hit (JQ-10, KC-06, KH-03)."""
    put_all(queue, "a")

    def counted() -> tuple[int, int]:
        stats = reader.stats()
        return stats.get_hit, stats.get_miss

    assert counted() == (0, 0)
    assert got(reader.get_nowait) == "a"
    assert counted() == (1, 0)
    assert got(reader.get_nowait) is None
    assert counted() == (1, 1)


def test_an_open_read_counts(stage: Stage, fill: Fill) -> None:
    """An open item counts until it is acked, and comes back by a nack (JQ-11..13)."""
    reader = stage.queue(fill(4, 3)).reader()
    read = reader.get(timeout=0)
    assert read.id == 4
    assert got(reader.get_nowait) is None
    stats = reader.stats()
    assert (stats.items, stats.bytes, stats.open_items, stats.open_bytes) == (1, KIB, 1, KIB)
    assert (stats.opened, stats.canceled) == (1, 0)
    assert reader.nack(read)
    stats = reader.stats()
    assert (stats.items, stats.open_items, stats.canceled) == (1, 0, 1)
    assert reader.ack(reader.get(timeout=0))
    stats = reader.stats()
    assert (stats.opened, stats.canceled, stats.open_items, stats.items) == (2, 1, 0, 0)
    assert stats.bytes == 0


def test_an_item_that_comes_back_is_the_same(queue: Queue, reader: Reader) -> None:
    """What is nacked comes again, with its id and before later items (JQ-16, KH-04)."""
    put_all(queue, "first", "second")
    read = reader.get()
    reader.nack(read)
    again = reader.get()
    assert (again.id, again.item, again.errors) == (read.id, "first", 1)


def test_the_error_hook_ends_what_failed_too_often(stage: Stage) -> None:
    """A hook that says so acks the failed item (JQ-17)."""
    seen: list[int] = []

    def on_error(read: object) -> bool:
        seen.append(read.errors)  # type: ignore[attr-defined]
        return seen[-1] >= 2

    queue = stage.queue(hooks=ReaderHooks(on_error=on_error))
    reader = queue.reader()
    put_all(queue, "a")
    for errors in (0, 1):
        read = reader.get(timeout=0)
        assert read.errors == errors
        reader.nack(read)
    assert seen == [1, 2]
    assert got(reader.get_nowait) is None
    stats = reader.stats()
    assert (stats.items, stats.punted, stats.head) == (0, 1, 1)


def test_an_error_hook_that_fails_returns_the_item(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """What the hook raises is logged, and the item comes back (LB-21)."""

    def on_error(_: object) -> bool:
        raise RuntimeError("hook")

    queue = stage.queue(hooks=ReaderHooks(on_error=on_error))
    reader = queue.reader()
    put_all(queue, "a")
    reader.nack(reader.get())
    assert "error hook failed" in caplog.text
    assert reader.get(timeout=0).errors == 1


def test_peeking_takes_nothing(queue: Queue, reader: Reader) -> None:
    """A peek shows the head, as often as asked; a get takes it (JQ-19, KH-18, KT-06)."""
    put_all(queue, "a", "b")
    looks = [reader.peek() for _ in range(3)]
    assert [look.item for look in looks] == ["a"] * 3
    assert not reader.ack(looks[0])
    assert (reader.get().item, reader.open_items) == ("a", 1)
    assert reader.stats().get_hit == 1
    reader.get()
    with pytest.raises(stdlib.Empty):
        reader.peek()


def test_puts_are_counted(queue: Queue, reader: Reader) -> None:
    """Items and bytes that were put are counted (JQ-35, KH-02)."""
    put_all(queue, "hi")
    assert got(reader.get_nowait) == "hi"
    stats = reader.stats()
    assert (stats.put, stats.put_bytes) == (1, 2)


def test_flush_drops_what_is_unread(queue: Queue, reader: Reader) -> None:
    """Four puts, a flush: nothing is left, one flush is counted (JQ-41, KP-03, JR-05)."""
    put_all(queue, "1", "2", "3", "4")
    assert queue.flush() == 4
    stats = reader.stats()
    assert (stats.items, stats.bytes, stats.flushes, stats.head) == (0, 0, 1, 4)
    assert got(reader.get_nowait) is None
    put_all(queue, "5")
    assert drain(reader) == ["5"]


def test_flush_leaves_open_reads(queue: Queue, reader: Reader) -> None:
    """Open reads stay open and settle normally; what came back is dropped (LB-07, decision 17)."""
    put_all(queue, "1", "22", "333", "4444")
    first, second = reader.get(), reader.get()
    reader.nack(reader.get())
    reader.nack(second)
    assert reader.flush() == 3
    assert (reader.items, reader.bytes, reader.open_items) == (1, 1, 1)
    assert got(reader.get_nowait) is None
    reader.nack(first)
    assert drain(reader) == ["1"]
    assert (reader.items, reader.head) == (0, 4)


def test_an_unused_reader(stage: Stage) -> None:
    """An old reader with nothing left is unused; open reads count (JQ-42, KP-44, LB-12)."""
    queue = stage.queue(max_idle=timedelta(seconds=5))
    reader = queue.reader()
    assert not reader.is_ready_for_expiration()
    put_all(queue, "a")
    stage.advance(6)
    assert not reader.is_ready_for_expiration()
    read = reader.get()
    assert not reader.is_ready_for_expiration()
    reader.nack(read)
    assert not reader.is_ready_for_expiration()
    reader.ack(reader.get())
    assert reader.is_ready_for_expiration()


def test_the_age_is_that_of_the_oldest_unread_item(stage: Stage) -> None:
    """The age grows with the clock, and goes with the items (JQ-31, KP-35, KP-36, KP-38)."""
    queue = stage.queue()
    reader = queue.reader()
    assert reader.age == timedelta(0)
    put_all(queue, "a", "b")
    stage.advance(0.015)
    assert reader.age == timedelta(seconds=0.015)
    reader.ack(reader.get())
    assert reader.age == timedelta(seconds=0.015)
    read = reader.get()
    assert reader.age == timedelta(0)
    reader.nack(read)
    assert reader.age == timedelta(seconds=0.015)


def test_unknown_ids_are_logged_and_harmless(
    queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """A second ack or nack, and one of another reader, change nothing (LB-17, LB-18, KH-06)."""
    one, two = queue.reader("one"), queue.reader("two")
    put_all(queue, "a", "b")
    read = one.get()
    assert one.ack(read)
    before = one.stats(), two.stats()
    with caplog.at_level(logging.ERROR):
        assert not one.ack(read)
        assert not one.ack(read.id)
        assert not one.nack(read)
        assert not two.ack(read)
        assert not two.ack(read.id)
        assert not one.nack(99)
    assert caplog.text.count("not open here") == 6
    assert (one.stats(), two.stats()) == before


def test_a_release_costs_nothing(stage: Stage) -> None:
    """What is released comes again at its place, uncharged, and no hook hears of it."""
    failed: list[object] = []
    queue = stage.queue(hooks=ReaderHooks(on_error=failed.append))
    reader = queue.reader()
    put_all(queue, "first", "second", "third")
    first, second, third = reader.get_many(3)
    assert reader.release(second)
    assert reader.release_many([third.id, first, second]) == 2
    assert [(read.item, read.errors) for read in reader.get_many(3)] == [
        ("first", 0),
        ("second", 0),
        ("third", 0),
    ]
    stats = reader.stats()
    assert (failed, stats.canceled, stats.open_items, stats.items) == ([], 0, 3, 3)
    assert not reader.release(first)


def test_a_release_keeps_earlier_failures(stage: Stage) -> None:
    """What had failed before it was released has failed as often, also after a restart."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "a")
    reader.nack(reader.get())
    assert reader.release(reader.get())
    assert reader.peek().errors == 1
    queue.close()
    assert stage.again(journal).reader().peek().errors == 1


def test_the_words_of_the_model_are_other_names(stage: Stage) -> None:
    """A commit is an ack, and an unget or a rollback a nack."""
    reader = stage.queue().reader()
    assert (reader.commit, reader.commit_many) == (reader.ack, reader.ack_many)
    assert (reader.unget, reader.unget_many) == (reader.nack, reader.nack_many)
    scope = reader.open_one()
    assert (scope.commit, scope.rollback) == (scope.ack, scope.nack)


def test_a_read_is_settled_by_its_id_as_well(queue: Queue, reader: Reader) -> None:
    """The id of an open item will do (K3)."""
    put_all(queue, "a")
    assert reader.nack(reader.get().id)
    assert reader.ack(reader.get().id)
    assert reader.items == 0


def test_an_old_token_does_not_settle_a_new_read(queue: Queue, reader: Reader) -> None:
    """Whoever lost an item cannot settle it in the hands of another (LB-18)."""
    put_all(queue, "a")
    old = reader.get()
    reader.nack(old)
    new = reader.get()
    assert not reader.ack(old)
    assert not reader.nack(old)
    assert reader.ack(new)


def test_one_nack_among_acks(stage: Stage, journal: Journal, queue: Queue, reader: Reader) -> None:
    """The nacked item comes again, the acked one does not (KP-30)."""
    put_all(queue, "house", "cat")
    house, cat = reader.get(), reader.get()
    reader.nack(house)
    reader.ack(cat)
    assert (reader.items, reader.bytes) == (1, 5)
    assert drain(reader) == ["house"]
    queue.sync()
    assert stage.again(journal).items == 0


def test_aborting_the_oldest(queue: Queue, reader: Reader) -> None:
    """A session can settle its open reads from the oldest on (KH-05)."""
    put_all(queue, "one", "two", "three")
    reader.get()
    reader.get()
    reader.nack(reader.open_reads()[0])
    assert reader.get().item == "one"
    assert reader.open_reads()[0].item == "two"
    reader.ack(reader.open_reads()[0])
    assert reader.get().item == "three"
    reader.nack(reader.open_reads()[0])
    assert reader.get().item == "one"


def test_confirming_the_oldest_n(queue: Queue, reader: Reader) -> None:
    """Settling many tells how many were open (KH-08, KH-09, KH-21, KT-02, KT-05)."""
    put_all(queue, "one", "two", "three")
    assert reader.get_many(5) != []
    assert reader.get_many(5) == []
    assert reader.ack_many(reader.open_reads()[:2]) == 2
    assert [read.item for read in reader.open_reads()] == ["three"]
    assert reader.ack_many([1, 2, 3, 9]) == 1
    put_all(queue, "four", "five")
    reads = reader.get_many(1)
    assert [read.item for read in reads] == ["four"]
    assert reader.nack_many([*reads, 17]) == 1
    assert [read.item for read in reader.get_many(2)] == ["four", "five"]


def test_put_many_stops_at_the_first_refusal(stage: Stage) -> None:
    """Of many puts those are accepted that fit (KT-01)."""
    queue = stage.queue(max_items=3)
    count, ids = queue.put_many("abcde")
    assert (count, ids.result()) == (3, [1, 2, 3])
    count, ids = queue.put_many("f")
    assert (count, ids.result()) == (0, [])


def test_rounds_far_behind(queue: Queue, reader: Reader) -> None:
    """Fifty puts with the reader five behind keep their order (JQ-09)."""
    for item in range(1, 51):
        put_all(queue, str(item))
        assert reader.items == min(item, 6)
        if item > 5:
            read = reader.get()
            assert read.item == str(item - 5)
            reader.ack(read)
        assert reader.items == min(item, 5)
    assert drain(reader) == ["46", "47", "48", "49", "50"]


def test_none_is_an_item() -> None:
    """``None`` goes through like any other item (decision 12)."""
    with JournaledQueue[object](MemoryJournal()) as queue:
        queue.put(None).result()
        assert queue.reader().get(timeout=0).item is None


def test_after_the_close_nothing_goes(queue: Queue, reader: Reader) -> None:
    """A closed queue refuses puts and gets, and ignores what is settled (LB-14)."""
    put_all(queue, "a", "b")
    read = reader.get()
    queue.close()
    queue.close()
    for call in (reader.get_nowait, lambda: queue.put("c"), queue.sync, queue.checkpoint):
        with pytest.raises(QueueShutDownError):
            call()
    assert not reader.ack(read)
    assert not reader.nack(read)
    with pytest.raises(QueueShutDownError):
        queue.reader("new")


def test_erase_leaves_nothing(journal: Journal, queue: Queue) -> None:
    """An erased journal is new again (JQ-40, JN-07, KC-09)."""
    put_all(queue, "a")
    queue.sync()
    queue.erase()
    with pytest.raises(QueueShutDownError):
        queue.put("b")
    found = journal.store.recover()
    assert (found.last_id, list(found.readers)) == (0, [])


def test_statistics_go_with_their_reader(queue: Queue) -> None:
    """A dropped reader leaves nothing to look at (KP-37)."""
    queue.reader("a")
    queue.reader("b")
    put_all(queue, "x", "y")
    stats = queue.stats()
    assert (stats.items, stats.bytes, set(stats.readers)) == (4, 4, {"a", "b"})
    queue.drop_reader("b")
    stats = queue.stats()
    assert (stats.items, set(stats.readers)) == (2, {"a"})


def test_first_in_first_out(queue: Queue) -> None:
    """Eleven bytes go in and come out; nothing is left (KP-01, KH-01)."""
    put_all(queue, "hello kitty", "bye")
    assert (queue.items, queue.bytes) == (2, 14)
    assert drain(queue.reader()) == ["hello kitty", "bye"]
    assert (queue.items, queue.bytes) == (0, 0)


def test_sums_over_readers(queue: Queue) -> None:
    """Items and bytes are summed over all readers (KC-01, KC-13)."""
    one, _ = queue.reader("one"), queue.reader("two")
    put_all(queue, "stuff")
    assert (queue.items, queue.bytes) == (2, 10)
    one.ack(one.get())
    assert (queue.items, queue.bytes) == (1, 5)


def test_cycles_of_commit_and_get(queue: Queue, reader: Reader) -> None:
    """Only the last of many reads is open, and comes back (KH-17)."""
    put_all(queue, *"12345")
    for _ in range(3):
        reader.ack(reader.get())
    reader.get()
    assert reader.nack_many(reader.open_reads()) == 1
    assert unread(reader) == ["4", "5"]


def test_get_many_waits_for_the_first_only(stage: Stage, queue: Queue, reader: Reader) -> None:
    """A get of many takes what is there, and waits where there is nothing (KH-20)."""
    crew = Crew(reader._state.waiters)
    crew.waits(lambda: [read.item for read in reader.get_many(3, timeout=1)])
    crew.waits(lambda: reader.get_many(3, timeout=1))
    put_all(queue, "a")
    assert crew.outcomes(0) == [["a"]]
    stage.advance(1)
    assert crew.outcomes(1) == [[]]
    put_all(queue, *"bcde")
    assert [read.item for read in reader.get_many(3, timeout=1)] == ["b", "c", "d"]


@pytest.mark.parametrize(
    ("start", "says"),
    [("begining", "did you mean 'beginning'"), ("", "known are"), (True, "True"), (1.5, "1.5")],
)
def test_a_start_that_is_none_is_refused(queue: Queue, start: object, says: str) -> None:
    """A misspelt start, or one that is no id, is an error that names it, and makes no reader."""
    for name in ("new", ""):
        with pytest.raises(InvalidArgumentError, match=says):
            queue.reader(name, start=start)  # type: ignore[arg-type]
    assert queue.readers() == [""]
