"""The line of one reader: head and done, order, and what comes back."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest

from spark_queue.clock import ManualClock
from spark_queue.memory.journal.cache import EntryCache
from spark_queue.memory.journal.offsets import ReaderCursor
from spark_queue.memory.journal.records import Entry, PutTotals, ReaderOffset
from spark_queue.reader_config import ReaderConfig

NOW = ManualClock().now()


def line_at(head: int, ids: Iterable[int], done: Iterable[int] = ()) -> ReaderCursor[str]:
    """Make a line whose items are in memory."""
    present = list(ids)
    cache: EntryCache[str] = EntryCache(math.inf, math.inf)
    totals = PutTotals(last_id=max(present, default=head), durable_id=max(present, default=head))
    offset = ReaderOffset(
        reader=1,
        name="r",
        config=ReaderConfig(),
        created_at=NOW,
        head=head,
        done=frozenset(done),
        items=len([item for item in present if item > head and item not in done]),
    )
    line = ReaderCursor(offset, totals, cache)
    cache.followers.append(line)
    for item in present:
        cache.add(Entry(item, str(item), NOW, 3))
    return line


def take(line: ReaderCursor[str]) -> int | None:
    """Open the next item, and return its id."""
    entry = line.next_entry()
    if entry is None:
        return None
    line.take(entry)
    return line.open_read(entry).id


def ack(line: ReaderCursor[str], *items: int) -> None:
    """Ack open items."""
    for item in items:
        read = line.close_read(item)
        assert read is not None
        line.settle(read.entry, line.settlements.acked)


def test_the_head_follows_when_the_gap_closes() -> None:
    """What is done behind the head waits until everything before it is done too (JR-04)."""
    line = line_at(123, range(124, 131))
    while take(line) is not None:
        pass
    ack(line, 124)
    assert (line.head, line.done) == (124, set())
    ack(line, 126, 127, 129)
    assert (line.head, line.done) == (124, {126, 127, 129})
    ack(line, 125)
    assert (line.head, line.done) == (127, {129})
    ack(line, 130, 128)
    assert (line.head, line.done) == (130, set())


def test_acks_out_of_order_are_kept_apart() -> None:
    """Acks behind an open item are done, and the head stays (JR-02)."""
    line = line_at(123, range(124, 131))
    while take(line) is not None:
        pass
    ack(line, 125, 130)
    assert (line.head, sorted(line.done)) == (123, [125, 130])


def test_what_was_done_is_not_read_again() -> None:
    """A line that starts with done items behind its head passes over them (JR-03, LB-06)."""
    line = line_at(900, range(901, 905), done=[902, 903])
    assert [take(line), take(line), take(line)] == [901, 904, None]
    ack(line, 901)
    assert (line.head, line.done) == (903, set())


@pytest.mark.parametrize(("head", "ids"), [(101, [102, 103]), (100, [101, 102, 103])])
def test_reading_begins_behind_the_head(head: int, ids: list[int]) -> None:
    """The first item is the one behind the head, whatever else is in memory (JR-06, JR-07)."""
    line = line_at(head, range(100, 104))
    assert [take(line) for _ in ids] == ids
    assert take(line) is None


@pytest.mark.parametrize(("head", "first"), [(101, 102), (100, 101)])
def test_looking_takes_nothing(head: int, first: int) -> None:
    """The next item is the same however often it is looked at (JR-08, JR-09)."""
    line = line_at(head, range(100, 104))
    for _ in range(2):
        entry = line.next_entry()
        assert entry is not None
        assert entry.id == first


@pytest.mark.parametrize("order", [[1, 2], [2, 1]])
def test_what_comes_back_keeps_its_place(order: list[int]) -> None:
    """Items come back in the order of ids, in whatever order they failed (LB-01, decision 1)."""
    line = line_at(0, range(1, 4))
    reads = {item: take(line) for item in (1, 2)}
    assert reads == {1: 1, 2: 2}
    for item in order:
        read = line.close_read(item)
        assert read is not None
        line.fail(read.entry, 1)
    assert [take(line), take(line), take(line)] == [1, 2, 3]


def test_a_gap_is_stepped_over() -> None:
    """Missing ids hold nobody up, and count as done (LB-09, LB-15)."""
    line = line_at(0, [1, 5])
    line._cache.stock(1, [], 0)
    line._cache.stock(2, [Entry(5, "5", NOW, 3)], 5)
    assert [take(line), take(line), take(line)] == [1, 5, None]
    ack(line, 1, 5)
    assert line.head == 5


def test_an_ack_after_a_return_leaves_one_settlement() -> None:
    """Of an item that came back and was done in one group, the journal hears the end only."""
    line = line_at(0, [1])
    take(line)
    read = line.close_read(1)
    assert read is not None
    line.fail(read.entry, 1)
    assert line.settlements.returned == {1: 1}
    take(line)
    ack(line, 1)
    settlements = line.cut_settlements()
    assert settlements is not None
    assert (settlements.acked, settlements.returned, line.errors) == ([1], {}, {})
    assert line.cut_settlements() is None


def test_a_flush_forgets_what_failed() -> None:
    """Of an item that failed and was flushed, neither the errors nor a return are written down."""
    line = line_at(0, [1, 2])
    take(line)
    read = line.close_read(1)
    assert read is not None
    line.fail(read.entry, 3)
    assert line.flush() == 2
    settlements = line.cut_settlements()
    assert settlements is not None
    assert (sorted(settlements.discarded), settlements.returned, line.errors) == ([1, 2], {}, {})
