"""Results of a queue on an object store, in a table there: exactly once, whoever writes them."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.store import LocalStore

from spark_queue.claim import Claim
from spark_queue.clock import ManualClock
from spark_queue.commands import claims
from spark_queue.errors import InvalidArgumentError, Reject, SparkNeededError
from spark_queue.local_queue import LocalQueue
from spark_queue.log.delta.claim_record import ClaimRecord
from spark_queue.log.object.object_storage import ObjectStorage
from spark_queue.log.object.table_copy import TableCopy
from spark_queue.log.output import outputs
from spark_queue.log.output.outputs import ResultTable
from spark_queue.queue_views import store_of
from spark_queue.saying import Said
from spark_queue.state.snapshot import Snapshot
from tests.logs.stores import ShakyStore

MINUTE = timedelta(minutes=1)
OUT = "s3://bucket/results"

RESULTS = pa.schema([("n", pa.int64()), ("_seq", pa.int64()), ("_claim_id", pa.string())])


class Place:
    """A store in a directory of this machine, which other libraries read as the store's."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.clock = directory, ManualClock()
        self.store = ShakyStore(LocalStore(directory))
        here = "s3://bucket/files"
        self.queue = LocalQueue.create(here, "n bigint", clock=self.clock, storage=self.store)

    def open(self) -> LocalQueue:
        """Open the queue as another machine does."""
        return LocalQueue.open("s3a://bucket/files", clock=self.clock, storage=self.store)

    def table(self) -> ResultTable:
        """Return the table of results as a process sees it that knows nothing of it."""
        storage = ObjectStorage(self.store, OUT, "results")
        return ResultTable(TableCopy(storage, is_log=False), is_synced=False)

    def read(self, name: str = "results") -> DeltaTable:
        """Open a table as any reader of Delta does."""
        return DeltaTable(str(self.directory / name))

    def results(self) -> list[dict[str, Any]]:
        """Return the rows of the output."""
        return list(self.read().to_pyarrow_table().to_pylist())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return a store with a queue of ten items."""
    made = Place(tmp_path)
    made.queue.enqueue([{"n": n} for n in range(10)])
    return made


def double(item: dict[str, Any]) -> dict[str, int]:
    """Return the result of an item."""
    return {"doubled": 2 * item["n"]}


def run(queue: LocalQueue, handler: Callable[..., Any] = double, limit: int = 3) -> Any:
    """Work on all that there is."""
    return queue.process(handler, limit=limit, returns="doubled bigint", output=OUT)


def claimed(queue: LocalQueue, limit: int) -> Claim:
    """Claim as a worker that names the output, and dies."""
    store = store_of(queue)
    asked = claims.request(Snapshot(store), limit, MINUTE, "crew", 1, None)
    named = replace(asked, output=OUT)
    return Claim(store, claims.claim(Snapshot(store), named))


def written(claim: Claim, *seqs: int) -> pa.Table:
    """Return results of some items of a claim."""
    marks = {"n": [10 * seq for seq in seqs], "_seq": seqs, "_claim_id": [claim.id] * len(seqs)}
    return pa.table({name: pa.array(values) for name, values in marks.items()}, schema=RESULTS)


def states(queue: LocalQueue) -> dict[int, str]:
    """Return the state of each item."""
    return {row["_seq"]: row["_state"] for row in queue.status().to_pylist()}


def test_results_are_a_table_that_anything_reads(place: Place) -> None:
    """Each item that is done has its row, each claim is a commit of three requests."""
    done = run(place.queue)

    assert (done.acked, done.claims) == (10, 4)
    assert sorted(row["doubled"] for row in place.results()) == [2 * n for n in range(10)]
    asked = Counter(name.partition("/")[0] for name in place.store.names if "results" in name)
    assert asked["PUT results"] == 2 + 2 * 4


def test_machines_that_write_at_once_lose_nothing(place: Place) -> None:
    """A commit that another was before is made again, and an answer that is lost is asked for."""
    place.queue.enqueue([{"n": n} for n in range(10, 60)])
    place.store.lost = place.store.refused = 0.1

    with ThreadPoolExecutor(2) as machines:
        done = list(machines.map(lambda queue: run(queue, limit=2), [place.queue, place.open()]))

    place.store.lost = place.store.refused = 0.0
    assert sum(one.acked for one in done) == 60
    assert Counter(row["doubled"] for row in place.results()) == {2 * n: 1 for n in range(60)}
    files = {path.name for path in (place.directory / "results").glob("*.parquet")}
    assert files == {Path(uri).name for uri in place.read().file_uris()}


@pytest.mark.parametrize("is_same", [True, False])
def test_a_commit_that_another_was_before_is_made_again(place: Place, *, is_same: bool) -> None:
    """The results are there behind the other's; none are where that one has used their name."""
    table, other = place.table(), place.table()
    table.make(RESULTS)
    held = claimed(place.queue, 2)

    def be_second(ask: Callable[[], Any]) -> Any:
        other.append(written(held), held.id if is_same else "other", 1)
        return ask()

    place.store.fail_next("PUT results/_delta_log", be_second)

    assert table.write(written(held, 1, 2), held.id) is not is_same
    assert [row["_seq"] for row in place.results()] == ([] if is_same else [1, 2])
    files = {path.name for path in (place.directory / "results").glob("*.parquet")}
    assert len(files) == len(place.results()) / 2


def test_what_the_output_has_is_done(place: Place) -> None:
    """The items of a worker that died after its commit are not served again."""
    table = place.table()
    table.make(RESULTS)
    held = claimed(place.queue, 2)
    assert table.write(written(held, 1), held.id)
    place.clock.advance(2 * MINUTE)

    other = place.open()
    assert 1 not in [row["_seq"] for row in other.claim(5).rows]
    assert (states(other)[1], states(other)[2]) == ("acked", "claimed")


def test_who_was_taken_over_writes_nothing(place: Place) -> None:
    """A worker that was silent too long finds its output shut."""
    table = place.table()
    table.make(RESULTS)
    held = claimed(place.queue, 1)
    place.clock.advance(2 * MINUTE)
    assert 1 in [row["_seq"] for row in place.open().claim().rows]

    assert not table.write(written(held, 1), held.id)
    assert place.results() == []


def test_outcomes_without_a_row_are_found_behind_a_checkpoint(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit of a claim says what failed, also to who begins with a later checkpoint."""
    monkeypatch.setattr(outputs, "OFTEN", 3)
    table = place.table()
    table.make(RESULTS)
    held = claimed(place.queue, 2)
    failed = {2: Said("dead", "never")}
    record = ClaimRecord(claim_id=held.id, outcomes=failed, is_whole=True)
    assert table.write(written(held, 1), held.id, record.text())
    for n in range(4):
        table.append(written(held), f"other {n}", 1)
    place.clock.advance(2 * MINUTE)

    other = place.open()
    other.claim(1)
    assert (states(other)[1], states(other)[2]) == ("acked", "dead")


def test_its_log_is_summed_up_and_tidied(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits that are old and summed up go, and files that nobody has committed."""
    monkeypatch.setattr(outputs, "OFTEN", 3)
    log = place.directory / "results/_delta_log"
    run(place.queue, limit=3)
    left = place.directory / "results/step-left.parquet"
    other = place.directory / "results/other.parquet"
    for path in (left, other):
        path.write_bytes(b"nobody's")
    month = time.time() - 31 * 86_400
    for path in (left, other, *log.glob("*.json")):
        os.utime(path, (month, month))

    place.queue.enqueue([{"n": n} for n in range(10, 20)])
    run(place.open(), limit=3)

    there = {path.name for path in log.glob("*.json")}
    assert f"{0:020}.json" in there
    assert f"{1:020}.json" not in there
    assert (left.exists(), other.exists()) == (False, True)
    assert sorted(row["doubled"] for row in place.results()) == [2 * n for n in range(20)]


def test_what_fails_has_no_row(place: Place) -> None:
    """A rejected item is dead, and the others of its claim have their results."""

    def handle(item: dict[str, Any]) -> dict[str, int]:
        if item["n"] == 1:
            raise Reject("never")
        return double(item)

    assert (run(place.queue, handle).acked, states(place.queue)[2]) == (9, "dead")
    assert len(place.results()) == 9


def test_an_archive_is_such_a_table_too(place: Place) -> None:
    """Finished generations are copied there before they are dropped."""
    run(place.queue)
    for _ in range(2):
        place.clock.advance(2 * MINUTE)
        place.queue.maintain(retention=MINUTE, archive_to="s3://bucket/archive")

    archived = place.read("archive").to_pyarrow_table()
    assert sorted(archived["n"].to_pylist()) == [*range(10)]


def test_a_table_of_others_is_left_to_spark(place: Place) -> None:
    """Who made it may commit over what is told, so that nothing is written there."""
    write_deltalake(place.directory / "results", pa.table({"doubled": [1]}))

    with pytest.raises(SparkNeededError, match="it was made by others"):
        run(place.queue)
    assert len(place.results()) == 1


def test_a_table_of_others_whose_log_was_cleaned_up_is_not_made_again(place: Place) -> None:
    """Its first commit is gone, and its checkpoint says that it is there."""
    table = DeltaTable.create(
        str(place.directory / "results"), pa.schema([("doubled", pa.int32())])
    )
    write_deltalake(table, pa.table({"doubled": pa.array([1], pa.int32())}), mode="append")
    table.create_checkpoint()
    first = place.directory / f"results/_delta_log/{0:020}.json"
    first.unlink()

    with pytest.raises(SparkNeededError, match="it was made by others"):
        run(place.queue)
    assert not first.exists()


def test_a_store_of_one_bucket_reaches_no_other(place: Place) -> None:
    """Where storage is a store, an output elsewhere would be put into its bucket: it is refused."""
    with pytest.raises(InvalidArgumentError, match="bucket 'other' is not that of the store"):
        place.queue.process(double, returns="doubled bigint", output="s3://other/results")


def test_a_queue_on_a_disk_has_no_output_on_a_store(tmp_path: Path) -> None:
    """Its storage is not known: that is said at once."""
    queue = LocalQueue.create(f"{tmp_path}/q", "n bigint")
    with pytest.raises(SparkNeededError, match="nor beside a queue on a store"):
        queue.process(double, returns="doubled bigint", output=OUT)
