"""Outputs that others rewrite while a claim is out: what they have of it is found all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType

from spark_queue.clock import ManualClock
from spark_queue.log.delta.claim_record import ClaimRecord
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output.outputs import ResultTable
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
