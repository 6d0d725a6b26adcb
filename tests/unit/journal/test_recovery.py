"""What is there after a restart, or a crash; checkpoints."""

from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue.errors import FencedError
from spark_queue.journal import JournaledQueue, MemoryJournal, QueueOptions, ReaderOffset, Recovered
from spark_queue.memory.journal.reader_registry import _clamp
from spark_queue.reader_config import ReaderConfig
from tests.unit.journal.conftest import Journal, Queue
from tests.unit.journal.stage import Stage, drain, failing, put_all, unread
from tests.unit.threads import until


def offset_of(journal: MemoryJournal[str], name: str = "") -> ReaderOffset:
    """Return what the journal knows of a reader."""
    return next(offset for offset in journal.store.recover().readers if offset.name == name)


def test_one_of_four(stage: Stage) -> None:
    """One of four is acked; three are there after a restart (JQ-32, KP-17)."""
    journal = stage.journal()
    with stage.queue(journal) as queue:
        put_all(queue, "1", "2", "3", "4")
        queue.reader().ack(queue.reader().get())
    with stage.again(journal) as queue:
        assert drain(queue.reader()) == ["2", "3", "4"]
    assert stage.again(journal).items == 0


def test_acks_out_of_order_survive(stage: Stage) -> None:
    """Both checkpoints keep what was done, in whatever order (JQ-15)."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "1", "2")
    one, two = reader.get(), reader.get()
    reader.ack(two)
    queue.checkpoint()
    reader.ack(one)
    queue.checkpoint()
    assert queue.items == 0
    queue.close()
    offset = offset_of(journal)
    assert (offset.head, offset.done, stage.again(journal).items) == (2, frozenset(), 0)


def test_a_committed_item_is_not_delivered_again(stage: Stage) -> None:
    """Item 1 was open and 2 acked: after a restart there is 1 only (LB-06, decision 4)."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "1", "2", "3")
    reader.get()
    reader.ack(reader.get())
    queue.close()
    assert offset_of(journal).done == {2}
    assert drain(stage.again(journal).reader()) == ["1", "3"]


def test_open_reads_come_back_in_order(stage: Stage) -> None:
    """Of five, four are open and two of these acked: three are left (KP-31, KP-23, KP-18)."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "one", "two", "three", "four", "five")
    reads = reader.get_many(4)
    reader.ack_many([reads[1], reads[3]])
    queue.sync()
    again = stage.again(journal).reader()
    assert (again.items, again.open_items) == (3, 0)
    assert unread(again) == ["one", "three", "five"]


def test_the_errors_of_an_item_survive(stage: Stage) -> None:
    """How often an item failed is known after a restart (LB-10 remade)."""
    journal = stage.journal()
    with stage.queue(journal) as queue:
        reader = queue.reader()
        put_all(queue, "a")
        queue.put("b", errors=5)
        for _ in range(2):
            reader.nack(reader.get())
    again = stage.again(journal).reader()
    assert [read.errors for read in again.get_many(2)] == [2, 5]


def test_rounds_and_restarts(stage: Stage) -> None:
    """Sixteen items and many rounds leave sixteen, also after restarts (KP-05..07)."""
    journal = stage.journal()
    queue = stage.queue(journal)
    put_all(queue, *(f"old {item}" for item in range(16)))
    for count in (15, 31):
        reader = queue.reader()
        for item in range(count):
            reader.ack(reader.get())
            put_all(queue, f"new {item}")
        queue.close()
        queue = stage.again(journal)
        assert queue.items == 16


def test_what_was_passed_is_dropped(journal: Journal, queue: Queue) -> None:
    """A checkpoint drops what every reader has done, and nothing else (JQ-30, JN-22, JN-23)."""
    one, two = queue.reader("one"), queue.reader("two")
    put_all(queue, *"1234")
    one.ack_many(one.get_many(4))
    two.ack_many(two.get_many(2))
    queue.checkpoint()
    assert [entry.id for entry in journal.store.entries] == [3, 4]
    two.ack(two.get_many(2)[1])
    queue.checkpoint()
    assert [entry.id for entry in journal.store.entries] == [3, 4]
    assert [offset_of(journal, name).head for name in ("one", "two")] == [4, 2]


def test_offsets_of_two_readers(journal: Journal, queue: Queue) -> None:
    """Each reader has its own head and done items (JN-11, JN-13)."""
    one, two = queue.reader("client1"), queue.reader("client2")
    put_all(queue, *"123")
    for reader in (one, two):
        reads = reader.get_many(3)
        reader.ack(reads[1])
        reader.ack(reads[0] if reader is one else reads[2])
    queue.sync()
    offsets = [offset_of(journal, name) for name in ("client1", "client2")]
    assert [(offset.head, set(offset.done)) for offset in offsets] == [(2, set()), (0, {2, 3})]


def test_a_checkpoint_without_change_writes_nothing(journal: Journal, queue: Queue) -> None:
    """The journal is left alone where nothing happened (JN-12)."""
    put_all(queue, "a")
    queue.checkpoint()
    failing(journal, "checkpoint", AssertionError("written again"))
    queue.checkpoint()


def test_a_timer_writes_checkpoints(stage: Stage) -> None:
    """The offset follows when the interval has passed, again and again (JQ-33, PS-01..03)."""
    journal = stage.journal()
    options = QueueOptions(durability="memory", checkpoint_interval=timedelta(milliseconds=5))
    queue = stage.queue(journal, options=options)
    for head in (1, 2):
        put_all(queue, "a")
        queue.reader().ack(queue.reader().get())
        assert offset_of(journal).head == head - 1
        until(lambda: len(stage.timer) == 1)
        stage.advance(0.005)
        until(lambda: journal.store.passed == head)  # noqa: B023 - used at once
    queue.close()
    assert len(stage.timer) == 0


def test_a_checkpoint_that_fails_is_tried_again(stage: Stage) -> None:
    """The queue goes on; whoever asked for the checkpoint gets the error."""
    journal = stage.journal()
    options = QueueOptions(durability="memory", checkpoint_interval=1)
    queue = stage.queue(journal, options=options)
    put_all(queue, "a")
    failing(journal, "checkpoint", OSError("disk full"))
    stage.advance(1)
    until(lambda: len(stage.timer) == 1)
    with pytest.raises(OSError, match="disk full"):
        queue.checkpoint()
    assert drain(queue.reader()) == ["a"]
    journal.before = lambda _: None
    queue.checkpoint()
    assert journal.store.passed == 1


@pytest.mark.parametrize(
    ("first", "last", "head", "done", "expected"),
    [
        (390, 400, 402, {}, (400, set())),
        (390, 400, 390, {395, 403}, (390, {395})),
        (800, 900, 600, {}, (799, set())),
        (1, 0, 0, {}, (0, set())),
    ],
)
def test_an_offset_is_fitted_to_its_journal(
    stage: Stage, first: int, last: int, head: int, done: set[int], expected: object
) -> None:
    """The head is within what is there; done items outside are forgotten (JN-16, JN-17, JQ-18)."""
    offset = ReaderOffset(
        reader=1,
        name="r",
        config=ReaderConfig(),
        created_at=stage.clock.now(),
        head=head,
        done=frozenset(done),
    )
    found = Recovered(last_id=last, first_id=first, readers=[offset])
    fitted = _clamp(offset, found)
    assert (fitted.head, set(fitted.done)) == expected


def test_a_gap_in_the_journal_is_stepped_over(stage: Stage) -> None:
    """Items behind a hole are delivered, and the checkpoint passes it (LB-09)."""
    journal = stage.filled(9, 0)
    del journal.store.entries[2:5]
    queue = stage.again(journal)
    reader = queue.reader()
    assert [int(item[0]) for item in drain(reader)] == [1, 2, 6, 7, 8, 9]
    assert reader.head == 9
    queue.checkpoint()
    assert (journal.store.passed, journal.store.entries) == (9, [])


def test_a_journal_that_ends_in_a_gap(stage: Stage) -> None:
    """A reader that finds nothing more where the journal had something is through."""
    journal = stage.filled(4, 0)
    del journal.store.entries[1:]
    queue = stage.again(journal)
    reader = queue.reader()
    assert len(drain(reader)) == 1
    put_all(queue, "next")
    assert drain(reader) == ["next"]


def test_ids_are_not_used_again(stage: Stage) -> None:
    """After a restart ids go on, even where everything was dropped (JN-19)."""
    journal = stage.journal()
    with stage.queue(journal) as queue:
        put_all(queue, "1", "2")
        drain(queue.reader())
    with stage.again(journal) as queue:
        assert put_all(queue, "3") == [3]


def test_nothing_durable_is_lost_between_puts_and_settlements(stage: Stage) -> None:
    """A crash between the halves of a group leaves items without what became of them."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "1", "2")
    reader.ack(reader.get())
    failing(journal, "settlements", OSError("crash"))
    with pytest.raises(Exception, match="crash"):
        queue.sync()
    assert drain(stage.again(journal).reader()) == ["1", "2"]


def test_a_journal_that_cannot_be_recovered(stage: Stage) -> None:
    """Opening fails with the error of the journal."""
    journal = stage.journal()
    failing(journal, "recover", FencedError("the journal", "another"))
    with pytest.raises(FencedError):
        JournaledQueue(journal)


def test_a_reader_that_cannot_be_registered(journal: Journal, queue: Queue) -> None:
    """A reader that the journal does not take is none, and the queue goes on (KC-03)."""
    queue.reader("one")
    failing(journal, "add_reader", OSError("disk full"))
    with pytest.raises(OSError, match="disk full"):
        queue.reader("two")
    put_all(queue, "a")
    assert (queue.readers(), drain(queue.reader("one"))) == (["one"], ["a"])
    assert queue.stats().memory_items == 0


def test_a_drained_queue_leaves_an_empty_journal(stage: Stage) -> None:
    """The close of a queue with nothing left drops every item (KP-21, KP-08, KP-33)."""
    journal = stage.journal()
    with stage.queue(journal) as queue:
        put_all(queue, "1", "2", "3")
        reader = queue.reader()
        reads = reader.get_many(3)
        reader.ack_many(reads[:2])
        queue.checkpoint()
        assert [entry.item for entry in journal.store.entries] == ["3"]
        reader.ack(reads[2])
    assert journal.store.entries == []


def test_an_open_item_survives_a_checkpoint(stage: Stage) -> None:
    """A checkpoint keeps what is open, and what is behind it (KP-09)."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "1", "2")
    reader.get()
    reader.ack(reader.get())
    queue.checkpoint()
    assert [entry.item for entry in journal.store.entries] == ["1", "2"]
    assert drain(stage.again(journal).reader()) == ["1"]


def test_what_a_dropped_reader_held_back_is_dropped(journal: Journal, queue: Queue) -> None:
    """A checkpoint goes on where a slow reader has gone, though nothing else happened."""
    queue.reader("slow")
    fast = queue.reader("fast")
    put_all(queue, "1", "2")
    drain(fast)
    queue.checkpoint()
    assert len(journal.store.entries) == 2
    queue.drop_reader("slow")
    queue.checkpoint()
    assert journal.store.entries == []


def test_errors_of_what_is_done_are_forgotten(stage: Stage) -> None:
    """An offset brings back the errors of items that wait, and of no others."""
    offset = ReaderOffset(
        reader=1,
        name="r",
        config=ReaderConfig(),
        created_at=stage.clock.now(),
        head=2,
        done=frozenset([4]),
        errors={1: 1, 3: 2, 4: 3, 9: 4},
    )
    fitted = _clamp(offset, Recovered(last_id=5, first_id=1, readers=[offset]))
    assert fitted.errors == {3: 2}
