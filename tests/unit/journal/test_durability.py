"""When what was done is durable, what its future says, and what a failure ends."""

from __future__ import annotations

import threading

import pytest

from spark_queue.errors import DeadlockError, FencedError, QueueFullError, QueueShutDownError
from spark_queue.journal import JournaledQueue, JournalFailedError, MemoryJournal, QueueOptions
from tests.unit.journal.conftest import Journal, Queue
from tests.unit.journal.stage import Gate, Stage, drain, failing, put_all
from tests.unit.threads import until
from tests.unit.waiting.tickets.crew import Crew


def test_a_put_is_not_done_before_its_commit(stage: Stage) -> None:
    """The future of a slow journal is open, and done when that is (PS-04, PS-05)."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions())
    gate = Gate(journal, "commit")
    future = queue.put("a")
    assert gate.reached.wait(10)
    assert not future.done()
    assert not future.cancel()
    gate.open()
    assert future.result(10) == 1
    assert journal.store.last_id == 1


@pytest.mark.parametrize("durability", ["memory", "interval"])
def test_a_put_that_need_not_wait_is_done(journal: Journal, queue: Queue, durability: str) -> None:
    """The future is done at once (PS-06)."""
    future = queue.put("a", durability=durability)  # type: ignore[arg-type]
    assert future.done()
    assert (future.result(), journal.store.last_id) == (1, 0)


def test_the_interval_commits(stage: Stage) -> None:
    """What is put and acked is committed within the interval; no timer runs without it (PS-07)."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions(durability="interval", interval=1))
    assert len(stage.timer) == 0
    put_all(queue, "a", "b")
    assert len(stage.timer) == 1
    stage.advance(0.999)
    assert journal.store.last_id == 0
    stage.advance(0.001)
    until(lambda: journal.store.last_id == 2)
    assert len(stage.timer) == 0
    queue.reader().ack(queue.reader().get())
    stage.advance(1)
    until(lambda: journal.store.recover().readers[0].head == 1)


def test_a_group_is_due_by_count(stage: Stage) -> None:
    """So many items, or acks, are committed without anybody asking."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions(durability="memory", max_group_items=3))
    put_all(queue, "a", "b")
    assert journal.store.last_id == 0
    put_all(queue, "c")
    until(lambda: journal.store.last_id == 3)
    drain(queue.reader())
    until(lambda: journal.store.recover().readers[0].head == 3)


def test_a_group_is_due_by_bytes(stage: Stage) -> None:
    """So many bytes are committed without anybody asking."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions(durability="memory", max_group_bytes=10))
    put_all(queue, "x" * 9)
    assert journal.store.last_id == 0
    put_all(queue, "x")
    until(lambda: journal.store.last_id == 2)


def test_the_next_group_gathers_while_one_is_committed(stage: Stage) -> None:
    """What comes during a commit is one group, however much it is."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions())
    gate = Gate(journal, "commit")
    first = queue.put("a")
    assert gate.reached.wait(10)
    futures = [queue.put(item) for item in "bcdef"]
    assert queue.stats().pending == 6
    gate.open()
    assert [future.result(10) for future in [first, *futures]] == [1, 2, 3, 4, 5, 6]
    assert queue.stats().commits == 2


def test_puts_wait_for_room(stage: Stage) -> None:
    """Beyond the limit a put waits until a group is durable, in order."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions(max_pending=2, durability="memory"))
    gate = Gate(journal, "commit")
    put_all(queue, "1", "2")
    crew = Crew(queue._state.puts.producers)
    for item in "34":
        crew.waits(lambda item=item: queue.put(item).result())  # type: ignore[misc]
    with pytest.raises(QueueFullError):
        queue.put("5", timeout=0)
    crew.waits(lambda: queue.put("6", timeout=1))
    stage.advance(1)
    assert isinstance(crew.outcomes(2)[0], QueueFullError)
    gate.open()
    assert crew.outcomes(0, 1) == [3, 4]
    assert drain(queue.reader()) == ["1", "2", "3", "4"]


def test_a_refused_put_gives_its_room_to_the_next(stage: Stage) -> None:
    """A producer whose item is refused in the end leaves the room to others."""
    journal = stage.journal()
    queue = stage.queue(
        journal, options=QueueOptions(max_pending=1, durability="memory"), max_items=2
    )
    gate = Gate(journal, "commit")
    put_all(queue, "1")
    crew = Crew(queue._state.puts.producers)
    for item in "234":
        crew.waits(lambda item=item: queue.put(item).result())  # type: ignore[misc]
    gate.open()
    outcomes = crew.outcomes()
    assert outcomes[0] == 2
    assert all(isinstance(outcome, QueueFullError) for outcome in outcomes[1:])


def test_a_callback_does_not_wait_for_itself(stage: Stage) -> None:
    """A put in the callback of a put cannot wait for room, which it holds up (decision 11)."""
    queue = stage.queue(options=QueueOptions(max_pending=1))
    seen: list[BaseException] = []
    done = threading.Event()

    def put_more(_: object) -> None:
        try:
            while not seen:
                queue.put("more", durability="memory")
        except DeadlockError as error:
            seen.append(error)
        done.set()

    queue.put("a").add_done_callback(put_more)
    assert done.wait(10)
    assert len(seen) == 1


def test_a_failed_commit_fails_its_group(stage: Stage) -> None:
    """Exactly the futures of the group get the error; the queue has ended (PS-07)."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions())
    assert queue.put("kept").result(10) == 1
    gate = Gate(journal, "commit")
    futures = [queue.put(item) for item in "ab"]
    assert gate.reached.wait(10)
    later = queue.put("c")
    gate.fail(OSError("disk full"))
    assert isinstance(futures[0].exception(10), OSError)
    assert isinstance(later.exception(10), OSError | JournalFailedError)
    for call in (lambda: queue.put("d"), queue.reader().get_nowait, queue.sync, queue.close):
        with pytest.raises(JournalFailedError, match="disk full"):
            call()
    assert drain(stage.again(journal).reader()) == ["kept"]


def test_waits_end_when_a_commit_fails(stage: Stage) -> None:
    """Who waits for an item, or for room, hears that the queue has ended."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions(max_pending=1))
    reader = queue.reader()
    gate = Gate(journal, "commit")
    queue.put("a")
    assert gate.reached.wait(10)
    read = reader.get()
    takers, producers = Crew(reader._state.waiters), Crew(queue._state.puts.producers)
    takers.waits(reader.get)
    producers.waits(lambda: queue.put("b"))
    gate.fail(OSError("disk full"))
    assert takers.kinds() + producers.kinds() == [JournalFailedError] * 2
    assert not reader.ack(read)


def test_a_queue_that_is_fenced_ends(stage: Stage) -> None:
    """Everything pending fails, and all later calls, with the same kind of error."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions(durability="interval"))
    put_all(queue, "lost")
    gate = Gate(journal, "commit")
    pending = [queue.put("a", durability="commit"), queue.put("b", durability="commit")]
    assert gate.reached.wait(10)
    pending.append(queue.put("c", durability="commit"))
    heir = stage.again(journal)
    gate.open()
    assert [type(future.exception(10)) for future in pending] == [FencedError] * 3
    for call in (lambda: queue.put("d"), queue.reader().get_nowait, queue.sync):
        with pytest.raises(FencedError):
            call()
    put_all(heir, "mine")
    assert drain(heir.reader()) == ["mine"]


def test_nothing_is_delivered_from_a_journal_that_is_not_held(stage: Stage) -> None:
    """A get asks first whether the journal is ours still."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "a")
    waiting = queue.put("b", durability="memory")
    crew = Crew(reader._state.waiters)
    reader.pause()
    crew.waits(reader.get)
    stage.again(journal)
    with pytest.raises(FencedError):
        reader.get(timeout=0)
    assert crew.kinds() == [FencedError]
    assert waiting.done()
    with pytest.raises(FencedError):
        queue.put("c")


def test_nothing_is_handed_over_from_a_journal_that_is_not_held(stage: Stage) -> None:
    """Neither does a waiter get anything, and nothing pending stays open."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    crew = Crew(reader._state.waiters)
    crew.waits(reader.get)
    stage.again(journal)
    future = queue.put("a", durability="commit")
    assert crew.kinds() == [FencedError]
    assert isinstance(future.exception(10), FencedError)


def test_sync_waits_for_everything(journal: Journal, queue: Queue) -> None:
    """After a sync, items and acks are durable."""
    put_all(queue, "a", "b")
    queue.reader().ack(queue.reader().get())
    queue.sync()
    [offset] = journal.store.recover().readers
    assert (journal.store.last_id, offset.head, offset.items) == (2, 1, 1)


def test_a_close_makes_everything_durable(stage: Stage) -> None:
    """What was done is durable after the close, whatever the durability (KP-22)."""
    journal = stage.journal()
    with stage.queue(journal) as queue:
        put_all(queue, "a", "b")
        queue.reader().ack(queue.reader().get())
    assert drain(stage.again(journal).reader()) == ["b"]


def test_a_close_without_drain_fails_what_waits(stage: Stage) -> None:
    """Every future resolves (decision 9)."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions())
    gate = Gate(journal, "load")
    queue._core.run(lambda: journal.before("load"))
    assert gate.reached.wait(10)
    future = queue.put("a")
    closing = threading.Thread(target=lambda: queue.close(drain=False))
    closing.start()
    until(lambda: queue._state.closed is not None)
    gate.open()
    closing.join(10)
    assert future.exception(10) is None or isinstance(future.exception(), QueueShutDownError)


def test_put_many_resolves_together(stage: Stage) -> None:
    """The future of many is done when all are durable, or fails with them."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions())
    count, ids = queue.put_many("abc")
    assert (count, ids.result(10)) == (3, [1, 2, 3])
    failing(journal, "commit", OSError("disk full"))
    count, ids = queue.put_many("de")
    assert (count, type(ids.exception(10))) == (2, OSError)


def test_a_queue_without_durability(stage: Stage) -> None:
    """A journal in memory needs no file; a new one has nothing (KP-39, KP-40)."""
    with JournaledQueue[str](MemoryJournal()) as queue:
        queue.put("a").result()
        assert drain(queue.reader()) == ["a"]
    with JournaledQueue[str](MemoryJournal()) as queue:
        assert queue.items == 0
    assert stage.timer.now() == 0


def test_a_callback_that_kills_the_thread_ends_the_queue(stage: Stage) -> None:
    """Whatever happens, every future resolves (decision 16)."""
    journal = stage.journal()
    queue = stage.queue(journal, options=QueueOptions())
    gate = Gate(journal, "commit")
    futures = [queue.put(item) for item in "ab"]
    assert gate.reached.wait(10)
    later = queue.put("c")

    def kill(_: object) -> None:
        raise SystemExit

    futures[0].add_done_callback(kill)
    gate.open()
    assert futures[1].result(10) == 2
    assert isinstance(later.exception(10), JournalFailedError)
    with pytest.raises(JournalFailedError):
        queue.put("d")
    assert drain(stage.again(journal).reader()) == ["a", "b"]
