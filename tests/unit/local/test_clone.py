"""A queue made twice: the clone goes on where it was, and neither knows of the other."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from spark_queue.clock import ManualClock
from spark_queue.errors import (
    InvalidArgumentError,
    QueueExistsError,
    SparkNeededError,
    StepLostError,
)
from spark_queue.front.durable import DurableQueue
from spark_queue.local_queue import LocalQueue, LocalVerbs
from spark_queue.log.addresses import TableAddress
from spark_queue.log.delta.log import Log
from spark_queue.log.delta_log import DeltaLog
from spark_queue.log.step_events import StepFacts
from spark_queue.reader_config import ReaderConfig
from spark_queue.state.store import Store
from spark_queue.upkeep import clones
from tests.conftest import CommandLine
from tests.unit.local.conftest import Make, Worker


@pytest.fixture
def busy(make: Make) -> LocalQueue:
    """Make a queue in which something of everything is."""
    queue = make("id string, t string", fair_key="t", dedup_key="id", weights={"x": 2.0})
    queue.enqueue([{"id": f"{t}{n}", "t": t} for n in range(6) for t in "xy"])
    queue.claim(2).settle_each({1: "ack", 2: ("nack", "bad")})
    queue.cancel("id = 'y5'")
    queue.maintain()
    queue.configure(max_in_flight=5)
    return queue


def _ids(queue: LocalVerbs, limit: int = 100) -> list[str]:
    return [row["id"] for row in queue.claim(limit).rows]


def test_a_clone_goes_on_where_the_queue_was(busy: LocalQueue, place: str) -> None:
    """The same items in the same order under the same settings; what was in flight is ready."""
    held = busy.claim(2)
    clone = busy.clone(f"{place}/clone")

    assert clone.config == busy.config
    was = {row["_seq"]: row["_state"] for row in busy.status().to_pylist()}
    states = {row["_seq"]: row["_state"] for row in clone.status().to_pylist()}
    assert states == {seq: "ready" if s == "claimed" else s for seq, s in was.items()}
    assert (clone.counts()["claimed"], busy.counts()["claimed"]) == (0, 2)
    assert held.release().released == 2
    ours, theirs = busy.claim(100), clone.claim(100)
    assert theirs.rows[0]["_attempts"] == 0
    assert [row["id"] for row in theirs.rows] == [row["id"] for row in ours.rows]
    assert theirs.count == 5
    assert clone.history(1).num_rows == busy.history(1).num_rows
    assert clone.enqueue({"id": "x5", "t": "x"}).duplicates == 1


def test_neither_sees_what_is_done_to_the_other(
    busy: LocalQueue, place: str, clock: ManualClock
) -> None:
    """Items, settings, upkeep and removal are each queue's own, and so is its table's id."""
    busy.claim(2)
    clone = busy.clone(f"{place}/clone")
    before = clone.counts()

    busy.enqueue({"id": "new", "t": "x"})
    busy.pause()
    clock.advance(timedelta(days=30))
    busy.maintain(retention=timedelta(days=1))
    assert (clone.counts(), clone.paused) == (before, False)
    clone.claim(100).ack()
    clone.maintain(retention=timedelta(days=1))
    assert busy.counts()["ready"] == 9
    ids = {DeltaTable(f"{one.name}/status").metadata().id for one in (busy, clone)}
    assert len(ids) == 2
    LocalQueue.drop(busy.name)
    assert LocalQueue.open(clone.name, clock=clock).counts() == clone.counts()


def test_files_are_shared_where_they_can_be(
    busy: LocalQueue, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By links on one disk; where the system refuses them they are copied."""
    linked, link = busy.clone(f"{place}/linked"), os.link
    with monkeypatch.context() as patch:
        patch.setattr("os.link", lambda new, to: _refused() if _is_rows(new) else link(new, to))
        copied = busy.clone(f"{place}/copied")

    def shared(queue: LocalQueue) -> set[int]:
        files = Path(queue.name).rglob("*.parquet")
        return {file.stat().st_ino for file in files if "_delta_log" not in str(file)}

    assert len(shared(linked) & shared(busy)) > 5
    assert not shared(copied) & shared(busy)
    assert copied.counts() == linked.counts()


def _is_rows(file: Path) -> bool:
    return file.suffix == ".parquet"


def _refused(*_paths: object) -> None:
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def test_each_reader_is_cloned_and_sends_nothing_on(make: Make, place: str) -> None:
    """With its place and its claims given back; what it would send elsewhere stays."""
    queue = make()
    queue.enqueue([{"id": name} for name in "abc"])
    limits = ReaderConfig(max_age=timedelta(days=1))
    first, second = queue.reader("first", config=limits), queue.reader("second", start="beginning")
    first.claim(2).ack()
    second.claim(1)
    head = queue._main.queue_head()
    config = {**head.readers[0].config, "expire_to": f"{place}/other"}
    readers = {**head.readers, 0: type(head.readers[0])(name="first", config=config)}

    clone = queue.clone(f"{place}/clone")

    assert clone.readers() == ("first", "second")
    assert _ids(clone.reader("first")) == ["c"]
    assert _ids(clone.reader("second")) == ["a", "b", "c"]
    step: Any = clones._free(type(head)(step=head.step, readers=readers))
    assert "expire_to" not in step.head.readers[0].config
    assert step.head.readers[0].config["max_age"] == 86_400


def test_a_claim_that_was_in_flight_is_made_anew_there(busy: LocalQueue, place: str) -> None:
    """Its id names a new claim of whoever asks; one that was settled keeps its answer."""
    settled = busy.claim(1, claim_id="settled")
    settled.ack()
    held = busy.claim(2, claim_id="held")
    held.renew(timedelta(days=1))
    clone = busy.clone(f"{place}/clone")

    theirs = clone.claim(2, claim_id="held")

    assert {row["id"] for row in theirs.rows} == {row["id"] for row in held.rows}
    assert clone.claim(9, claim_id="held").lease == theirs.lease > held.lease
    assert theirs.ack().acked == 2
    clone.close()
    assert clone.claim(9, claim_id="held").lease == theirs.lease
    assert len(clone.claim(9, claim_id="held").over) == 2
    assert clone.claim(9, claim_id="settled").lease == settled.lease
    assert busy.claim(9, claim_id="held").lease == held.lease


def test_an_output_of_the_original_is_not_asked(make: Make, place: str, clock: ManualClock) -> None:
    """A claim whose holder is gone is nobody's in the clone: the holder here can still write."""
    out = f"{place}/out"
    queue = make()
    queue.enqueue([{"id": name} for name in "ab"])
    clones: list[LocalQueue] = []

    def handle(item: dict[str, Any]) -> dict[str, Any]:
        if not clones:
            clones.append(queue.clone(f"{place}/clone"))
            clock.advance(10 * queue.config.lease)
            clones[0].maintain()
            assert clones[0].claim(2).ack().acked == 2
        return {"n": len(item["id"])}

    done = queue.process(handle, returns="n int", output=out, limit=2)

    assert (done.acked, DeltaTable(out).to_pyarrow_table().num_rows) == (2, 2)


def test_what_a_dead_process_held_is_ready_uncharged(
    make: Make, place: str, start: Callable[..., Worker]
) -> None:
    """Also where nobody has noticed yet that it is dead."""
    queue = make()
    queue.enqueue([{"id": name} for name in "ab"])
    worker = start()
    assert worker.says("queue.claim(1).count") == "1"
    worker.kill()

    clone = queue.clone(f"{place}/clone")

    rows = clone.claim(2).rows
    assert [(row["id"], row["_losses"]) for row in clone.status().to_pylist()] == [
        ("a", 0),
        ("b", 0),
    ]
    assert len(rows) == 2


def test_a_clone_of_a_held_queue_is_free(make: Make, place: str) -> None:
    """A front keeps others from the original, and nobody from the clone."""
    queue = make()
    with DurableQueue(queue) as front:
        front.put({"id": "a"}).result(timeout=60)
        clone = queue.clone(f"{place}/clone")
        assert clone.enqueue({"id": "b"}).inserted == 1
        assert len(_ids(clone)) == 2
        with front.receive(timeout=60) as delivery:
            assert delivery.item["id"] == "a"


@pytest.mark.parametrize(
    ("to", "error", "why"),
    [
        ("queue", QueueExistsError, "exists"),
        ("queue/inner", InvalidArgumentError, "inside"),
        ("other", QueueExistsError, "not empty"),
    ],
)
def test_a_place_that_is_no_place_is_refused(
    busy: LocalQueue, place: str, to: str, error: type[Exception], why: str
) -> None:
    """What is there stays as it is, and nothing is left of what was begun."""
    Path(place, "other").mkdir()
    Path(place, "other", "notes").write_text("mine")
    before = sorted(os.listdir(place))  # noqa: PTH208 - names

    with pytest.raises(error, match=why):
        busy.clone(f"{place}/{to}")
    with pytest.raises(SparkNeededError, match="this machine's disk"):
        busy.clone("s3a://bucket/clone")

    assert sorted(os.listdir(place)) == before  # noqa: PTH208 - names


def test_one_that_fails_half_way_leaves_nothing(
    busy: LocalQueue, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody ever finds a clone that is not whole."""
    busy.claim(2)
    monkeypatch.setattr("spark_queue.commands.admin.give_back", _refused)

    with pytest.raises(OSError, match="cross-device"):
        busy.clone(f"{place}/clone")

    assert not [name for name in os.listdir(place) if "clone" in name]  # noqa: PTH208 - names
    assert pc.sum(pc.equal(busy.status()["_state"], "claimed")).as_py() == 2


class FarTables:
    """Plays tables on a shared store, beside which others go on: clones are copies of versions."""

    def __init__(self) -> None:
        self.meanwhile: list[Callable[[], object]] = []
        """What others do before each look at a table, as long as there is any."""

    def version_of(self, _store: Store, table: TableAddress) -> int:
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return int(DeltaTable(table.target).version())

    def shallow(self, _store: Store, new: TableAddress, old: TableAddress, version: int) -> None:
        shutil.copytree(old.target, new.target)
        for commit in Path(new.target, "_delta_log").glob("*.json"):
            if int(commit.stem) > version:
                commit.unlink()


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> FarTables:
    """Play it for all queues; lost looks are repeated without a pause."""
    tables = FarTables()
    monkeypatch.setattr(clones, "_home", lambda _store: None)
    monkeypatch.setattr(clones, "PlainSession", type(None))
    monkeypatch.setattr(clones, "import_module", lambda _name: tables)
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    return tables


def test_a_clone_beside_other_drivers_is_of_one_instant(
    make: Make, place: str, far: FarTables
) -> None:
    """What they enqueue and claim while it is made is in it with both, or is not in it."""
    queue = make()
    reader = queue.reader("first")
    far.meanwhile = [
        lambda: queue.enqueue({"id": "a"}),
        lambda: reader.claim(1),
        lambda: (queue.enqueue({"id": "b"}), reader.claim(1)),
        lambda: None,
        lambda: reader.claim(1),
        lambda: queue.enqueue({"id": "c"}),
        lambda: queue.reader("second", start="beginning").claim(1),
    ]

    clone = queue.clone(f"{place}/clone")

    assert not far.meanwhile
    assert clone.readers() == ("first", "second")
    assert _ids(clone.reader("first")) == _ids(clone.reader("second")) == ["a", "b", "c"]


def test_a_clone_beside_drivers_that_never_rest_is_given_up(
    make: Make, place: str, far: FarTables
) -> None:
    """It says so after some looks, and nothing was made."""
    queue = make()
    far.meanwhile = [lambda: queue.enqueue({"id": "a"})] * 100

    with pytest.raises(StepLostError, match="clone lost its step"):
        queue.clone(f"{place}/clone")

    assert not Path(place, "clone").exists()


@pytest.mark.usefixtures("far")
def test_one_beside_other_drivers_that_fails_half_way_can_be_made_again(
    busy: LocalQueue, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tables are removed; its error is the one that there was."""
    with monkeypatch.context() as patch:
        patch.setattr("spark_queue.commands.admin.give_back", _refused)
        with pytest.raises(OSError, match="cross-device"):
            busy.clone(f"{place}/clone")

    assert not [*Path(place, "clone").iterdir()]
    assert busy.clone(f"{place}/clone").claim(100).count == 5


@pytest.mark.usefixtures("far")
def test_what_is_left_of_one_on_another_store_is_named(
    busy: LocalQueue,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Files by path that only the tools of their store delete are told, and the error is raised."""

    def refused(log: Log[Any]) -> None:
        raise InvalidArgumentError(f"{log.address.target!r} is not on this machine")

    monkeypatch.setattr("spark_queue.commands.admin.give_back", _refused)
    monkeypatch.setattr(DeltaLog, "drop", refused)

    with pytest.raises(OSError, match="cross-device"):
        busy.clone(f"{place}/clone")

    assert all(f"clone/{table}' is not on" in caplog.text for table in ("queue", "status"))


def test_the_steps_of_the_original_stay_as_they_are(
    busy: LocalQueue, place: str, command_line: CommandLine
) -> None:
    """Nothing is written to it; the command does the same."""
    told: list[StepFacts] = []
    busy.claim(2)
    busy._main.handle.listener = told.append
    ended = command_line("clone", busy.name, f"{place}/clone", "--engine", "local")

    assert (ended.code, told) == (0, [])
    assert LocalQueue.open(f"{place}/clone").counts()["claimed"] == 0
