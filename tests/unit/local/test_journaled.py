"""A journaled queue over a queue without Spark: what was told durable is there for the next."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable

from spark_queue.clock import ManualClock
from spark_queue.config import QueueConfig
from spark_queue.errors import (
    FencedError,
    InvalidArgumentError,
    JournalFailedError,
    QueueNotFoundError,
    SchemaMismatchError,
    SparkNeededError,
    WriterLockedError,
)
from spark_queue.front.journaled import journaled_queue
from spark_queue.journal import JournaledQueue, QueueOptions
from spark_queue.local_queue import LocalQueue
from spark_queue.log.disk.append_files import Appending
from spark_queue.reader_config import ReaderConfig
from spark_queue.stores import journal_tables
from tests.unit.journal.stage import drain
from tests.unit.local.conftest import Make, Worker

PATIENCE = 30.0
MINUTE = timedelta(minutes=1)

#: Opens another handle of the queue.
Again = Callable[[], LocalQueue]

#: Waits for an item in another process, and says what came of it, and when.
_WAIT = (
    "(lambda taken, time: (type(taken.exception()).__name__, time.monotonic()))("
    "__import__('concurrent.futures').futures.ThreadPoolExecutor(1).submit("
    "queue.claim, wait=__import__('datetime').timedelta(minutes=1)), __import__('time'))"
)

#: Opens a front over the queue in another process, which then says what is asked of it.
_FRONT = "vars(queue).setdefault('front', __import__('spark_queue').journaled_queue(queue)).items"


@pytest.fixture
def jobs(make: Make) -> Iterator[JournaledQueue[bytes]]:
    """Return an open queue of bytes."""
    opened = journaled_queue(make("data binary"))
    yield opened
    with suppress(FencedError):
        opened.close()


def test_what_is_durable_is_there_for_the_next(jobs: JournaledQueue[bytes], again: Again) -> None:
    """JQ-15, KP-30, KP-31: a front that is left behind loses nothing it told durable."""
    ids = [jobs.put(bytes([n])).result(PATIENCE) for n in (1, 2, 3, 4)]
    reader = jobs.reader("")
    first, second, third = (reader.get(timeout=0) for _ in range(3))
    reader.ack(second)
    reader.nack(third)
    jobs.sync()

    with journaled_queue(again()) as after:
        assert ids == [1, 2, 3, 4]
        assert (after.items, after.bytes) == (3, 3)
        assert after.reader("").get(timeout=0).id == first.id
        third = after.reader("").get(timeout=0)
        assert (third.id, third.errors) == (3, 1)
        assert after.put(b"\x05").result(PATIENCE) == 5


def test_nobody_else_writes_while_a_front_holds_the_queue(
    jobs: JournaledQueue[bytes], again: Again
) -> None:
    """Who opens the queue takes it over from the front before; a plain handle looks on."""
    jobs.put(b"one").result(PATIENCE)
    plain = again()
    with pytest.raises(FencedError, match="the front"):
        plain.enqueue({"data": b"two"})
    with pytest.raises(FencedError):
        plain.claim()
    assert plain.counts()["ready"] == 1

    with journaled_queue(plain) as after:
        with pytest.raises(FencedError):
            jobs.reader("").get(timeout=0)
        with pytest.raises(FencedError):
            jobs.put(b"two").result(PATIENCE)
        with pytest.raises(FencedError):
            plain.enqueue({"data": b"two"})
        assert drain(after.reader("")) == [b"one"]

    assert plain.enqueue({"data": b"two"}).inserted == 1


def test_what_a_claim_holds_comes_to_the_front(make: Make) -> None:
    """Taking over, a front gives back what was claimed, uncharged, with the failures it had."""
    plain = make("data binary")
    plain.enqueue([{"data": bytes([n])} for n in range(3)])
    plain.claim(1).nack("again")
    held = plain.claim(2)

    with journaled_queue(plain) as front:
        read = front.reader("").get(timeout=0)
        assert (read.item, read.errors) == (b"\x00", 1)
        front.reader("").ack(read)
        assert drain(front.reader("")) == [b"\x01", b"\x02"]
    assert held.count == 2
    assert plain.counts()["acked"] == 3


def test_readers_are_those_of_the_queue(jobs: JournaledQueue[bytes], again: Again) -> None:
    """K3-01, JQ-03: readers of the front are readers of the queue, positions and all."""
    jobs.reader("a")
    jobs.put(b"1").result(PATIENCE)
    jobs.reader("b", config=ReaderConfig(max_items=10))
    jobs.put(b"2").result(PATIENCE)
    assert jobs.reader("late", start="beginning").items == 2
    assert drain(jobs.reader("a")) == [b"1", b"2"]
    jobs.close()

    plain = again()
    assert plain.readers() == ("a", "b", "late")
    assert plain.reader("b").claim(5).count == 1
    with journaled_queue(again()) as after:
        assert (after.reader("a").items, after.reader("b").items) == (0, 1)
        assert drain(after.reader("b")) == [b"2"]


def test_a_reader_may_start_in_the_middle_of_a_step(make: Make, again: Again) -> None:
    """KC-15: what lies up to its id is not for it, though a later item came in the same step."""
    plain = make("id string")
    plain.enqueue([{"id": str(n)} for n in range(1, 5)])
    with journaled_queue(plain) as front:
        front.reader("first")
        assert front.put("5").result(PATIENCE) == 5
        assert (front.reader("two", start=3).items, front.reader("four", start=5).items) == (3, 1)
        assert drain(front.reader("two")) == ["3", "4", "5"]
    assert again().reader("four").status()["id"].to_pylist() == ["5"]


def test_memory_is_bounded(make: Make, again: Again) -> None:
    """KP-04: what is beyond memory's limit is read back in blocks, in order, gaps and all."""
    plain = make("id string", dedup_scope="live")
    small = QueueOptions(max_memory_items=10, max_group_items=25, durability="interval")
    items = [str(number) for number in range(100)]
    with journaled_queue(plain, options=small) as front:
        for item in items:
            front.put(item)
        front.sync()
        reader = front.reader("")
        first = [reader.get(timeout=PATIENCE) for _ in items[:40]]
        for read in first[:10] + first[20:]:
            reader.ack(read)
    with journaled_queue(again(), options=small) as after:
        assert (after.items, after.bytes) == (70, 140)
        assert drain(after.reader("")) == items[10:20] + items[40:]


def test_an_item_that_does_not_fit_is_refused_alone(make: Make, again: Again) -> None:
    """What the table cannot hold is told to who puts it; what it can hold comes back as it was."""
    front = journaled_queue(make("n int, at timestamp, d date, price decimal(5,2), x double"))
    clock = ManualClock()
    item = {"n": 1, "at": clock.now(), "d": date(2026, 1, 2), "price": Decimal("1.50"), "x": None}

    with pytest.raises(SchemaMismatchError, match="column 'n': is 'one' in the item, and int"):
        front.put({**item, "n": "one"})
    with pytest.raises(SchemaMismatchError, match="column 'n': does not fit int"):
        front.put({**item, "n": 1 << 40})
    with pytest.raises(SchemaMismatchError, match="'d': is missing"):
        front.put({"n": 1, "at": None})
    with pytest.raises(SchemaMismatchError, match="'m': is not a column"):
        front.put({**item, "m": 1})
    assert front.put(item).result(PATIENCE) == 1
    front.close()
    with journaled_queue(again()) as after:
        assert drain(after.reader("")) == [item]


def test_expiry_and_limits_are_logged(
    jobs: JournaledQueue[bytes], again: Again, clock: ManualClock
) -> None:
    """JQ-29, JQ-38: what expired or was dropped stays so for the next front."""
    reader = jobs.reader("r", config=ReaderConfig(max_items=3, full_policy="drop_oldest"))
    for number in range(5):
        jobs.put(bytes([number]), expires_at=clock.now() + (number + 1) * MINUTE)
    clock.advance(3 * MINUTE)

    assert reader.get(timeout=0).item == b"\x03"
    jobs.sync()
    counts = again().counts()
    assert (counts["ready"], counts["expired"], counts["cancelled"]) == (2, 1, 2)
    with journaled_queue(again()) as after:
        assert drain(after.reader("r")) == [b"\x03", b"\x04"]


def test_a_replacement_is_evidence(jobs: JournaledQueue[bytes], again: Again) -> None:
    """KP-32: after ``replace`` only the new item is there, for this front and the next."""
    jobs.put(b"one").result(PATIENCE)
    reader = jobs.reader("")
    replaced = reader.replace(reader.get(timeout=0), b"two")
    assert replaced is not None
    replaced.result(PATIENCE)

    with journaled_queue(again()) as after:
        assert drain(after.reader("")) == [b"two"]


def test_a_front_keeps_its_tables_small(
    make: Make, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JN-22, JQ-30: what all readers passed long ago is dropped, and positions are written anew."""
    monkeypatch.setattr("spark_queue.stores.delta_journal._MANY", 1)
    monkeypatch.setattr("spark_queue.stores.delta_journal._LONG", 1)
    plain = make("data binary")
    with journaled_queue(plain, retention=MINUTE) as front:
        front.put(b"1").result(PATIENCE)
        clock.advance(MINUTE)
        front.checkpoint()
        assert drain(front.reader("")) == [b"1"]
        front.put(b"2").result(PATIENCE)
        clock.advance(2 * MINUTE)

        front.checkpoint()

        assert [row["data"] for row in plain.status().to_pylist()] == [b"2"]
        third = front.put(b"3").result(PATIENCE)
    with journaled_queue(plain) as after:
        assert third == 3
        assert drain(after.reader("")) == [b"2", b"3"]


def test_what_all_readers_have_passed_is_archived(
    make: Make, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JN-22, JQ-30: upkeep of an open front keeps what it drops, once, in a table beside it."""
    monkeypatch.setattr("spark_queue.stores.delta_journal._MANY", 1)
    archive = tmp_path / "archive"
    with journaled_queue(make("data binary"), retention=MINUTE, archive_to=str(archive)) as front:
        front.put(b"1").result(PATIENCE)
        clock.advance(MINUTE)
        front.checkpoint()
        assert drain(front.reader("")) == [b"1"]
        front.put(b"2").result(PATIENCE)
        for _ in range(2):
            clock.advance(2 * MINUTE)
            front.checkpoint()
        assert drain(front.reader("")) == [b"2"]

    assert DeltaTable(str(archive)).to_pyarrow_table()["data"].to_pylist() == [b"1"]


def test_what_only_spark_does_is_refused(make: Make) -> None:
    """An archive, a queue with keys, and what is said twice are refused by name; nobody holds."""
    plain = make("data binary")
    keyed = LocalQueue.create(f"{plain.name}-2", "id string", QueueConfig(dedup_key="id"))
    with pytest.raises(SparkNeededError, match="write to the archive"):
        journaled_queue(plain, archive_to="catalog.archive")
    with pytest.raises(InvalidArgumentError, match="path is '/x', and the queue is open"):
        journaled_queue(plain, "/x")
    with pytest.raises(InvalidArgumentError, match="dedup_key"):
        journaled_queue(keyed)
    assert plain.enqueue({"data": b"x"}).inserted == 1


def test_an_opening_that_fails_gives_the_queue_up(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was held by then is free again, and the next opening finds everything."""

    def fail(*_: object) -> None:
        raise OSError("the disk is gone")

    plain = make("data binary")
    plain.enqueue({"data": b"a"})
    with monkeypatch.context() as broken:
        broken.setattr(journal_tables, "offset", fail)
        with pytest.raises(OSError, match="the disk is gone"):
            journaled_queue(plain)

    assert plain.enqueue({"data": b"b"}).inserted == 1
    with journaled_queue(plain) as front:
        assert front.items == 2


def test_a_front_of_another_process_is_in_the_way_until_it_is_killed(
    make: Make, start: Callable[..., Worker]
) -> None:
    """While it lives nobody takes over; its items are there at once when it was killed."""
    plain = make("data binary")
    plain.enqueue({"data": b"a"})
    worker = start()
    assert worker.says(_FRONT) == "1"

    with pytest.raises(WriterLockedError):
        journaled_queue(plain)
    assert worker.says("queue.front.put(b'b').result()") == "2"
    worker.kill()

    with journaled_queue(plain) as after:
        assert drain(after.reader("")) == [b"a", b"b"]


def test_an_outcome_that_cannot_be_written_brings_its_own_item_back(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The front ends, as it knows no longer what is durable; only that item comes again."""
    plain = make("data binary")
    front = journaled_queue(plain)
    for item in (b"a", b"b", b"c"):
        front.put(item).result(PATIENCE)
    reader = front.reader("")
    first, second, third = (reader.get(timeout=0) for _ in range(3))
    reader.ack(first)
    reader.ack(third)
    front.sync()

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(Appending, "commit", fail)
        reader.ack(second)
        with pytest.raises(JournalFailedError, match="no space left"):
            front.sync()
    with pytest.raises(JournalFailedError):
        reader.get(timeout=0)
    front.close(drain=False)

    with journaled_queue(plain) as after:
        assert drain(after.reader("")) == [b"b"]


def test_who_waits_in_another_process_is_told_of_a_front_at_once(
    make: Make, start: Callable[..., Worker]
) -> None:
    """Its claim is woken by the first item that the front makes durable, and says who has it."""
    plain = make("data binary")
    worker = start()
    # It has loaded what a claim takes before it waits.
    assert worker.says("queue.claim().count") == "0"
    with journaled_queue(plain) as front, ThreadPoolExecutor(1) as pool:
        refused = pool.submit(worker.says, _WAIT)
        time.sleep(0.2)
        assert not refused.done()
        front.put(b"a").result(PATIENCE)
        durable = time.monotonic()
        named, at = eval(refused.result(PATIENCE))  # noqa: S307 - our own process
    assert named == "FencedError"
    assert at - durable < 0.5


def test_who_waits_for_a_front_is_woken_by_what_is_put(make: Make) -> None:
    """Its takers are threads of its process: they have an item before it would be looked for."""
    waits = []
    with journaled_queue(make("data binary")) as front, ThreadPoolExecutor(1) as pool:
        reader = front.reader("")
        for _ in range(5):
            got = pool.submit(lambda: (reader.get(timeout=PATIENCE), time.monotonic()))
            time.sleep(0.02)
            front.put(b"a").result(PATIENCE)
            durable = time.monotonic()
            read, at = got.result(PATIENCE)
            reader.ack(read)
            waits.append(at - durable)
    assert min(waits) < 0.05


def test_an_erased_queue_is_gone(jobs: JournaledQueue[bytes], again: Again) -> None:
    """Nothing of it is left to open, though a front held it."""
    jobs.put(b"a").result(PATIENCE)
    jobs.erase()

    with pytest.raises(QueueNotFoundError):
        again()
