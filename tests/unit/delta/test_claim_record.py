"""Records of the outcomes of a claim."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from spark_queue.log.delta.claim_record import (
    ClaimRecord,
    error_room,
    find_record,
    is_unnamed,
    newest_commit,
    outcomes_of,
    read_record,
)
from spark_queue.log.delta.commits import commit_path
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output.outputs import ResultTable
from spark_queue.saying import Said

LOST = Said("lose", "its worker ended, or its lease ran out")


@pytest.fixture
def record() -> ClaimRecord:
    """Return the record of a run that decided all its items."""
    failed = Said("nack", "ValueError: größer „x“")
    outcomes = {3: failed, 4: failed, 5: failed, 9: Said("dead"), 7: Said("release")}
    return ClaimRecord(claim_id="abc", outcomes=outcomes, is_whole=True)


def test_a_record_is_read_as_it_was_written(record: ClaimRecord) -> None:
    """Seqs with one outcome are ranges, and errors keep their letters."""
    assert read_record(record.text(), "abc") == record
    assert '"3-5"' in record.text()
    assert "größer „x“" in record.text()


@pytest.mark.parametrize("text", [None, "", "{}", "3", "[1]", '{"claim":"abc"}', "a note of mine"])
def test_what_is_no_record_of_the_claim_is_none(text: str | None, record: ClaimRecord) -> None:
    """Metadata of earlier releases, of other programs and of other claims says nothing."""
    assert read_record(text, "abc") is None
    assert read_record(record.text(), "another") is None


def test_items_get_what_their_run_decided(record: ClaimRecord) -> None:
    """A row is done; the record has the others; without an outcome an item is lost."""
    done = Said("ack")
    seqs = [1, 2, 3, 9]
    assert outcomes_of(seqs, {1}, record, LOST) == {
        1: done, 2: done, 3: record.outcomes[3], 9: Said("dead")
    }  # fmt: skip
    part = ClaimRecord(claim_id="abc", outcomes={2: done}, is_whole=False)
    assert outcomes_of(seqs, {1}, part, LOST) == {1: done, 2: done, 3: LOST, 9: LOST}
    assert outcomes_of(seqs, {1}, None, LOST) == {1: done, 2: LOST, 3: LOST, 9: LOST}


def test_errors_share_a_million_characters() -> None:
    """Few errors are kept as they are, and of many a part of each."""
    assert error_room(0) >= 2_000
    assert error_room(500) == 2_000
    assert error_room(1_000_000) == 40


def test_a_record_is_found_behind_later_commits(tmp_path: Path, record: ClaimRecord) -> None:
    """It is in the commit of its claim's transaction, and nowhere where that has none."""
    columns = pa.schema([("n", pa.int64()), ("_seq", pa.int64()), ("_claim_id", pa.string())])
    table = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)
    table.make(columns)
    for name in ("abc", "old", "late"):
        rows = pa.table({"n": [1], "_seq": [1], "_claim_id": [name]}, schema=columns)
        assert table.write(rows, name, record.text() if name == "abc" else None)

    assert find_record(table.directory, "abc") == record
    assert find_record(table.directory, "old") is None
    assert find_record(tmp_path / "nothing", "abc") is None


def test_a_name_is_unused_where_all_commits_since_then_are_there_to_say_so(tmp_path: Path) -> None:
    """A commit that is gone may have named it, as one may write a name with other signs."""
    table = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)
    table.make(pa.schema([("_seq", pa.int64()), ("_claim_id", pa.string())]))
    table.shut_out("early")
    since = newest_commit(table.directory)
    table.shut_out("late")

    assert is_unnamed(table.directory, "early", since)
    assert not is_unnamed(table.directory, "late", since)
    assert not is_unnamed(table.directory, "a/1", since)
    table.shut_out("later")
    commit_path(table.directory, since + 1).unlink()
    assert not is_unnamed(table.directory, "other", since)


def test_a_record_is_found_behind_the_transaction_that_shut_its_claim_out(
    tmp_path: Path, record: ClaimRecord
) -> None:
    """Spark writes results without a transaction: who takes over commits one behind them."""
    table = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)
    table.make(pa.schema([("_seq", pa.int64()), ("_claim_id", pa.string())]))
    table.write(pa.table({"_seq": [1], "_claim_id": ["abc"]}), "an-other", record.text())

    assert table.shut_out("abc") == {1}
    assert find_record(table.directory, "abc") == record


def test_a_record_is_found_whose_errors_end_lines_to_python(tmp_path: Path) -> None:
    """Spark writes U+2028 into a commit as it is, and the rescuer of the claim reads it."""
    record = ClaimRecord(claim_id="abc", outcomes={1: Said("nack", "a\u2028b\x85c")}, is_whole=True)
    actions = [
        {"commitInfo": {"userMetadata": record.text()}},
        {"txn": {"appId": "abc", "version": 1}},
    ]
    commit = tmp_path / "_delta_log" / f"{0:020}.json"
    commit.parent.mkdir()
    commit.write_text("".join(json.dumps(one, ensure_ascii=False) + "\n" for one in actions))

    assert find_record(tmp_path, "abc") == record
