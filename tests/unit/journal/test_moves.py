"""Items that go to another queue when they expire or fail."""

from __future__ import annotations

from datetime import timedelta

import pytest

from spark_queue.errors import QueueFullError
from spark_queue.journal import JournaledQueue, QueueOptions, ReaderHooks, origin_of
from spark_queue.reader_config import ReaderConfig
from tests.unit.journal.conftest import Queue, Reader
from tests.unit.journal.stage import LAZY, Gate, Stage, drain, failing, got, put_all, unread


def settle(*queues: JournaledQueue[str]) -> None:
    """Wait until what was moved is durable, and its places know."""
    for queue in queues:
        queue.sync()


def test_expired_items_go_to_another_queue(stage: Stage) -> None:
    """Nothing moves until the queue is touched; then it does, once (KC-15, K3-04)."""
    jobs = stage.queue(name="jobs", expire_to="expired")
    expired = stage.queue(name="expired")
    jobs.put("job1", expires_at=stage.after(1))
    stage.advance(2)
    assert (jobs.items, expired.items) == (1, 0)
    assert got(jobs.reader().get_nowait) is None
    settle(expired, jobs)
    assert (jobs.items, jobs.reader().stats().expired) == (0, 1)
    assert unread(expired.reader()) == ["job1"]


def test_expired_items_keep_their_order(stage: Stage) -> None:
    """Three of four go, in order (KP-46)."""
    jobs = stage.queue(name="jobs", expire_to="expired")
    expired = stage.queue(name="expired")
    for item in "123":
        jobs.put(item, expires_at=stage.after(1))
    jobs.put("4", expires_at=stage.after(9))
    stage.advance(1)
    assert jobs.discard_expired() == 3
    settle(expired, jobs)
    assert (unread(jobs.reader()), drain(expired.reader())) == (["4"], ["1", "2", "3"])


def test_failed_items_go_to_another_queue(stage: Stage) -> None:
    """An item that failed often enough goes to the errors (K3-05)."""
    jobs = stage.queue(name="jobs", punt_many_to="errors", punt_many_at=1)
    errors = stage.queue(name="errors")
    put_all(jobs, "a")
    jobs.reader().nack(jobs.reader().get())
    settle(errors, jobs)
    assert (jobs.items, errors.items) == (0, 1)
    assert jobs.reader().stats().punted == 1
    assert errors.reader().get().errors == 1


def test_the_errors_travel(stage: Stage) -> None:
    """From the jobs to a retry queue, back after a minute, and then to the errors (K3-06)."""
    jobs = stage.queue(name="jobs", punt_to="retry", punt_many_to="errors", punt_many_at=2)
    retry = stage.queue(name="retry", max_age=timedelta(minutes=1), expire_to="jobs")
    errors = stage.queue(name="errors")
    put_all(jobs, "a")
    jobs.reader().nack(jobs.reader().get())
    settle(retry, jobs)
    assert (jobs.items, retry.items, errors.items) == (0, 1, 0)
    stage.advance(120)
    assert got(retry.reader().get_nowait) is None
    settle(jobs, retry)
    assert (jobs.items, retry.items) == (1, 0)
    read = jobs.reader().get()
    assert read.errors == 1
    jobs.reader().nack(read)
    settle(errors, jobs)
    assert (jobs.items, retry.items) == (0, 0)
    assert errors.reader().get().errors == 2


def test_an_item_leaves_when_it_has_arrived(stage: Stage) -> None:
    """Until the other queue has it durably, the item is here, and not delivered."""
    jobs = stage.queue(name="jobs", punt_to="errors")
    there = stage.journal()
    errors = stage.queue(there, name="errors")
    gate = Gate(there, "commit")
    put_all(jobs, "a", "b")
    jobs.reader().nack(jobs.reader().get())
    assert gate.reached.wait(10)
    assert (jobs.items, unread(jobs.reader()), jobs.reader().stats().punted) == (2, ["b"], 0)
    gate.open()
    settle(errors, jobs)
    assert (jobs.items, jobs.reader().stats().punted) == (1, 1)


@pytest.mark.parametrize("target", ["full", "gone", "nowhere", "broken"])
def test_what_cannot_leave_stays(stage: Stage, target: str) -> None:
    """An item that the other queue refuses, or loses, is unread again with its errors."""
    there = stage.journal()
    stage.queue(name="full", max_items=1).put("x")
    stage.queue(name="gone").close()
    broken = stage.queue(there, name="broken")
    failing(there, "commit", OSError("disk full"))
    jobs = stage.queue(name="jobs", punt_to=target)
    put_all(jobs, "a", "b")
    jobs.reader().nack(jobs.reader().get())
    with pytest.raises(Exception, match="closed") if target == "broken" else stage_is_calm():
        broken.sync()
        broken.put("x")
    read = jobs.reader().get(timeout=5)
    assert (read.item, read.errors, jobs.items) == ("a", 1, 2)


class stage_is_calm:  # noqa: N801 - reads as a clause of the test
    """Expects nothing."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> bool:
        return True


def test_what_expired_and_cannot_leave_is_tried_again(stage: Stage) -> None:
    """It is not delivered; the next sweep sends it."""
    full = stage.queue(name="full", max_items=1)
    put_all(full, "x")
    jobs = stage.queue(name="jobs", expire_to="full", max_age=timedelta(seconds=1))
    put_all(jobs, "a")
    stage.advance(1)
    assert jobs.discard_expired() == 0
    assert got(jobs.reader().get_nowait) is None
    drain(full.reader())
    assert jobs.discard_expired() == 1
    settle(full, jobs)
    assert (jobs.items, unread(full.reader())) == (0, ["a"])


def test_a_crash_after_the_arrival_moves_nothing_twice(stage: Stage) -> None:
    """The item that arrived is the evidence: sent again, it is not put again (KC-15)."""
    here, there = stage.journal(), stage.journal()
    jobs = stage.queue(here, name="jobs", punt_to="errors")
    errors = stage.queue(there, name="errors")
    put_all(jobs, "a")
    jobs.sync()
    failing(here, "commit", OSError("crash"))
    jobs.reader().nack(jobs.reader().get())
    errors.sync()
    assert [entry.origin for entry in there.store.entries] == [origin_of("jobs+", 1)]
    jobs = stage.again(here, name="jobs", punt_to="errors")
    errors = stage.again(there, name="errors")
    jobs.reader().nack(jobs.reader().get())
    settle(errors, jobs)
    assert (jobs.items, errors.items) == (0, 1)


def test_the_hook_goes_first(stage: Stage) -> None:
    """What the error hook has dealt with does not go to the other queue."""
    hooks: ReaderHooks[str] = ReaderHooks(on_error=lambda read: read.item == "a")
    jobs = stage.queue(name="jobs", punt_to="errors", hooks=hooks)
    errors = stage.queue(name="errors")
    put_all(jobs, "a", "b")
    jobs.reader().nack_many(jobs.reader().get_many(2))
    settle(errors, jobs)
    assert (jobs.items, unread(errors.reader())) == (0, ["b"])


def test_one_origin_is_put_once(queue: Queue) -> None:
    """A second put of a live origin gives the id of the first; later it is new."""
    first = queue.put("a", origin="x/1", durability="memory")
    again = queue.put("a", origin="x/1", durability="commit")
    assert (first.result(), again.result(5), queue.items) == (1, 1, 1)
    assert queue.put("a", origin="x/1").result() == 1
    drain(queue.reader())
    queue.checkpoint()
    assert queue.put("a", origin="x/1").result() == 2


def test_replace_puts_and_acks_in_one_group(stage: Stage) -> None:
    """After a crash there is the new item only (KP-32)."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "one")
    future = reader.replace(reader.get(), "two", durability="commit")
    assert future is not None
    assert future.result(5) == 2
    assert reader.stats().committed == 1
    again = stage.again(journal)
    assert drain(again.reader()) == ["two"]


def test_replace_is_whole_after_a_crash_in_between(stage: Stage) -> None:
    """The new item is durable and the ack is not: the old one is done all the same (KP-32)."""
    journal = stage.journal()
    queue = stage.queue(journal)
    reader = queue.reader()
    put_all(queue, "one", "other")
    queue.sync()
    failing(journal, "settlements", OSError("crash"))
    future = reader.replace(reader.get(), "two", durability="commit")
    assert future is not None
    assert isinstance(future.exception(5), OSError)
    again = stage.again(journal)
    assert (again.items, drain(again.reader())) == (2, ["other", "two"])


def test_replace_is_whole_whatever_the_reader_is_called_later(stage: Stage) -> None:
    """The evidence names the reader; a new name comes only when the replacement is durable."""
    journal = stage.journal()
    queue = stage.queue(journal, options=LAZY)
    put_all(queue, "one")
    reader = queue.reader()
    queue.sync()
    reader.replace(reader.get(), "two")
    queue.reader("first")

    after = stage.again(journal)

    assert drain(after.reader("first")) == ["two"]


def test_replace_of_what_is_not_open_does_nothing(queue: Queue, reader: Reader) -> None:
    """No put without an ack."""
    put_all(queue, "one")
    read = reader.get()
    reader.ack(read)
    assert reader.replace(read, "two") is None
    assert queue.items == 0


def test_replace_needs_no_room_of_its_own(stage: Stage) -> None:
    """A full reader can go on: one goes, one comes."""
    queue = stage.queue(max_items=1, options=QueueOptions(durability="memory", max_pending=None))
    reader = queue.reader()
    put_all(queue, "one")
    future = reader.replace(reader.get(), "two")
    assert future is not None
    assert drain(reader) == ["two"]


def test_a_refused_put_sees_off_what_expired(stage: Stage) -> None:
    """A full reader refuses, and what it had expired leaves all the same."""
    jobs = stage.queue(name="jobs", max_items=1, expire_to="expired")
    expired = stage.queue(name="expired")
    jobs.put("old", expires_at=stage.after(1))
    stage.advance(1)
    with pytest.raises(QueueFullError):
        jobs.put("new")
    settle(expired, jobs)
    assert (jobs.items, unread(expired.reader())) == (0, ["old"])
    put_all(jobs, "new")


def test_without_queues_nothing_can_leave(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """A queue that was given no others keeps its items."""
    config = ReaderConfig(punt_to="errors")
    queue: JournaledQueue[str] = JournaledQueue(
        stage.journal(), config=config, clock=stage.clock, timer=stage.timer
    )
    with queue:
        queue.put("a").result()
        reader = queue.reader()
        reader.nack(reader.get())
        assert reader.get(timeout=0).errors == 1
    assert "was given no queues" in caplog.text


def test_what_has_left_when_the_queue_was_closed_leaves_again(stage: Stage) -> None:
    """An arrival that the closed queue can note no more is noted by the next one."""
    here, there = stage.journal(), stage.journal()
    jobs = stage.queue(here, name="jobs", punt_to="errors")
    errors = stage.queue(there, name="errors")
    gate = Gate(there, "commit")
    put_all(jobs, "a")
    jobs.reader().nack(jobs.reader().get())
    assert gate.reached.wait(10)
    jobs.close()
    gate.open()
    errors.sync()
    assert errors.items == 1
    jobs = stage.again(here, name="jobs", punt_to="errors")
    jobs.reader().nack(jobs.reader().get())
    settle(errors, jobs)
    assert (jobs.items, errors.items) == (0, 1)
