"""Gets that wait: in order, with deadlines, and never while an item is there."""

from __future__ import annotations

import queue as stdlib
import threading
from collections.abc import Callable
from functools import partial

import pytest

from spark_queue.errors import ReaderNotFoundError
from spark_queue.journal import ReaderHooks
from tests.unit.journal.conftest import Queue, Reader
from tests.unit.journal.stage import Gate, Stage, drain, got, put_all
from tests.unit.threads import until
from tests.unit.waiting.tickets.crew import Crew


def items_of(crew: Crew, *numbers: int) -> list[object]:
    """Return what the calls of a crew got."""
    return [getattr(outcome, "item", type(outcome)) for outcome in crew.outcomes(*numbers)]


def test_a_wait_in_vain_names_the_reader(stage: Stage) -> None:
    """The error says of which reader there was no item, or that it is paused."""
    reader = stage.queue().reader("mail")
    with pytest.raises(stdlib.Empty, match=r"reader 'queue\+mail' had no item in time"):
        reader.get(timeout=0)
    reader.pause()
    with pytest.raises(stdlib.Empty, match=r"reader 'queue\+mail' is paused"):
        reader.get(timeout=0)


@pytest.mark.parametrize("ends", ["nack", "release"])
def test_a_waiter_gets_what_comes_back(queue: Queue, reader: Reader, ends: str) -> None:
    """A nack, or a release, serves who waits (JQ-14, KH-14)."""
    put_all(queue, "a")
    read = reader.get()
    crew = Crew(reader._state.waiters)
    crew.waits(lambda: reader.get(timeout=1))
    getattr(reader, ends)(read)
    assert items_of(crew) == ["a"]


def test_looking_waits_too(queue: Queue, reader: Reader) -> None:
    """A waiting peek sees the item that the next get takes (KH-18)."""
    crew = Crew(reader._state.waiters)
    crew.waits(lambda: reader.get(peek=True))
    crew.waits(reader.get)
    put_all(queue, "a")
    assert items_of(crew) == ["a", "a"]
    assert reader.open_items == 1


def test_evicted_waiters_get_nothing(stage: Stage, queue: Queue, reader: Reader) -> None:
    """Every wait ends at once (KH-11, KH-16)."""
    crew = Crew(reader._state.waiters)
    crew.waits(reader.get)
    crew.waits(lambda: reader.get(timeout=10))
    assert queue.evict_waiters() == 2
    assert crew.kinds() == [stdlib.Empty] * 2
    assert len(stage.timer) == 0


def test_a_drop_ends_every_wait(stage: Stage) -> None:
    """Who waits at a reader that is dropped hears of it."""
    queue = stage.queue()
    reader = queue.reader("r")
    crew = Crew(reader._state.waiters)
    crew.waits(reader.get)
    queue.drop_reader("r")
    assert crew.kinds() == [ReaderNotFoundError]


def test_an_interrupted_wait_takes_nothing(queue: Queue, reader: Reader) -> None:
    """What was handed over at the last moment goes back, uncounted (KP-29, KH-13, KH-15)."""
    put_all(queue, "a")
    read = reader.get()
    reader._state._take_back(read)
    stats = reader.stats()
    assert (stats.opened, stats.canceled, stats.open_items) == (0, 0, 0)
    assert reader.get().errors == 0


def test_a_paused_reader_hands_nothing_out(queue: Queue, reader: Reader) -> None:
    """Gets find nothing, or wait, until the reader goes on (kestrel's pauseReads)."""
    put_all(queue, "a")
    reader.pause()
    assert got(reader.get_nowait) is None
    crew = Crew(reader._state.waiters)
    crew.waits(reader.get)
    put_all(queue, "b")
    assert reader.waiter_count == 1
    reader.resume()
    assert items_of(crew) == ["a"]


def test_overdue_reads_come_back(stage: Stage) -> None:
    """Reads older than their time end as failed when the next get comes (KP-16, KT-04)."""
    queue = stage.queue(hooks=ReaderHooks(open_timeout=0.010))
    reader = queue.reader()
    put_all(queue, "one", "two", "three", "four")
    first = [reader.get(timeout=0).item for _ in range(3)]
    stage.advance(0.006)
    four = reader.get(timeout=0)
    stage.advance(0.006)
    assert [reader.get(timeout=0).item for _ in range(3)] == first == ["one", "two", "three"]
    assert got(reader.get_nowait) is None
    assert reader.ack(four)
    assert [read.errors for read in reader.open_reads()] == [1, 1, 1]


def test_a_late_ack_counts_until_the_item_is_read_again(stage: Stage) -> None:
    """An ack counts after its time while nobody has the item since (decision 19)."""
    queue = stage.queue(hooks=ReaderHooks(open_timeout=1))
    reader = queue.reader()
    put_all(queue, "a", "b")
    late, later = reader.get_many(2)
    stage.advance(1)
    assert reader.peek().item == "a"
    assert reader.ack(late)
    again = reader.get()
    assert again.item == "b"
    assert not reader.ack(later)
    assert (reader.items, reader.open_items) == (1, 1)
    reader.nack(again)
    assert not reader.ack(later)


@pytest.mark.parametrize("ends", ["overdue", "nack"])
def test_the_late_ack_of_an_earlier_read_does_not_count(stage: Stage, ends: str) -> None:
    """Once an item was opened again, the ack of the read before settles nothing, however that ends.

    The newer read is the one that may be late then.
    """
    queue = stage.queue(hooks=ReaderHooks(open_timeout=1))
    reader = queue.reader()
    put_all(queue, "a")
    earlier = reader.get()
    stage.advance(1)
    later = reader.get()
    if ends == "nack":
        assert reader.nack(later)
    else:
        stage.advance(1)
    assert reader.peek().errors == 2
    assert not reader.ack(earlier)
    assert reader.ack(later) is (ends == "overdue")
    assert reader.items == (ends == "nack")


def test_an_overdue_read_serves_who_waits(stage: Stage) -> None:
    """A waiter need not come again to get what another holds for too long."""
    queue = stage.queue(hooks=ReaderHooks(open_timeout=5))
    reader = queue.reader()
    put_all(queue, "a")
    reader.get()
    stage.advance(2)
    crew = Crew(reader._state.waiters)
    crew.waits(reader.get)
    stage.advance(3)
    assert items_of(crew) == ["a"]


def test_what_expires_serves_nobody(stage: Stage, queue: Queue, reader: Reader) -> None:
    """An item that came back too late is not handed to a waiter."""
    queue.put("a", expires_at=stage.after(1))
    read = reader.get()
    crew = Crew(reader._state.waiters)
    crew.waits(reader.get)
    stage.advance(1)
    reader.nack(read)
    put_all(queue, "b")
    assert items_of(crew) == ["b"]


def test_a_get_waits_for_a_load_rather_than_saying_empty(stage: Stage) -> None:
    """An item that is not in memory is not nothing, not even for a get without patience."""
    journal = stage.filled(3, 0).successor()
    gate = Gate(journal, "load")
    queue = stage.queue(journal)
    reader = queue.reader()
    crew = Crew(reader._state.waiters)
    crew.waits(lambda: reader.get(timeout=0))
    gate.open()
    [read] = crew.outcomes()
    assert read.id == 1
    assert drain(reader)[0][0] == "2"


def run_all(*bodies: Callable[[], object]) -> list[threading.Thread]:
    """Start each body in a thread of its own."""
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    return threads


def test_many_threads(queue: Queue, reader: Reader) -> None:
    """Everything that is put is got, and what was nacked is got again (own)."""
    seen: list[str] = []

    def consume() -> None:
        while (read := reader.get()).item != "stop":
            seen.append(read.item)
            if read.errors or int(read.item) % 7:
                reader.ack(read)
            else:
                reader.nack(read)

    consumers = run_all(*[consume] * 4)
    starts = (0, 200, 400)
    numbers = [[str(item) for item in range(start, start + 200)] for start in starts]
    for thread in run_all(*(partial(put_all, queue, *each) for each in numbers)):
        thread.join()
    until(lambda: not reader.items)
    put_all(queue, *["stop"] * 4)
    for thread in consumers:
        thread.join(10)
    again = [str(item) for item in range(0, 600, 7)]
    assert sorted(seen) == sorted([str(item) for item in range(600)] + again)


def test_a_wait_that_has_ended_costs_puts_nothing(stage: Stage) -> None:
    """Puts look closer only as long as somebody waits."""
    queue = stage.queue()
    reader = queue.reader()
    alerts = [queue._state.alert]
    crew = Crew(reader._state.waiters)
    crew.waits(lambda: reader.get(timeout=1))
    alerts.append(queue._state.alert)
    stage.advance(1)
    assert crew.kinds() == [stdlib.Empty]
    put_all(queue, "a")
    alerts.append(queue._state.alert)
    assert alerts == [False, True, False]


def test_a_timeout_that_is_set_later_begins_then(stage: Stage) -> None:
    """What was open before a reader got its timeout has its whole time still."""
    queue = stage.queue()
    reader = queue.reader()
    put_all(queue, "a")
    stage.advance(100)
    reader.get()
    queue.reader(hooks=ReaderHooks(open_timeout=5))
    stage.advance(4)
    assert got(reader.get_nowait) is None
    stage.advance(1)
    assert got(reader.get_nowait) == "a"
