"""Claims that take longer than a third of their lease: what is done is settled part by part."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from obstore.store import LocalStore

from spark_queue.clock import ManualClock
from spark_queue.commands import settle
from spark_queue.errors import Reject
from spark_queue.local_queue import LocalQueue
from spark_queue.log.delta.claim_record import ClaimRecord, read_record
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.object.object_storage import ObjectStorage
from spark_queue.log.object.table_copy import TableCopy
from spark_queue.log.output.outputs import ResultTable
from spark_queue.log.step_events import StepFacts
from spark_queue.processing import claim_parts
from spark_queue.processing.crew import Using
from spark_queue.processing.local_processing import LocalHands
from spark_queue.retry_policy import RetryPolicy
from spark_queue.saying import Said
from spark_queue.state.settle_decision import Some
from tests import kills
from tests.unit.local.conftest import Make

#: A third of it is what a test waits for.
LEASE = timedelta(seconds=0.6)

RESULTS = pa.schema([("n", pa.int64()), ("_seq", pa.int64()), ("_claim_id", pa.string())])


@pytest.fixture
def queue(make: Make) -> LocalQueue:
    """Twelve items; what fails is retried at once."""
    made = make("id long", retry=RetryPolicy(delay=timedelta(0)))
    made.enqueue([{"id": number} for number in range(12)])
    return made


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(("using", "acked"), [("threads", 11), ("processes", 6)])
@pytest.mark.parametrize("output", [None, "out"])
def test_an_item_that_hangs_holds_up_no_ack(
    queue: LocalQueue, place: str, using: Using, acked: int, output: str | None
) -> None:
    """What is done is acked, and its row there, while one item goes on and on.

    A child that hangs has a part of the items, and leaves those behind it to nobody.
    """
    out, mark = output and f"{place}/{output}", Path(place, "seen")

    def see() -> None:
        until(lambda: queue.counts()["acked"] == acked)
        assert out is None or DeltaTable(out).to_pyarrow_table().num_rows == acked
        mark.touch()

    def handle(item: dict[str, Any]) -> dict[str, Any] | None:
        # A child knows nothing of what its parent does meanwhile, but of the disk.
        until(lambda: item["id"] > 0 or mark.exists())
        return None if out is None else {"n": item["id"]}

    written: Any = {} if out is None else {"returns": "n bigint", "output": out}
    with ThreadPoolExecutor() as operators:
        seen = operators.submit(see)
        done = queue.process(handle, limit=100, lease=LEASE, max_workers=2, using=using, **written)

    seen.result()
    assert (done.acked, done.claims, queue.counts()["acked"]) == (12, 1, 12)
    if out is not None:
        assert sorted(DeltaTable(out).to_pyarrow_table()["n"].to_pylist()) == list(range(12))


@pytest.fixture
def at_last(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Hold parts up until it is set: the first one then has all that was done before."""
    event, told = threading.Event(), LocalHands.tell_part

    def part(hands: LocalHands, claim: Any) -> Any:
        until(event.is_set)
        return told(hands, claim)

    monkeypatch.setattr(LocalHands, "tell_part", part)
    return event


def test_each_outcome_is_settled_in_its_part(
    make: Make, clock: ManualClock, at_last: threading.Event
) -> None:
    """What fails may run again while the rest of its claim goes on, and counts once."""
    steps: list[StepFacts] = []
    path = make("id long", retry=RetryPolicy(delay=timedelta(0))).name
    queue = LocalQueue.open(path, durability="process", clock=clock, listener=steps.append)
    queue.enqueue([{"id": number} for number in range(4)])

    def handle(item: dict[str, Any]) -> None:
        if item["id"] == 0 and item["_attempts"] == 0:
            raise ValueError("the first time")
        if item["id"] == 1:
            raise Reject("never")
        if item["id"] == 3:
            at_last.set()
            until(lambda: {"settle", "renew"} <= {step.action for step in steps})
            assert queue.counts()["claimed"] == 1

    done = queue.process(handle, limit=100, lease=LEASE)

    assert (done.acked, done.failed, done.dead, done.released) == (3, 1, 1, 0)
    assert next(step.counts for step in steps if step.action.startswith("settle")) == {
        "ready": 1,
        "dead": 1,
        "acked": 1,
    }


def test_a_part_that_cannot_be_written_is_told_with_the_next(
    queue: LocalQueue, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost or there twice, whether the write that failed was there or not."""
    write, failed = ResultTable.write_part, list[bool]()

    def unsure(table: ResultTable, *args: Any) -> bool:
        if len(failed) < 2:
            failed.append(bool(failed) and write(table, *args))
            raise OSError("no answer")
        return write(table, *args)

    monkeypatch.setattr(ResultTable, "write_part", unsure)

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        if item["id"] in (3, 6, 9):
            before = len(failed)
            until(lambda: len(failed) > before or queue.counts()["acked"] > 0)
        return {"n": item["id"]}

    done = queue.process(handle, limit=100, lease=LEASE, returns="n bigint", output=f"{place}/out")

    assert (done.acked, done.claims, failed) == (12, 1, [False, True])
    rows = DeltaTable(f"{place}/out").to_pyarrow_table()["n"].to_pylist()
    assert sorted(rows) == list(range(12))


def test_a_part_is_settled_before_another_is_written(
    queue: LocalQueue, place: str, at_last: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who takes over asks the newest part, and the last one says that all others are done.

    A failure that was told in a part, and not settled, would be taken for done by it.
    """
    order: list[str] = []
    told, rest = LocalHands.tell_part, LocalHands.tell

    def settles(*args: Any) -> Any:
        order.append("settle")
        if order.count("settle") == 1:
            raise OSError("no answer")
        return settle.settle(*args)

    def part(hands: LocalHands, claim: Any) -> Any:
        order.append("part")
        return told(hands, claim)

    def last(hands: LocalHands, claim: Any) -> Any:
        order.append("last")
        return rest(hands, claim)

    monkeypatch.setattr(claim_parts, "settle", SimpleNamespace(settle=settles))
    monkeypatch.setattr(LocalHands, "tell_part", part)
    monkeypatch.setattr(LocalHands, "tell", last)

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        if item["id"] == 0 and item["_attempts"] == 0:
            raise ValueError("the first time")
        if item["id"] == 6:
            at_last.set()
            until(lambda: "settle" in order)
        return {"n": item["id"]}

    done = queue.process(handle, limit=100, lease=LEASE, returns="n bigint", output=f"{place}/out")

    assert (done.acked, done.failed) == (12, 1)
    assert order[: order.index("last")][:3] == ["part", "settle", "settle"]


@pytest.mark.parametrize("ticks", [1, 2])
def test_a_part_whose_settle_fails_is_settled_with_the_next(
    queue: LocalQueue, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, ticks: int
) -> None:
    """An item whose outcome is known is not left to the end of the lease."""
    tell_part, failed = LocalHands.tell_part, list[int]()

    def unlucky(hands: LocalHands, claim: Any) -> Any:
        if len(failed) == ticks:
            return Some({})
        told = tell_part(hands, claim)
        monkeypatch.setattr(clock, "now", no_time)
        return told

    def no_time() -> Any:
        monkeypatch.delattr(clock, "now")
        failed.append(len(failed))
        raise OSError("no time")

    monkeypatch.setattr(LocalHands, "tell_part", unlucky)
    done = queue.process(
        lambda item: until(lambda: item["id"] < 6 or len(failed) == ticks), limit=100, lease=LEASE
    )
    assert (done.acked, queue.counts()["acked"]) == (12, 12)


@pytest.fixture(params=["disk", "object store"])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> ResultTable:
    """Return a table of results."""
    table = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)
    if request.param == "object store":
        bucket = ObjectStorage(LocalStore(tmp_path), "s3://bucket/results", "results")
        table = ResultTable(TableCopy(bucket, is_log=False), is_synced=False)
    table.make(RESULTS)
    return table


def _rows(*seqs: int) -> pa.Table:
    marks = {"n": seqs, "_seq": seqs, "_claim_id": ["mine"] * len(seqs)}
    return pa.table({name: pa.array(values) for name, values in marks.items()}, schema=RESULTS)


def _record(part: int | None, **outcomes: str) -> str:
    said = {int(seq[1:]): Said(outcome) for seq, outcome in outcomes.items()}
    return ClaimRecord(claim_id="mine", outcomes=said, is_whole=part is None, part=part).text()


def test_who_takes_over_shuts_the_next_part_out(out: ResultTable) -> None:
    """What is there stays, and what the newest part says is known; nothing comes behind it."""
    assert out.write_part(_rows(1), "mine", 1, _record(1, _2="nack"))
    assert out.write_part(_rows(1), "mine", 1, _record(1, _2="nack"))
    assert out.write_part(_rows(3), "mine", 2, _record(2, _4="dead"))

    assert out.shut_out("mine") == {1, 3}

    record = out.record("mine")
    assert record is not None
    assert (record.part, record.outcomes, record.is_whole) == (2, {4: Said("dead")}, False)
    assert not out.write_part(_rows(5), "mine", 3, _record(3))
    assert not out.write(_rows(5), "mine", _record(None))
    assert out.rows("mine") == {1, 3}


def test_the_last_part_may_be_written_once_more(out: ResultTable) -> None:
    """Whoever lost the answer finds it there; whoever comes for it finds all parts."""
    assert out.write_part(_rows(1), "mine", 1, _record(1))
    assert out.write(_rows(2, 3), "mine", _record(None))
    assert out.write(_rows(2, 3), "mine", _record(None))
    assert out.shut_out("mine") == {1, 2, 3}


@pytest.fixture(scope="module")
def workers() -> Iterator[kills.Workers]:
    """Start the program that has workers kill themselves."""
    found = kills.Workers()
    yield found
    found.end()


@pytest.mark.parametrize("on_failure", ["block", "skip"])
@pytest.mark.parametrize("point", kills.PARTS)
def test_a_worker_is_killed_in_a_claim_of_three_parts(
    workers: kills.Workers, place: str, point: str, on_failure: str
) -> None:
    """Laws 1-4: each row is there once, and what a part decided does not run again."""
    kills.make(place, on_failure)
    workers.kill_at(point, place, "without Spark")
    decided = _decided(place)

    queue = LocalQueue.open(f"{place}/queue", durability="process")
    kills.work(queue, place, "second")

    kills.require_law(place, _states(queue), in_order=on_failure == "block", is_whole=False)
    again = {(call.id, call.attempts) for call in kills.calls(place) if call.who == "second"}
    assert not decided & again


def _states(queue: LocalQueue) -> dict[int, tuple[str, int]]:
    rows = queue.status().to_pylist()
    return {row["id"]: (row["_state"], row["_attempts"]) for row in rows}


def _decided(place: str) -> set[tuple[int, int]]:
    """Return the attempts at items of which the log, or a commit of the output, says the end."""
    path, out = f"{place}/queue", f"{place}/out"
    queue = LocalQueue.open(path, durability="process")
    by_seq = {row["_seq"]: row["id"] for row in queue.status().to_pylist()}
    found = {
        (by_seq[seq], row["_attempts"] - (row["_state"] != "acked"))
        for seq in by_seq
        for row in queue.history(seq).to_pylist()
        if row["_state"] in ("acked", "dead") or row["_error"]
    }
    if not DeltaTable.is_deltatable(out):
        return found
    for commit in Path(out, "_delta_log").glob("*.json"):
        for line in commit.read_text().splitlines():
            text = json.loads(line).get("commitInfo", {}).get("userMetadata")
            record = text and read_record(text, json.loads(text)["claim"])
            said = record.outcomes if record else {}
            found |= {(by_seq[seq], 0) for seq in said if said[seq][0] != "release"}
    rows = DeltaTable(out).to_pyarrow_table().to_pylist()
    return found | {(row["id"], 0) for row in rows if row["id"] not in (7, 12)}


@pytest.mark.parametrize("using", ["threads", "processes"])
def test_an_item_that_takes_too_long_has_failed(make: Make, place: str, using: Using) -> None:
    """A child is killed; a thread counts as busy, and what it does then is told to nobody."""
    queue = make("id long", max_attempts=1)
    queue.enqueue([{"id": number} for number in range(6)])
    end = Path(place, "end")

    def handle(item: dict[str, Any]) -> None:
        until(lambda: item["id"] > 0 or end.exists())

    done = queue.process(
        handle, limit=2, item_time_limit=timedelta(seconds=1.5), max_workers=2, using=using
    )
    end.touch()

    assert (done.acked, done.dead, done.stopped) == (5, 1, "empty")
    (letter,) = queue.dead().to_pylist()
    assert letter["id"] == 0
    assert letter["_error"] == "it took longer than its item_time_limit, 1.5 s"


def test_an_item_of_a_group_is_charged_when_its_thread_is_back(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Until then nobody works on its group, and it is told; the items of others are done."""
    queue = make("id long, grp string", group_key="grp", max_attempts=1)
    queue.enqueue([{"id": number, "grp": "ab"[number % 2]} for number in range(4)])
    seen: list[int] = []

    def handle(item: dict[str, Any]) -> None:
        seen.append(item["id"])
        if item["id"] == 0:
            until(lambda: seen.count(3) == 1 and "takes longer" in caplog.text)

    done = queue.process(handle, item_time_limit=timedelta(seconds=0.5), max_workers=2)

    assert "item 1 takes longer than its item_time_limit, 0.5 s: spark_queue_0 is" in caplog.text
    assert (done.acked, done.dead) == (3, 1)
    assert queue.dead()["id"].to_pylist() == [0]
    assert seen[-1] == 2


def test_where_all_threads_hang_what_is_left_waits_for_one(make: Make, place: str) -> None:
    """It goes back, and runs when a thread is there again."""
    queue = make("id long", max_attempts=1)
    queue.enqueue([{"id": number} for number in range(4)])
    end = Path(place, "end")

    def handle(item: dict[str, Any]) -> None:
        if item["id"] < 1:
            until(end.exists)

    def finish() -> None:
        until(lambda: queue.counts()["dead"] == 1)
        end.touch()

    with ThreadPoolExecutor() as operators:
        seen = operators.submit(finish)
        done = queue.process(handle, item_time_limit=timedelta(seconds=0.5))

    seen.result()
    assert (done.acked, done.dead, done.released) == (3, 1, 3)
