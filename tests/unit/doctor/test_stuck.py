"""Whether the doctor, and ``explain``, see that nothing comes of an item."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from spark_queue.clock import ManualClock
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output.outputs import ResultTable
from tests.unit.doctor.conftest import Make, anew, only, paste
from tests.unit.local.test_evidence import RESULTS, _claimed, _results, _states

MINUTE = timedelta(minutes=1)


def test_an_item_that_is_held_for_several_leases_is_found(make: Make, clock: ManualClock) -> None:
    """It is named with its holder, and dated from the claim; a lease of another length counts."""
    queue = make(lease=5 * MINUTE)
    queue.enqueue([{"id": name} for name in "abc"])
    begun = clock.now()
    held, longer = queue.claim(2, worker_id="crew 7"), queue.claim(1, lease=20 * MINUTE)
    for _ in range(7):
        clock.advance(2 * MINUTE)
        held.renew()
    longer.renew(20 * MINUTE)
    assert queue.doctor().findings == ()

    clock.advance(MINUTE)
    found = only(queue.doctor(), "held-long")

    assert (found.severity, found.since) == ("warning", begun)
    said = "item 1 has been held for 15 min by crew 7, with a lease of 5 min; likewise 1 other"
    assert found.what == said
    paste(found)
    held.ack()
    assert queue.doctor().findings == ()


def test_an_item_that_is_given_back_again_and_again_is_found(
    make: Make, clock: ManualClock
) -> None:
    """Neither a failure nor a loss counts, nor what was given back less often."""
    queue = make(max_attempts=None)
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    for _ in range(9):
        queue.claim(1).release()
    queue.claim(1).nack("no")
    clock.advance(MINUTE)
    queue.claim(2).release()
    assert queue.doctor().ids() == ["given-back"]
    assert queue.explain(1).given_back == anew(queue, clock).explain(1).given_back == 10
    assert queue.explain(2).given_back == 1

    found = only(queue.doctor(), "given-back")

    assert (found.severity, found.since) == ("warning", clock.now())
    assert found.what == "item 1 was given back untouched 10 times"
    paste(found)
    assert "was given back 10 times and may run at the next claim" in queue.report_item(1).text
    queue.claim(2).ack()
    assert queue.doctor().findings == ()


@pytest.mark.parametrize("large", [10_000, 0])
def test_a_claim_that_nobody_can_take_over_is_found_with_the_cause(
    make: Make, clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large: int
) -> None:
    """The commit of its output is damaged: the items wait, and the finding ends with that.

    It is known by the items in memory, and by the files where these are too many.
    """
    monkeypatch.setattr("spark_queue.state.replica_choice._OPEN", large)
    out = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)
    out.make(RESULTS)
    queue = make()
    queue.enqueue([{"id": "a"}, {"id": "b"}])
    claim = _claimed(queue, 2, out.directory)
    assert out.write(_results(claim, 1, 2), claim.id)
    commit = Path(out.directory, "_delta_log", f"{1:020}.json")
    was = commit.read_text()
    commit.write_text("{")
    clock.advance(timedelta(hours=2))

    assert queue.claim(1).count == 0
    found = only(queue.doctor(), "output-unasked")
    assert found.severity == "error"
    assert found.what.startswith(f"item 1 of claim {claim.id} waits")
    assert "FileDamagedError" in found.what
    assert str(out.directory) in found.what

    commit.write_text(was)
    assert "output-unasked" not in queue.doctor().ids()
    queue.claim(1)
    assert {state for state, _ in _states(queue).values()} == {"acked"}
