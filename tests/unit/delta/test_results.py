"""A table of results that is written without Spark: rows under names that are used once."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake

from spark_queue.errors import SchemaMismatchError, SparkNeededError
from spark_queue.log.disk.disk_storage import DiskStorage
from spark_queue.log.output import outputs
from spark_queue.log.output.outputs import ResultTable

COLUMNS = pa.schema([("n", pa.int64()), ("_seq", pa.int64()), ("_claim_id", pa.string())])


def _rows(name: str, *seqs: int) -> pa.Table:
    values = {"n": [seq * 10 for seq in seqs], "_seq": list(seqs), "_claim_id": [name] * len(seqs)}
    return pa.table(values, schema=COLUMNS)


@pytest.fixture
def table(tmp_path: Path) -> ResultTable:
    """Return an empty table."""
    made = ResultTable(DiskStorage(tmp_path / "out"), is_synced=True)
    made.make(COLUMNS)
    return made


def _numbers(table: ResultTable) -> list[int]:
    found = DeltaTable(str(table.directory)).to_pyarrow_table().sort_by("_seq")
    numbers: list[int] = found["n"].to_pylist()
    return numbers


def test_rows_are_written_once_under_a_name(table: ResultTable) -> None:
    """To write again changes nothing, and tells that the rows are there."""
    assert table.write(_rows("a", 1, 2), "a")
    assert table.write(_rows("a", 1, 2), "a")
    assert table.write(_rows("b", 3), "b")
    assert [sorted(table.rows(name)) for name in "abc"] == [[1, 2], [3], []]
    assert _numbers(table) == [10, 20, 30]


def test_a_name_that_is_shut_out_takes_no_rows(table: ResultTable) -> None:
    """Who comes first decides: the rows, or that there never are any."""
    assert table.shut_out("a") == frozenset()
    assert not table.write(_rows("a", 1), "a")
    assert table.write(_rows("b", 2), "b")
    assert table.shut_out("b") == {2}
    assert _numbers(table) == [20]


def test_names_outlive_the_commits_that_used_them(
    table: ResultTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is summed up once in a while, and what was used stays so."""
    monkeypatch.setattr(outputs, "OFTEN", 5)
    for at in range(12):
        assert table.write(_rows(f"name {at}", at), f"name {at}")
    table.shut_out("empty")
    log = table.directory / "_delta_log"
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 10
    for old in range(10):
        (log / f"{old:020}.json").unlink()

    assert table.write(_rows("name 3", 99), "name 3")
    assert not table.write(_rows("empty", 99), "empty")
    assert table.rows("name 3") == {3}
    assert _numbers(table) == [10 * at for at in range(12)]


def test_a_commit_whose_answer_was_lost_is_found(
    table: ResultTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where something fails behind the commit, its rows are there, and are not written again."""
    real = os.link

    def fail(*names: str) -> None:
        real(*names)
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "link", fail)
        with pytest.raises(OSError, match="Input/output"):
            table.write(_rows("a", 1), "a")

    assert table.shut_out("a") == {1}
    assert _numbers(table) == [10]


def test_somebody_who_commits_without_a_lock_is_told_of(
    table: ResultTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version that he took is not taken from him, and the rows can be written after it."""
    real = ResultTable._commit

    def late(self: ResultTable, *what: Any) -> None:
        write_deltalake(self.directory, _rows("x", 7), mode="append")
        real(self, *what)

    with monkeypatch.context() as between:
        between.setattr(ResultTable, "_commit", late)
        with pytest.raises(OSError, match="does not wait for his turn"):
            table.write(_rows("a", 1), "a")

    assert table.write(_rows("a", 1), "a")
    assert _numbers(table) == [10, 70]


def test_readers_skip_and_find_rows_by_what_files_say(table: ResultTable) -> None:
    """A filter by any column finds every row, with the library of Rust, too."""
    for name, seq in (("a", 1), ("b", 2), ("c", 3)):
        table.write(_rows(name, seq), name)
    opened = DeltaTable(str(table.directory))
    for column, value in (("_seq", 2), ("_claim_id", "b"), ("n", 20)):
        found = opened.to_pyarrow_table(filters=[(column, "=", value)])
        assert found["n"].to_pylist() == [20]


def test_rows_are_found_where_files_were_merged(table: ResultTable) -> None:
    """Whoever compacts the table leaves the evidence as it was."""
    for name, seq in (("a", 1), ("not-plain/1", 2), ("c", 3)):
        table.write(_rows(name, seq), name)
    assert table.rows("not-plain/1") == {2}
    DeltaTable(str(table.directory)).optimize.compact()
    assert [sorted(table.rows(name)) for name in ("a", "not-plain/1", "c")] == [[1], [2], [3]]


def test_a_table_of_a_user_may_have_more_columns(tmp_path: Path) -> None:
    """What results do not have is null; what they have has to be there, and of its type."""
    more = COLUMNS.insert(0, pa.field("noted", pa.string()))
    write_deltalake(tmp_path / "out", more.empty_table())
    table = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)

    table.require(COLUMNS)
    assert table.write(_rows("a", 1), "a")

    assert DeltaTable(str(table.directory)).to_pyarrow_table().to_pylist() == [
        {"noted": None, "n": 10, "_seq": 1, "_claim_id": "a"}
    ]
    with pytest.raises(SchemaMismatchError, match="'m': is missing in the output"):
        table.require(COLUMNS.append(pa.field("m", pa.int64())))
    with pytest.raises(SchemaMismatchError, match=r"'n': is int64 .* int32 in returns"):
        table.require(COLUMNS.set(0, pa.field("n", pa.int32())))


def test_what_only_spark_may_write_is_refused(tmp_path: Path) -> None:
    """A constraint, a table in parts, a feature: each is named."""
    write_deltalake(tmp_path / "checked", COLUMNS.empty_table())
    DeltaTable(str(tmp_path / "checked")).alter.add_constraint({"few": "n < 5"})
    write_deltalake(tmp_path / "parted", COLUMNS.empty_table(), partition_by=["n"])
    write_deltalake(tmp_path / "numbered", COLUMNS.empty_table())
    numbered = DeltaTable(str(tmp_path / "numbered"))
    numbered.alter.add_feature(TableFeatures.IdentityColumns, allow_protocol_versions_increase=True)

    for name, why in (
        ("checked", "delta.constraints.few"),
        ("parted", "partitioned by n"),
        ("numbered", "identityColumns"),
    ):
        table = ResultTable(DiskStorage(tmp_path / name), is_synced=False)
        with pytest.raises(SparkNeededError, match=why):
            table.require(COLUMNS)
        with pytest.raises(SparkNeededError, match=why):
            table.shut_out("a")


def test_a_column_that_is_not_null_must_be_returned(tmp_path: Path) -> None:
    """Its rows are written as any; results without the column are refused."""
    strict = COLUMNS.set(0, pa.field("n", pa.int64(), nullable=False))
    write_deltalake(tmp_path / "strict", strict.empty_table())
    table = ResultTable(DiskStorage(tmp_path / "strict"), is_synced=False)

    assert not table.require(COLUMNS).field("n").nullable
    assert table.write(_rows("a", 1), "a")
    assert table.shut_out("a") == {1}
    with pytest.raises(SchemaMismatchError, match="'n': is NOT NULL in the output"):
        table.require(COLUMNS.remove(0))


def test_a_table_that_somebody_makes_at_the_same_time_is_taken(tmp_path: Path) -> None:
    """Of two who begin, one makes the table, and both write to it."""
    one, other = (ResultTable(DiskStorage(tmp_path / "out"), is_synced=False) for _ in range(2))
    one.make(COLUMNS)
    other.make(COLUMNS)
    other.require(COLUMNS)
    assert one.write(_rows("a", 1), "a")
    assert other.write(_rows("b", 2), "b")
    assert _numbers(one) == [10, 20]


def test_rows_outlive_what_the_table_remembers_of_their_name(table: ResultTable) -> None:
    """Only rows are evidence: a table forgets its transactions after a month."""
    assert table.write(_rows("a", 1), "a")
    _age(table, 1, days=40)
    assert DeltaTable(str(table.directory)).transaction_version("a") is None

    assert table.shut_out("a") == {1}


def _age(table: ResultTable, version: int, *, days: int) -> None:
    """Let the transaction of a commit be some days older than it is."""
    commit = table.directory / "_delta_log" / f"{version:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "txn" in action:
            action["txn"]["lastUpdated"] -= days * 24 * 60 * 60 * 1000
    commit.write_text("\n".join(json.dumps(action) for action in actions) + "\n")


def test_a_table_that_was_only_begun_is_made(tmp_path: Path) -> None:
    """Whoever was killed before the first commit has left a directory, and no table."""
    (tmp_path / "out" / "_delta_log").mkdir(parents=True)
    begun = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)
    assert not begun.exists()

    begun.make(COLUMNS)

    assert begun.write(_rows("a", 1), "a")
    assert begun.exists()


def test_files_from_before_the_table_was_an_output_have_no_rows_of_a_claim(tmp_path: Path) -> None:
    """A user's table may have got the two columns later: what is older says nothing."""
    write_deltalake(tmp_path / "out", pa.table({"n": [1]}))
    write_deltalake(tmp_path / "out", _rows("spark's", 2), mode="append", schema_mode="merge")
    table = ResultTable(DiskStorage(tmp_path / "out"), is_synced=False)

    assert table.rows("spark's") == {2}
    assert table.shut_out("nobody's") == frozenset()


def test_files_of_other_claims_are_not_read(
    table: ResultTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file says by its name whose rows it has, and a name without rows costs no look at them."""
    for name in ("a", "b"):
        assert table.write(_rows(name, 1), name)
    table.shut_out("c")
    monkeypatch.setattr(outputs, "read_file", pytest.fail)

    assert table.shut_out("c") == frozenset()
    assert not table.write(_rows("c", 1), "c")
