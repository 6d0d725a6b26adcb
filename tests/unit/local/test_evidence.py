"""Claims that name an output: what it has is done, whoever takes over without Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_queue.claim import Claim
from spark_queue.clock import ManualClock
from spark_queue.commands import claims
from spark_queue.errors import SchemaMismatchError, SparkNeededError
from spark_queue.local_queue import LocalQueue
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output.outputs import ResultTable
from spark_queue.queue_views import store_of
from spark_queue.state.snapshot import Snapshot
from tests.unit.local.conftest import Make

MINUTE = timedelta(minutes=1)

RESULTS = pa.schema([("n", pa.int64()), ("_seq", pa.int64()), ("_claim_id", pa.string())])

#: Takes over what an item's claim has left: makes a claim, or keeps the queue in order.
TakeOver = Callable[[LocalQueue], object]


@pytest.fixture
def out(tmp_path: Path) -> ResultTable:
    """Return a table of results."""
    table = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)
    table.make(RESULTS)
    return table


def _claimed(queue: LocalQueue, limit: int, output: object, worker_id: str = "crew") -> Claim:
    """Claim as a worker that names an output."""
    store = store_of(queue)
    asked = claims.request(Snapshot(store), limit, MINUTE, worker_id, 1, None)
    named = replace(asked, output=str(output))
    return Claim(store, claims.claim(Snapshot(store), named))


def _results(claim: Claim, *seqs: int) -> pa.Table:
    marks = {"n": [10 * seq for seq in seqs], "_seq": seqs, "_claim_id": [claim.id] * len(seqs)}
    return pa.table({name: pa.array(values) for name, values in marks.items()}, schema=RESULTS)


def _states(queue: LocalQueue) -> dict[str, tuple[str, int]]:
    rows = queue.status().to_pylist()
    return {row["id"]: (row["_state"], row["_losses"]) for row in rows}


@pytest.mark.parametrize("named", ["{}", "file:{}", "{}/"])
def test_a_claim_takes_over_nothing_that_the_output_has(
    make: Make, clock: ManualClock, out: ResultTable, named: str
) -> None:
    """An item whose lease ran out is done if its row is there, and served again if not."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    held = _claimed(queue, 2, named.format(out.directory))
    assert out.write(_results(held, 1), held.id)
    clock.advance(2 * MINUTE)

    with queue.claim(5) as claim:
        assert [row["id"] for row in claim.rows] == ["b"]

    assert _states(queue) == {"a": ("acked", 0), "b": ("acked", 1)}
    assert out.rows(held.id) == {1}


def test_who_was_taken_over_writes_nothing(
    make: Make, clock: ManualClock, out: ResultTable
) -> None:
    """A worker that was silent too long finds its output shut, and its items with another."""
    queue = make()
    queue.enqueue([{"id": "a"}])
    held = _claimed(queue, 1, out.directory)
    clock.advance(2 * MINUTE)
    taken = queue.claim()

    assert taken.count == 1
    assert not out.write(_results(held, 1), held.id)
    assert out.rows(held.id) == frozenset()
    assert DeltaTable(str(out.directory)).to_pyarrow_table().num_rows == 0


@pytest.mark.parametrize("take_over", [LocalQueue.claim, LocalQueue.maintain])
def test_what_only_spark_can_ask_is_left_alone(
    make: Make, clock: ManualClock, take_over: TakeOver
) -> None:
    """Items of such a claim stay with it; all others are served, whose lease ran out, too."""
    queue = make(max_losses=1)
    queue.enqueue([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    _claimed(queue, 1, "catalog.facts")
    _claimed(queue, 1, "s3://somewhere/facts")
    queue.claim(1, lease=MINUTE, worker_id="crew")
    clock.advance(2 * MINUTE)

    take_over(queue)

    states = _states(queue)
    assert (states["a"], states["b"]) == (("claimed", 0), ("claimed", 0))
    assert states["c"] == ("dead", 1)


def test_a_lease_without_an_output_is_taken_over_beside_one_that_has_to_wait(
    make: Make, clock: ManualClock
) -> None:
    """What nobody here can ask for holds up nobody else."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    _claimed(queue, 1, "catalog.facts")
    queue.claim(1, lease=MINUTE, worker_id="crew")
    clock.advance(2 * MINUTE)

    assert [row["id"] for row in queue.claim(5).rows] == ["b", "c"]
    assert _states(queue) == {"a": ("claimed", 0), "b": ("claimed", 1), "c": ("claimed", 0)}


def test_an_output_that_is_gone_is_no_evidence(
    make: Make, clock: ManualClock, tmp_path: Path
) -> None:
    """With the table went what it said was done: its items are served again."""
    queue = make()
    queue.enqueue([{"id": "a"}])
    _claimed(queue, 1, tmp_path / "gone")
    clock.advance(2 * MINUTE)

    assert queue.claim().count == 1
    assert _states(queue) == {"a": ("claimed", 1)}


def test_a_claim_from_before_a_checkpoint_is_asked_for_too(
    make: Make, again: Callable[[], LocalQueue], clock: ManualClock, out: ResultTable
) -> None:
    """A process that begins behind a checkpoint finds in the log what a claim has named."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}, {"id": "c"}])
    held, plain = _claimed(queue, 1, out.directory), queue.claim(1, lease=MINUTE, worker_id="crew")
    assert out.write(_results(held, 1), held.id)
    queue.maintain()
    queue.close()
    clock.advance(2 * MINUTE)

    other = again()

    assert [row["id"] for row in other.claim(5).rows] == ["b", "c"]
    assert _states(other) == {"a": ("acked", 0), "b": ("claimed", 1), "c": ("claimed", 0)}
    assert plain.count == 1


def test_upkeep_buries_by_evidence(make: Make, clock: ManualClock, out: ResultTable) -> None:
    """What lost its last lease is dead only if its row is not there."""
    queue = make(max_losses=1)
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    held = _claimed(queue, 2, out.directory)
    assert out.write(_results(held, 2), held.id)
    clock.advance(2 * MINUTE)

    assert queue.maintain().dead == 1
    assert _states(queue) == {"a": ("dead", 1), "b": ("acked", 0)}


def test_an_output_that_cannot_be_read_keeps_its_claim(
    make: Make, clock: ManualClock, out: ResultTable, caplog: pytest.LogCaptureFixture
) -> None:
    """Where a file of it is missing nobody knows what is done: that is told, not guessed."""
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    held = _claimed(queue, 1, out.directory)
    assert out.write(_results(held, 1), held.id)
    for file in out.directory.glob("*.parquet"):
        file.unlink()
    clock.advance(2 * MINUTE)

    assert [row["id"] for row in queue.claim(5).rows] == ["b"]
    assert _states(queue)["a"] == ("claimed", 0)
    assert "waits until its output can be asked" in caplog.text


def test_an_archive_that_does_not_fit_is_told_as_an_archive(make: Make, tmp_path: Path) -> None:
    """The error of an archive speaks of no output, and of no column of a handler."""
    queue = make()
    write_deltalake(tmp_path / "other", RESULTS.empty_table())
    write_deltalake(tmp_path / "parted", RESULTS.empty_table(), partition_by=["n"])
    for name, said in (("other", "in the archive"), ("parted", "to write to the archive")):
        with pytest.raises((SchemaMismatchError, SparkNeededError), match=said) as told:
            queue.maintain(archive_to=f"{tmp_path}/{name}")
        assert "output" not in str(told.value)
        assert "returns" not in str(told.value)


def test_a_table_that_asks_for_more_is_refused_and_left_alone(
    make: Make, clock: ManualClock, tmp_path: Path
) -> None:
    """A constraint, or partitions: whoever has Spark writes there, and asks."""
    empty = RESULTS.empty_table()
    write_deltalake(tmp_path / "checked", empty)
    DeltaTable(str(tmp_path / "checked")).alter.add_constraint({"few": "n < 5"})
    write_deltalake(tmp_path / "parted", empty, partition_by=["n"])
    for name, why in (("checked", "constraints"), ("parted", "partitioned by n")):
        with pytest.raises(SparkNeededError, match=why):
            ResultTable(DiskStorage(tmp_path / name), is_synced=False).require(RESULTS)
    queue = make()
    queue.enqueue([{"id": "a"}])
    _claimed(queue, 1, tmp_path / "checked")
    clock.advance(2 * MINUTE)

    assert queue.claim().count == 0
    assert _states(queue) == {"a": ("claimed", 0)}
