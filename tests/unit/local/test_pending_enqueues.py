"""Rows that a process leaves in the store, and that the step of another one takes in."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from obstore.exceptions import PermissionDeniedError

from spark_queue.commands import pending_enqueue
from spark_queue.commands.rows import MarkedRows
from spark_queue.config import QueueConfig
from spark_queue.errors import FileAccessError
from spark_queue.local_queue import LocalQueue
from spark_queue.log.object.pending_rows import FOLDER, PendingRows
from spark_queue.log.object.table_objects import text_of
from spark_queue.log.step_events import StepFacts
from spark_queue.reader_config import ReaderConfig
from spark_queue.state.store import Store
from tests.logs.memory_storage import MemoryStorage
from tests.logs.stores import ShakyStore
from tests.unit.threads import in_thread, until

_COMMIT = "PUT files/queue/_delta_log"
_PENDING = f"PUT files/queue/{FOLDER}"


class Busy:
    """A queue into which one handle puts all the time, so that another loses its steps."""

    def __init__(self, config: QueueConfig | None = None, **options: Any) -> None:
        self.store, self.number = ShakyStore(), 0
        keyed, named = config or QueueConfig(dedup_key="path"), {"storage": self.store, **options}
        self.busy = LocalQueue.create("s3://bucket/files", "path string", keyed, **named)
        # By another name it is to this process what another process is.
        self.other = LocalQueue.open("s3a://bucket/files", storage=self.store)
        self.put()

    def put(self) -> None:
        """Have the busy handle put one item."""
        self.number += 1
        self.busy.enqueue([{"path": f"busy{self.number}"}])

    def lose(self, times: int, then: Callable[[], object] = lambda: None) -> None:
        """Have the next commits lost to the busy handle, and something done before the last."""

        def put_first(ask: Callable[[], Any]) -> Any:
            if times > 1:
                self.put()
                self.lose(times - 1, then)
            else:
                then()
            return ask()

        self.store.fail_next(_COMMIT, put_first)

    def leave(self, paths: list[str]) -> tuple[threading.Thread, list[Any]]:
        """Have the other handle lose until it leaves its rows in the store."""
        self.store.delay = 0.02
        self.lose(3)
        thread, told = in_thread(lambda: self.other.enqueue([{"path": path} for path in paths]))
        until(lambda: bool(self.pending()))
        return thread, told

    def pending(self) -> list[str]:
        """Return the names of rows that were left in the store."""
        return [name for name in self.store.found() if f"/{FOLDER}/" in name]

    def paths(self) -> list[str]:
        """Return the paths of all items but those of the busy handle, as another process has it."""
        rows = LocalQueue.open("s3://bucket//files", storage=self.store).status().to_pylist()
        return sorted(row["path"] for row in rows if not row["path"].startswith("busy"))


@pytest.fixture
def busy() -> Busy:
    """Return such a queue."""
    return Busy()


def _serve(busy: Busy, thread: threading.Thread) -> None:
    """Put until another thread has its answer."""
    while thread.is_alive():
        busy.put()


def test_who_loses_is_taken_in_by_the_winner(busy: Busy) -> None:
    """It is told what became of its own rows, as by a step of its own."""
    thread, told = busy.leave(["a", "busy1", "b"])
    _serve(busy, thread)
    (done,) = told
    assert (done.inserted, done.duplicates) == (2, 1)
    rows = {row["path"]: row["outcome"] for row in done.outcomes.to_pylist()}
    assert rows == {"a": "inserted", "busy1": "duplicate", "b": "inserted"}
    assert busy.paths() == ["a", "b"]
    taken = [name for name in busy.store.found() if name.endswith(f"{_version(busy, done)}.json")]
    assert b"sparkQueueTaken" in bytes(busy.store.get(taken[0]).bytes())


def _version(busy: Busy, done: Any) -> int:
    """Return the version of a step: that of a new queue is the step before its first."""
    log = busy.busy._main.queue
    commits = log.follow(0, log.newest(None) or 0)
    return next(at for at, commit in enumerate(commits, 1) if commit.step == done.step)


def test_who_is_not_taken_in_makes_a_step_of_its_own(busy: Busy) -> None:
    """The busy process has ended: nobody takes the rows, and they are there once."""
    thread, told = busy.leave(["a"])
    thread.join(60)
    assert [done.inserted for done in told] == [1]
    busy.put()
    assert busy.paths() == ["a"]


def test_rows_of_a_process_that_has_ended_are_there_whole_or_not_at_all(busy: Busy) -> None:
    """A step of others may have them; no second one has."""
    thread, told = busy.leave(["a", "b"])
    name = busy.pending()[0]
    content = bytes(busy.store.get(name).bytes())
    _serve(busy, thread)
    assert [done.inserted for done in told] == [2]
    # Its writer removes the object later, or does not live to: it is found again.
    busy.store.put(name, content)
    for _ in range(12):
        busy.put()
    assert busy.paths() == ["a", "b"]


def test_a_lost_answer_to_the_rows_changes_nothing(busy: Busy) -> None:
    """They are sent again, under the same name."""
    busy.store.delay = 0.02

    def lose_answer() -> None:
        def lost(ask: Callable[[], Any]) -> Any:
            ask()
            raise TimeoutError("no answer")

        busy.put()
        busy.store.fail_next(_PENDING, lost)

    busy.lose(2, lose_answer)
    thread, told = in_thread(lambda: busy.other.enqueue([{"path": "a"}]))
    until(lambda: bool(busy.pending()))
    _serve(busy, thread)
    assert [done.inserted for done in told] == [1]
    assert busy.paths() == ["a"]


@pytest.mark.parametrize("config", [QueueConfig(dedup_key="path", on_duplicate="raise"), None])
def test_rows_that_may_be_refused_are_left_to_nobody(config: QueueConfig | None) -> None:
    """The error is for the process that enqueues."""
    busy = Busy(config)
    if config is None:
        busy.busy.reader("small", config=ReaderConfig(max_items=100))
    busy.store.delay = 0.02
    busy.lose(4)
    busy.store.names.clear()
    assert busy.other.enqueue([{"path": "a"}]).inserted == 1
    assert not any(name.startswith(_PENDING) for name in busy.store.names)


def test_a_queue_that_was_made_again_has_no_rows_left_for_the_old_one(busy: Busy) -> None:
    """They are of a table that is gone."""
    thread, _ = busy.leave(["a"])
    name = busy.pending()[0]
    content = bytes(busy.store.get(name).bytes())
    _serve(busy, thread)
    LocalQueue.drop("s3://bucket/files", storage=busy.store)
    again = Busy.__new__(Busy)
    again.store, again.number = busy.store, 0
    again.busy = LocalQueue.create(
        "s3://bucket/files", "path string", QueueConfig(dedup_key="path"), storage=busy.store
    )
    busy.store.put(name, content)
    for _ in range(20):
        again.put()
    assert again.paths() == []


def test_a_listener_of_a_step_that_took_rows_in_may_enqueue() -> None:
    """That is a step of its own, which takes nothing in."""
    heard: list[int] = []

    def hear(facts: StepFacts) -> None:
        if facts.counts.get("inserted", 0) > 1 and not heard:
            heard.append(0)
            batch = ("listener", 1)
            heard.append(shared.busy.enqueue([{"path": "heard"}], batch=batch).inserted)

    shared = Busy(listener=hear)
    thread, _ = shared.leave(["a", "b"])
    _serve(shared, thread)
    assert heard == [0, 1]
    assert shared.paths() == ["a", "b", "heard"]


def test_what_else_lies_beside_the_rows_is_passed_over(busy: Busy) -> None:
    """Others may put objects there by hand."""
    thread, told = busy.leave(["a"])
    busy.store.put(f"files/queue/{FOLDER}/notes.txt", b"of an operator")
    _serve(busy, thread)
    assert [done.inserted for done in told] == [1]


@pytest.mark.parametrize("is_there", [False, True])
def test_rows_that_the_store_refuses_are_there_once(busy: Busy, *, is_there: bool) -> None:
    """It may have them all the same: their own step names them."""
    busy.store.delay = 0.02

    def refuse() -> None:
        def refused(ask: Callable[[], Any]) -> Any:
            if is_there:
                ask()
            raise PermissionDeniedError("no such prefix for you")

        busy.put()
        busy.store.fail_next(_PENDING, refused)

    busy.lose(2, refuse)
    thread, told = in_thread(lambda: busy.other.enqueue([{"path": "a"}]))
    until(lambda: any(name.startswith(_PENDING) for name in busy.store.names))
    _serve(busy, thread)
    assert [done.inserted for done in told] == [1]
    for _ in range(12):
        busy.put()
    assert busy.paths() == ["a"]


def test_more_rows_than_a_step_takes_in_are_left_to_nobody(
    busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would keep out all that were left after them."""
    monkeypatch.setattr(pending_enqueue, "_ROWS", 1)
    busy.store.delay = 0.02
    busy.lose(4)
    assert busy.other.enqueue([{"path": "a"}, {"path": "b"}]).inserted == 2
    assert busy.pending() == []


def test_who_begins_with_a_checkpoint_knows_its_version(busy: Busy) -> None:
    """What it leaves in the store is of that version, not of the first."""
    busy.busy.maintain()
    opened = LocalQueue.open("s3://bucket//files", storage=busy.store)
    assert opened.counts()["ready"] == 1
    log: Any = opened._store.queue
    assert log.pending.last == log.newest(None) > 0


def test_rows_are_not_left_while_another_thread_reads_the_log_anew(
    busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have no name then; these and the next ones enter all the same."""
    content_of = pending_enqueue._content_of

    def begin_after(rows: MarkedRows, store: Store) -> bytes | None:
        content = content_of(rows, store)
        store.queue.forget()
        return content

    with monkeypatch.context() as patch:
        patch.setattr(pending_enqueue, "_content_of", begin_after)
        busy.lose(3)
        assert busy.other.enqueue([{"path": "a"}]).inserted == 1
    assert busy.pending() == []
    thread, told = busy.leave(["b"])
    _serve(busy, thread)
    assert [done.inserted for done in told] == [1]
    assert busy.paths() == ["a", "b"]


class Log:
    """Pending rows of a log in memory, and its commits."""

    def __init__(self) -> None:
        self.storage = MemoryStorage("memory")
        self.rows = PendingRows(self.storage)
        self.commit(0)

    def commit(self, version: int, *taken: str) -> None:
        """Note a commit that has taken some objects in."""
        places = {name: (number, 1) for number, name in enumerate(taken)}
        self.rows.note(version, text_of([{"commitInfo": {}}], {}, places))

    def leave(self, content: bytes) -> str:
        """Leave rows, and return their name."""
        name = self.rows.name()
        assert name is not None
        self.rows.put(name, content)
        return name

    def seen(self) -> list[str]:
        """Return what a step may take in after a look."""
        self.rows.choose({})
        self.leave(b"makes it look")
        for ask in self.rows.looks():
            ask()
        for ask in self.rows.reads():
            ask()
        return [name for name, it in self.rows.others(None).items() if it != b"makes it look"]


@pytest.fixture
def log() -> Iterator[Log]:
    """Return a log with one commit."""
    found = Log()
    yield found
    found.rows.choose(None)


def test_what_was_taken_in_is_not_taken_again(log: Log) -> None:
    """The log says so to the writer of the next commit."""
    name = log.leave(b"a")
    assert log.seen() == [name]
    log.rows.choose({name: (0, 1)})
    assert log.rows.choice(1) == {name: (0, 1)}
    log.commit(1, name)
    assert log.seen() == []
    log.rows.choose({name: (0, 1)})
    assert log.rows.choice(2) is None


def test_rows_are_taken_in_by_the_next_commits_or_never(log: Log) -> None:
    """So their writer knows when they are in no commit, and puts them again."""
    name = log.leave(b"a")
    for version in range(1, 64):
        log.commit(version)
    assert (log.seen(), log.rows.is_over(name)) == ([name], False)
    log.commit(64)
    assert (log.seen(), log.rows.is_over(name)) == ([], True)
    log.rows.choose({name: (0, 1)})
    assert log.rows.choice(65) is None


def test_rows_are_not_said_to_be_in_none_while_the_log_is_read_anew(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread may begin with the log between two looks of one that waits."""
    name = log.leave(b"a")
    log.commit(1, name)
    for version in range(2, 66):
        log.commit(version)

    def begin_after(asked: str) -> bool:
        is_over = PendingRows.is_over(log.rows, asked)
        log.rows.begin()
        log.commit(0)
        return is_over

    monkeypatch.setattr(log.rows, "is_over", begin_after)
    assert not log.rows.is_in_none(name)


@pytest.mark.parametrize("done", range(6))
def test_rows_are_not_said_to_be_in_none_by_a_log_that_is_half_forgotten(
    log: Log, monkeypatch: pytest.MonkeyPatch, done: int
) -> None:
    """Whichever part of it another thread has forgotten by then."""
    name = log.leave(b"a")
    log.rows.skip(99)

    def begin_half(asked: str) -> bool:
        is_over, left = PendingRows.is_over(log.rows, asked), iter(range(done))

        def assign(rows: PendingRows, attribute: str, value: object) -> None:
            if next(left, None) is None:
                raise InterruptedError
            object.__setattr__(rows, attribute, value)

        with monkeypatch.context() as patch, suppress(InterruptedError):
            patch.setattr(PendingRows, "__setattr__", assign, raising=False)
            log.rows.begin()
        return is_over

    monkeypatch.setattr(log.rows, "is_over", begin_half)
    assert not log.rows.is_in_none(name)


def test_what_is_over_goes_when_its_writer_leaves_more(log: Log) -> None:
    """A store that lists a folder from its beginning finds no more there than writers wait for."""
    taken, waits = log.leave(b"a"), log.leave(b"b")
    log.commit(1, taken)
    last = log.leave(b"c")
    assert {*log.storage.list()} == {f"{FOLDER}/{name}" for name in (waits, last)}
    for version in range(2, 66):
        log.commit(version)
    last = log.leave(b"d")
    assert {*log.storage.list()} == {f"{FOLDER}/{last}"}


def test_rows_that_are_over_and_cannot_be_removed_stay(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next ones are there all the same."""

    def refuse(_: object) -> None:
        raise FileAccessError("memory", errno.EACCES, "the store says: no")

    log.commit(1, taken := log.leave(b"a"))
    monkeypatch.setattr(log.storage, "delete", refuse)
    last = log.leave(b"b")
    assert {*log.storage.list()} == {f"{FOLDER}/{name}" for name in (taken, last)}


def test_who_does_not_know_all_commits_takes_nothing_in(log: Log) -> None:
    """One that it has not seen may have the rows."""
    name = log.leave(b"a")
    log.commit(5)
    assert (log.seen(), log.rows.is_known(name)) == ([], False)


def test_a_step_on_another_version_takes_nothing_in(log: Log) -> None:
    """It was decided before the commit that is there by now."""
    name = log.leave(b"a")
    log.seen()
    log.rows.choose({name: (0, 1)})
    log.commit(1)
    assert log.rows.choice(1) is None


def test_a_store_that_lists_nothing_leaves_all_to_their_writers(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps are made as without such rows."""

    def refuse(_: str = "") -> Any:
        raise FileAccessError("memory", 13, "no")

    log.leave(b"a")
    monkeypatch.setattr(log.storage, "list", refuse)
    assert log.seen() == []


def test_what_was_forgotten_is_not_said_to_be_in_no_commit(log: Log) -> None:
    """Its writer would put it twice: a process may have stood still for long."""
    name = log.leave(b"a")
    log.commit(1, name)
    log.rows.begin()
    log.commit(0)
    log.rows.skip(100)
    assert (log.rows.is_over(name), log.rows.is_in_none(name)) == (True, False)


def test_of_many_taken_in_at_once_none_is_said_to_be_in_no_commit(log: Log) -> None:
    """A process may see them only when they are over; of what it forgets it knows nothing."""
    name, other = log.leave(b"a"), log.leave(b"b")
    log.commit(1, name)
    for version in range(2, 100):
        log.commit(version, *(f"{version}-{number}" for number in range(20)))
    assert log.rows.is_over(name)
    assert not log.rows.is_in_none(name)
    assert not log.rows.is_in_none(other)


def test_rows_of_a_writer_that_has_given_up_are_not_taken_in_later(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told to look for its items: they do not come hours later."""
    name = log.leave(b"a")
    assert log.seen() == [name]
    later = datetime.now(timezone.utc) + timedelta(minutes=2)
    monkeypatch.setattr(log.storage, "now", lambda: later)
    assert log.seen() == []


def test_rows_that_were_seen_a_while_ago_are_looked_for_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who enqueues again after a while takes in nothing that it still has in memory."""
    name = log.leave(b"a")
    assert log.seen() == [name]
    seen = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: seen + 60)
    assert log.rows.others(None) == {}
