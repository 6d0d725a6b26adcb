"""Outputs that others rewrite while a claim is out: what they have of it is found all the same."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from spark_queue.clock import ManualClock
from spark_queue.log.delta.claim_record import ClaimRecord
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output import outputs
from spark_queue.log.output.outputs import ResultTable
from spark_queue.log.storage import WRITER
from spark_queue.processing import loop
from spark_queue.saying import Said
from tests.unit.local.conftest import Make
from tests.unit.local.test_evidence import RESULTS, _claimed, _results, _states

Rewrite = Callable[[DeltaTable], object]


def _sum_up(table: DeltaTable) -> object:
    done = table.delete("_seq = 2")
    table.create_checkpoint()
    return done


def _merge(table: DeltaTable) -> object:
    source = pa.table({"_seq": pa.array([1], pa.int64()), "n": pa.array([7], pa.int64())})
    merged = table.merge(source, "t._seq = s._seq", source_alias="s", target_alias="t")
    return merged.when_matched_update({"n": "s.n"}).execute()


#: What others do to a table, by the library of Rust; item 2 goes by an erasure.
REWRITES: dict[str, Rewrite] = {
    "delete": lambda table: table.delete("_seq = 2"),
    "update": lambda table: table.update(updates={"n": "0"}, predicate="_seq = 1"),
    "merge": _merge,
    "compact": lambda table: table.optimize.compact(),
    "z-order": lambda table: table.optimize.z_order(["n"]),
    "column": lambda table: table.alter.add_columns(Field("more", PrimitiveType("string"))),
    "vacuum": lambda table: (
        table.delete("_seq = 2"),
        table.vacuum(0, dry_run=False, enforce_retention_duration=False),
    ),
    "checkpoint": _sum_up,
}


@pytest.fixture
def out(tmp_path: Path) -> ResultTable:
    """Return a table of results."""
    table = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)
    table.make(RESULTS)
    return table


@pytest.mark.parametrize("name", REWRITES)
@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_rewritten_output_has_what_was_done(
    make: Make, clock: ManualClock, out: ResultTable, name: str, *, is_recorded: bool
) -> None:
    """A worker died between output and settle: what is there is done, and so is what was erased."""
    queue = make()
    queue.enqueue([{"id": one} for one in "abc"])
    claim = _claimed(queue, 3, out.directory)
    record = ClaimRecord(claim_id=claim.id, outcomes={3: Said("release")}, is_whole=True)
    assert out.write(_results(claim, 1, 2), claim.id, record.text() if is_recorded else None)
    REWRITES[name](DeltaTable(out.directory))
    clock.advance(timedelta(hours=1))

    assert "output-unasked" not in queue.doctor().ids()
    again = [row["id"] for row in queue.claim(9).rows]

    is_erased = name in ("delete", "vacuum", "checkpoint")
    is_known = is_recorded or not is_erased
    assert again == (["c"] if is_known else ["b", "c"])
    assert _states(queue)["a"][0] == "acked"
    assert _states(queue)["b"][0] == ("acked" if is_known else "claimed")


def _clean_up(output: Path) -> None:
    """Sum the log of a table up, and remove all commits that its checkpoint has."""
    table = DeltaTable(output)
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    table.create_checkpoint()
    for commit in output.glob("_delta_log/*.json"):
        os.utime(commit, (0, 0))
    DeltaTable(output).cleanup_metadata()
    assert len([*output.glob("_delta_log/*.json")]) == 1


@pytest.mark.parametrize("is_cut", [False, True])
def test_an_output_whose_commits_are_cleaned_up_knows_what_is_done(
    make: Make, clock: ManualClock, out: ResultTable, *, is_cut: bool
) -> None:
    """A run that did all of its items is known by its transaction, another by its rows alone."""
    queue = make()
    queue.enqueue([{"id": one} for one in "abc"])
    others = {3: Said("release")} if is_cut else {}
    claim = _claimed(queue, 3, out.directory)
    record = ClaimRecord(claim_id=claim.id, outcomes=others, is_whole=True)
    rows = _results(claim, 1)
    assert out.write(rows, claim.id, record.text(), is_all_done=record.is_all_done())
    _clean_up(out.directory)
    clock.advance(timedelta(hours=1))

    out.write(rows, claim.id)
    assert out.rows(claim.id) == {1}
    assert [row["id"] for row in queue.claim(9).rows] == (["b", "c"] if is_cut else [])


def test_a_worker_that_fails_behind_a_clean_up_repeats_nothing(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Items without a row are done, too, though the commit that says so is gone."""
    queue, out = make(), tmp_path / "out"
    queue.enqueue([{"id": one} for one in "abc"])

    def fail(*_: object, **__: object) -> None:
        _clean_up(out)
        raise OSError("the disk is away")

    monkeypatch.setattr(loop._Ahead, "settle", fail)
    with pytest.raises(OSError, match="away"):
        queue.process(
            lambda item: None if item["id"] == "a" else {"n": 1},
            returns="n bigint",
            output=str(out),
        )

    assert queue.counts()["acked"] == 3
    assert DeltaTable(out).count() == 2


def test_a_look_at_an_output_waits_for_no_writer(
    make: Make, tmp_path: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Doctor asks the output of a dead worker's claim, and leaves no file beside it."""
    monkeypatch.setattr(outputs, "_PATIENCE", 0.1)
    queue, theirs = make(), tmp_path / "out"
    marks = {"_seq": pa.array([0], pa.int64()), "_claim_id": ["theirs"]}
    write_deltalake(theirs, pa.table({"n": pa.array([0], pa.int64()), **marks}))
    queue.enqueue({"id": "a"})
    _claimed(queue, 1, theirs)
    clock.advance(timedelta(hours=1))
    files = {*theirs.rglob("*")}
    calm = queue.doctor().ids()

    assert {*theirs.rglob("*")} == files
    with DiskStorage(theirs).lock(WRITER, 1):
        assert queue.doctor().ids() == calm
