"""Whether the doctor sees what the tables of a queue cannot be believed in."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from spark_queue.clock import ManualClock
from spark_queue.doctor.examine import CHECKS
from spark_queue.local_queue import LocalQueue
from spark_queue.report.finding import Finding
from tests.unit.doctor.conftest import AGO, anew, only, paste
from tests.unit.local.test_damage import COMMITS, FILES, commits, cut, following, log_of, written

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("which", ["queue", "status"])
@pytest.mark.parametrize("damage", [*COMMITS, *FILES])
def test_damage_is_found_wherever_it_is(
    queue: LocalQueue, clock: ManualClock, which: str, damage: str
) -> None:
    """A commit or a file that is gone, empty, cut or another's is an error that names it."""
    named = (COMMITS | FILES)[damage](log_of(queue, which))

    found = [one for one in anew(queue, clock).doctor().findings if one.severity == "error"]
    ids = {"files-gone"} if damage.startswith("rows ") else {"damaged"}
    assert {one.id for one in found} == ids
    assert any(named in one.what for one in found)


def test_what_damage_keeps_from_being_checked_is_said(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """A queue that does not open has one finding, and no check passes unmade."""
    cut(commits(log_of(queue, "status"))[-1])

    checkup = anew(queue, clock).doctor()

    assert checkup.ids() == ["damaged"]
    assert checkup.findings[0].since is not None
    assert {"paused", "foreign-rows", "checkpoint-due"} <= set(checkup.unchecked)


def test_an_empty_commit_that_was_summed_up_is_named(queue: LocalQueue, clock: ManualClock) -> None:
    """A checkpoint stands for it, so that it is in the way of few checks, which name it."""
    queue.pause()
    log = log_of(queue, "queue")
    DeltaTable(log).create_checkpoint()
    named = written(commits(log)[1], b"")

    checkup = anew(queue, clock).doctor()

    assert checkup.ids() == ["paused"]
    assert set(checkup.unchecked) == {"foreign-rows", "clocks-differ"}
    assert named in checkup.unchecked["foreign-rows"]


def test_what_no_check_expects_keeps_no_other_from_being_made(
    queue: LocalQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of nobody's is logged, and said of the one check that it ended."""

    def broken(_: object) -> list[Finding]:
        raise ValueError("no check expects this")

    monkeypatch.setattr("spark_queue.doctor.examine.CHECKS", {**CHECKS, "paused": broken})

    checkup = queue.doctor()

    assert checkup.unchecked == {"paused": "ValueError: no check expects this"}
    assert f"{queue.name}: a check cannot be made" in caplog.text


def test_a_commit_of_a_power_cut_is_taken_away_by_the_command(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """After what the finding names was pasted, the queue goes on, and the commit is kept aside."""
    cut_commit = following(log_of(queue, "queue"))
    written(cut_commit, b"")
    found = only(anew(queue, clock).doctor(), "damaged")
    assert "rm" not in shlex.split(found.command)

    subprocess.run(["bash", "-c", found.command], check=True)  # noqa: S603, S607 - our own command

    assert Path(f"{queue.name}.cut", cut_commit.name).exists()
    again = anew(queue, clock)
    assert again.doctor().findings == ()
    assert len(again.claim(9).rows) == 2


def test_a_lost_position_is_found_before_a_reader_begins_again(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """The reader is named, nothing is made in its place, and dropping it ends the finding."""
    queue.reader("first")
    queue.reader("second", start="beginning")
    shutil.rmtree(Path(queue.name, "reader_1"))

    found = only(anew(queue, clock).doctor(), "position-gone")

    assert (found.reader, found.severity) == ("second", "error")
    assert not Path(queue.name, "reader_1").exists()
    paste(found)
    assert anew(queue, clock).readers() == ("first",)


def test_rows_that_somebody_appends_are_found(queue: LocalQueue, clock: ManualClock) -> None:
    """Rows of a user in the table of items are counted, dated, and told by a predicate of SQL."""
    rows = pa.table({"id": ["x", "y"]})
    write_deltalake(Path(queue.name, "queue"), rows, mode="append", schema_mode="merge")

    found = only(anew(queue, clock).doctor(), "foreign-rows")

    assert "2 rows that no step of the library wrote, by version 4" in found.what
    assert found.since is not None
    table, _, where = found.command.removeprefix("DELETE FROM ").partition(" WHERE ")
    assert table == f"delta.`{queue.name}/queue`"
    DeltaTable(Path(queue.name, "queue")).delete(where)
    assert anew(queue, clock).doctor().findings == ()
    assert [row["id"] for row in anew(queue, clock).claim(9).rows] == ["b", "c"]


def test_rows_of_a_forged_step_or_item_are_found(queue: LocalQueue, clock: ManualClock) -> None:
    """A row with a step that was never made is foreign; so is one with the number of an item."""
    table = DeltaTable(Path(queue.name, "queue"))
    rows = pa.table(table.to_pyarrow_table())
    copy = rows.filter(pc.equal(rows["_seq"], 2))
    late = copy.set_column(copy.column_names.index("_step"), "_step", pa.array([99], pa.int64()))
    for forged in (copy, late):
        write_deltalake(table, forged, mode="append")

    found = only(anew(queue, clock).doctor(), "foreign-rows")

    assert "3 rows" in found.what
    assert found.command.endswith("WHERE _step IN (99)")


def test_rows_that_look_like_ours_are_found_by_their_commit(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """A transition that somebody writes under a number of ours is no step of ours."""
    table = DeltaTable(Path(queue.name, "status"))
    rows = pa.table(table.to_pyarrow_table())
    write_deltalake(table, rows.filter(pc.equal(rows["_state"], "acked")), mode="append")

    found = only(anew(queue, clock).doctor(), "foreign-rows")

    assert "the status log has rows that no step of the library wrote, by version 4" in found.what
    assert found.command == f"DESCRIBE HISTORY delta.`{queue.name}/status`"


def test_a_clock_that_went_back_is_found(queue: LocalQueue, clock: ManualClock) -> None:
    """A step of before the one that it follows, and then of after this machine's time."""
    clock.advance(AGO + HOUR)
    queue.enqueue({"id": "d"})
    ahead = only(queue.doctor(), "clocks-differ")
    assert re.search(r"step 4 is of 3,(600|5\d\d) s after its file was written", ahead.what)
    assert ahead.since == clock.now()

    clock.advance(-HOUR)
    back = only(queue.doctor(), "clocks-differ")
    assert "step 4 is of 3,600 s after this machine's time" in back.what
    queue.enqueue({"id": "e"})
    clock.advance(2 * HOUR)
    behind = only(queue.doctor(), "clocks-differ")
    assert "step 5 is of 3,600 s before the step that it follows (queue log)" in behind.what


def test_a_clock_that_is_always_behind_is_told_from_a_copy(
    queue: LocalQueue, clock: ManualClock
) -> None:
    """Files that are all late by as much are of another clock; late by ever more, of a copy."""
    for name in "defg":
        clock.advance(HOUR)
        queue.enqueue({"id": name})
    files = sorted(Path(queue.name, "queue", "_delta_log").glob("*.json"))
    begun = clock.now() - 4 * HOUR
    of_steps = [begun] * 4 + [begun + n * HOUR for n in (1, 2, 3, 4)]

    for file, at in zip(files, of_steps, strict=True):
        os.utime(file, ((at + 2 * HOUR).timestamp(),) * 2)
    clock.advance(9 * HOUR)
    found = only(queue.doctor(), "clocks-differ")
    assert "steps are of 7,200 s before their files were written, all of them" in found.what

    for file in files:
        os.utime(file, (clock.now().timestamp(),) * 2)
    assert "clocks-differ" not in queue.doctor().ids()
